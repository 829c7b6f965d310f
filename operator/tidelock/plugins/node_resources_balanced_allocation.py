"""NodeResourcesBalancedAllocation: nodes whose resources fill up evenly are preferred.

Source: kube-scheduler 1.36, plugins/noderesources/balanced_allocation.go: with s = 100 * (1 - d) of a node,
d the standard deviation of the shares of its resources that are taken, the result is
50 + (50 + s(with pod) - s(without)) / 2, in whole points. Locked room counts as taken.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from tidelock.cluster.columns import Part, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework import scalars
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Handle,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.pluginargs import CPU_AND_MEMORY, ResourceWeight, read_args
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS

_HALF = MAX_NODE_SCORE // 2
_PAIR = 2


class _Args(msgspec.Struct, frozen=True):
    """NodeResourcesBalancedAllocationArgs."""

    resources: tuple[ResourceWeight, ...] = ()


class NodeResourcesBalancedAllocation(PreScore, Score):
    """Scores by how even the shares of cpu and memory are with the pod, against without it."""

    name = "NodeResourcesBalancedAllocation"
    per_node = True

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        self._resources: Sequence[ResourceWeight] = read_args(self.name, args, _Args).resources
        names = [resource.name for resource in self._resources]
        if len(set(names)) < len(names) or any(resource.counts != 1 for resource in self._resources):
            raise ValueError(f"pluginConfig of {self.name}: resources must differ and have weight 1")
        super().__init__(handle, {})
        self._resources = [each for each in self._resources or CPU_AND_MEMORY if each.name != PODS]

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods that request none of the resources, as they would all go to the same node."""
        return SUCCESS if any(pod.requests.get(resource.name) for resource in self._resources) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 75 for no change, more where the pod evens the node out."""
        few = len(rows) * 2 < len(snapshot)  # else it is cheaper to score all and pick
        scores: Scores = self._gain(pod, snapshot, rows if few else slice(None), np)
        return scores if few or len(rows) == len(snapshot) else scores[rows]

    def rate(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Score one node."""
        return float(self._gain(pod, snapshot, row, scalars))

    def _gain(self, pod: Pod, snapshot: Snapshot, part: Part, xp: ModuleType) -> Any:
        """Score a part of the nodes with NumPy, or one of them with `scalars`."""
        before, after, rooms = [], [], []
        everywhere = True
        for resource in self._resources:
            column = self.handle.columns.column_of.get(resource.name)
            wanted = pod.requests.get(resource.name, 0)
            if column is None or (resource.extended and not wanted):
                continue
            # As floats, which divide faster: amounts are exact in them up to CEILING.
            taken = (snapshot.requested[part, column] + snapshot.locked[part, column]) * 1.0
            before.append(taken)
            after.append(taken + wanted)
            rooms.append(snapshot.allocatable[part, column] * 1.0)
            everywhere = everywhere and snapshot.traits.least[column] > 0
        evenness = _of_pairs if everywhere and len(rooms) == _PAIR else _of_all
        return xp.floor((_HALF + evenness(after, rooms, xp) - evenness(before, rooms, xp)) / 2) + _HALF


def _of_pairs(taken: Sequence[Any], rooms: Sequence[Any], xp: ModuleType) -> Any:
    """Score evenness from 50 to 100 of nodes that all have both of two resources."""
    first, second = xp.minimum(taken[0] / rooms[0], 1.0), xp.minimum(taken[1] / rooms[1], 1.0)
    return xp.floor((1 - abs(first - second) / 2) * MAX_NODE_SCORE)


def _of_all(taken: Sequence[Any], rooms: Sequence[Any], xp: ModuleType) -> Any:
    """Score evenness from 50 to 100; a node with only one of the resources is even."""
    return xp.floor((1 - _deviation(np.array(taken), np.array(rooms))) * MAX_NODE_SCORE)


def _deviation(taken: Scores, rooms: Scores) -> Scores:
    """Give the standard deviation of the shares of each node; both arrays are resources x nodes.

    For one node they have no second axis. The order of operations is upstream's, so that no rounding differs;
    of two shares it is half of what they differ by. A node's resources of which it has nothing do not count.
    """
    has = rooms > 0
    shares = np.where(has, np.minimum(taken / np.maximum(rooms, 1), 1.0), 0.0)
    count = np.maximum(has.sum(axis=0), 1)
    mean = sum(shares, np.zeros(shares.shape[1:])) / count
    squares = sum(np.where(has, (shares - mean) ** 2, 0.0), np.zeros(shares.shape[1:]))
    spread = np.where(has, shares, -np.inf).max(axis=0) - np.where(has, shares, np.inf).min(axis=0)
    pair = spread / 2
    return np.select([count == _PAIR, count > _PAIR], [pair, np.sqrt(squares / count)], 0.0)
