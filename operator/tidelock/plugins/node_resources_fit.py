"""NodeResourcesFit: a node must have what the pod requests; emptier nodes are preferred.

Filter and the LeastAllocated score are those of kube-scheduler 1.36 (plugins/noderesources/fit.go and
least_allocated.go), with locked room counted as taken in the score.
"""

from dataclasses import dataclass

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, SUCCESS, Filter, Mask, PreFilter, Score, Scores, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY, PODS, format_quantity


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The columns of which the pod requests anything, and how much."""

    columns: Rows
    amounts: Amounts


class NodeResourcesFit(PreFilter, Filter, Score):
    """Rules out nodes with too little free of any requested resource; scores by what is left free."""

    name = "NodeResourcesFit"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Lay out the requests; resources of which nothing is requested are not looked at."""
        amounts = snapshot.vector(pod.requests)
        columns = np.flatnonzero(amounts > 0)
        state.write(_Wanted(columns, amounts[columns]))
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes whose allocatable covers the requests of their pods and of this one."""
        wanted = state.expect(_Wanted)
        free = snapshot.allocatable[:, wanted.columns] - snapshot.requested[:, wanted.columns]
        mask: Mask = np.all(free >= wanted.amounts, axis=1)
        return mask

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name every resource that is short."""
        return tuple(
            "Too many pods" if resource == PODS else f"Insufficient {resource}"
            for resource, _, _ in _shortages(state.expect(_Wanted), snapshot, row)
        )

    def numbers(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Say of every resource that is short how much is needed and free."""
        return ", ".join(
            f"{resource} {format_quantity(resource, needed)} needed, {format_quantity(resource, free)} free"
            for resource, needed, free in _shortages(state.expect(_Wanted), snapshot, row)
        )

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the mean share of cpu and memory that stays free, each in whole points as upstream."""
        allocatable = snapshot.pick(snapshot.allocatable, rows, CPU, MEMORY)
        locked = snapshot.pick(snapshot.locked, rows, CPU, MEMORY)
        taken = snapshot.nonzero[rows] + locked + np.array(pod.nonzero)
        points = (allocatable - taken).clip(0) * MAX_NODE_SCORE // np.maximum(allocatable, 1)
        counted = (allocatable > 0).sum(axis=1)
        scores: Scores = (points.sum(axis=1) // np.maximum(counted, 1)).astype(np.float64)
        return scores


def _shortages(wanted: _Wanted, snapshot: Snapshot, row: int) -> list[tuple[str, int, int]]:
    """List (resource, needed, free) for what is short on a node."""
    free = snapshot.allocatable[row] - snapshot.requested[row]
    return [
        (snapshot.resources[column], int(needed), int(free[column]))
        for column, needed in zip(wanted.columns, wanted.amounts, strict=True)
        if free[column] < needed
    ]
