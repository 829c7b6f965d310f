"""The ledger of reservations: events of the API server and decisions in, records and effects out.

The scheduling cycle decides which node a reservation gets. The ledger keeps the record of each reservation,
the capacity that it holds and the queue of those that wait, and ends each when its time is over. It does no
I/O and has no clock: instants (`now`) are seconds since the epoch. Every call passes the present state, and
can be repeated.

A change goes one way: a feature's module changes a record, `Records.commit` updates every index, and the
effects go to the driver. The modules in order of the packages:

    answers                     creations that are answered before their objects are stored
    records, indexes, effects   all records, the indexes that follow from them, and work for the driver
    lifecycle                   phases, expiry, leases, two-phase commits, alternatives, edits, due times
    capacity                    held amounts, placements, and capacity that is kept for waiting reservations
    owners                      the pods that own a reservation, claim it, or use it
    queue                       the waiting reservations, their order, and the quotas
    sets                        groups and schedules
    output                      statuses and audit records
    restore, recovery           records made from stored objects: after a start, and after a failure
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import islice

from msgspec.structs import replace as replace_meta

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.affinity_terms import AffinityTerms
from tidelock.cluster.index.ports import Ports
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.lister import Lister
from tidelock.cluster.nominator import Nominator
from tidelock.cluster.placed import Placed
from tidelock.cluster.reserve_pods import ReservePods
from tidelock.ledger.answers import Answers
from tidelock.ledger.capacity.forecast import Forecast
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.nominations import Nominations
from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.effects import Effects
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.alternatives import Alternatives
from tidelock.ledger.lifecycle.choices import Choices
from tidelock.ledger.lifecycle.edits import Edits
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.messages import held_text, planned_text
from tidelock.ledger.owners.claims import Claims
from tidelock.ledger.owners.occupancy import Occupancy
from tidelock.ledger.owners.ownership import Ownership, OwnerWithDevices
from tidelock.ledger.owners.unconfirmed import UnconfirmedClaims
from tidelock.ledger.plugin_view import PluginView
from tidelock.ledger.queue.admission import Admission
from tidelock.ledger.queue.fair_share import FairShares
from tidelock.ledger.queue.positions import QueuePositions
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL, WaitingReservations
from tidelock.ledger.records import Records
from tidelock.ledger.recovery import Recovery
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.restore import restore
from tidelock.ledger.sets.groups import Groups
from tidelock.ledger.sets.schedules import Schedules
from tidelock.ledger.sets.settlement import GroupSettlement
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import Attempt, OnFailure, raise_failure
from tidelock.model.instants import earliest
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.quantities import NOTHING
from tidelock.model.reservation import Reservation
from tidelock.model.work_queue import WorkQueue

# Beginnings of the problem of a reservation that could not join the group, or the set, of its spec.
_OUTSIDE = ("spec.group", "spec.anyOf: set")
# So many due reservations at most are handled in a step, in some 50 ms: any number may end at one instant.
_DUE_A_STEP = 1024


class Ledger:
    """All reservations, and the modules that change them.

    Args:
        columns: where held amounts are counted.
        nominator: keeps capacity for reservations that wait.
        reserve_pods: the reserve pods, which count as neighbours of pods.
        reserved_devices: the devices that reservations hold.
        quotas: the quotas of namespaces. Without it there are none.
        pods_on: returns the pods of a node, which may be inside its reservations.
        owner_with_devices: returns the uid of a waiting owner with devices of a reservation in its claims, or
            an empty text. Of several owners it is the one with the given uid.
        move_after: seconds after which a reservation for any node leaves a node that takes no pods.
        refusal_renewal: seconds between two texts in the status of a reservation that waits.
        on_failure: called with isolated exceptions. By default none are isolated.

    Attributes:
        opened: reservations with a window that has begun, so their owners may be bound already.

    """

    def __init__(
        self,
        columns: Columns,
        *,
        nominator: Nominator | None = None,
        reserve_pods: ReservePods | None = None,
        reserved_devices: ReservedDevices | None = None,
        quotas: Quotas | None = None,
        pods_on: Callable[[str], Collection[Placed]] = lambda _: (),
        owner_with_devices: OwnerWithDevices = lambda _entry, _uid: "",
        move_after: float = 300.0,
        refusal_renewal: float = REFUSAL_RENEWAL,
        on_failure: OnFailure = raise_failure,
    ) -> None:
        nominator = nominator or Nominator(columns)
        if reserve_pods is None:
            reserve_pods = ReservePods(columns, AffinityTerms(columns), Ports())
        self.records = records = Records(columns)
        self.quotas = quotas or Quotas(Lister(), Lister())
        self.shares = FairShares(columns, self.quotas)
        self.groups, self.schedules = Groups(), Schedules()
        self.waiting_reservations = waiting = WaitingReservations(self.groups, refusal_renewal)
        reserved_devices = reserved_devices if reserved_devices is not None else ReservedDevices()
        unconfirmed = UnconfirmedClaims()
        self.holdings = holdings = Holdings(
            *(columns, reserve_pods, reserved_devices, pods_on),
            *(unconfirmed.amounts, records.in_change, records.commit),
        )
        self.ownership = ownership = Ownership(
            records.entries, self.groups, holdings, records.capacity, owner_with_devices
        )
        self.queue_positions = QueuePositions(
            waiting, self.shares, self.forecast, lambda entry: records.publish(entry.key)
        )
        self._alternatives = Alternatives()
        self._endings = endings = Endings(records, holdings)
        self._choices = choices = Choices(records, endings, self._alternatives)
        self.placement = placement = Placement(
            records, columns, holdings, self.groups, endings, choices, pods_on, move_after
        )
        self.nominations = Nominations(records, nominator)
        self.admission = Admission(records, waiting, self.quotas, holdings, endings, nominator)
        self.claims = Claims(
            records, columns, holdings, ownership, placement, endings, choices, waiting, unconfirmed
        )
        self.plugin_view = PluginView(holdings, self.ownership, self.claims)
        self._occupancy = Occupancy(records)
        self._edits = Edits(
            records, holdings, placement, self.nominations, self.admission, waiting, endings, choices
        )
        self.recovery = Recovery(records, columns, placement, self.upsert, on_failure)
        self.answers = Answers(records, holdings, columns, waiting.steady, self.recovery)
        self._settlement = GroupSettlement(records, self.groups, placement, endings, waiting, self.recovery)
        records.indexes += (holdings, self.ownership, self.groups, self.schedules)
        records.indexes += (self._alternatives, self.quotas, waiting, self.nominations)
        self.quotas.on_change(self.admission.renew_ceilings)
        self.quotas.on_freed(self.waiting_reservations.retry_over_quota)
        self.opened, self._columns = WorkQueue[ReservationInfo](), columns
        self._forecast: Forecast | None = None
        self._positions_from, self._ahead = 0.0, 0.0  # by steady time, and later after a fault

    @property
    def entries(self) -> dict[Key, ReservationInfo]:
        """All reservations by name."""
        return self.records.entries

    @property
    def effects(self) -> Effects:
        """Work for the driver."""
        return self.records.effects

    def lead(self, epoch: int) -> None:
        """Begin a leadership. Its number is written with every reservation that gets capacity."""
        self.records.epoch = epoch

    # Objects as the API server has them.

    def upsert(self, reservation: Reservation, now: float) -> None:
        """Add or update a Reservation. One that is being deleted no longer holds capacity."""
        self.waiting_reservations.steady.at(now)
        entry = self.records.find(reservation.key)
        if entry is not None and entry.uid != reservation.meta.uid:
            self.remove(entry.reservation)
            entry = None
        if entry is not None and reservation.meta.version < entry.reservation.meta.version:
            return  # an event of a write before the last one that was acknowledged
        if reservation.meta.deletion_timestamp is not None:
            if entry is None:
                self.answers.take(reservation, now)
            self._terminate(entry or restore(reservation, now), reservation, now)
            return
        if entry is not None and entry.reservation.failure != reservation.failure:
            self.recovery.rebuild(entry, reservation, now)
            return
        if entry is not None and _same_version(entry.reservation, reservation):
            return  # the event of a write that was acknowledged
        if entry is None:
            entry = self._add(reservation, now, unseen=self.answers.proposed(reservation))
        else:
            self._edits.apply(entry, reservation, now)
        self.records.commit(entry)
        self.nominations.note_plan(entry)

    def propose(self, reservation: Reservation, now: float) -> ReservationInfo:
        """Add a reservation that is being created, to be decided before it is stored.

        Args:
            reservation: the reservation, with a nonce as uid and a name that no object can have. It is in no
                group and no set, begins at once, and has a readable spec.
            now: the present time.

        """
        self.waiting_reservations.steady.at(now)
        entry = self._add(reservation, now, unseen=True)
        self.records.commit(entry)
        return entry

    def resume(self, now: float) -> None:
        """Begin to decide, as all objects are known now."""
        self.answers.resume(now)

    def _add(self, reservation: Reservation, now: float, *, unseen: bool = False) -> ReservationInfo:
        """Add a reservation that is new to this process, with the capacity that its status says it holds.

        Without a status, an answer to its creation may say that.
        """
        first = self.answers.take(reservation, now)
        entry = self._restored(
            replace(reservation, status=first.status) if first.status else reservation, now
        )
        if first.status:
            entry.reservation = replace(entry.reservation, status=reservation.status)
        entry.unseen, entry.answered = unseen, first.answered
        if unseen:
            self.answers.add(entry, now)
        entry.ceiling = self.quotas.ceiling(entry.key.namespace)
        self.records.entries[entry.key] = entry
        self.nominations.restore(entry)
        self.groups.update(entry)
        self._choices.look_later(entry)
        amounts, entry.reserved = entry.reserved, NOTHING
        self.holdings.hold(entry, amounts)
        self.records.in_change[entry.key] = entry
        if amounts and not entry.violation:  # an edit may have left it less than its status says
            entry.message = planned_text(entry) if entry.ahead else held_text(entry)
        self.waiting_reservations.note_extendable(entry)  # checked when all quotas are known
        self.answers.complete(first, entry)
        return entry

    def _restored(self, reservation: Reservation, now: float) -> ReservationInfo:
        """Return the record of a reservation, with the problem if it can't join its group or set."""
        outside = self.groups.problem(reservation) or self._alternatives.problem(reservation)
        entry = restore(replace(reservation, problem=outside) if outside else reservation, now)
        if not outside and entry.phase is Phase.REJECTED and not entry.problem:
            outside = entry.message if entry.message.startswith(_OUTSIDE) else ""
        entry.outside = outside
        return entry

    def remove(self, reservation: Reservation) -> None:
        """Forget a Reservation that is gone."""
        entry = self.records.find(reservation.key)
        if entry is None or entry.uid != reservation.meta.uid:
            return
        self.answers.note_stored(entry)
        if self.records.leaving.pop(entry.key, None) is None:
            self.records.drop(entry)
        self.records.effects.statuses.pop(entry.key, None)

    def acknowledge(self, written: Reservation) -> None:
        """Apply the version that a write of this process has returned, before its watch event comes."""
        entry = self.records.find(written.key)
        if entry is None or entry.uid != written.meta.uid:
            return
        known = entry.reservation
        if written.meta.version > known.meta.version:  # otherwise the watch was faster
            meta = replace_meta(known.meta, resource_version=written.meta.resource_version)
            entry.reservation = replace(known, meta=meta, status=written.status)
            self.groups.update(entry)
            self.nominations.note_plan(entry)
            self.answers.note_stored(entry)

    def await_removal(self, key: Key) -> None:
        """Schedule the removal of the object of a reservation that has ended.

        The removal was due before if the clock has been set back since.
        """
        entry = self.entries.get(key)
        if entry is not None and entry.phase in SETTLED and not entry.deleted:
            self.records.due.update(entry)

    def note_deletion(self, entry: ReservationInfo) -> None:
        """Note that the API server has accepted the deletion of a reservation. The watch will confirm it."""
        if entry.reservation.meta.deletion_timestamp is None:  # otherwise the watch was faster
            entry.deleted = True

    def note_start(self, entry: ReservationInfo, *, unacknowledged: bool) -> None:
        """Note whether the status of a schedule still has to show that a window of it has begun.

        The reservation of the window stays until the status does.
        """
        was, entry.start_unacknowledged = entry.start_unacknowledged, unacknowledged
        if was and not unacknowledged:
            self.await_removal(entry.key)

    def _terminate(self, entry: ReservationInfo, reservation: Reservation, now: float) -> None:
        """Free the capacity of a reservation that is being deleted. Its status shows that meanwhile."""
        if self.entries.get(entry.key) is entry:
            self.records.drop(entry)
        entry.reservation = reservation
        # The end of a reservation is reported once, whatever generation the deletion has made.
        entry.deleted = entry.phase in SETTLED and reservation.status.get("phase") == entry.phase
        entry.terminate(now)
        self.records.leaving[entry.key] = entry
        self.records.publish(entry.key)

    # Time.

    def forecast(self, now: float) -> Forecast:
        """Return a forecast of free capacity, at most a second old. One of 1,000 reservations takes 2 ms."""
        if self._forecast is None or not self._forecast.is_of(now):
            self._forecast = Forecast(self._columns, self.holdings, now)
        return self._forecast

    def next_deadline(self) -> float | None:
        """Return the earliest instant at which `advance` has work, or 0 if it has work now."""
        at_once = (
            self._choices.undecided
            or self.waiting_reservations.extendable
            or self.holdings.visited
            or self.groups.unsettled
        )
        if at_once:
            return 0.0
        positions_due = self.queue_positions.due
        if positions_due is not None:
            positions_due = max(positions_due, self.waiting_reservations.steady.instant(self._positions_from))
        return earliest(
            self.records.due.next(),
            positions_due,
            self._settlement.next_due(),
            self.recovery.next_due(),
            self.answers.next_lapse(),
        )

    def advance(self, now: float) -> bool:
        """Do everything that is due: expiries, deadlines, moves and removals, in the order of their instants.

        Returns:
            whether no more is due. Of many due reservations only the first are handled.

        """
        self.waiting_reservations.steady.at(now)
        self._follow_clock()
        due = self.next_deadline()
        if due is None or due > now:
            return True
        self.recovery.rebuild_due(now)
        for entry in self.answers.lapsed(now):
            self.recovery.run_due(entry, now, partial(self.answers.withdraw, entry.uid))
        for entry in self._choices.take_undecided():
            self.recovery.run_due(entry, now, partial(self._choices.decide, entry, now))
        for entry in self.waiting_reservations.extendable.take():
            self.recovery.run_due(entry, now, partial(self._extend_lifetime, entry))
        for key in self.holdings.visited.take():
            if (visited_entry := self.entries.get(key)) is not None:
                self.recovery.run_due(visited_entry, now, partial(self._occupancy.report, visited_entry, now))
        for key in islice(self.records.due.pop_due(now), _DUE_A_STEP):
            if (due_now := self.entries.get(key)) is not None:
                self.recovery.note_fault(key, None)
                self.recovery.run_due(due_now, now, partial(self._do_due, due_now, now))
        self._settlement.settle_all(now)
        self._renew_positions(now)
        left = self.records.due.next()
        return left is None or left > now

    def _do_due(self, entry: ReservationInfo, now: float) -> None:
        """Do the first thing that is due for a reservation. It is due again for the next one."""
        if entry.phase in SETTLED:
            self.records.publish(entry.key)  # its object may be removed
        elif self._endings.expire_if_over(entry, now):
            return
        elif entry.lease is not None and entry.lease.due <= now:
            self._endings.lapse(entry, now)
        elif (begins_at := lifetime.begins_at(entry)) is not None and begins_at <= now:
            self.opened.add(entry)
            self.placement.open_window(entry, now)
        elif entry.phase is Phase.PENDING:
            self._endings.give_up(entry, now)
        else:
            self.placement.leave_node(entry)

    def _extend_lifetime(self, entry: ReservationInfo) -> None:
        self.admission.renew_expiry(entry)
        self.records.commit(entry)

    def _renew_positions(self, now: float) -> None:
        if self.waiting_reservations.steady.last >= self._positions_from:
            with Attempt(partial(self.recovery.on_failure, "places", "", ObjectMeta("places"))) as attempt:
                self.queue_positions.renew(now)
            self._positions_from = self.waiting_reservations.steady.last + attempt.pause

    def _follow_clock(self) -> None:
        """Keep the time until reservations leave bad nodes the same when the clock has been set back."""
        steady = self.waiting_reservations.steady
        lost, self._ahead = steady.ahead - self._ahead, steady.ahead
        for entry in self.entries.values() if lost else ():
            if entry.move_at is not None:
                entry.move_at -= lost
                self.records.due.update(entry)


def _same_version(known: Reservation, reservation: Reservation) -> bool:
    return (
        known.meta.version == reservation.meta.version
        and known.meta.generation == reservation.meta.generation
        and known.status == reservation.status
    )
