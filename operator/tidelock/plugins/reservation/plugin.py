"""Reservation: only owners use reserved capacity.

A pod fits a node if its requests are at most allocatable - requested - held, without its own reservations. An
owner goes to the node of its reservation if possible. With the annotation `tidelock.dev/require-reservation:
"true"` it goes nowhere else. At Reserve it claims reservations: all that name it and, of those for any pod of
its workload, the best fit on the node.

For a pod with the annotation `tidelock.dev/borrows: "true"`, held amounts of borrowable reservations are
free. It is evicted if an owner fits nowhere because of it, whatever the priorities and preemption policies of
both.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelock.cluster.columns import NO_ROW, Amounts, Rows
from tidelock.cluster.snapshot import Snapshot, Wanted
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    SUCCESS_ALIKE,
    Code,
    Counts,
    EnqueueExtensions,
    Filter,
    FilterResult,
    Handle,
    Mask,
    PostFilter,
    PostFilterResult,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import (
    RESERVATION_FREED,
    Action,
    ClusterEvent,
    Registration,
    Resource,
)
from tidelock.framework.own_reservations import AllReservations, ClaimedReservations, OwnReservations
from tidelock.framework.plugin_args import IgnoredResources, read_args, refuse_args
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS, Resources, covers, format_quantity
from tidelock.plugins.reservation.reclaiming import reclaimed

NO_OWN_RESERVATION = "node(s) without the reservation that the pod requires"
_NAMED_RESERVATIONS = 3
_FITTING = MAX_NODE_SCORE - 1


@dataclass(frozen=True, slots=True)
class _Lendable:
    """The amounts that a borrower may use of reservations, N x R by the rows of the columns."""

    amounts: Amounts


class ReservationPlugin(
    PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, Reserve, EnqueueExtensions
):
    """Keeps reserved capacity free for its owners."""

    name = "Reservation"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the resources that NodeResourcesFit ignores, as others keep count of them."""
        self._ignored = read_args(self.name, args, IgnoredResources)
        refuse_args(self.name, self._ignored.problems())
        super().__init__(handle, {})

    def pre_enqueue(self, pod: Pod) -> Status:
        """Gate a pod that requires a reservation until one of its own is active."""
        own = self.handle.reservations.own(pod) if pod.requires_reservation else []
        if not pod.requires_reservation or any(_serves(entry, pod) for entry in own):
            return SUCCESS
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, self.handle.reservations.waiting_reasons(pod))

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the pod's own reservations. Skip the pod if nothing is held and it requires none."""
        reservations = self.handle.reservations
        own = state.read(OwnReservations)
        if own is None:
            own = OwnReservations(tuple(reservations.own(pod)))
            state.write(own)
        if not reservations.any_held and not pod.requires_reservation:
            return SKIP
        state.write(AllReservations(reservations))
        special = pod.requires_reservation or any(_serves(entry, pod) for entry in own.entries)
        if reservations.shared.lenders and pod.borrows:
            state.write(self._lendable(pod, snapshot, own))
            special = True
        return SUCCESS if special else SUCCESS_ALIKE

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes with enough capacity that is not held for others."""
        lendable = state.read(_Lendable)
        if lendable is None:
            mask = snapshot.free_for(self._wanted(pod, snapshot), beside_reservations=True)
        else:
            mask = np.ones(len(snapshot), np.bool_)
            for column, needed in self._wanted(pod, snapshot):
                free = snapshot.free(column, beside_reservations=True)
                mask &= free + lendable.amounts[snapshot.rows, column] >= needed
        own = self._rows_of_own(state, pod, snapshot)
        for row in own:
            mask[row] = not self._shortages(state, pod, snapshot, row)
        if pod.requires_reservation:
            mask[np.setdiff1d(np.arange(len(snapshot)), own)] = False
        return mask

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        own = row in self._rows_of_own(state, pod, snapshot)
        if pod.requires_reservation and not own:
            return False
        if own or state.read(_Lendable) is not None:
            return not self._shortages(state, pod, snapshot, row)
        return snapshot.has_free(self._wanted(pod, snapshot), row, beside_reservations=True)

    def capacity(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Counts:
        """Return how many times the requests are free beside all reservations."""
        return snapshot.multiples(self._wanted(pod, snapshot), beside_reservations=True)

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return every resource of which reservations leave too little."""
        if pod.requires_reservation and row not in self._rows_of_own(state, pod, snapshot):
            return (NO_OWN_RESERVATION,)
        return tuple(insufficient_beside(resource) for resource in self._shortages(state, pod, snapshot, row))

    def tally(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Counter[str]:
        """Count the nodes on which reservations leave too little of each resource."""
        beside = pod.requires_reservation or state.read(_Lendable) is not None
        if beside or self._rows_of_own(state, pod, snapshot):
            return super().tally(state, pod, snapshot, rows)
        absent = snapshot.absent(self._ignored.counted(pod.requests))
        counts = Counter({insufficient_beside(resource): len(rows) for resource in absent})
        for column, needed in self._wanted(pod, snapshot):
            if column == NO_ROW:
                continue
            free = snapshot.free(column, beside_reservations=True)
            if short := int((free[rows] < needed).sum()):
                counts[insufficient_beside(snapshot.resources[column])] = short
        return counts

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether evictions may help: they never provide a required reservation."""
        return not pod.requires_reservation or row in self._rows_of_own(state, pod, snapshot)

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the needed, free and held amounts of every missing resource, with the reservations."""
        texts = []
        own = state.expect(OwnReservations)
        for resource, (needed, free) in self._shortages(state, pod, snapshot, row).items():
            lockers = [
                entry
                for entry in self.handle.reservations.held_on(snapshot.nodes[row].name)
                if entry.held.get(resource) and entry not in own and not entry.lends_to(pod)
            ]
            reserved = sum(entry.held[resource] for entry in lockers)
            names = ", ".join(str(entry.key) for entry in lockers[:_NAMED_RESERVATIONS])
            more = (
                f" and {len(lockers) - _NAMED_RESERVATIONS} more"
                if len(lockers) > _NAMED_RESERVATIONS
                else ""
            )
            amount = {
                name: format_quantity(resource, units)
                for name, units in (("needed", needed), ("free", free), ("locked", reserved))
            }
            by = f", {amount['locked']} reserved by {names}{more}" if lockers else ""
            texts.append(shortage_text(resource, amount["needed"], amount["free"]) + by)
        return ", ".join(texts)

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult
    ) -> PostFilterResult:
        """Return the borrowers that must leave one of the pod's own reservations."""
        own = state.read(OwnReservations)
        found = reclaimed(self.handle, own, state, pod, snapshot, filter_result) if own is not None else None
        if found is not None:
            return PostFilterResult(SUCCESS, *found)
        # Evictions may suffice once a neighbouring reservation ends.
        lends = own is not None and any(entry.reservation.borrowable for entry in own.entries)
        return PostFilterResult(
            Status(Code.UNSCHEDULABLE),
            # A nomination of a pod that may not preempt was made here, and no other plugin takes it away.
            nominated_node_name=None if pod.spec.may_preempt else "",
            obstacles=frozenset({self.name} if lends else ()),
        )

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods without an own reservation with capacity."""
        return (
            SUCCESS if any(_serves(entry, pod) for entry in state.expect(OwnReservations).entries) else SKIP
        )

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 100 for nodes with an own reservation, 0 for all others.

        Reservations for any pod of the workload score 99 if they fit, and down to half of that if not.
        """
        mine = np.zeros(len(snapshot))
        for name, entries in state.expect(OwnReservations).on_node.items():
            serving = [entry for entry in entries if _serves(entry, pod)]
            row = snapshot.position(name) if serving else None
            if row is not None:
                misfit = self.handle.reservations.misfit(pod, serving, name)
                mine[row] = MAX_NODE_SCORE if misfit is None else _FITTING * (1 - min(misfit, 1) / 2)
        return mine[rows]

    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Claim the reservations that the pod takes there."""
        uids, must_name = self.handle.reservations.claim(pod, node_name, now)
        if uids or must_name:
            state.write(ClaimedReservations(tuple(uids), must_name))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Undo the claim."""
        self.handle.reservations.unclaim(pod.uid, now)

    def _wanted(self, pod: Pod, snapshot: Snapshot) -> Wanted:
        return snapshot.wanted(self._ignored.counted(pod.requests))

    def _rows_of_own(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> list[int]:
        own = state.expect(OwnReservations).on_node
        names = (name for name, entries in own.items() if any(_serves(entry, pod) for entry in entries))
        return [row for name in names if (row := snapshot.position(name)) is not None]

    def _free(self, state: CycleState, snapshot: Snapshot, row: int) -> Amounts:
        """Return the capacity of a node that is neither used nor held for others, as a row of R."""
        free: Amounts = snapshot.allocatable[row] - snapshot.requested[row] - snapshot.reserved[row]
        name = snapshot.nodes[row].name
        own = [entry for entry in state.expect(OwnReservations).on_node.get(name, ()) if entry.reserved]
        if own:
            free = free + snapshot.vector(self.handle.reservations.shared.released(own, name))
        if (lendable := state.read(_Lendable)) is not None:
            free = free + lendable.amounts[snapshot.rows][row]
        return free

    def _lendable(self, pod: Pod, snapshot: Snapshot, own: OwnReservations) -> "_Lendable":
        """Return the amounts that reservations can still lend to a pod that is not their owner."""
        amounts = np.zeros((len(self.handle.columns), len(snapshot.resources)), np.int64)
        wanted = [(snapshot.resources[column], column) for column, _ in self._wanted(pod, snapshot)]
        for entry in self.handle.reservations.shared.lenders.values():
            row = snapshot.row(entry.node)
            if row is not None and entry not in own and entry.lends_to(pod):
                for resource, column in wanted:
                    amounts[row, column] += entry.held.get(resource, 0)
        return _Lendable(amounts)

    def _shortages(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int
    ) -> dict[str, tuple[int, int]]:
        """Map each resource that is short to (needed, free)."""
        amounts = self._free(state, snapshot, row)
        wanted = self._ignored.counted(pod.requests)
        free: Resources = {resource: int(amounts[snapshot.column(resource)]) for resource in wanted}
        return {
            resource: (needed, free[resource])
            for resource, needed in wanted.items()
            if needed > 0
            and free[resource] < needed
            and not self.handle.columns.provided(resource, snapshot.nodes[row])
        }

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: own reservations, freed capacity beside others, and edits of the pod."""
        goes = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        node_grows = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        return (
            Registration(ClusterEvent(Resource.RESERVATION, Action.ACTIVE | Action.LENT), _is_owner),
            Registration(RESERVATION_FREED),
            Registration(goes),
            Registration(node_grows, self._large_enough),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE)),
        )

    def _large_enough(self, pod: Pod, _: Node | None, new: Node) -> bool:
        return covers(new.allocatable, self.handle.columns.not_provided(pod.requests, new))


def insufficient_beside(resource: str) -> str:
    """Return the reason for which a node has too little of a resource that is not reserved."""
    return f"{'Too many pods' if resource == PODS else f'Insufficient {resource}'} beside reservations"


def _serves(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a reservation has free capacity for a pod. In a reusable one others may use it."""
    capacity = entry.reserved if entry.reservation.borrowable else entry.held
    return any(units and capacity.get(name) for name, units in pod.requests.items())


def _is_owner(pod: Pod, _: ReservationInfo | None, new: ReservationInfo) -> bool:
    return is_owner(pod, new.key, new.reservation.spec)
