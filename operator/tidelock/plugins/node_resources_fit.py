"""NodeResourcesFit: a node must have what the pod requests; emptier nodes are preferred.

Filter and the LeastAllocated score are those of kube-scheduler 1.36 (plugins/noderesources/fit.go and
least_allocated.go), with locked room counted as taken in the score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SUCCESS,
    EnqueueExtensions,
    Filter,
    Mask,
    PreFilter,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY, PODS, covers, format_quantity


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The pod's requests as a row of R."""

    amounts: Amounts


class NodeResourcesFit(PreFilter, Filter, Score, EnqueueExtensions):
    """Rules out nodes with too little free of any requested resource; scores by what is left free."""

    name = "NodeResourcesFit"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Lay out the requests."""
        state.write(_Wanted(snapshot.vector(pod.requests)))
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes whose allocatable covers the requests of their pods and of this one."""
        return snapshot.free_for(state.expect(_Wanted).amounts, beside_locks=False)

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
        points = np.zeros(len(rows), np.int64)
        counted = np.zeros(len(rows), np.int64)
        for index, resource in enumerate((CPU, MEMORY)):
            column = snapshot.column(resource)
            allocatable = snapshot.allocatable[rows, column]
            taken = snapshot.nonzero[rows, index] + snapshot.locked[rows, column] + pod.nonzero[index]
            points += np.maximum(allocatable - taken, 0) * MAX_NODE_SCORE // np.maximum(allocatable, 1)
            counted += allocatable > 0
        scores: Scores = (points // np.maximum(counted, 1)).astype(np.float64)
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Hope for pods that go or ask for less, and for nodes that are large enough."""
        node_grows = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        return (
            Registration(ClusterEvent(Resource.POD, Action.DELETE)),
            Registration(ClusterEvent(Resource.POD, Action.UPDATE_POD_SCALE_DOWN), _asks_for_less),
            Registration(node_grows, _offers_more),
        )


def _asks_for_less(pod: Pod, old: Pod, new: Pod) -> bool:
    """Whether it is the pod itself, or another gives back something of what it wants."""
    return new.uid == pod.uid or any(
        units > 0 and new.requests.get(resource, 0) < old.requests.get(resource, 0)
        for resource, units in pod.requests.items()
    )


def _offers_more(pod: Pod, old: Node | None, new: Node) -> bool:
    """Whether an empty node would do, and has more than before of something that the pod wants."""
    return covers(new.allocatable, pod.requests) and (
        old is None
        or any(
            units > 0 and new.allocatable.get(resource, 0) > old.allocatable.get(resource, 0)
            for resource, units in pod.requests.items()
        )
    )


def _shortages(wanted: _Wanted, snapshot: Snapshot, row: int) -> list[tuple[str, int, int]]:
    """List (resource, needed, free) for what is short on a node."""
    free = snapshot.allocatable[row] - snapshot.requested[row]
    return [
        (snapshot.resources[column], int(needed), int(free[column]))
        for column, needed in enumerate(wanted.amounts)
        if needed > 0 and free[column] < needed
    ]
