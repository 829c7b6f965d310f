"""The pods that wait to be scheduled.

    add --> active --pop--> in flight --done--> (gone)
      |       ^   ^             |   |
    gated     |   +-- backoff <-+   +--> unschedulable
              |         ^                    |
              +---------+------ wake --------+

`active` is a heap in the profile's order; `backoff` holds pods until their time is up; `unschedulable` waits
for an event that may help, or for FLUSH_AFTER; `gated` for an update of the pod. Times are seconds.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tidelock.framework.config import INITIAL_BACKOFF, MAX_BACKOFF
from tidelock.framework.profile import Profile
from tidelock.model.pods import Pod

FLUSH_AFTER = 300.0
_MOST_DOUBLINGS = 60


class Place(StrEnum):
    """Where in the queue a pod is; the names are those of the metric's label."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


EnqueueHook = Callable[[str, str], None]
"""Called with the place that a pod enters and the event that brought it there."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod in the queue: its newest version, when it came, and how often it was tried."""

    pod: Pod
    profile: Profile
    added_at: float
    place: Place
    attempts: int = 0
    due: float = 0.0
    message: str = ""

    def backoff_ends(self, now: float, first: float = INITIAL_BACKOFF, longest: float = MAX_BACKOFF) -> float:
        """Tell when the pod may be tried again: `first` after its first attempt, doubling to `longest`."""
        if self.attempts == 0:
            return now
        doublings = min(self.attempts - 1, _MOST_DOUBLINGS)  # or a pod that waits for hours overflows a float
        return now + min(first * 2.0**doublings, longest)


class SchedulingQueue:
    """Pods of all profiles; they share one order, so all profiles must sort alike."""

    def __init__(
        self,
        profiles: dict[str, Profile],
        on_enqueue: EnqueueHook | None = None,
        backoff: tuple[float, float] = (INITIAL_BACKOFF, MAX_BACKOFF),
    ) -> None:
        self._profiles = profiles
        self._backoff_limits = backoff
        self._pods: dict[str, Waiting] = {}
        self._active: list[tuple[tuple[float, ...], int, Waiting]] = []
        self._backoff: list[tuple[float, int, Waiting]] = []
        self._parked: dict[str, Waiting] = {}
        self._sequence = 0
        self._flush_at = FLUSH_AFTER
        self._on_enqueue = on_enqueue or _ignore

    def upsert(self, pod: Pod, now: float) -> None:
        """Add an unbound pod, or take over its newer version, which may open a gate or fit at last."""
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            return
        waiting = self._pods.get(pod.uid)
        if waiting is None:
            waiting = Waiting(pod, profile, now, Place.GATED)
            self._pods[pod.uid] = waiting
            self._enter(waiting, "PodAdd")
            return
        edited = _wishes(pod) != _wishes(waiting.pod)
        waiting.pod = pod
        if waiting.place is Place.GATED or (edited and waiting.place is Place.UNSCHEDULABLE):
            self._enter(waiting, "PodUpdate")

    def remove(self, uid: str) -> None:
        """Drop a pod that is bound, finished or gone."""
        self._pods.pop(uid, None)
        self._parked.pop(uid, None)

    def pop(self, now: float) -> Waiting | None:
        """Take the first pod that is ready; it is in flight until `done`, `back_off` or `park`."""
        self._ripen(now)
        while self._active:
            _, _, waiting = heapq.heappop(self._active)
            if self._pods.get(waiting.pod.uid) is waiting and waiting.place is Place.ACTIVE:
                waiting.place = Place.IN_FLIGHT
                waiting.attempts += 1
                return waiting
        return None

    def back_off(self, uid: str, now: float) -> None:
        """Try a pod in flight again after its backoff."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.place is Place.IN_FLIGHT:
            self._to_backoff(
                waiting, waiting.backoff_ends(now, *self._backoff_limits), "ScheduleAttemptFailure"
            )

    def park(self, uid: str, now: float) -> None:
        """Keep a pod in flight until something changes that may help it."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.place is Place.IN_FLIGHT:
            waiting.place = Place.UNSCHEDULABLE
            waiting.due = waiting.backoff_ends(now, *self._backoff_limits)
            self._parked[uid] = waiting
            self._on_enqueue(waiting.place, "ScheduleAttemptFailure")

    def wake(self, now: float, event: str) -> None:
        """Let unschedulable pods try again, each after its backoff."""
        for waiting in tuple(self._parked.values()):
            self._to_backoff(waiting, waiting.due, event)
        self._flush_at = now + FLUSH_AFTER

    def next_due(self) -> float | None:
        """Earliest instant at which a pod becomes ready; None if an event is needed."""
        if self._active:
            return 0.0
        due = self._backoff[0][0] if self._backoff else None
        if self._parked:
            return min(due, self._flush_at) if due is not None else self._flush_at
        return due

    def counts(self) -> dict[Place, int]:
        """Count the pods in each place."""
        counts = dict.fromkeys(Place, 0)
        for waiting in self._pods.values():
            counts[waiting.place] += 1
        return counts

    def get(self, uid: str) -> Waiting | None:
        """Give the pod's state, or None if it does not wait."""
        return self._pods.get(uid)

    def _enter(self, waiting: Waiting, event: str) -> None:
        self._parked.pop(waiting.pod.uid, None)
        for plugin in waiting.profile.pre_enqueue:
            status = plugin.pre_enqueue(waiting.pod)
            if not status.ok:
                waiting.message = "; ".join(status.reasons)
                if waiting.place is not Place.GATED or event == "PodAdd":
                    self._on_enqueue(Place.GATED, event)
                waiting.place = Place.GATED
                return
        self._to_active(waiting, event)

    def _to_active(self, waiting: Waiting, event: str) -> None:
        waiting.place = Place.ACTIVE
        self._sequence += 1
        key = waiting.profile.queue_sort.sort_key(waiting.pod, waiting.added_at)
        heapq.heappush(self._active, (key, self._sequence, waiting))
        self._on_enqueue(waiting.place, event)

    def _to_backoff(self, waiting: Waiting, due: float, event: str) -> None:
        self._parked.pop(waiting.pod.uid, None)
        waiting.place, waiting.due = Place.BACKOFF, due
        self._sequence += 1
        heapq.heappush(self._backoff, (due, self._sequence, waiting))
        self._on_enqueue(waiting.place, event)

    def _ripen(self, now: float) -> None:
        if now >= self._flush_at:
            self.wake(now, "UnschedulableTimeout")
        while self._backoff and self._backoff[0][0] <= now:
            due, _, waiting = heapq.heappop(self._backoff)
            if self._pods.get(waiting.pod.uid) is waiting and (waiting.place, waiting.due) == (
                Place.BACKOFF,
                due,
            ):
                self._to_active(waiting, "BackoffComplete")


def _ignore(*_: str) -> None:
    """Stand in for a hook that nobody needs."""


def _wishes(pod: Pod) -> tuple[object, ...]:
    """Give what decides where a pod may go: an update of anything else cannot help it."""
    spec = pod.spec
    return (
        pod.placement_key,
        pod.meta.labels,
        pod.meta.annotations,
        spec.scheduling_gates,
        spec.affinity,
        spec.topology_spread_constraints,
    )
