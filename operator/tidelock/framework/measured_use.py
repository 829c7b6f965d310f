"""Common parts of plugins that go by measured use."""

from collections.abc import Callable, Iterable

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.expected_use import ExpectedUse, UseEstimate
from tidelock.cluster.usage.levels import LevelArray, NodeLevels
from tidelock.framework import scalars
from tidelock.framework.api import MAX_NODE_SCORE, Handle
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.owners import Owner
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import WORKLOAD_KINDS, WorkloadKey

Level = LevelArray | float
"""One number for each of N nodes, or one for all."""

_LOSS_BEYOND = 0.5
"""Points of score for a percent of use beyond the target, where a percent below it is a point."""

_P95 = 1.6448536269514722
"""How many deviations the 95th percentile of a normal distribution is above its mean."""


def packing_score(use: LevelArray, target: Level) -> LevelArray:
    """Return scores that rise up to the target, then fall: 100 at the target, 0 for a full node.

    With u and C in percent: (100 - C) * u / C + C up to C, C * (100 - u) / (100 - C) beyond it, 0 beyond 100.
    At C = 0 the first branch is its limit at u = C, and at C = 100 the second one is never reached.
    """
    return packing_scores(((use, target, 1.0),), len(use))


def packing_scores(figures: Iterable[tuple[LevelArray, Level, Level]], count: int) -> LevelArray:
    """Return the weighted sums of `packing_score` for several figures of N nodes.

    Args:
        figures: use (N), target and weight of each. One array of use may serve for all, one after the other.
        count: N.

    """
    total = np.zeros(count)
    left, rise, within = np.empty_like(total), np.empty_like(total), np.empty_like(total)
    # The falling branch everywhere, plus the difference of the rising one where that holds: faster than to
    # choose between them. Many passes for each figure: arrays of one figure stay in the processor's cache.
    for use, target, weight in figures:
        xp = np if isinstance(target, np.ndarray) else scalars
        empty, full = target <= 0, target >= MAX_NODE_SCORE
        slope = weight * xp.where(empty, 0.0, (MAX_NODE_SCORE - target) / xp.where(empty, 1.0, target))
        start = weight * xp.where(empty, MAX_NODE_SCORE, target)
        descent = weight * xp.where(full, 0.0, target / xp.where(full, 1.0, MAX_NODE_SCORE - target))
        np.copyto(within, np.less_equal(use, target))  # floats multiply faster than truth values
        np.subtract(MAX_NODE_SCORE, use, out=left)
        np.maximum(left, 0.0, out=left)
        np.multiply(left, -slope - descent, out=rise)
        rise += start + slope * MAX_NODE_SCORE
        rise *= within
        total += rise
        left *= descent
        total += left
    return total


def constant_slope_scores(figures: Iterable[tuple[LevelArray, Level, Level]], count: int) -> LevelArray:
    """Return the weighted sums of scores by the distance from the target, for several figures of N nodes.

    A figure scores 100 at the target C. It loses a point for each percent of use below C, half a point for
    each percent beyond C, and at most 100. So the score depends on no absolute level, and no node between 0
    and 100 % has the score of another one on the same side of C.

    Args:
        figures: use (N), target and weight of each. One array of use may serve for all, one after the other.
        count: N.

    """
    best: Level = 0.0
    lost = np.zeros(count)
    loss, beyond = np.empty_like(lost), np.empty_like(lost)
    for use, target, weight in figures:
        np.subtract(target, use, out=loss)
        np.multiply(loss, -_LOSS_BEYOND, out=beyond)
        np.maximum(loss, beyond, out=loss)
        np.minimum(loss, MAX_NODE_SCORE, out=loss)
        loss *= weight
        lost += loss
        best = best + MAX_NODE_SCORE * weight
    return np.subtract(best, lost, out=lost)


def in_whole(handle: Handle, snapshot: Snapshot, rows: Rows) -> tuple[Rows, Snapshot]:
    """Return rows of a snapshot of a few nodes as rows of the columns."""
    if isinstance(snapshot.rows, slice):
        return rows, snapshot
    return snapshot.rows[rows], Snapshot.of(handle.columns)


def follow_expected_use(
    handle: Handle,
    *,
    estimate: UseEstimate,
    history: bool = True,
    measured: bool = False,
    among: Callable[[Pod], bool] | None = None,
) -> ExpectedUse:
    """Return the expected use of the pods on each node, and of the owners of its reservations.

    The arguments are those of `ExpectedUse`.
    """
    residents = ExpectedUse(
        handle.columns,
        handle.objects.replica_sets,
        handle.measurements,
        estimate=estimate,
        history=history,
        measured=measured,
        among=among,
    )

    def update(entry: ReservationInfo) -> None:
        pod = entry.held_pod if entry.held and not entry.occupants else None
        if pod is not None:
            owners = entry.reservation.spec.owners if entry.reservation.spec else ()
            residents.hold(pod, entry.node, _workload(entry.key.namespace, owners))
        else:
            residents.release(entry.uid)

    handle.cache.add_observer(residents)
    handle.reservations.on_hold(update)
    return residents


def _workload(namespace: str, owners: Iterable[Owner]) -> WorkloadKey | None:
    """Return the first workload that the owner terms of a reservation name."""
    for owner in owners:
        controller = owner.controller
        if controller is None:
            continue
        group = controller.api_version.rpartition("/")[0]
        if WORKLOAD_KINDS.get(controller.kind) == group:
            return WorkloadKey(controller.kind, namespace, controller.name)
    return None


def deviation(levels: NodeLevels) -> LevelArray:
    """Draw the standard deviation of the last 15 minutes from mean and 95th percentile: R x N, as parts."""
    spread: LevelArray = np.maximum(levels.use("p95")[0] - levels.use("mean")[0], 0.0) / _P95 / MAX_NODE_SCORE
    return spread
