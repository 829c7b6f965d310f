"""The pods that wait to be scheduled, and the events that wake them.

    upsert --> active --pop--> in flight --remove--> (gone)
      |       ^   ^  ^            |   |
    gated     |   |  +-- backoff <-+  +--> unschedulable
              |   |         ^                    |
              +---+---------+------ notify ------+

`active` is a heap in the profile's order. A pod that was refused waits in `unschedulable` for an event that
one of the plugins which refused it has registered and hopes something of, or for `flush_after`; then it waits
for the end of its backoff, unless nobody else wants to be tried. A pod that failed by an error just waits for
the end of its backoff. `gated` pods wait for the plugin that gates them. A plugin that fails there is asked
again after a pause. Events are kept while pods are in flight, since they may help one that comes back.

Semantics of kube-scheduler 1.36 (backend/queue), but that it rounds backoffs to whole seconds, and goes by
priority within each. Times are seconds; what is kept of them goes on where the clock is set back.
"""

import heapq
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import partial
from itertools import islice
from typing import Any

from tidelock.framework.api import Code, EnqueueExtensions, PreEnqueue
from tidelock.framework.config import INITIAL_BACKOFF, MAX_BACKOFF
from tidelock.framework.events import (
    ANY_EVENT,
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    Hint,
    Registration,
    pod_changes,
)
from tidelock.framework.extension_point_timer import ExtensionPointTimer, MetricsRecorder
from tidelock.framework.profile import Profile
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.model.failures import Attempt, OnFailure, log_failure
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.plugins.extender import ExtenderAdvice

FLUSH_AFTER = 300.0
_MOST_DOUBLINGS = 32
# Pods that are moved between two turns of the event loop, which takes a few milliseconds.
_AT_A_TIME = 256
_NOBODY: frozenset[str] = frozenset()


class QueueName(StrEnum):
    """Where in the queue a pod is; the names are those of the metric's label."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class _Hope(IntEnum):
    """What an event does for a pod; the larger wins."""

    NONE = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


EnqueueHook = Callable[[str, str], None]
"""Called with the place that a pod enters and the event that brought it there."""

_Refuser = tuple[str, str]
"""A plugin, by the names of its profile and itself."""

_Listeners = dict[_Refuser, tuple[Hint | None, ...]]
"""The plugins that hear of an event, with their hints."""


@dataclass(frozen=True, slots=True)
class _Happening:
    """An event with its object, and who hears of it; all pods but one, or one alone, where a uid is given."""

    listeners: _Listeners
    old: Any
    new: Any
    but: str = ""
    alone: str = ""


@dataclass(slots=True)
class _Wave:
    """Pods that an event may wake, and have not been looked at yet."""

    happening: _Happening
    label: str
    pods: list["QueuedPodInfo"]


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod in the queue: its newest version, when it came, and how it fared.

    `added_at` is when it came, `since` when it came or its last attempt ended, `due` the end of its backoff.
    `plugins` refused it at its last attempt, those in `pending` will say themselves when it may go on,
    `gated_by` keeps it gated; it is looked up under `indexed`. `message` was last told to it, and a gated pod
    may be told another from the monotonic time `told_from` on. A gate that failed is asked again at
    `ask_again`, 0 if none did.
    """

    pod: Pod
    profile: Profile
    added_at: float
    place: QueueName
    since: float = 0.0
    attempts: int = 0
    diagnoses: int = 0
    errors_in_a_row: int = 0
    due: float = 0.0
    plugins: frozenset[str] = _NOBODY
    pending: frozenset[str] = _NOBODY
    gated_by: str = ""
    message: str = ""
    told_from: float = 0.0
    ask_again: float = 0.0
    indexed: tuple[_Refuser, ...] = ()


class SchedulingQueue:
    """Pods of all profiles; they share one order, so all profiles must sort alike.

    Args:
        profiles: by schedulerName.
        on_enqueue: hears of every pod that enters a place.
        initial_backoff: seconds between a pod's first attempt and its next, which doubles with each attempt.
        max_backoff: the most that it grows to.
        flush_after: seconds after which a refused pod is tried again without any event.
        recorder: hears how long the gates take.
        on_failure: takes the exceptions of gates and queueing hints.

    Attributes:
        gated: pods, by their uids, that gates have kept out, for others to take and to tell.

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
    ) -> None:
        self._profiles = profiles
        self._on_enqueue = on_enqueue or _ignore
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._flush_after = flush_after
        self._recorder = recorder
        self._on_failure = on_failure
        self._registered = {
            (name, plugin.name): _registrations(plugin)
            for name, profile in profiles.items()
            for plugin in profile.plugins.values()
        } | {(name, ExtenderAdvice.name): (ANY_EVENT,) for name in profiles}
        self._listeners: dict[ClusterEvent, _Listeners] = {}
        self._pods: dict[str, QueuedPodInfo] = {}
        self._uids: dict[Key, str] = {}
        self._active: list[tuple[tuple[float, ...], int, QueuedPodInfo]] = []
        self._backoff: list[tuple[float, tuple[float, ...], int, QueuedPodInfo]] = []
        self._error_backoff: list[tuple[float, tuple[float, ...], int, QueuedPodInfo]] = []
        self._failed_gates: list[tuple[float, int, QueuedPodInfo]] = []
        self._parked: OrderedDict[str, QueuedPodInfo] = (
            OrderedDict()
        )  # in the order in which they were parked
        self._refused: defaultdict[_Refuser, dict[str, QueuedPodInfo]] = defaultdict(dict)
        self._sequence = 0
        self._in_flight: OrderedDict[str, int] = OrderedDict()  # how many events came before each
        self._events: deque[_Happening] = deque()
        self._waves: deque[_Wave] = deque()
        self._events_gone = 0
        self._steady = SteadyClock()
        self.gated: dict[str, QueuedPodInfo] = {}

    # Pods come and go.

    def upsert(self, pod: Pod, now: float) -> None:
        """Add an unbound pod, or take over its newer version, which may open a gate or fit at last."""
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            return
        now = self._steady.at(now)
        waiting = self._pods.get(pod.uid)
        if waiting is None:
            waiting = QueuedPodInfo(pod, profile, now, QueueName.GATED, since=now)
            self._requeue(waiting, _Hope.AT_ONCE, now, UNSCHEDULABLE_POD_ADD.label, new=True)
            self._pods[pod.uid] = waiting  # now, or a pod for which that fails would be in no place
            self._uids[pod.key] = pod.uid
            return
        old, waiting.pod = waiting.pod, pod
        for event in pod_changes(old, pod):
            happening = _Happening(self._listeners_of(event), old, pod)
            if waiting.place is QueueName.IN_FLIGHT:
                self._events.append(happening)
            elif waiting.place is QueueName.GATED:
                self._wake(waiting, _Hope.AFTER_BACKOFF, now, event.label)
            elif waiting.place is QueueName.UNSCHEDULABLE:
                self._wake(waiting, self._hope(waiting, waiting.indexed, happening), now, event.label)

    def remove(self, uid: str) -> None:
        """Drop a pod that is bound, finished or gone."""
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return
        if self._uids.get(waiting.pod.key) == uid:
            del self._uids[waiting.pod.key]
        self.gated.pop(uid, None)
        self._leave(waiting)
        self.done(uid)

    # Attempts.

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Take the next pod to try; it is in flight until it is removed or comes back.

        That is the first which is ready, or else the first whose backoff is only for its having been refused.
        None if there is none, or if more pods were woken than are moved at a time: it comes first who is
        first among all of them.
        """
        now = self._steady.at(now)
        if not self._roll(now) or not self._ripen(now):
            return None
        waiting = self._first_active() or self._first_refused()
        if waiting is None:
            return None
        waiting.place = QueueName.IN_FLIGHT
        waiting.attempts += 1
        self._in_flight[waiting.pod.uid] = self._events_gone + len(self._events)
        return waiting

    def done(self, uid: str) -> None:
        """Note that no event can help a pod in flight any more, as no plugin can refuse it."""
        if self._in_flight.pop(uid, None) is not None:
            oldest = next(iter(self._in_flight.values()), self._events_gone + len(self._events))
            while self._events_gone < oldest:
                self._events.popleft()
                self._events_gone += 1

    def park(
        self, uid: str, now: float, plugins: Collection[str], pending: Collection[str] = _NOBODY
    ) -> None:
        """Keep a pod that plugins refused until something happens that may help it."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.place is not QueueName.IN_FLIGHT:
            return
        now = self._steady.at(now)
        waiting.plugins, waiting.pending = frozenset(plugins), frozenset(pending)
        waiting.diagnoses += 1
        waiting.errors_in_a_row = 0
        waiting.since, waiting.due = now, now + self._backoff_after(waiting.diagnoses)
        refusers = self._refusers(waiting)
        hopes = (self._hope(waiting, refusers, happening) for happening in self._missed(waiting))
        hope = max(hopes, default=_Hope.NONE) if refusers else _Hope.AFTER_BACKOFF
        self.done(uid)
        if hope is _Hope.NONE:
            waiting.place = QueueName.UNSCHEDULABLE
            self._parked[uid] = waiting
            self._index(waiting, refusers)
            self._on_enqueue(waiting.place, SCHEDULE_ATTEMPT_FAILURE)
        else:
            self._requeue(waiting, hope, now, SCHEDULE_ATTEMPT_FAILURE)

    def back_off(self, uid: str, now: float) -> None:
        """Try a pod in flight, which failed by an error, again after its backoff."""
        waiting = self._pods.get(uid)
        if waiting is None or waiting.place is not QueueName.IN_FLIGHT:
            return
        self.done(uid)
        now = self._steady.at(now)
        waiting.plugins = waiting.pending = _NOBODY
        waiting.errors_in_a_row += 1
        waiting.since, waiting.due = now, now + self._backoff_after(waiting.errors_in_a_row)
        self._requeue(waiting, _Hope.AFTER_BACKOFF, now, SCHEDULE_ATTEMPT_FAILURE)

    # Events.

    def notify(
        self, event: ClusterEvent, old: Any, new: Any, now: float, only: Iterable[Key] | None = None
    ) -> None:
        """Wake the pods that an event may help; `only` names those that it concerns, if they are known.

        Of many pods only the first are looked at now, the others by the next calls of `pop`.
        """
        if not self._in_flight and not self._refused:
            return  # as for most of the events of a quiet cluster
        listeners = self._listeners_of(event)
        if not listeners:
            return
        happening = _Happening(listeners, old, new, but=old.uid if event == ASSIGNED_POD_DELETE else "")
        if self._in_flight:
            self._events.append(happening)
        if only is not None:
            found = (self._pods.get(self._uids.get(key, "")) for key in only)
            candidates = [w for w in found if w is not None and not listeners.keys().isdisjoint(w.indexed)]
        else:
            concerned = [self._refused[refuser] for refuser in listeners if refuser in self._refused]
            candidates = list({uid: each for pods in concerned for uid, each in pods.items()}.values())
        if candidates:
            self._waves.append(_Wave(happening, event.label, candidates[::-1]))
            if len(self._waves) == 1:
                self._roll(self._steady.at(now))

    def activate(self, uid: str, now: float) -> None:
        """Have a pod be tried at once, or as soon as it comes back, whatever refused it."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return
        if waiting.place is QueueName.IN_FLIGHT:
            self._events.append(_Happening({}, None, None, alone=uid))
        elif waiting.place in (QueueName.BACKOFF, QueueName.UNSCHEDULABLE):
            self._leave(waiting)
            self._requeue(waiting, _Hope.AT_ONCE, self._steady.at(now), FORCE_ACTIVATE)

    # What there is.

    def hearers(self, event: ClusterEvent) -> set[str]:
        """Name the plugins that have registered an event."""
        return {plugin for _, plugin in self._listeners_of(event)}

    def next_due(self) -> float | None:
        """Earliest instant at which a pod becomes ready, 0 for at once; None if an event is needed."""
        if self._active or self._backoff or self._waves:
            return 0.0
        backoff_ends = self._error_backoff[0][0] if self._error_backoff else None
        asked_again = self._failed_gates[0][0] if self._failed_gates else None
        due = [instant for instant in (backoff_ends, asked_again, self._next_flush()) if instant is not None]
        return self._steady.instant(min(due)) if due else None

    def waited(self, waiting: QueuedPodInfo, now: float) -> float:
        """Return for how many seconds a pod has been here."""
        return self._steady.at(now) - waiting.added_at

    def counts(self) -> dict[QueueName, int]:
        """Count the pods in each place."""
        counts = dict.fromkeys(QueueName, 0)
        for waiting in self._pods.values():
            counts[waiting.place] += 1
        return counts

    def refused_by(self) -> Counter[tuple[str, str]]:
        """Count the waiting pods by each plugin that refused or gates them, and their profile."""
        alike = Counter(
            (waiting.plugins, waiting.pending, waiting.gated_by, waiting.profile.scheduler_name)
            for waiting in self._pods.values()
            if waiting.place is not QueueName.IN_FLIGHT
        )
        counts: Counter[tuple[str, str]] = Counter()
        for (plugins, pending, gate, profile), pods in alike.items():
            for plugin in plugins | pending | ({gate} if gate else _NOBODY):
                counts[plugin, profile] += pods
        return counts

    def gated_by(self, plugin: str) -> list[QueuedPodInfo]:
        """List the pods that a plugin keeps gated, in any profile."""
        refused = (self._refused.get((profile, plugin), {}) for profile in self._profiles)
        return [each for pods in refused for each in pods.values() if each.place is QueueName.GATED]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Give the pod's state, or None if it does not wait."""
        return self._pods.get(uid)

    # Inside: from place to place.

    def _roll(self, now: float) -> bool:
        """Look at some of the pods that events may wake; whether that was all."""
        left = _AT_A_TIME
        while self._waves and left > 0:
            wave = self._waves[0]
            while wave.pods and left > 0:
                waiting = wave.pods.pop()
                left -= _cost(waiting)
                if self._pods.get(waiting.pod.uid) is waiting:
                    self._wake(waiting, self._hope(waiting, waiting.indexed, wave.happening), now, wave.label)
            if not wave.pods:
                self._waves.popleft()
        return not self._waves

    def _wake(self, waiting: QueuedPodInfo, hope: _Hope, now: float, event: str) -> None:
        if hope is not _Hope.NONE and waiting.place in (QueueName.GATED, QueueName.UNSCHEDULABLE):
            self._leave(waiting)
            self._requeue(waiting, hope, now, event)

    def _requeue(
        self, waiting: QueuedPodInfo, hope: _Hope, now: float, event: str, *, new: bool = False
    ) -> None:
        """Put a pod that is in no place where it belongs, which the gates and its backoff say."""
        if self._closed(waiting, now):
            self._index(waiting, ((waiting.profile.scheduler_name, waiting.gated_by),))
            if new or waiting.place is not QueueName.GATED:
                self._on_enqueue(QueueName.GATED, event)
            waiting.place = QueueName.GATED
            self.gated[waiting.pod.uid] = waiting
            if waiting.ask_again:
                heapq.heappush(self._failed_gates, (waiting.ask_again, self._next(), waiting))
        elif hope is _Hope.AFTER_BACKOFF and waiting.due > now:
            waiting.place = QueueName.BACKOFF
            heap = self._backoff if waiting.plugins or waiting.pending else self._error_backoff
            heapq.heappush(heap, (waiting.due, self._sort_key(waiting), self._next(), waiting))
            self._on_enqueue(waiting.place, event)
        else:
            self._to_active(waiting, event)

    def _to_active(self, waiting: QueuedPodInfo, event: str) -> None:
        waiting.place = QueueName.ACTIVE
        heapq.heappush(self._active, (self._sort_key(waiting), self._next(), waiting))
        self._on_enqueue(waiting.place, event)

    def _leave(self, waiting: QueuedPodInfo) -> None:
        """Take a pod out of what is looked up; the heaps forget it when its turn comes."""
        self._parked.pop(waiting.pod.uid, None)
        for refuser in waiting.indexed:
            del self._refused[refuser][waiting.pod.uid]
            if not self._refused[refuser]:
                del self._refused[refuser]
        waiting.indexed = ()

    def _index(self, waiting: QueuedPodInfo, refusers: tuple[_Refuser, ...]) -> None:
        waiting.indexed = refusers
        for refuser in refusers:
            self._refused[refuser][waiting.pod.uid] = waiting

    def _closed(self, waiting: QueuedPodInfo, now: float) -> bool:
        """Ask the gates; note which one is closed."""
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

    def _ask(self, gate: PreEnqueue, waiting: QueuedPodInfo, now: float) -> Code:
        """Ask a gate; one that fails keeps the pod for a pause, as it cannot say that it may go on."""
        with Attempt(partial(self._on_failure, "gate", "Pod", waiting.pod.meta)) as attempt:
            status = gate.pre_enqueue(waiting.pod)
            return Code.SUCCESS if status.ok else status.code
        waiting.ask_again = now + max(attempt.pause, self._initial_backoff)
        return Code.ERROR

    def _ripen(self, now: float) -> bool:
        """Move some of the pods that have waited long enough; whether that was all."""
        left = _AT_A_TIME
        while left > 0 and (flush_at := self._next_flush()) is not None and flush_at <= now:
            oldest = next(iter(self._parked.values()))
            self._wake(oldest, _Hope.AFTER_BACKOFF, now, UNSCHEDULABLE_TIMEOUT)
            left -= _cost(oldest)
        for heap in (self._backoff, self._error_backoff):
            while left > 0 and heap and (heap[0][0] <= now or not self._backs_off(*heap[0])):
                entry = heapq.heappop(heap)
                if self._backs_off(*entry):
                    self._to_active(entry[-1], BACKOFF_COMPLETE)
                left -= 1
        while left > 0 and self._failed_gates and self._failed_gates[0][0] <= now:
            due, _, waiting = heapq.heappop(self._failed_gates)
            if self._pods.get(waiting.pod.uid) is waiting and waiting.ask_again == due:
                self._wake(waiting, _Hope.AFTER_BACKOFF, now, BACKOFF_COMPLETE)
            left -= _cost(waiting)
        return left > 0

    def _first_active(self) -> QueuedPodInfo | None:
        while self._active:
            waiting = heapq.heappop(self._active)[-1]
            if self._pods.get(waiting.pod.uid) is waiting and waiting.place is QueueName.ACTIVE:
                return waiting
        return None

    def _first_refused(self) -> QueuedPodInfo | None:
        while self._backoff:
            entry = heapq.heappop(self._backoff)
            if self._backs_off(*entry):
                self._on_enqueue(QueueName.ACTIVE, POP_FROM_BACKOFF)
                return entry[-1]
        return None

    def _backs_off(self, due: float, _key: tuple[float, ...], _sequence: int, waiting: QueuedPodInfo) -> bool:
        """Whether an entry of a heap still tells of a pod that backs off."""
        known = self._pods.get(waiting.pod.uid) is waiting
        return known and waiting.place is QueueName.BACKOFF and waiting.due == due

    def _next_flush(self) -> float | None:
        return next(iter(self._parked.values())).since + self._flush_after if self._parked else None

    def _backoff_after(self, failures: int) -> float:
        doublings = min(failures - 1, _MOST_DOUBLINGS)  # or a pod that waits for days overflows a float
        return min(self._initial_backoff * 2.0**doublings, self._max_backoff)

    def _sort_key(self, waiting: QueuedPodInfo) -> tuple[float, ...]:
        """Ask where a pod stands; one for which that fails, or gives no numbers, stands by its priority."""
        pod = waiting.pod
        with Attempt(partial(self._on_failure, "sort", "Pod", pod.meta)):
            return tuple(map(float, waiting.profile.queue_sort.sort_key(pod, waiting.since)))
        return -float(pod.spec.priority), waiting.since

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    # Inside: events.

    def _missed(self, waiting: QueuedPodInfo) -> Iterator[_Happening]:
        """List the events since a pod has been in flight, the newest first; if it is `done`, none."""
        now = self._events_gone + len(self._events)
        count = now - self._in_flight.get(waiting.pod.uid, now)
        return islice(reversed(self._events), count)

    def _hope(self, waiting: QueuedPodInfo, refusers: Iterable[_Refuser], happening: _Happening) -> _Hope:
        """Ask the plugins that refused or gate a pod whether an event may help it."""
        uid = waiting.pod.uid
        if happening.alone:
            return _Hope.AFTER_BACKOFF if happening.alone == uid else _Hope.NONE
        if happening.but == uid:
            return _Hope.NONE  # it was the pod itself that left
        hope = _Hope.NONE
        for refuser in refusers:
            hints = happening.listeners.get(refuser, ())
            if any(self._hopeful(hint, waiting.pod, happening) for hint in hints):
                if refuser[1] in waiting.pending:
                    return _Hope.AT_ONCE
                hope = _Hope.AFTER_BACKOFF
        return hope

    def _hopeful(self, hint: Hint | None, pod: Pod, happening: _Happening) -> bool:
        """Ask for a hint; one that fails is a yes, or the pod might wait for ever."""
        if hint is None:
            return True
        with Attempt(partial(self._on_failure, "hint", "Pod", pod.meta)):
            return hint(pod, happening.old, happening.new)
        return True

    def _refusers(self, waiting: QueuedPodInfo) -> tuple[_Refuser, ...]:
        """List the plugins that can say when a refused pod may fit, by name."""
        profile = waiting.profile.scheduler_name
        refusers = ((profile, name) for name in sorted(waiting.plugins | waiting.pending))
        return tuple(refuser for refuser in refusers if refuser in self._registered)

    def _listeners_of(self, event: ClusterEvent) -> _Listeners:
        """Map the plugins that hear of an event to their hints, found once for each."""
        found = self._listeners.get(event)
        if found is None:
            hints = {
                refuser: tuple(each.hint for each in registrations if each.event.covers(event))
                for refuser, registrations in self._registered.items()
            }
            found = self._listeners[event] = {refuser: some for refuser, some in hints.items() if some}
        return found


def _registrations(plugin: object) -> tuple[Registration, ...]:
    return tuple(plugin.events_to_register()) if isinstance(plugin, EnqueueExtensions) else (ANY_EVENT,)


def _cost(waiting: QueuedPodInfo) -> int:
    """Return what moving a pod counts: all that is moved at a time if its gate may take 0.1 s."""
    return _AT_A_TIME if waiting.pod.requires_reservation else 1


def _ignore(*_: str) -> None:
    """Stand in for a hook that nobody needs."""
