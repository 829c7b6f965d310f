"""Runs the PreEnqueue plugins, which keep pods out of the queue."""

import heapq
from functools import partial
from itertools import count

from tidelock.framework.api import Code, PreEnqueue
from tidelock.framework.extension_point_timer import ExtensionPointTimer, MetricsRecorder
from tidelock.model.failures import Attempt, OnFailure
from tidelock.scheduler.core.queued_pod import QueuedPodInfo


class PodGates:
    """The gates of all profiles.

    A gate that fails keeps the pod, as it can't say that the pod may go on. It is asked again after a pause.

    Args:
        recorder: takes the durations.
        on_failure: handles exceptions of plugins.
        pause: shortest time in seconds after which a failed gate is asked again.

    """

    def __init__(
        self,
        recorder: MetricsRecorder | None,
        on_failure: OnFailure,
        pause: float,
    ) -> None:
        self._recorder = recorder
        self._on_failure = on_failure
        self._pause = pause
        self._sequence = count()
        self._failed: list[tuple[float, int, QueuedPodInfo]] = []

    def keep(self, waiting: QueuedPodInfo, now: float) -> bool:
        """Return whether a gate keeps a pod, and note which one."""
        waiting.ask_again = 0.0
        with ExtensionPointTimer(waiting.profile.scheduler_name, self._recorder) as timer:
            timer.enter("PreEnqueue")
            for gate in waiting.profile.pre_enqueue:
                timer.ask(gate)
                timer.code = self._ask(gate, waiting, now)
                if timer.code is not Code.SUCCESS:
                    waiting.gated_by = gate.name
                    timer.leave(timer.code)
                    return True
        waiting.gated_by = ""
        return False

    def retry(self, waiting: QueuedPodInfo) -> None:
        """Schedule the retry of a gate that has failed."""
        if waiting.ask_again:
            heapq.heappush(self._failed, (waiting.ask_again, next(self._sequence), waiting))

    def pop_due(self, now: float) -> QueuedPodInfo | None:
        """Take a pod with a gate that must be asked again by now, or return None."""
        while self._failed and self._failed[0][0] <= now:
            due, _, waiting = heapq.heappop(self._failed)
            if waiting.ask_again == due:
                return waiting
        return None

    def next_due(self) -> float | None:
        """Return when a gate must be asked again, or None."""
        return self._failed[0][0] if self._failed else None

    def _ask(self, gate: PreEnqueue, waiting: QueuedPodInfo, now: float) -> Code:
        with Attempt(partial(self._on_failure, "gate", "Pod", waiting.pod.meta)) as attempt:
            status = gate.pre_enqueue(waiting.pod)
            return Code.SUCCESS if status.ok else status.code
        waiting.ask_again = now + max(attempt.pause, self._pause)
        return Code.ERROR
