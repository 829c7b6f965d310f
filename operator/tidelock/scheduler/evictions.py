"""Preemption's side of the API: evicts victims and takes outdone nominations away, off the decision loop.

As kube-scheduler 1.36 does (framework/preemption/executor.go): a victim is given the condition
DisruptionTarget and deleted, or, if it still waits for its permit, refused that instead.
"""

import logging

from tidelock.kube.client import PODS
from tidelock.kube.errors import ApiError, Conflict, NotFound, TransientError
from tidelock.model.instants import format_instant
from tidelock.model.pods import PREEMPTED, Pod
from tidelock.scheduler.binding import pod_reference
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.preempting import Preemption
from tidelock.scheduler.tools import Tools

logger = logging.getLogger(__name__)

_TRIES = 5


class Evictor:
    """Carries out what preemption has decided, each eviction in a task of its own."""

    def __init__(self, tools: Tools, decider: Decider) -> None:
        self._client = tools.client
        self._recorder = tools.recorder
        self._telemetry = tools.telemetry
        self._clock = tools.clock
        self._tasks = tools.tasks
        self._decider = decider

    def flush(self) -> None:
        """Begin to carry out all that was decided since the last call."""
        for attempt in self._decider.take_preemptions():
            self._telemetry.preemption_attempts.inc()
            if attempt.chosen:
                self._telemetry.preemption_victims.observe(attempt.chosen)
            for pod in attempt.outdone:
                self._tasks.spawn(self._take_nomination(pod))
            for victim in attempt.victims:
                self._tasks.spawn(self._evict(attempt, victim))

    async def _evict(self, attempt: Preemption, victim: Pod) -> None:
        """Evict a victim, or have the pod that is to get its room choose again."""
        note = f"Preempted by {attempt.kind} {attempt.pod.uid} on node {attempt.node_name}"
        if self._decider.reject_waiting(victim.uid):
            self._decider.cache.evicting.discard(victim.uid)  # it may be placed again
            self._tell(victim, f"{note} (in kube-scheduler memory).")
            return
        pause = self._tasks.retry_pauses()
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._delete(attempt, victim)
            except (NotFound, Conflict):
                return  # it is gone, or another has its name: the watch will tell
            except ApiError as error:
                if tries_left and isinstance(error, TransientError):
                    await pause(error)
                    continue
                self._telemetry.api_errors.labels("eviction", type(error).__name__).inc()
                logger.warning("an eviction failed", extra={"pod": str(victim.key), "error": str(error)})
                self._decider.eviction_failed(victim.uid, attempt.pod.uid, self._clock.now())
            else:
                self._tell(victim, note)
            return

    async def _delete(self, attempt: Preemption, victim: Pod) -> None:
        """Mark a victim, and ask it to end."""
        kind, status, reason = PREEMPTED
        message = f"{attempt.scheduler_name}: preempting to accommodate a higher priority {attempt.kind}"
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_instant(int(self._clock.now())),
        }
        name, namespace = victim.meta.name, victim.meta.namespace
        async with self._tasks.turn:
            await self._patch_status(victim, {"conditions": [condition]})
            await self._client.delete(PODS.item(name, namespace), uid=victim.uid)

    async def _take_nomination(self, pod: Pod) -> None:
        """Take a nomination away; if that fails, the pod's next attempt does it."""
        try:
            async with self._tasks.turn:
                await self._patch_status(pod, {"nominatedNodeName": None})
        except ApiError as error:
            logger.info("a nomination stays written", extra={"pod": str(pod.key), "error": str(error)})

    async def _patch_status(self, pod: Pod, status: dict[str, object]) -> None:
        path = PODS.item(pod.meta.name, pod.meta.namespace, "status")
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(path, body, kind="strategic")

    def _tell(self, victim: Pod, note: str) -> None:
        self._recorder.record(pod_reference(victim), "Normal", "Preempted", "Preempting", note)
