"""The ledger of locks: events in, state and a record of changes out; no I/O, no clock of its own.

Where a lock may go is decided by the scheduling cycle, which then calls `admit` or `refuse`. The ledger
keeps the columns' `reserved` amounts, the list of those that wait, the expiries and the ends. Every call
states what is true now and is safe to repeat. Instants (`now`) are seconds since the epoch.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf

from msgspec.structs import replace as replace_meta

from tidelock.cluster.cache import Placed
from tidelock.cluster.columns import Columns
from tidelock.cluster.index.affinity_terms import AffinityTerms
from tidelock.cluster.index.ports import Ports
from tidelock.cluster.lister import Lister
from tidelock.cluster.nominator import Earmark, Nominator
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.ledger import reasons
from tidelock.ledger.capacity.forecast import Forecast
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.overcommitment import first_loser, likely_intruder
from tidelock.ledger.lifecycle.alternatives import Alternatives
from tidelock.ledger.lifecycle.expiry import Ending, ending
from tidelock.ledger.lifecycle.leases import ask_the_same, lease_followed
from tidelock.ledger.lifecycle.migration import MigrationPlan
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.lifecycle.transitions import GIVEN, SETTLED, Event, after
from tidelock.ledger.lifecycle.two_phase import commit_token, two_phase_begun
from tidelock.ledger.owners.matching import is_for_any
from tidelock.ledger.owners.ownership import Ownership
from tidelock.ledger.queue.fair_share import FairShares
from tidelock.ledger.queue.positions import QueuePositions
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.queue.waiting import WaitingReservations
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.restore import restore
from tidelock.ledger.sets.groups import Group, GroupKey, Groups
from tidelock.ledger.sets.schedules import Schedules
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.failures import (
    Attempt,
    OnFailure,
    failure_note,
    failure_text,
    raise_failure,
)
from tidelock.model.instants import earliest, format_instant
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import (
    NOTHING,
    PODS,
    Resources,
    at_most,
    beyond,
    covers,
    format_resources,
    minus,
)
from tidelock.model.reservation import Reservation
from tidelock.model.unusable import unusable

_MOVE_REASONS = {
    Event.PLAN_MOVES: reasons.MOVE_PLANNED,
    Event.MOVE: reasons.MOVING,
    Event.DROP_MOVES: reasons.NO_MOVES,
}
# How a problem begins for which a lock is in neither the group nor the set that its spec names.
_OUTSIDE = ("spec.group", "spec.anyOf: set")
# Locks for which what is due is done in one step, which takes some 50 ms: one tenant may have any number end
# at the same instant.
_DUE_AT_ONCE = 1024
_ROOM_LOST = frozenset({reasons.OVERCOMMITTED, reasons.PREEMPTED, reasons.VIOLATED})


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of a lock, for events and metrics; `due` is the instant at which it was to happen."""

    meta: ObjectMeta
    event: Event
    phase: Phase
    reason: str
    message: str
    at: float
    due: float


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """The locks that end if a pod is bound, and what those held which it has taken over till that is known.

    `failure` tells why they come back if it is not. One that is `unwritten` is written to the pod before they
    end, as another has bound the pod and its binding does not say which it took.
    """

    pod: Pod
    entries: tuple[ReservationInfo, ...]
    taken: tuple[tuple[ReservationInfo, Resources], ...]
    failure: str
    unwritten: bool = False

    @property
    def uids(self) -> list[str]:
        """Uids of the groups of the locks, of the locks for any pod of a workload, and of the others."""
        groups = [entry.membership.uid for entry in self.entries if entry.membership is not None]
        chosen_first = sorted(self.entries, key=lambda entry: not is_for_any(entry, self.pod))
        return [*groups, *(entry.uid for entry in chosen_first)]


class Ledger:
    """All Reservations and the room that they hold.

    Args:
        columns: where held amounts are counted.
        nominator: where locks are nominated for which room is being made, until they are held or give up.
        reserve_pods: where locks count as neighbours of pods, as their pods will.
        quotas: what the namespaces may take; none are limited by default.
        pods_on: gives the pods of a node, who may be in its locks.
        epoch: number of this leadership, written with every lock that is given.
        move_after: seconds after which a lock for any node leaves a node that takes no pods.
        on_failure: takes the exceptions of what is due; by default they get out.

    Attributes:
        ended: locks that have come to their end, or were deleted before, for others to take and to tell of.
        groups: the groups of locks, and which pod can take which members.
        places: where in line each lock stands that waits.
        ownership: which locks are a pod's own.
        rooms: what each lock holds on its node.
        shares: what each namespace has of the cluster.
        schedules: which locks are windows of which schedule.
        leaving: locks that are being deleted, and of which a finalizer keeps the objects; they hold nothing.
        opened: locks whose window has begun, for others to take: an owner may have been bound just now.
        hearsay: claims of pods that a watch says are bound, for others to take and to ask the API server.
        planned: locks with a plan of moves which, or whose spec, was just stored, for others to take.
        touched: namespaces in which a lock has changed or gone, for others to take.
        waitlist: the locks that wait, and which of them are to be tried.

    """

    def __init__(
        self,
        columns: Columns,
        *,
        nominator: Nominator | None = None,
        reserve_pods: ReservePods | None = None,
        quotas: Quotas | None = None,
        pods_on: Callable[[str], Collection[Placed]] = lambda _: (),
        epoch: int = 0,
        move_after: float = 300.0,
        on_failure: OnFailure = raise_failure,
    ) -> None:
        self.entries: dict[Key, ReservationInfo] = {}
        self.changed: dict[Key, None] = {}
        self.changes: list[Transition] = []
        self.ended: list[ReservationInfo] = []
        self.leaving: dict[Key, ReservationInfo] = {}
        self.opened: list[ReservationInfo] = []
        self.unverified_claims: list[Claim] = []
        self.planned: dict[Key, ReservationInfo] = {}
        self.touched: set[str] = set()
        self._columns = columns
        self._nominator = nominator or Nominator(columns)
        self.quotas = quotas or Quotas(Lister(), Lister())
        self.quotas.on_change(self._recap)
        self.shares = FairShares(columns, self.quotas)
        self.groups = Groups()
        self.waiting_reservations = WaitingReservations(self.groups)
        self.quotas.on_room(self.waiting_reservations.try_parked)
        self.schedules = Schedules()
        if reserve_pods is None:
            reserve_pods = ReservePods(columns, AffinityTerms(columns), Ports())
        self.holdings = Holdings(columns, reserve_pods, pods_on, self._touch)
        self.ownership = Ownership(self.entries, self.groups, self.holdings, self._capacity)
        self._forecast: Forecast | None = None
        self.places = QueuePositions(self.waiting_reservations, self.shares, self.forecast, self._have_told)
        self._pods_on = pods_on
        self._alternatives = Alternatives()
        self._undecided: dict[Key, ReservationInfo] = {}
        self._epoch = epoch
        self._move_after = move_after
        self._claims: dict[str, Claim] = {}
        self._unheard: defaultdict[str, list[Claim]] = defaultdict(list)  # of hearsay, by the pods' uids
        self._has_chosen: set[str] = set()
        self._timers: Timers[Key] = Timers()
        self._group_retries: Timers[GroupKey] = Timers()
        self._rebuilds: Timers[Key] = Timers()
        self._unmade: dict[Key, Reservation] = {}  # as they are stored, until they are made anew
        self.on_failure = on_failure
        self._places_from = 0.0  # by steady time; later after a fault
        self._ahead = 0.0

    def lead(self, epoch: int) -> None:
        """Begin a leadership: its number goes with every lock that is given from now on."""
        self._epoch = epoch

    # What the API server says of the objects.

    def upsert(self, reservation: Reservation, now: float) -> None:
        """Take over a version of a Reservation. One that is being deleted holds nothing any more."""
        self.waiting_reservations.steady.at(now)
        entry = self.find(reservation.key)
        if entry is not None and entry.uid != reservation.meta.uid:
            self.remove(entry.reservation)
            entry = None
        if entry is not None and reservation.meta.version < entry.reservation.meta.version:
            return  # the echo of an earlier write than the last that was acknowledged
        if reservation.meta.deletion_timestamp is not None:
            self._let_go(entry or restore(reservation, now), reservation, now)
            return
        if entry is not None and entry.reservation.failure != reservation.failure:
            self._rebuild(entry, reservation, now)
            return
        if entry is None:
            entry = self._adopt(reservation, now)
            entry.ceiling = self.quotas.ceiling(entry.key.namespace)
            self.entries[entry.key] = entry
            self._set_aside_for(entry)
            if entry.earmark:
                self._keep_room(entry, entry.earmark, -inf)
            if not entry.outside:
                self.groups.join(entry)
            self.schedules.join(entry)
            self._await_decision(entry)
            room, entry.reserved = entry.reserved, NOTHING
            self.holdings.hold(entry, room)
            self.holdings.in_change[entry.key] = entry
            if room and not entry.violation:  # maybe less than its status says, if it was edited meanwhile
                entry.message = _planned_text(entry) if entry.ahead else _held_text(entry)
            if entry.outlasting:
                self.waiting_reservations.outlasting[entry.key] = entry  # when all quotas are known
        else:
            self._revise(entry, reservation, now)
        self.ownership.note(entry)
        self._touch(entry)
        self._note_plan(entry)

    def _adopt(self, reservation: Reservation, now: float) -> ReservationInfo:
        """Make the entry of a lock that is new here, and note whether it is too much for its group or set."""
        outside = self.groups.problem(reservation) or self._alternatives.problem(reservation)
        entry = restore(replace(reservation, problem=outside) if outside else reservation, now)
        if not outside and entry.phase is Phase.REJECTED and not entry.problem:
            outside = entry.message if entry.message.startswith(_OUTSIDE) else ""
        entry.outside = outside
        return entry

    def remove(self, reservation: Reservation) -> None:
        """Drop a Reservation that is no more."""
        entry = self.find(reservation.key)
        if entry is None or entry.uid != reservation.meta.uid:
            return
        if self.leaving.pop(entry.key, None) is None:
            self._drop(entry)
        self.changed.pop(entry.key, None)

    def find(self, key: Key) -> ReservationInfo | None:
        """Return the lock of a name, even if it is being deleted."""
        return self.entries.get(key) or self.leaving.get(key)

    def acknowledge(self, written: Reservation) -> None:
        """Take over the version that a write of ours has made, ahead of its watch event."""
        entry = self.find(written.key)
        if entry is None or entry.uid != written.meta.uid:
            return
        known = entry.reservation
        if written.meta.version > known.meta.version:  # or the watch has told of it, or of more, already
            meta = replace_meta(known.meta, resource_version=written.meta.resource_version)
            entry.reservation = replace(known, meta=meta, status=written.status)
            self.groups.note(entry)
            self._note_plan(entry)

    def await_removal(self, key: Key) -> None:
        """Have a lock that is over looked at when its object may be removed.

        It was due before, if the clock has been set back since.
        """
        entry = self.entries.get(key)
        if entry is not None and entry.phase in SETTLED and not entry.deleted:
            self._timers.set(key, entry.deadline())

    def note_deletion(self, entry: ReservationInfo) -> None:
        """Note that the API server has accepted the deletion of a reservation; the watch will confirm it."""
        entry.deleted = True

    def note_start(self, entry: ReservationInfo, *, unacknowledged: bool) -> None:
        """Note whether the status of a window's schedule still has to say that the window has begun.

        Until it does, the window's reservation stays.
        """
        was, entry.start_unacknowledged = entry.start_unacknowledged, unacknowledged
        if was and not unacknowledged:
            self.await_removal(entry.key)

    def note_progress(self, entry: ReservationInfo, plan: MigrationPlan) -> None:
        """Note which evictions of a plan under way have been requested, or did not happen."""
        entry.plan = plan

    # What exceptions have cut short.

    def checkpoint(self) -> None:
        """Note that all changes which were begun are complete."""
        self.holdings.in_change.clear()

    def recover(self, now: float) -> None:
        """Make the locks anew whose change an exception has cut short, from the objects as they are stored.

        It is what a next process would make of them, with one difference: such a lock gets no room back
        that is not free any more, so no other lock pays for it.
        """
        cut_short, self.holdings.in_change = self.holdings.in_change, {}
        for entry in cut_short.values():
            known = self.find(entry.key)
            if known is None or known is entry:
                self._rebuild(entry, entry.reservation if known is not None else None, now)
        self.checkpoint()

    def _rebuild(self, entry: ReservationInfo, reservation: Reservation | None, now: float) -> None:
        """Forget an entry, as far as it is known anywhere, and make it anew from a version of its object."""
        self._wipe(entry)
        if reservation is None:
            return
        error = self._remake(reservation, now)
        if error is None:
            return
        pause = self.on_failure("rebuild", "Reservation", reservation.meta, error)
        self._remake(unusable(reservation, f"the operator failed: {failure_text(error)}"), now)
        if not reservation.failure:  # else who has told of it does so again
            self._unmade[entry.key] = reservation
            self._rebuilds.set(entry.key, now + pause)

    def _rebuild_again(self, now: float) -> None:
        """Make the locks anew that stand as objects which can't be read since that failed."""
        for key in self._rebuilds.pop_due(now):
            entry, reservation = self.find(key), self._unmade.pop(key)
            if entry is None or entry.uid != reservation.meta.uid or not entry.reservation.failure:
                continue
            known = entry.reservation
            meta = replace_meta(reservation.meta, resource_version=known.meta.resource_version)
            self.checkpoint()
            self._rebuild(entry, replace(reservation, meta=meta, status=known.status), now)

    def _remake(self, reservation: Reservation, now: float) -> Exception | None:
        """Make an entry of a version that is as good as new, or none; return why there is none."""
        with Attempt(lambda _error: 0.0) as attempt:
            self.upsert(reservation, now)
            made = self.entries.get(reservation.key)
            if made is not None and made.reserved and not made.ahead and self._columns.shortfall(made.node):
                text = f"{made.node} has no room left for it"
                self._displace(made, reasons.INSUFFICIENT_CAPACITY, text, now)
        half = self.find(reservation.key)
        if attempt.error is not None and half is not None:
            self._wipe(half)
        return attempt.error

    def _wipe(self, entry: ReservationInfo) -> None:
        """Forget an entry in each place on its own, as it may be known in some of them alone."""
        key = entry.key
        steps: tuple[Callable[[], object], ...] = (
            lambda: self.holdings.hold(entry, NOTHING),
            lambda: self.end_earmark(entry),
            lambda: self._nominator.remove(entry.uid),
            lambda: self.ownership.end(entry),
            lambda: self._timers.set(key, None),
            lambda: self.holdings.visited.pop(key, None),
            lambda: self.entries.pop(key, None),
            lambda: self.leaving.pop(key, None),
            lambda: self.groups.leave(entry),
            lambda: self.schedules.leave(entry),
            lambda: self._alternatives.leave(entry),
            lambda: self._undecided.pop(key, None),
            lambda: self.quotas.discharge(key),
            lambda: self.waiting_reservations.drop(entry),
        )
        for step in steps:
            with suppress(Exception):  # what it was not known for; the exception before is the one to tell
                step()

    @contextmanager
    def isolated(
        self, step: str, kind: str, meta: ObjectMeta, now: float, anew: ReservationInfo | None = None
    ) -> Iterator[Attempt]:
        """Isolate a step: a fault costs its object alone. What it was changing is made anew, and `anew`."""
        self.checkpoint()
        with Attempt(partial(self.on_failure, step, kind, meta)) as attempt:
            yield attempt
        if attempt.error is not None:
            if anew is not None:
                self.holdings.in_change[anew.key] = anew
            self.recover(now)

    def _shield(self, entry: ReservationInfo, now: float, work: Callable[[], None]) -> None:
        """Do what is due about a lock; one for which that fails is made anew, and is due again later."""
        with self.isolated("due", "Reservation", entry.reservation.meta, now, entry) as attempt:
            work()
        if attempt.error is not None:
            self.note_fault(entry.key, attempt.error)
            if entry.key in self.entries:
                self._timers.set(entry.key, now + attempt.pause)

    def note_fault(self, key: Key, error: Exception | None) -> None:
        """Have a lock's status say that a step about it failed, until one does not."""
        entry, fault = self.entries.get(key), "" if error is None else failure_note(error)
        if entry is not None and entry.fault != fault:
            entry.fault = fault
            self.changed[key] = None

    # What the scheduling cycle decides.

    def admit(self, entry: ReservationInfo, node: Node, now: float) -> None:
        """Hold the room of a waiting lock on a node where it fits: first admission, growth or move.

        What begins later is planned there.
        """
        requests = entry.reservation.requests
        if entry.ahead:
            self._place(entry, node, requests, now)
            self._step(entry, Event.PLAN, reasons.PLANNED, _planned_text(entry), now)
            return
        entry.end_as_asked()
        if entry.phase is Phase.ACTIVE:
            moved = entry.node != node.name
            self._place(entry, node, requests, now)
            entry.reason = reasons.MOVED if moved else reasons.ADMITTED
            entry.resize_problem = ""
            entry.message = _held_text(entry)
            self._restore(entry, now)
            self._touch(entry)
            return
        entry.violation = ""
        if entry.activated_at is None:
            self._begin(entry, now)
        entry.hold = two_phase_begun(entry.hold, entry.reservation, now)
        self._place(entry, node, requests, now)
        self._step(entry, Event.ADMIT, reasons.ADMITTED, _held_text(entry), now)
        self._decide(entry, now)

    def refuse(
        self, entry: ReservationInfo, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Note why there is no room for a waiting lock, which is tried again when room comes free."""
        self._refuse(entry, reason, message, now, plugins)
        self.waiting_reservations.set_aside(entry)

    def _refuse(
        self, entry: ReservationInfo, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Note why a waiting lock gets no room; why one has lost its room is not overwritten."""
        first, entry.tried = not entry.tried, True
        self.waiting_reservations.refusers.update(plugins)
        at = self.waiting_reservations.steady.at(now)
        news = entry.reason != reason or at >= entry.refused_at + self.waiting_reservations.renewal
        self.waiting_reservations.moved |= first or news
        if entry.phase is Phase.ACTIVE:
            entry.resize_problem = message if entry.growing else ""
            self._touch(entry)
        elif news and entry.reason not in _ROOM_LOST:
            entry.reason, entry.message, entry.refused_at = reason, message, at
            self._touch(entry)
        elif first:
            self._timers.set(entry.key, entry.deadline())
        if first and entry.phase is Phase.PENDING and (due := entry.deadline()) is not None and due <= now:
            self._give_up(entry, now)

    def within_quota(self, entry: ReservationInfo, now: float) -> bool:
        """Whether a lock in line is within its namespace's quotas; if not, it waits for these to change."""
        problem = self.quotas.problem(entry)
        if not problem:
            self.waiting_reservations.note_within_quota(entry)
            return True
        self._nominator.remove(entry.uid)
        self._refuse(entry, reasons.QUOTA_EXCEEDED, problem, now)
        if entry.wanting:
            self.waiting_reservations.park(entry)
        return False

    def refuse_together(
        self, group: Group, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Note why there is no room for a group."""
        for entry in group.waiting:
            self.refuse(entry, reason, message, now, plugins)

    def preempt(self, entry: ReservationInfo, by: str, now: float) -> None:
        """Break a lock for a pod, or a lock, of higher priority; it waits for room again."""
        self._displace(entry, reasons.PREEMPTED, f"preempted on {entry.node} by {by}", now)

    def plan_moves(
        self, entry: ReservationInfo, plan: MigrationPlan | None, event: Event | None, text: str, now: float
    ) -> None:
        """Have a lock that waits have a plan of moves, another one, or none; `text` says why none."""
        if plan is None:
            entry.end_plan()
            entry.move_problem = text
        else:
            entry.plan = plan
        self._set_aside_for(entry)
        if event is not None:
            self._note(entry, event, _MOVE_REASONS[event], text, now, now)
        self._touch(entry)

    def set_earmark(self, entry: ReservationInfo, node_name: str, at: float, now: float) -> None:
        """Keep room for a lock that waits, on a node as it comes free; whoever is gone by `at` may use it."""
        self._keep_room(entry, node_name, at)
        if entry.earmark != node_name:
            entry.earmark = node_name
            text = f"room that comes free on {node_name} is kept for it"
            self._note(entry, Event.EARMARK, reasons.EARMARKED, text, now, now)
            self._touch(entry)

    def end_earmark(self, entry: ReservationInfo) -> None:
        """Keep no room for a lock any more."""
        if entry.earmark:
            entry.earmark = ""
            self._nominator.end_earmark(entry.uid)
            self.changed[entry.key] = None

    # What owners do.

    def claim(self, pod: Pod, node_name: str, now: float) -> Claim | None:
        """Release the locks that a pod takes which has been reserved, and is counted, on a node."""
        own = self.ownership.taken(pod, node_name)
        if not own:
            return None
        text = f"pod {pod.key} is being bound to {node_name}"
        failure = "the owner's binding failed"
        claim = self._claims[pod.uid] = self._claim(pod, node_name, own, text, failure, now)
        return claim

    def used_by(self, pod_uid: str, node_name: str) -> list[ReservationInfo]:
        """Return the locks that a pod which is being bound has taken, and those for reuse that it is in."""
        claim = self._claims.get(pod_uid)
        reused = (
            each for each in self.holdings.occupied_on(node_name) if each.sticky and pod_uid in each.occupants
        )
        return [*(claim.entries if claim is not None else ()), *reused]

    def unclaim(self, pod_uid: str, now: float) -> None:
        """Take locks back after their owner's binding failed, as far as they live and their room is there."""
        claim = self._claims.pop(pod_uid, None)
        if claim is not None:
            self.resolve_claim(claim, "", now)

    def lose_owner(self, uid: str, now: float) -> None:
        """Take locks back whose owner is gone before it was known to be bound: others would get its room."""
        self.unclaim(uid, now)
        for claim in tuple(self._unheard.get(uid, ())):
            self.resolve_claim(claim, "", now)
        self.forget_owner(uid)

    def owner_bound(self, pod: Pod, node_name: str, now: float, *, gone: bool = False) -> None:
        """End the locks that a pod has claimed, as the API server has confirmed that it is bound.

        One that is gone by then takes no more: nothing on its node counts for it.
        """
        claim = self._claims.pop(pod.uid, None)
        if claim is not None and pod.node_name and self._chooses(pod):
            self._has_chosen.add(pod.uid)
            self._ask(replace(claim, pod=pod, unwritten=True))
        elif claim is not None:
            self.resolve_claim(claim, node_name, now)
        if not gone:
            self.claim_tentatively(pod, node_name, now)  # for locks that came meanwhile

    def try_beside(self, owner: Pod) -> None:
        """Have locks for reuse that wait be tried again, as a pod is bound that may use them where it is."""
        self.waiting_reservations.retry(entry for entry in self.ownership.of(owner, ()) if entry.sticky)

    def forget_owner(self, uid: str) -> None:
        """Learn that a pod is gone, or was not bound after all."""
        self._has_chosen.discard(uid)

    def claim_tentatively(self, pod: Pod, node_name: str, now: float) -> None:
        """Have a pod that a watch says is bound claim its locks, until the API server has been asked.

        The watch of pods may be behind that of Reservations: a lock that it tells nothing of yet may be for a
        pod that is still to come, while its namesake has gone already. A pod that others have bound chooses
        of the locks for any pod of its workload once, when it is first seen; be it that it takes none.
        """
        if _says(pod):
            self._has_chosen.discard(pod.uid)
        chooses = self._chooses(pod)
        own = [
            entry
            for entry in self.ownership.taken(pod, node_name, named_only=not chooses and not _says(pod))
            if not _is_taken_by(entry, pod)
        ]
        if own or chooses:
            text = f"pod {pod.key} seems to be bound to {node_name}"
            claim = self._claim(pod, node_name, own, text, "the owner is not bound after all", now)
            self._ask(replace(claim, unwritten=chooses))
            if chooses:
                self._has_chosen.add(pod.uid)

    def resolve_claim(self, claim: Claim, node_name: str, now: float) -> None:
        """End the locks of a claim whose pod is bound to a node; what is not its any more goes back."""
        asked = [each for each in self._unheard.pop(claim.pod.uid, ()) if each.taken is not claim.taken]
        if asked:
            self._unheard[claim.pod.uid] = asked
        if not node_name:
            self.forget_owner(claim.pod.uid)
        if node_name:
            for entry in self.ownership.of(claim.pod, claim.entries):
                if entry in claim.entries and entry.phase not in SETTLED:
                    self._consume(entry, claim.pod, node_name, now)
        returned = [
            (entry, held)
            for entry, held in claim.taken
            if self.entries.get(entry.key) is entry and _is_taken_by(entry, claim.pod)
        ]
        for entry, _ in returned:
            self.holdings.hold(entry, NOTHING)
        for entry, held in returned:
            entry.bound_pod = None
            if (over := ending(entry, now)) is not None:
                self._expire(entry, over, now)
            else:
                self._take_back(entry, held, claim.failure, now)

    # What becomes of nodes.

    def settle_node(
        self, name: str, now: float, intruder: Pod | None = None, left: Collection[ReservationInfo] = ()
    ) -> None:
        """Bring the locks of a node in line with what the node is now.

        An intruder is a pod that is new to it, or was in the locks in `left` and is their owner no more.
        """
        node = self._node(name)
        if node is None:
            self.holdings.drop_rests(name)
        for entry in list(self.holdings.held_on(name)):
            if node is None or node.meta.is_other(entry.node_uid):
                self._lose(entry, now)
            elif entry.node_problem != _node_problem(node):
                self._note_problem(entry, node, now)
                self._touch(entry)
        self._displace_overcommitted(name, now, intruder, left)

    def settle_unseen(self, name: str, now: float) -> None:
        """Bring the locks of a node in line with it when nobody saw who took their room, if anybody did.

        That is taken for the newest pod there, if it was made after a lock.
        """
        if held := list(self.holdings.held_on(name)):
            self.settle_node(name, now, likely_intruder(self._pods_on(name), held))

    # Time.

    def forecast(self, now: float) -> Forecast:
        """Tell what is known of when room comes free, as of a moment ago: 1,000 locks take 2 ms."""
        if self._forecast is None or not self._forecast.is_of(now):
            self._forecast = Forecast(self._columns, self.holdings, now)
        return self._forecast

    def next_deadline(self) -> float | None:
        """Earliest instant at which `advance` has something to do; 0 for at once."""
        at_once = (
            self._undecided
            or self.waiting_reservations.outlasting
            or self.holdings.visited
            or self.groups.unsettled
        )
        if at_once:
            return 0.0
        places = self.places.due
        if places is not None:
            places = max(places, self.waiting_reservations.steady.instant(self._places_from))
        retries = self._group_retries.next(), self._rebuilds.next()
        return earliest(self._timers.next(), places, *retries)

    def advance(self, now: float) -> bool:
        """Do what is due: expiries, deadlines, moves and removals, in the order of their instants.

        Returns whether that was all: of many locks that are due only the first are looked at.
        """
        self.waiting_reservations.steady.at(now)
        self._catch_up()
        due = self.next_deadline()
        if due is None or due > now:
            return True
        self._rebuild_again(now)
        self._decide_all(now)
        outlasting, self.waiting_reservations.outlasting = self.waiting_reservations.outlasting, {}
        for entry in outlasting.values():
            self._shield(entry, now, partial(self._outlast, entry))
        visited, self.holdings.visited = self.holdings.visited, {}
        for key in visited:
            if (visitee := self.entries.get(key)) is not None:
                self._shield(visitee, now, partial(self._note_visitors, visitee, now))
        for key in islice(self._timers.pop_due(now), _DUE_AT_ONCE):
            if (due_now := self.entries.get(key)) is not None:
                self.note_fault(key, None)
                self._shield(due_now, now, partial(self._do_due, due_now, now))
        self._settle_groups(now)
        if self.waiting_reservations.steady.last >= self._places_from:
            with Attempt(partial(self.on_failure, "places", "", ObjectMeta("places"))) as attempt:
                self.places.renew(now)
            self._places_from = self.waiting_reservations.steady.last + attempt.pause
        left = self._timers.next()
        return left is None or left > now

    # Inside.

    def _outlast(self, entry: ReservationInfo) -> None:
        self._renew_expiry(entry)
        self._touch(entry)

    def _note_visitors(self, entry: ReservationInfo, now: float) -> None:
        self._note_occupants(entry, now)
        self._note_borrowers(entry, now)

    def _settle_groups(self, now: float) -> None:
        """Settle the groups that have changed, and those that change by it; each fails at most once."""
        for key in self._group_retries.pop_due(now):
            self.groups.unsettled[key] = None
        failed: set[GroupKey] = set()
        while groups := self.groups.take_unsettled():
            for group in groups:
                if group.key in failed:
                    continue
                meta = ObjectMeta(group.key.name, group.key.namespace, group.key.uid)
                self.checkpoint()
                with Attempt(partial(self.on_failure, "due", "ReservationGroup", meta)) as attempt:
                    self._settle_group(group, now)
                if attempt.error is not None:
                    failed.add(group.key)
                    self.recover(now)
                    self._group_retries.set(group.key, now + attempt.pause)
                fault = "" if attempt.error is None else failure_note(attempt.error)
                self.groups.note_fault(group.key, fault)

    def _catch_up(self) -> None:
        """Have locks leave bad nodes after as many seconds as before, if the clock has been set back."""
        lost, self._ahead = (
            self.waiting_reservations.steady.ahead - self._ahead,
            self.waiting_reservations.steady.ahead,
        )
        for entry in self.entries.values() if lost else ():
            if entry.move_at is not None:
                entry.move_at -= lost
                self._timers.set(entry.key, entry.deadline())

    def _note_plan(self, entry: ReservationInfo) -> None:
        if entry.plan is not None:
            self.planned[entry.key] = entry

    def _keep_room(self, entry: ReservationInfo, node_name: str, at: float) -> None:
        pod = entry.reservation.pod
        if pod is not None:
            self._nominator.set_earmark(Earmark(pod, node_name, at))

    def _set_aside_for(self, entry: ReservationInfo) -> None:
        """Keep room on the node of a plan that is under way, as it comes free, for its lock alone."""
        pod = entry.reservation.pod
        if pod is not None and entry.plan is not None and entry.plan.under_way:
            self._nominator.nominate(pod, entry.plan.node)
        else:
            self._nominator.remove(entry.uid)

    def _chooses(self, pod: Pod) -> bool:
        """Whether a pod that others have bound is yet to choose of the locks for any of its workload."""
        if not pod.node_name or _says(pod):
            return False
        if pod.uid in self._has_chosen or pod.uid in self._claims:
            return False
        return self.ownership.of_workload(pod)

    def _ask(self, claim: Claim) -> None:
        """Have the API server be asked whether the pod of a claim is bound."""
        self.unverified_claims.append(claim)
        self._unheard[claim.pod.uid].append(claim)

    def _claim(
        self, pod: Pod, node_name: str, own: list[ReservationInfo], text: str, failure: str, now: float
    ) -> Claim:
        taken = tuple((entry, entry.reserved) for entry in own if entry.phase is not Phase.BOUND)
        needed = pod.requests
        try:
            for entry, _ in taken:
                used = at_most(entry.held, needed) if entry.node == node_name else NOTHING
                needed = beyond(needed, used)
                self.holdings.pass_on(entry, used)
                entry.bound_pod = BoundPod(name=pod.meta.name, uid=pod.uid)
                self._step(entry, Event.CLAIM, reasons.CLAIMED, text, now)
        except Exception:
            self.holdings.in_change |= {
                entry.key: entry for entry, _ in taken
            }  # without a claim none is taken
            raise
        return Claim(pod, tuple(own), taken, failure)

    def _consume(self, entry: ReservationInfo, pod: Pod, node_name: str, now: float) -> None:
        self.holdings.hold(entry, NOTHING)
        entry.bound_pod = BoundPod(name=pod.meta.name, uid=pod.uid)
        message = f"pod {pod.key} is bound to {node_name}"
        self._end(entry, Event.OWNER_BOUND, reasons.CONSUMED, message, now)
        self._decide(entry, now)

    def _revise(self, entry: ReservationInfo, reservation: Reservation, now: float) -> None:
        self.holdings.in_change[entry.key] = entry
        edited = reservation.meta.generation != entry.reservation.meta.generation
        known, before, spec = entry.reservation, entry.reservation.spec, reservation.spec
        priority = entry.priority
        if entry.reserved and before is not None and spec is not None and before.owners != spec.owners:
            self.holdings.retell(entry)
        entry.reservation, entry.problem = reservation, reservation.problem or entry.outside
        if not edited or entry.final:
            return
        self._follow_lease(entry, now)
        self._await_decision(entry)
        if ask_the_same(known, reservation):
            return  # else who renews its lease would be tried again and again, or brought back
        self._hold_for_others(entry, now)
        self._reprioritise(entry, priority)
        asked_at = reservation.asked_at or None
        if entry.phase is Phase.PLANNED:
            self._displace(entry, reasons.WAITING, "the spec was edited", now, asked_at)
        if entry.problem:
            self._reject_if_unreadable(entry, now)
            return
        if entry.phase is Phase.REJECTED:
            entry.finished_at = None
            entry.look_ahead(now)
            entry.lease = lease_followed(None, reservation, now)
            entry.wait(now, asked_at if entry.told_rejected else entry.pending_since)
            self._step(entry, Event.REVISE, reasons.WAITING, "the spec was edited", now)
        self._renew_expiry(entry)
        self.waiting_reservations.renew(entry)
        if entry.phase is not Phase.BOUND and (over := ending(entry, now)) is not None:
            self._expire(entry, over, now)
        elif entry.phase is Phase.ACTIVE:
            self._resize(entry, now)

    def _hold_for_others(self, entry: ReservationInfo, now: float) -> None:
        """Have a lock hold what it must, as others may be its owners now; no other lock pays for that.

        What a former owner goes on to use of its node is not free for it.
        """
        if not entry.reserved:
            return
        held = entry.held
        self.holdings.hold(entry, entry.reserved)
        if not covers(held, entry.held) and self._columns.shortfall(entry.node):
            text = f"{entry.node} has no room for it beside its former owners"
            self._displace(entry, reasons.WAITING, text, now)

    def _reprioritise(self, entry: ReservationInfo, before: int) -> None:
        """Wake those that a lock whose priority was edited kept from room, and have places in line follow."""
        if entry.priority == before:
            return
        self.waiting_reservations.moved |= entry.tried
        kept = self._nominator.earmark
        if entry.earmark and kept is not None and kept.pod.uid == entry.uid:
            self._keep_room(entry, kept.node_name, kept.at)
        if entry.priority < before and entry.held:
            self.holdings.offer(entry)

    def _do_due(self, entry: ReservationInfo, now: float) -> None:
        """Do what is due about a lock."""
        if entry.phase in SETTLED:
            self.changed[entry.key] = None
        elif (over := ending(entry, now)) is not None:
            self._expire(entry, over, now)
        elif entry.lease is not None and entry.lease.due <= now:
            self._lapse(entry, now)
        elif entry.begins_at is not None and entry.begins_at <= now:
            self._open(entry, now)
        elif entry.phase is Phase.PENDING:
            self._give_up(entry, now)
        else:
            entry.move_at, entry.moving = None, True
            self._touch(entry)

    def _open(self, entry: ReservationInfo, now: float) -> None:
        """Begin the window of a lock: what was planned is held, unless who was to be gone is there yet."""
        begins, entry.ahead = entry.begins_at, False
        self.opened.append(entry)
        if entry.phase is not Phase.PLANNED:
            self._touch(entry)
            return
        entry.activated_at, entry.epoch = begins, self._epoch
        entry.end_as_asked()
        entry.hold = two_phase_begun(entry.hold, entry.reservation, now)
        self.holdings.hold(entry, entry.reserved)
        self._step(entry, Event.ADMIT, reasons.ADMITTED, _held_text(entry), now)
        self.holdings.retell(entry)
        self._displace_overcommitted(entry.node, now, None)
        self._decide(entry, now)

    def _renew_expiry(self, entry: ReservationInfo) -> None:
        """Have a lock that has begun end as its spec says, but later only if its quota allows that."""
        entry.resize_problem = ""
        if entry.outlasting and (problem := self.quotas.problem(entry)):
            entry.resize_problem = problem
            self.waiting_reservations.park(entry)
        else:
            entry.end_as_asked()

    def _recap(self, namespace: str) -> None:
        """Learn that the quotas of a namespace have changed."""
        ceiling = self.quotas.ceiling(namespace)
        self.holdings.reprioritise()
        for entry in self.entries.values():
            if entry.key.namespace == namespace:
                before, entry.ceiling = entry.priority, ceiling
                self.waiting_reservations.moved = True
                if entry.priority < before and entry.held:
                    self.holdings.offer(entry)

    def _begin(self, entry: ReservationInfo, now: float) -> None:
        """Have the time of a lock count from now, or from when its group was first active."""
        group = self.groups.of(entry.reservation)
        began = group.began if group is not None else None
        entry.activated_at = now if began is None else began
        entry.expires_at = entry.expiry_from(entry.activated_at)

    def _settle_group(self, group: Group, now: float) -> None:
        """Have a group be given once it is stored, or give its room back once it is short."""
        for entry in group.late:  # it ends with the others, be it that it never finds room
            self._begin(entry, now)
            self._touch(entry)
            if (over := ending(entry, now)) is not None:
                self._expire(entry, over, now)
        if not group.complete:
            self._break_up(group, now)
        elif not group.group_committed and any(entry.missed for entry in group.holding):
            self._give_up_together(group, now)
        elif not group.group_committed and group.stored:
            group.give(given=True)
            for entry in group.holding:
                self._touch(entry)

    def _break_up(self, group: Group, now: float) -> None:
        """Have all members of a group that is short wait together, or end if it can't be whole any more."""
        group.give(given=False)
        text = f"{group.served} of the {group.least} locks that group {group.key.name} needs are left"
        for entry in group.holding:
            self._displace(entry, reasons.GROUP_INCOMPLETE, text, now)
        if group.doomed:
            for entry in group.waiting:
                text = f"too many locks of group {group.key.name} are over for it to be whole again"
                self._end(entry, Event.GIVE_UP, reasons.GROUP_FAILED, text, now)
        elif group.spare < 0:
            for entry in group.waiting:  # whatever they lacked before: they wait for members, and for no room
                self.waiting_reservations.moved |= entry.tried
                entry.tried = False
                self._timers.set(entry.key, entry.deadline())
        elif group.standing != group.tried_with:  # who has come or gone may be what it waited for
            group.tried_with = group.standing
            self.waiting_reservations.retry(group.waiting)

    def _give_up(self, entry: ReservationInfo, now: float) -> None:
        self._end(entry, Event.GIVE_UP, reasons.DEADLINE_EXCEEDED, _given_up_text(entry), now)

    def _give_up_together(self, group: Group, now: float) -> None:
        """Reject the members of a group that an earlier process stored, and did not give in time."""
        for entry in group.holding:
            self._displace(entry, reasons.WAITING, "not all locks of its group were stored in time", now)
        for entry in group.waiting:
            self._give_up(entry, now)

    def _reject_if_unreadable(self, entry: ReservationInfo, now: float) -> None:
        """Reject a lock that waits though its spec cannot be read; what is held stays held."""
        if entry.reservation.failure:
            return
        if entry.problem and entry.phase is Phase.PENDING:
            self._end(entry, Event.GIVE_UP, reasons.INVALID_SPEC, entry.problem, now)
        elif entry.problem and entry.phase is Phase.REJECTED:
            entry.reason, entry.message = reasons.INVALID_SPEC, entry.problem

    def _resize(self, entry: ReservationInfo, now: float) -> None:
        """Shrink at once what is asked less of; what is asked more of waits for its admission."""
        spec = entry.reservation.spec
        if spec is not None and spec.node_name not in (None, entry.node):
            self._displace(entry, reasons.WAITING, f"the spec now names {spec.node_name}", now)
            return
        self.holdings.hold(entry, entry.kept_of(entry.reserved))
        if not entry.outlasting:
            entry.resize_problem = ""
        if not entry.violation:
            entry.message = _held_text(entry)
        elif not entry.growing:
            self._restore(entry, now)

    def _take_back(self, entry: ReservationInfo, held: Resources, failure: str, now: float) -> None:
        node = self._node(entry.node)
        held = entry.kept_of(held)  # the spec may have shrunk meanwhile
        if not held:
            self._step(entry, Event.RETURN, reasons.WAITING, failure, now)
            self._reject_if_unreadable(entry, now)
        elif node is None or node.meta.is_other(entry.node_uid):
            self._lose(entry, now)
        elif self._columns.fits(node.name, self._beside_borrowers(entry, held)):
            self._place(entry, node, held, now)
            self._step(entry, Event.ADMIT, reasons.ADMITTED, _held_text(entry), now)
            if entry.violation:  # what others took before the claim is still missing
                entry.reason, entry.message = reasons.VIOLATED, entry.violation
            self._resize(entry, now)
        else:
            text = f"{failure} and {entry.node} has no room left"
            self._displace(entry, reasons.INSUFFICIENT_CAPACITY, text, now)

    def _beside_borrowers(self, entry: ReservationInfo, room: Resources) -> Resources:
        """Tell what of this room has to be free on a lock's node for it, as borrowers may use the rest."""
        return minus(room, self.holdings.credit(entry, entry.node, room)) if entry.borrowable else room

    def _displace_overcommitted(
        self, name: str, now: float, intruder: Pod | None, left: Collection[ReservationInfo] = ()
    ) -> None:
        """Take room from locks until the node's pods and locks fit: lowest priority first, then newest.

        Those that an intruder has left lose theirs before all others, but for what is kept beside bindings.
        """
        if self.holdings.rests and self._columns.shortfall(name):
            self.holdings.drop_rests(name)
        while (found := first_loser(self._columns, self.holdings, name, left)) is not None:
            loser, shortfall = found
            if intruder is None:
                text = f"{name} is overcommitted by {_amounts_text(shortfall)}"
                self._displace(loser, reasons.OVERCOMMITTED, text, now)
            else:
                self._violate(loser, intruder, shortfall, now)

    def _violate(self, entry: ReservationInfo, intruder: Pod, shortfall: Resources, now: float) -> None:
        """Give up the room of a lock that a pod has taken; the lock keeps the rest of it, or moves."""
        taken = at_most(entry.held, shortfall) or at_most(entry.reserved, shortfall)  # all of it may be lent
        left = minus(entry.reserved, taken)
        text = f"pod {intruder.key} took {_amounts_text(taken)} locked on {entry.node}"
        entry.violation = text
        if left and not entry.moves_when_violated:
            self.holdings.hold(entry, left)
            self._step(entry, Event.VIOLATE, reasons.VIOLATED, text, now)
        else:
            self._displace(entry, reasons.VIOLATED, text, now)

    def _restore(self, entry: ReservationInfo, now: float) -> None:
        """Note that a lock has all its room again, if others had taken some."""
        if entry.violation:
            entry.violation = ""
            self._step(entry, Event.RESTORE, reasons.RESTORED, _held_text(entry), now)

    def _displace(
        self, entry: ReservationInfo, reason: str, message: str, now: float, since: float | None = None
    ) -> None:
        """Have a lock wait for room again, since `since` or now, if it was told to have room before."""
        self._unplace(entry)
        self._count_use(entry, now, occupied=False)
        entry.bound_pod = None
        if entry.hold is not None:
            entry.hold = entry.hold.lost()
        entry.end_as_asked()
        if entry.promised:
            entry.wait(now, since)
        else:
            entry.wait_on()
        event = Event.RETURN if entry.phase is Phase.BOUND else Event.DISPLACE
        self._step(entry, event, reason, message, now)
        self._reject_if_unreadable(entry, now)
        self._await_decision(entry)  # of its set another may be chosen now

    def _lose(self, entry: ReservationInfo, now: float) -> None:
        text = f"node {entry.node} (uid {entry.node_uid}) is gone"
        if entry.pinned:
            self.holdings.hold(entry, NOTHING)
            self._end(entry, Event.LOSE_NODE, reasons.NODE_LOST, text, now)
        else:
            self._displace(entry, reasons.NODE_LOST, text, now)

    def _follow_lease(self, entry: ReservationInfo, now: float) -> None:
        """Take over what the spec says of the lease: most often, that it was renewed."""
        if entry.phase is Phase.REJECTED:
            return
        before, entry.lease = entry.lease, lease_followed(entry.lease, entry.reservation, now)
        if (
            before is not None
            and before.lost_at is not None
            and (entry.lease is None or entry.lease.lost_at is None)
        ):
            self._note(entry, Event.RENEW, reasons.RENEWED, "the lease was renewed", now, now)

    def _await_decision(self, entry: ReservationInfo) -> None:
        """Have a lock be looked at once all are known: it may be committed, or one of its set be chosen."""
        if not entry.outside:
            self._alternatives.join(entry)
        if entry.hold is not None or entry.key in self._alternatives:
            self._undecided[entry.key] = entry

    def _decide_all(self, now: float) -> None:
        """Look at the locks that are new or edited, in their order, which any process comes to."""
        undecided, self._undecided = self._undecided, {}
        for entry in sorted(undecided.values(), key=lambda entry: entry.order):
            self._shield(entry, now, partial(self._decide, entry, now))

    def _decide(self, entry: ReservationInfo, now: float) -> None:
        """Commit a lock whose spec has the token of its hold; once one of a set is chosen all others end."""
        self._end_outdone(entry, now)
        if entry.hold is None or entry.phase not in GIVEN:
            return
        before, entry.hold = entry.hold, entry.hold.committed(commit_token(entry.reservation), now)
        if entry.hold is not before:
            text = f"hold {entry.hold.number}, on {entry.node}, was committed"
            self._note(entry, Event.COMMIT, reasons.COMMITTED, text, now, now)
            self._touch(entry)
            self._end_outdone(entry, now)

    def _end_outdone(self, entry: ReservationInfo, now: float) -> None:
        """End all locks of a set but the one that was chosen; one that is being claimed, if that fails."""
        chosen = self._alternatives.chosen(entry)
        if chosen is None:
            return
        for other in self._alternatives.others(chosen):
            if other.phase not in SETTLED:
                other.superseded_by = chosen.key.name
                if other.phase is not Phase.BOUND and (over := ending(other, now)) is not None:
                    self._expire(other, over, now)

    def _lapse(self, entry: ReservationInfo, now: float) -> None:
        """Begin the grace of a lease; it leaves the lock as it is."""
        if entry.lease is not None:
            due, entry.lease = entry.lease.due, entry.lease.lapsed()
            self._note(entry, Event.LAPSE, reasons.NOT_RENEWED, entry.lease.text, now, due)
            self._touch(entry)

    def _expire(self, entry: ReservationInfo, over: Ending, now: float) -> None:
        self.holdings.hold(entry, NOTHING)
        self._end(entry, over.event, over.reason, over.message, now, over.due)

    def _end(
        self,
        entry: ReservationInfo,
        event: Event,
        reason: str,
        message: str,
        now: float,
        due: float | None = None,
    ) -> None:
        self.holdings.in_change[entry.key] = entry
        self._count_use(entry, now, occupied=False)
        entry.finished_at = now
        entry.ahead = False
        self.ended.append(entry)
        entry.violation = ""
        self._step(entry, event, reason, message, now, due)
        self.ownership.end(entry)

    def _step(
        self,
        entry: ReservationInfo,
        event: Event,
        reason: str,
        message: str,
        now: float,
        due: float | None = None,
    ) -> None:
        self._note(entry, event, reason, message, now, now if due is None else due)
        entry.reason, entry.message = reason, message
        if entry.phase not in (Phase.ACTIVE, Phase.PLANNED):
            entry.node_problem = entry.move_at = None
            entry.moving = False
        self._touch(entry)

    def _note(
        self, entry: ReservationInfo, event: Event, reason: str, message: str, now: float, due: float
    ) -> None:
        """Go to the phase that an event leads to, and have it told."""
        self.holdings.in_change[entry.key] = entry
        entry.phase = after(entry.phase, event)
        self.changes.append(Transition(entry.reservation.meta, event, entry.phase, reason, message, now, due))

    def _place(self, entry: ReservationInfo, node: Node, requests: Resources, now: float) -> None:
        self._unplace(entry)
        entry.node, entry.node_uid, entry.epoch = node.name, node.meta.uid, self._epoch
        entry.node_problem = entry.move_at = None
        entry.moving = False
        self._note_problem(entry, node, now)
        self.holdings.hold(entry, requests)
        self.holdings.in_change[entry.key] = entry

    def _note_problem(self, entry: ReservationInfo, node: Node, now: float) -> None:
        """Note what is wrong with a lock's node; a lock for any node leaves it if that lasts for long."""
        problem = _node_problem(node)
        if problem is None:
            entry.move_at, entry.moving = None, False
        elif entry.node_problem is None and not entry.pinned:
            entry.move_at = now + self._move_after
        entry.node_problem = problem

    def _unplace(self, entry: ReservationInfo) -> None:
        self.holdings.hold(entry, NOTHING)
        self.holdings.in_change[entry.key] = entry  # until it says so
        entry.node = entry.node_uid = ""

    def _note_occupants(self, entry: ReservationInfo, now: float) -> None:
        """Note who is in a lock for reuse, once they have been seen there."""
        if entry.phase is not Phase.ACTIVE or not entry.sticky:
            return
        first = next(iter(entry.inside), None)
        before = entry.bound_pod
        if (first.uid if first else "") != (before.uid if before else ""):
            self._count_use(entry, now, occupied=first is not None)
            if first is not None:
                entry.bound_pod = BoundPod(name=first.key.name, uid=first.uid)
                text = f"pod {first.key} is in it, on {entry.node}"
                self._note(entry, Event.OCCUPY, reasons.OCCUPIED, text, now, now)
            else:
                entry.bound_pod = None
                text = f"{_held_text(entry)}, with no owner in"
                self._note(entry, Event.VACATE, reasons.VACANT, text, now, now)
        self._touch(entry)

    def _note_borrowers(self, entry: ReservationInfo, now: float) -> None:
        """Note whether pods use room of a borrowable lock, once they have been seen there."""
        if entry.phase is not Phase.ACTIVE or not entry.borrowable:
            return
        borrowers = entry.inside
        was, _ = entry.transition_times.get("Lent", ("False", now))
        if was != str(bool(borrowers)):
            entry.transition_times["Lent"] = (str(bool(borrowers)), now)
            if borrowers:
                text = f"pod {borrowers[0].key} borrows of it, on {entry.node}"
                self._note(entry, Event.LEND, reasons.LENT, text, now, now)
            else:
                text = f"{_held_text(entry)}, with nobody who borrows of it"
                self._note(entry, Event.REPAY, reasons.NOT_LENT, text, now, now)
        self._touch(entry)

    def _count_use(self, entry: ReservationInfo, now: float, *, occupied: bool) -> None:
        """Begin or end to count for how long owners are in a lock for reuse."""
        was, _ = entry.transition_times.get("Occupied", ("False", now))
        if was != str(occupied):
            entry.occupied_seconds = round(entry.occupied_for(now))
            entry.transition_times["Occupied"] = (str(occupied), now)

    def _touch(self, entry: ReservationInfo) -> None:
        """Renew what follows from an entry's state: its timer, whether it waits, its status."""
        key = entry.key
        self.holdings.in_change[key] = entry
        if entry.plan is not None and entry.phase is not Phase.PENDING:
            entry.end_plan()
            self._nominator.remove(entry.uid)
        self.changed[key] = None
        self.touched.add(key.namespace)
        self._timers.set(key, entry.deadline())
        self.holdings.time(entry)
        self.groups.note(entry)
        self.schedules.note(entry)
        self.quotas.charge(entry)
        self.waiting_reservations.note(entry)
        if entry.phase is not Phase.PENDING:
            entry.place = None
            self.end_earmark(entry)
        if not entry.wanting:
            self._nominator.remove(entry.uid)  # never as placed: what it holds is no pod on the node
        self.holdings.in_change.pop(key, None)  # each change ends here

    def _let_go(self, entry: ReservationInfo, reservation: Reservation, now: float) -> None:
        """Give up a lock that is being deleted, and have its status say so for as long as it is there."""
        if self.entries.get(entry.key) is entry:
            self._drop(entry)
        entry.reservation, entry.deleted = reservation, False
        entry.terminate(now)
        self.leaving[entry.key] = entry
        self.changed[entry.key] = None

    def _drop(self, entry: ReservationInfo) -> None:
        if entry.phase not in SETTLED:
            self.ended.append(entry)
        self.holdings.hold(entry, NOTHING)
        self.end_earmark(entry)
        self._nominator.remove(entry.uid)
        self.ownership.end(entry)
        self._timers.set(entry.key, None)
        self.changed.pop(entry.key, None)
        self.touched.add(entry.key.namespace)
        self.holdings.visited.pop(entry.key, None)
        del self.entries[entry.key]
        self.groups.leave(entry)
        self.schedules.leave(entry)
        self._alternatives.leave(entry)
        self._undecided.pop(entry.key, None)
        self.quotas.discharge(entry.key)
        self.waiting_reservations.drop(entry)

    def _have_told(self, entry: ReservationInfo) -> None:
        """Have the status of a lock be written."""
        self.changed[entry.key] = None

    def _capacity(self, node_name: str) -> Resources:
        node = self._node(node_name)
        return NOTHING if node is None else node.allocatable

    def _node(self, name: str) -> Node | None:
        row = self._columns.row_of.get(name)
        return None if row is None else self._columns.nodes[row]


def _is_taken_by(entry: ReservationInfo, pod: Pod) -> bool:
    """Whether a pod has claimed a lock, and it is not known yet whether it is bound."""
    return entry.phase is Phase.BOUND and entry.bound_pod is not None and entry.bound_pod.uid == pod.uid


def _says(pod: Pod) -> bool:
    """Whether the binding of a pod says which locks it took."""
    return pod.claimed_reservations is not None


def _node_problem(node: Node) -> tuple[str, str] | None:
    if node.unschedulable:
        return reasons.NODE_CORDONED, f"node {node.name} is cordoned"
    if not node.ready:
        return reasons.NODE_NOT_READY, f"node {node.name} is not ready"
    return None


def _amounts_text(resources: Resources) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in format_resources(resources).items())


def _held_text(entry: ReservationInfo) -> str:
    amounts = {name: units for name, units in entry.reserved.items() if name != PODS}
    return f"{_amounts_text(amounts) or 'a place for a pod'} held on {entry.node}"


def _planned_text(entry: ReservationInfo) -> str:
    begins, ends = entry.begins_at, entry.ends_at
    since = f" from {format_instant(begins)}" if begins is not None else ""
    until = f" until {format_instant(ends)}" if ends is not None else ""
    return f"{_held_text(entry)}{since}{until}"


def _given_up_text(entry: ReservationInfo) -> str:
    spec = entry.reservation.spec
    field = f"spec.pendingDeadlineSeconds ({spec.pending_deadline_seconds if spec else 0})"
    if entry.tried:
        return f"no room within {field}: {entry.message}"
    waits = f"it waits since {format_instant(entry.pending_since)}"
    if not entry.missed:
        return f"{field} had passed before it was tried: {waits}"
    text = f"{field} had passed when the operator saw it at {format_instant(entry.seen_waiting_at)}: {waits}"
    return f"{text}; {entry.message}" if entry.message else text
