"""Writes a condition and an event to pods that a gate keeps out of the queue, with the reason.

The writes are level-triggered, follow a change after a while, and are limited in number, as thousands of
gated pods may wait for one reservation. Namespaces take turns. The condition's reason is SchedulingGated, as
for a pod with spec.schedulingGates: kubectl shows it, and no autoscaler adds nodes for it, as it would for
Unschedulable.
"""

import asyncio
from collections import defaultdict, deque
from typing import NoReturn

from tidelock.kube.client import PODS
from tidelock.ledger.owners.awaited import repeats
from tidelock.model.failures import failure_note
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.actions.binding import Binder, report_failure
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import FaultSubject
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName

GATED = "SchedulingGated"
"""Reason of the condition PodScheduled of a gated pod, as the API server writes it."""
# Seconds between two looks.
_PAUSE = 1.0
# Most gates that a look asks, which takes some 10 ms, and most pods that it writes.
_MOST_ASKED = 1000
_MOST_WRITTEN = 50
# Seconds of a look, and of one namespace in it: a pod beside thousands of selectors takes 0.1 s.
_LONGEST_LOOK = 0.05
_LONGEST_OF_NAMESPACE = 0.02


class GateReporter:
    """Writes to gated pods why they wait. Pods with spec.schedulingGates are left to the API server."""

    def __init__(self, context: WriterContext, decider: Decider, binder: Binder, renewal: float) -> None:
        """Take the parts that write, and the seconds between two texts to one pod."""
        self._context = context
        self._decider = decider
        self._binder = binder
        self._renewal = renewal
        self._due: dict[str, dict[str, QueuedPodInfo]] = {}  # by namespace and uid
        self._changed: set[str] = set()
        self._backoffs = context.tasks.backoffs()

    def note(self, namespaces: set[str]) -> None:
        """Look again at the pods of namespaces in which a reservation has changed."""
        self._changed |= namespaces

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Look for ever, from the moment at which all reservations are known."""
        await started.wait()
        while True:
            await asyncio.sleep(_PAUSE)
            self.look()

    def look(self) -> None:
        """Begin to write to some of the pods with news, in each namespace those that wait longest."""
        self._take_news()
        written, clock = 0, self._context.clock
        begun, spent = clock.monotonic(), defaultdict[str, float](float)
        turns = deque(self._due)
        left = {namespace: len(pods) for namespace, pods in self._due.items()}
        for _ in range(_MOST_ASKED):
            since = clock.monotonic()
            if not turns or written == _MOST_WRITTEN or since >= begun + _LONGEST_LOOK:
                return
            waiting = self._next_of(namespace := turns.popleft())
            text = self._text(waiting)
            spent[namespace] += clock.monotonic() - since
            left[namespace] -= 1
            if left[namespace] and spent[namespace] < _LONGEST_OF_NAMESPACE:
                turns.append(namespace)
            if not text or repeats(text, _written(waiting)):
                self._backoffs.reset(waiting.pod.uid)
                continue
            if clock.monotonic() < waiting.next_message_at:
                self._note_due(waiting)
                continue
            written += 1
            self._publish(waiting, text)

    def _take_news(self) -> None:
        """Note the pods that have come, and those in namespaces in which a reservation has changed."""
        queue = self._decider.queue
        changed, self._changed = self._changed, set()
        for waiting in queue.gated.take():
            self._note_due(waiting)
        if changed:
            for waiting in queue.kept_by(ReservationPlugin.name, QueueName.GATED):
                if waiting.pod.meta.namespace in changed:
                    self._note_due(waiting)

    def _note_due(self, waiting: QueuedPodInfo) -> None:
        self._due.setdefault(waiting.pod.meta.namespace, {})[waiting.pod.uid] = waiting

    def _next_of(self, namespace: str) -> QueuedPodInfo:
        """Take the next pod of a namespace, which goes behind the other namespaces."""
        pods = self._due.pop(namespace)
        waiting = pods.pop(next(iter(pods)))
        if pods:
            self._due[namespace] = pods
        return waiting

    def _text(self, waiting: QueuedPodInfo) -> str:
        """Return the reason for which a pod's gate keeps it, or an empty text if there is none to write."""
        pod = waiting.pod
        known = self._decider.queue.get(pod.uid) is waiting
        if not known or waiting.queue is not QueueName.GATED or pod.spec.scheduling_gates:
            return ""
        gate = next(each for each in waiting.profile.pre_enqueue if each.name == waiting.gated_by)
        with self._context.isolation.attempt("gate", PODS, pod.meta) as attempt:
            return "; ".join(gate.pre_enqueue(pod).reasons)
        return "" if attempt.error is None else failure_note(attempt.error)

    def _publish(self, waiting: QueuedPodInfo, text: str) -> None:
        context = self._context
        waiting.message = text
        waiting.next_message_at = context.clock.monotonic() + self._renewal
        diagnosis = Diagnosis(text, frozenset({waiting.gated_by}))
        context.recent.refused(Unschedulable(waiting, diagnosis), context.clock.now())
        report_failure(context.recorder, waiting.pod, text)
        context.tasks.spawn(self._write(waiting, text), FaultSubject("gate", PODS, waiting.pod.meta))

    async def _write(self, waiting: QueuedPodInfo, text: str) -> None:
        """Write the condition unless the pod has changed. A write that fails is repeated later."""
        uid = waiting.pod.uid
        if await self._binder.write_condition(waiting, GATED, text, version=waiting.pod.meta.version):
            self._backoffs.reset(uid)
            return
        waiting.next_message_at = self._context.clock.monotonic() + self._backoffs.next(uid)
        self._note_due(waiting)


def _written(waiting: QueuedPodInfo) -> str:
    """Return the text that this process, or otherwise an earlier one, has written to a pod."""
    if waiting.message:
        return waiting.message
    conditions = waiting.pod.status.conditions
    return next((each.message for each in conditions if (each.type, each.reason) == _TYPE_AND_REASON), "")


_TYPE_AND_REASON = ("PodScheduled", GATED)
