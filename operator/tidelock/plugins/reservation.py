"""Reservation: locked room is nobody's but its owner's.

A pod fits a node if its requests are at most allocatable - requested - what locks hold there, its own locks
left out. An owner goes to the node of its lock if it can; one that is annotated with
`tidelock.dev/require-reservation: "true"` goes nowhere else. Once it is reserved, its locks are released.
"""

from typing import Any

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Filter,
    Handle,
    Mask,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.ownlocks import OwnLocks
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS, Resources, format_quantity

_NO_OWN_LOCK = "node(s) without the reservation that the pod requires"
_NAMED_LOCKS = 3


class Reservation(PreFilter, Filter, PreScore, Score, Reserve):
    """Holds locked room free for its owners."""

    name = "Reservation"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take `ignoredResources`, of which extenders keep count."""
        others = dict(args)
        self._ignored = frozenset(others.pop("ignoredResources", ()))
        super().__init__(handle, others)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the pod's own locks; skip the pod if nobody holds room and it does not ask for that."""
        book = self.handle.book
        if state.read(OwnLocks) is None:
            state.write(OwnLocks(tuple(book.own(pod))))
        return SUCCESS if book.holds_room or pod.requires_reservation else SKIP

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes with enough room that is not locked for others."""
        wanted = snapshot.vector(self._counted(pod))
        mask = snapshot.free_for(wanted, beside_locks=True)
        own = self._rows_of_own(state, snapshot)
        for row in own:
            mask[row] = ((self._free(state, snapshot, row) >= wanted) | (wanted == 0)).all()
        if pod.requires_reservation:
            mask[np.setdiff1d(np.arange(len(snapshot)), own)] = False
        return mask

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name every resource that locks leave too little of."""
        if pod.requires_reservation and row not in self._rows_of_own(state, snapshot):
            return (_NO_OWN_LOCK,)
        return tuple(
            f"{'Too many pods' if resource == PODS else f'Insufficient {resource}'} beside reservations"
            for resource in self._shortages(state, pod, snapshot, row)
        )

    def resolvable(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Evictions give room, but never the reservation that the pod requires."""
        return not pod.requires_reservation or row in self._rows_of_own(state, snapshot)

    def numbers(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Say of every resource that is short how much is needed, free and locked, and by whom."""
        texts = []
        own = state.expect(OwnLocks).entries
        for resource, (needed, free) in self._shortages(state, pod, snapshot, row).items():
            lockers = [
                entry
                for entry in self.handle.book.held_on(snapshot.nodes[row].name)
                if entry.held.get(resource) and entry not in own
            ]
            locked = sum(entry.held[resource] for entry in lockers)
            names = ", ".join(str(entry.key) for entry in lockers[:_NAMED_LOCKS])
            more = f" and {len(lockers) - _NAMED_LOCKS} more" if len(lockers) > _NAMED_LOCKS else ""
            amount = {
                name: format_quantity(resource, units)
                for name, units in (("needed", needed), ("free", free), ("locked", locked))
            }
            texts.append(
                f"{resource} {amount['needed']} needed, {amount['free']} free, "
                f"{amount['locked']} locked by {names}{more}"
            )
        return ", ".join(texts)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods without a lock that holds room."""
        return SUCCESS if any(entry.held for entry in state.expect(OwnLocks).entries) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 100 for nodes where the pod has a lock, 0 for all others."""
        mine = np.zeros(len(snapshot))
        mine[self._rows_of_own(state, snapshot)] = MAX_NODE_SCORE
        return mine[rows]

    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Release the pod's locks, on whichever node it was reserved."""
        self.handle.book.claim(pod, node_name, now)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Take the locks back."""
        self.handle.book.unclaim(pod.uid, now)

    def _counted(self, pod: Pod) -> Resources:
        """Give what the pod requests of resources that are counted here."""
        if not self._ignored:
            return pod.requests
        return {name: units for name, units in pod.requests.items() if name not in self._ignored}

    def _rows_of_own(self, state: CycleState, snapshot: Snapshot) -> list[int]:
        held = (entry for entry in state.expect(OwnLocks).entries if entry.held)
        return [row for entry in held if (row := snapshot.position(entry.node)) is not None]

    def _free(self, state: CycleState, snapshot: Snapshot, row: int) -> Amounts:
        """Room of a node that is neither used nor locked for others, as a row of R."""
        free: Amounts = snapshot.allocatable[row] - snapshot.requested[row] - snapshot.locked[row]
        for entry in state.expect(OwnLocks).entries:
            if entry.held and snapshot.position(entry.node) == row:
                free = free + snapshot.vector(entry.held)
        return free

    def _shortages(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int
    ) -> dict[str, tuple[int, int]]:
        """Map each resource that is short to (needed, free)."""
        amounts = self._free(state, snapshot, row)
        wanted = self._counted(pod)
        free: Resources = {resource: int(amounts[snapshot.column(resource)]) for resource in wanted}
        return {
            resource: (needed, free[resource])
            for resource, needed in wanted.items()
            if needed > 0 and free[resource] < needed
        }
