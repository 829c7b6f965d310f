"""Places the reservations that wait, in the order of their queue, a few in each step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tidelock.cluster.cache import Cache
from tidelock.framework.profile import Profile
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.queue.equivalence import scheduling_hash
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.model import reasons
from tidelock.model.failures import Attempt, OnFailure
from tidelock.model.meta import Key, ObjectMeta
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.scheduler.core.bound_owners import look_for_owner
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.gang import GangScheduler
from tidelock.scheduler.core.outcomes import failure
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.core.reservation_cycle import ReservationCycle
from tidelock.scheduler.core.reservation_queue import ReservationQueue
from tidelock.scheduler.defrag.controller import DefragmentationController

RESERVATIONS_A_STEP = 16
"""Most reservations of a step, so that the event loop turns between the steps of a long queue."""
COMPARED_A_STEP = 2048
"""Most pods that a step compares with selectors of reservations for reuse: 10,000 take up to 60 ms."""

# A rejection by these plugins may not hold for an equal reservation of another namespace.
_NAMESPACE_DEPENDENT = frozenset({DynamicResources.name, InterPodAffinity.name, PodTopologySpread.name})
# Seconds after which a reservation is retried if evictions were tried on some of the nodes only.
_RETRY = 1.0


class ReservationScheduler:
    """Places reservations and groups over the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        pod_queue: SchedulingQueue,
        cycle: ReservationCycle,
        defragmentation: DefragmentationController,
        profile: Profile,
        on_plugin_failure: OnFailure,
    ) -> None:
        self._ledger = ledger
        self._cache = cache
        self._columns = cache.columns
        self._pod_queue = pod_queue
        self._cycle = cycle
        self._defragmentation = defragmentation
        self._profile = profile
        self._on_plugin_failure = on_plugin_failure
        self._waiting = ledger.waiting_reservations
        self._queue = ReservationQueue(ledger.shares.of)
        self._freed = -1  # the count of freed capacity for which the queue was filled
        self._refused: dict[object, Diagnosis] = {}  # by scheduling hash, until capacity comes free
        self._resting: dict[Key, None] = {}
        self._wakes: Timers[Key] = Timers()  # by steady time
        self._gangs = GangScheduler(ledger, cycle)
        self._pods_before_search = 0

    @property
    def queued(self) -> bool:
        """Return whether reservations are in the queue."""
        return bool(self._queue)

    @property
    def pending(self) -> bool:
        """Return whether reservations are in the queue, or must be added to it."""
        return (
            bool(self._queue or self._waiting.untried or self._waiting.unanswered)
            or self._freed != self._columns.freed
        )

    @property
    def searching(self) -> bool:
        """Return whether the search of a domain for a group goes on."""
        return self._gangs.searching

    def next_wake(self) -> float | None:
        """Return the instant at which a reservation is retried after a fault, or None."""
        rested = self._wakes.next()
        return None if rested is None else self._waiting.steady.instant(rested)

    def forget(self) -> None:
        """Forget earlier rejections. No answer changes by that."""
        self._refused.clear()

    def look_for_owners(self, now: float) -> None:
        """Look for bound owners of restored reservations."""
        for entry in self._ledger.opened.take():
            with self._isolated(entry, now):
                look_for_owner(self._ledger, self._cache, entry, now)

    def wake_rested(self, now: float) -> None:
        """Retry reservations that were left alone after a fault."""
        for key in self._wakes.pop_due(self._waiting.steady.at(now)):
            self._resting.pop(key, None)
            if (entry := self._waiting.waiting.get(key)) is not None:
                self._waiting.renew(entry)

    def place_some(self, now: float) -> None:
        """Place a few reservations. If that fails, all that wait are queued again."""
        try:
            self._fill_queue()
            enough = self._gangs.tries + RESERVATIONS_A_STEP
            compared = self._cycle.compared + COMPARED_A_STEP
            for _ in range(min(RESERVATIONS_A_STEP, len(self._queue))):
                self._place(self._queue.pop(), now)
                if self._gangs.tries >= enough or self._cycle.compared >= compared:
                    break
        except Exception:
            self._queue.clear()
            self._waiting.retry(self._waiting.waiting.values())
            raise

    def continue_search(self, now: float) -> None:
        """Try more domains for a group.

        It alternates with pods: after a search, as many pods are decided as members were tried.
        """
        due = self._pod_queue.next_due()
        if self._pods_before_search > 0 and due is not None and due <= now:
            self._pods_before_search -= 1
        elif (group := self._gangs.next_searched()) is not None:
            before = self._gangs.tries
            with self._isolated(group.waiting[0], now):
                self._place_gang(self._gangs.go_on, group, now)
            self._pods_before_search = self._gangs.tries - before

    def _fill_queue(self) -> None:
        """Queue the reservations that may fit: new ones, and some of all that wait if capacity came free."""
        freed, waiting = self._freed != self._columns.freed, self._waiting
        if waiting.unanswered and not self._queue:
            waiting.try_unanswered()
        if not (freed or waiting.untried):
            return
        if freed:
            self._freed = self._columns.freed
            self._refused.clear()
        entries = waiting.take(untried_only=not freed)
        first = self._gangs.first_of_each(entries)
        self._queue.add(first)
        if len(first) < len(entries):
            queued = set(first)
            for entry in entries:
                if entry not in queued:  # tried with the first of its group
                    waiting.mark_inadmissible(entry)

    def _place(self, entry: ReservationInfo, now: float) -> None:
        if self._waiting.waiting.get(entry.key) is not entry:
            return
        if entry.key in self._resting:
            self._waiting.leave_out(entry)
            return
        with self._isolated(entry, now):
            self._try(entry, now)

    def _try(self, entry: ReservationInfo, now: float) -> None:
        if (group := self._ledger.groups.awaited(entry)) is not None:
            self._place_gang(self._gangs.place, group, now)
            return
        if not self._ledger.admission.within_quota(entry, now):
            self._defragmentation.want(entry, now)
            return
        equal = scheduling_hash(entry)
        diagnosis = self._refused.get(equal)
        if diagnosis is None:
            diagnosis = self._run_cycle(entry, now)
        else:
            self._cycle.refuse(entry, diagnosis, now)
        if diagnosis is not None:
            self._defragmentation.want(entry, now)
            if diagnosis.again:
                self._rest(entry, _RETRY)
        if diagnosis is None or diagnosis.error or equal is None:
            return
        if diagnosis.plugins.isdisjoint(_NAMESPACE_DEPENDENT):
            self._refused[equal] = diagnosis

    def _run_cycle(self, entry: ReservationInfo, now: float) -> Diagnosis | None:
        """Find capacity for a reservation. If a plugin fails, the reservation is refused for that reason."""
        self._ledger.recovery.checkpoint()
        with self._attempt("Reservation", entry.reservation.meta) as attempt:
            return self._cycle.place(self._profile, entry, now)
        self._ledger.recovery.recover(now)
        diagnosis = failure(attempt.error)
        if (made := self._waiting.waiting.get(entry.key)) is not None:
            self._ledger.admission.refuse(made, reasons.PLUGIN_FAILED, diagnosis.message, now)
            self._rest(made, attempt.pause)
        return diagnosis

    def _place_gang(self, step: Callable[[Profile, Group, float], None], group: Group, now: float) -> None:
        """Find capacity for a group. If a plugin fails, its members are refused for that reason."""
        self._ledger.recovery.checkpoint()
        meta = ObjectMeta(group.key.name, group.key.namespace, group.key.uid)
        with self._attempt("ReservationGroup", meta) as attempt:
            step(self._profile, group, now)
            return
        self._ledger.recovery.recover(now)
        for entry in group.waiting:
            message = failure(attempt.error).message
            self._ledger.admission.refuse(entry, reasons.PLUGIN_FAILED, message, now)
            self._rest(entry, attempt.pause)

    def _attempt(self, kind: str, meta: ObjectMeta) -> Attempt:
        """Return a context for a decision about an object, in which plugins may fail."""
        return Attempt(partial(self._on_plugin_failure, "decision", kind, meta))

    @contextmanager
    def _isolated(self, entry: ReservationInfo, now: float) -> Iterator[None]:
        """Do a step about a reservation. If it fails, the record is rebuilt and left alone for a while."""
        with self._ledger.recovery.isolated(
            "decision", "Reservation", entry.reservation.meta, now
        ) as attempt:
            yield
        if attempt.error is not None and (made := self._waiting.waiting.get(entry.key)) is not None:
            self._rest(made, attempt.pause)
        self._ledger.recovery.note_fault(entry.key, attempt.error)

    def _rest(self, entry: ReservationInfo, pause: float) -> None:
        """Leave a reservation alone for some seconds."""
        if pause:
            self._resting[entry.key] = None
            self._wakes.set(entry.key, self._waiting.steady.last + pause)
            self._waiting.leave_out(entry)
