"""Chooses the borrowers that must leave when the owner of a reservation comes.

If an owner fits nowhere because of borrowers on the node of its reservation, as few of them as possible are
evicted. Its right does not depend on priorities or preemption policies, as the capacity was its own before.
Borrowers that a PodDisruptionBudget protects are spared first, then the more important ones. It does not
matter from which reservation of the node a pod borrows: the others move up.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from tidelock.cluster.columns import Amounts
from tidelock.cluster.index.pods_by_importance import rank
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import FilterResult, Handle, Victims
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.disruptions import violating
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.whatif import WhatIf, reserved
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod


def reclaimed(
    handle: Handle,
    own: OwnReservations,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    filter_result: FilterResult,
) -> tuple[str, Victims] | None:
    """Return the node of an own reservation and its victims, or None if evictions help nowhere."""
    found = []
    for name in sorted(
        {entry.node for entry in own.entries if entry.reservation.borrowable and entry.reserved}
    ):
        if snapshot.row(name) is not None and (borrowers := handle.reservations.shared.borrowers_on(name)):
            trial = _Trial(handle, own.entries, state, pod, snapshot, filter_result, name)
            victims = trial.victims(borrowers)
            if victims is not None:
                found.append((name, victims))
    return min(found, key=_harm, default=None)


class _Trial:
    """One node without some of its borrowers, with and without the pods that are nominated there."""

    def __init__(
        self,
        handle: Handle,
        own: Sequence[ReservationInfo],
        state: CycleState,
        pod: Pod,
        snapshot: Snapshot,
        filter_result: FilterResult,
        node_name: str,
    ) -> None:
        self._handle = handle
        self._state = state
        self._pod = pod
        self._snapshot = snapshot
        self._filters = filter_result.filters
        self._name = node_name
        self._row = snapshot.row(node_name)
        self._own = [entry for entry in own if entry.node == node_name]
        rivals = filter_result.rivals.get(self._row, ()) if self._row is not None else ()
        self._worlds = [tuple[Pod, ...](), tuple(rivals)] if rivals else [tuple[Pod, ...]()]
        self._reserved = self._would_hold(self._own)

    def victims(self, borrowers: Sequence[Placed]) -> Victims | None:
        """Return the borrowers that must go, and those that are going, or None if that is not enough."""
        if not self._fits_without(borrowers):
            return None
        by_rank = sorted(borrowers, key=rank)
        guarded = violating(self._handle.objects.pod_disruption_budgets, by_rank)
        going = list(by_rank)
        for placed, _ in sorted(zip(by_rank, guarded, strict=True), key=lambda each: not each[1]):
            others = [each for each in going if each is not placed]
            if not self._is_leaving(placed) and self._fits_without(others):
                going = others
        violations = sum(
            violates for placed, violates in zip(by_rank, guarded, strict=True) if placed in going
        )
        return Victims(tuple(going), violations=violations, borrowers=True) if going else None

    def _is_leaving(self, placed: Placed) -> bool:
        return placed.pod.leaving or placed.pod.uid in self._handle.cache.evicting

    def _fits_without(self, gone: Sequence[Placed]) -> bool:
        return all(self._fits(gone, rivals) for rivals in self._worlds)

    def _fits(self, gone: Sequence[Placed], rivals: Sequence[Pod]) -> bool:
        """Return whether the pod fits without some borrowers, and beside its rivals in their reservations."""
        theirs = self._handle.reservations.nominated_on(rivals, self._name)
        locked = self._would_hold([*self._own, *theirs], {placed.pod.uid for placed in gone})
        whatif = WhatIf(self._filters, self._state, self._pod, self._snapshot, np.array([self._row]))
        taken = self._takes(rivals) - self._takes(placed.pod for placed in gone)
        width = len(self._snapshot.resources)
        # The filter ignores the held amounts of the pod's own reservations.
        taken[0, width : 2 * width] = locked - self._reserved
        whatif.shift(taken, 1)
        if whatif.follows:
            whatif.remove(0, [*gone, *reserved(each for each in theirs if each not in self._own)])
            whatif.add(0, [Placed(rival, self._name, assumed=True) for rival in rivals])
        return bool(whatif.judge().fits[0])

    def _would_hold(self, without: Collection[ReservationInfo], gone: Collection[str] = ()) -> Amounts:
        held = self._handle.reservations.shared.would_hold(self._name, without=without, gone=gone)
        return self._snapshot.vector(held)

    def _takes(self, pods: Iterable[Pod]) -> Amounts:
        """Return the sum of requests, as the one row for `WhatIf.shift`."""
        width = len(self._snapshot.resources)
        amounts = np.zeros((1, 2 * width + 2), np.int64)
        for pod in pods:
            amounts[0, :width] += self._snapshot.vector(pod.requests)
            amounts[0, 2 * width :] += pod.nonzero
        return amounts


def _harm(candidate: tuple[str, Victims]) -> tuple[int, int, int, str]:
    """Weigh evictions: violated budgets, the highest priority, their number, then the name."""
    name, victims = candidate
    return victims.violations, victims.pods[0].pod.spec.priority, len(victims.pods), name
