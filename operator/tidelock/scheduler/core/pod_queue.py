"""The pods that wait to be scheduled, and the events that wake them.

    upsert --> active --pop--> in flight --remove--> (gone)
      |       ^   ^  ^            |   |
    gated     |   |  +-- backoff <-+  +--> unschedulable
              |   |         ^                    |
              +---+---------+------ notify ------+

A rejected pod waits in `unschedulable` for an event that may help it by the hints of the plugins that
rejected it, or for `flush_after`. It then waits for the end of its backoff, unless no other pod is ready. A
pod that failed with an error waits for the end of its backoff in any case. A `gated` pod waits for an event
that may open its gate, or for `flush_after`.

Semantics of kube-scheduler 1.37 (backend/queue), except that kube-scheduler rounds backoffs to whole seconds
and goes by priority within each second. Times are seconds of a clock that goes on if the time is set back.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tidelock.cluster.pod_groups import PodGroups, group_of
from tidelock.framework.config import INITIAL_BACKOFF, MAX_BACKOFF
from tidelock.framework.events import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    ClusterEvent,
    pod_changes,
)
from tidelock.framework.extension_point_timer import MetricsRecorder
from tidelock.framework.profile import Profile
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.model.failures import OnFailure, log_failure
from tidelock.model.instants import earliest
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.work_queue import WorkQueue
from tidelock.scheduler.core.pod_gates import PodGates
from tidelock.scheduler.core.pod_heaps import BackoffQueue, PodHeap, PodOrder
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName
from tidelock.scheduler.core.queued_pods import QueuedPods
from tidelock.scheduler.core.queueing_hints import InFlightEvents, QueueEvent, QueueingHint, QueueingHints
from tidelock.scheduler.core.rejected_pods import RejectedPods

FLUSH_AFTER = 300.0
# Pods that are moved between two turns of the event loop, which takes a few milliseconds.
_AT_A_TIME = 256

EnqueueHook = Callable[[str, str], None]
"""Called with the part of the queue that a pod enters, and the event that brought it there."""


@dataclass(slots=True)
class _Wave:
    """Pods that an event may wake and that were not looked at yet."""

    event: QueueEvent
    label: str
    pods: list[QueuedPodInfo]


class SchedulingQueue:
    """The pods of all profiles. They share one order, so all profiles must sort alike.

    Args:
        profiles: by schedulerName.
        on_enqueue: called for each pod that enters a part of the queue.
        initial_backoff: seconds of the first backoff, which doubles with each further one.
        max_backoff: longest backoff in seconds.
        flush_after: seconds after which a rejected pod is retried, and a gate asked again, without any event.
        recorder: takes the durations of gates.
        on_failure: handles exceptions of gates, hints and sort plugins.
        pod_groups: the groups of pods. The pods of one have a common backoff.
        queued: where its pods are listed for others.

    Attributes:
        hints: the events that plugins have registered.
        rejected: the pods by the plugins that have rejected them.
        gated: pods that were gated, for the reports of their gates.

    """

    def __init__(
        self,
        profiles: dict[str, Profile],
        on_enqueue: EnqueueHook | None = None,
        *,
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
        flush_after: float = FLUSH_AFTER,
        recorder: MetricsRecorder | None = None,
        on_failure: OnFailure = log_failure,
        pod_groups: PodGroups | None = None,
        queued: QueuedPods | None = None,
    ) -> None:
        self._profiles = profiles
        self._on_enqueue = on_enqueue or _ignore
        self._flush_after = flush_after
        self.hints = QueueingHints(profiles, on_failure)
        self._in_flight = InFlightEvents()
        self._gates = PodGates(recorder, on_failure, initial_backoff)
        self._order = PodOrder(on_failure)
        self._active = PodHeap(self._order)
        self._backoff = BackoffQueue(self._order, initial_backoff, max_backoff)
        self._queued = queued if queued is not None else QueuedPods()
        self._pods = self._queued.by_uid
        self._pod_groups = pod_groups
        self._uids: dict[Key, str] = {}
        self._flushes: OrderedDict[str, QueuedPodInfo] = OrderedDict()  # rejected and gated pods, in order
        self.rejected = RejectedPods(self.hints, self._queued)
        self._waves: deque[_Wave] = deque()
        self._steady = SteadyClock()
        self.gated = WorkQueue[QueuedPodInfo]()

    # Pods come and go.

    def upsert(self, pod: Pod, now: float) -> None:
        """Add an unbound pod, or update it. An update may open a gate or make the pod schedulable."""
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            return
        now = self._steady.at(now)
        waiting = self._pods.get(pod.uid)
        if waiting is None:
            waiting = QueuedPodInfo(pod, profile, now, QueueName.GATED, since=now)
            if self._pod_groups is not None and (key := group_of(pod)) is not None:
                waiting.due = self._pod_groups.due(key)
            self._queued.change_claims(None, pod)
            self._requeue(waiting, QueueingHint.AFTER_BACKOFF, now, UNSCHEDULED_POD_ADD.label, new=True)
            self._pods[pod.uid] = waiting  # last, as a pod for which that fails would be nowhere
            self._uids[pod.key] = pod.uid
            return
        old, waiting.pod = waiting.pod, pod
        self._queued.change_claims(old, pod)
        if self._order.differs(waiting):
            heap = self._active if waiting.queue is QueueName.ACTIVE else self._backoff
            heap.push(waiting)
        for event in pod_changes(old, pod):
            change = QueueEvent(self.hints.listeners(event), old, pod, target=pod.uid)
            if waiting.queue is QueueName.IN_FLIGHT:
                self._in_flight.add(change)
            elif waiting.queue is QueueName.GATED:
                self._wake(waiting, QueueingHint.AFTER_BACKOFF, now, event.label)
            elif waiting.queue is QueueName.UNSCHEDULABLE:
                self._wake(waiting, self.hints.hint(waiting, waiting.indexed, change), now, event.label)

    def remove(self, uid: str) -> None:
        """Remove a pod that is bound, finished or gone."""
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return
        if self._uids.get(waiting.pod.key) == uid:
            del self._uids[waiting.pod.key]
        self.gated.discard(waiting)
        self._leave(waiting)
        self._queued.change_claims(waiting.pod, None)
        self.done(uid)

    # Attempts.

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Take the next pod to try. It is in flight until it is removed or comes back.

        Ready pods come first, then pods that back off after a rejection.

        Returns:
            None without such a pod, or while more pods were woken than are moved at a time: the first of all
            of them must be found.

        """
        now = self._steady.at(now)
        if not self._roll(now) or not self._ripen(now):
            return None
        waiting = self._active.pop()
        if waiting is None and (waiting := self._backoff.pop_early()) is not None:
            self._on_enqueue(QueueName.ACTIVE, POP_FROM_BACKOFF)
        if waiting is not None:
            self.take(waiting)
        return waiting

    def take(self, waiting: QueuedPodInfo) -> None:
        """Take a pod to try it now, wherever it waits. It is in flight as after `pop`."""
        self._leave(waiting)
        waiting.queue = QueueName.IN_FLIGHT
        waiting.attempts += 1
        self._in_flight.begin(waiting.pod.uid)

    def done(self, uid: str) -> None:
        """Note that no plugin can reject a pod in flight any more, so it needs no event."""
        self._in_flight.end(uid)

    def add_unschedulable(
        self, uid: str, now: float, plugins: Collection[str], pending: Collection[str] = ()
    ) -> None:
        """Put a rejected pod aside until an event may help it."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.queue is not QueueName.IN_FLIGHT:
            return
        now = self._steady.at(now)
        waiting.plugins, waiting.pending = frozenset(plugins), frozenset(pending)
        waiting.diagnoses += 1
        waiting.errors_in_a_row = 0
        waiting.since, waiting.due = now, now + self._backoff.seconds(waiting.diagnoses)
        rejectors = self.hints.rejectors(waiting)
        hints = (self.hints.hint(waiting, rejectors, event) for event in self._in_flight.since(uid))
        hint = max(hints, default=QueueingHint.SKIP) if rejectors else QueueingHint.AFTER_BACKOFF
        self.done(uid)
        if hint is QueueingHint.SKIP:
            waiting.queue = QueueName.UNSCHEDULABLE
            self.rejected.add(waiting, rejectors)
            self._flush_later(waiting, now)
            self._on_enqueue(waiting.queue, SCHEDULE_ATTEMPT_FAILURE)
        else:
            self._requeue(waiting, hint, now, SCHEDULE_ATTEMPT_FAILURE)

    def back_off(self, uid: str, now: float) -> None:
        """Retry a pod in flight that failed with an error after its backoff."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.queue is not QueueName.IN_FLIGHT:
            return
        self.done(uid)
        now = self._steady.at(now)
        waiting.plugins = waiting.pending = frozenset()
        waiting.errors_in_a_row += 1
        waiting.since, waiting.due = now, now + self._backoff.seconds(waiting.errors_in_a_row)
        self._requeue(waiting, QueueingHint.AFTER_BACKOFF, now, SCHEDULE_ATTEMPT_FAILURE)

    # Events.

    def notify(
        self, event: ClusterEvent, old: Any, new: Any, now: float, only: Iterable[Key] | None = None
    ) -> None:
        """Wake the pods that an event may help.

        Of many pods only the first are looked at now, and the others by the next calls of `pop`.

        Args:
            event: the kind of event.
            old: the object before it.
            new: the object after it.
            now: the current time.
            only: names of the pods that it concerns, if they are known.

        """
        if not self._in_flight and not self.rejected:
            return  # as for most of the events of a quiet cluster
        listeners = self.hints.listeners(event)
        if not listeners:
            return
        change = QueueEvent.of(listeners, old, new, but=old.uid if event == ASSIGNED_POD_DELETE else "")
        if self._in_flight:
            self._in_flight.add(change)
        if only is not None:
            found = (self._pods.get(self._uids.get(key, "")) for key in only)
            candidates = [w for w in found if w is not None and not listeners.keys().isdisjoint(w.indexed)]
        else:
            candidates = self.rejected.concerned_by(event.resource, change)
        if candidates:
            self._waves.append(_Wave(change, event.label, candidates[::-1]))
            if len(self._waves) == 1:
                self._roll(self._steady.at(now))

    def activate(self, uid: str, now: float) -> None:
        """Retry a pod at once, or as soon as it comes back, for whatever reason it was rejected."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return
        if waiting.queue is QueueName.IN_FLIGHT:
            self._in_flight.add(QueueEvent({}, None, None, alone=uid))
        elif waiting.queue in (QueueName.BACKOFF, QueueName.UNSCHEDULABLE):
            self._leave(waiting)
            self._requeue(waiting, QueueingHint.IMMEDIATELY, self._steady.at(now), FORCE_ACTIVATE)

    # Queries.

    def next_due(self) -> float | None:
        """Return when a pod becomes ready at the earliest: 0 for at once, None if that needs an event."""
        if self._active or self._backoff.poppable or self._waves:
            return 0.0
        due = earliest(self._backoff.next_failed(), self._gates.next_due(), self._next_flush())
        return None if due is None else self._steady.instant(due)

    def waited(self, waiting: QueuedPodInfo, now: float) -> float:
        """Return for how many seconds a pod has been in the queue."""
        return self._steady.at(now) - waiting.added_at

    def counts(self) -> dict[QueueName, int]:
        """Return the number of pods in each part of the queue."""
        counts = dict.fromkeys(QueueName, 0)
        for waiting in self._pods.values():
            counts[waiting.queue] += 1
        return counts

    def refused_by(self) -> Counter[tuple[str, str]]:
        """Return the number of waiting pods by plugin that has rejected or gates them, and by profile."""
        alike = Counter(
            (waiting.plugins, waiting.pending, waiting.gated_by, waiting.profile.scheduler_name)
            for waiting in self._pods.values()
            if waiting.queue is not QueueName.IN_FLIGHT
        )
        counts: Counter[tuple[str, str]] = Counter()
        for (plugins, pending, gate, profile), pods in alike.items():
            for plugin in plugins | pending | ({gate} if gate else frozenset[str]()):
                counts[plugin, profile] += pods
        return counts

    def kept_by(self, plugin: str, part: QueueName) -> list[QueuedPodInfo]:
        """Return the pods in a part of the queue that a plugin gates or has rejected, in any profile."""
        kept = (self.rejected.of((profile, plugin)) for profile in self._profiles)
        return [each for pods in kept for each in pods.values() if each.queue is part]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return a pod, or None if it is not in the queue."""
        return self._pods.get(uid)

    # Moves between the parts of the queue.

    def _roll(self, now: float) -> bool:
        """Look at some of the pods that events may wake. Return whether these were all."""
        left = _AT_A_TIME
        while self._waves and left > 0:
            wave = self._waves[0]
            while wave.pods and left > 0:
                waiting = wave.pods.pop()
                left -= _cost(waiting)
                if self._pods.get(waiting.pod.uid) is waiting:
                    hint = self.hints.hint(waiting, waiting.indexed, wave.event)
                    self._wake(waiting, hint, now, wave.label)
            if not wave.pods:
                self._waves.popleft()
        return not self._waves

    def _wake(self, waiting: QueuedPodInfo, hint: QueueingHint, now: float, event: str) -> None:
        if hint is not QueueingHint.SKIP and waiting.queue in (QueueName.GATED, QueueName.UNSCHEDULABLE):
            self._leave(waiting)
            self._requeue(waiting, hint, now, event)

    def _requeue(
        self, waiting: QueuedPodInfo, hint: QueueingHint, now: float, event: str, *, new: bool = False
    ) -> None:
        """Put a pod into the part of the queue to which its gates and its backoff assign it."""
        if self._gates.keep(waiting, now):
            self.rejected.add(waiting, ((waiting.profile.scheduler_name, waiting.gated_by),))
            if not waiting.pod.requires_reservation:  # its gate may take 0.1 s, and needs no flush
                self._flush_later(waiting, now)
            if new or waiting.queue is not QueueName.GATED:
                self._on_enqueue(QueueName.GATED, event)
            waiting.queue = QueueName.GATED
            self.gated.add(waiting)
            self._gates.retry(waiting)
        elif hint is QueueingHint.AFTER_BACKOFF and waiting.due > now:
            waiting.queue = QueueName.BACKOFF
            self._backoff.push(waiting)
            self._on_enqueue(waiting.queue, event)
        else:
            self._to_active(waiting, event)

    def _to_active(self, waiting: QueuedPodInfo, event: str) -> None:
        waiting.queue = QueueName.ACTIVE
        self._active.push(waiting)
        self._on_enqueue(waiting.queue, event)

    def _flush_later(self, waiting: QueuedPodInfo, now: float) -> None:
        waiting.flush_at = now + self._flush_after
        self._flushes[waiting.pod.uid] = waiting

    def _leave(self, waiting: QueuedPodInfo) -> None:
        """Take a pod out of its part of the queue. The heaps skip its entries later."""
        waiting.position, waiting.ask_again = None, 0.0
        self._flushes.pop(waiting.pod.uid, None)
        self.rejected.discard(waiting)

    def _ripen(self, now: float) -> bool:
        """Move some of the pods that have waited long enough. Return whether these were all."""
        left = _AT_A_TIME
        while left > 0 and (flush_at := self._next_flush()) is not None and flush_at <= now:
            oldest = next(iter(self._flushes.values()))
            self._wake(oldest, QueueingHint.AFTER_BACKOFF, now, UNSCHEDULABLE_TIMEOUT)
            left -= _cost(oldest)
        completed, left = self._backoff.pop_completed(now, left)
        for waiting in completed:
            self._to_active(waiting, BACKOFF_COMPLETE)
        while left > 0 and (gated := self._gates.pop_due(now)) is not None:
            self._wake(gated, QueueingHint.AFTER_BACKOFF, now, BACKOFF_COMPLETE)
            left -= _cost(gated)
        return left > 0

    def _next_flush(self) -> float | None:
        oldest = next(iter(self._flushes.values()), None)
        return None if oldest is None else oldest.flush_at


def _cost(waiting: QueuedPodInfo) -> int:
    """Return the cost of moving a pod: that of all pods of a turn if its gate may take 0.1 s."""
    return _AT_A_TIME if waiting.pod.requires_reservation else 1


def _ignore(*_: str) -> None:
    """Do nothing, as no hook was given."""
