"""NodeResourcesBalancedAllocation: nodes with evenly used resources are preferred.

Source: kube-scheduler 1.37, plugins/noderesources/balanced_allocation.go. With s = 100 * (1 - d) of a node, d
the standard deviation of the used shares of its resources, the result is 50 + (50 + s(with pod) - s(without))
/ 2, in whole points. Held amounts count as used. The part without the pod is kept from one pod to the next.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tidelock.cluster.columns import NO_ROW, Part, Rows, amount
from tidelock.cluster.index.cached_column import CachedColumn, Values
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework import scalars
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP_ALIKE,
    SUCCESS,
    Handle,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.device_amounts import DeviceAmounts
from tidelock.framework.plugin_args import CPU_AND_MEMORY, ResourceWeight, read_args
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS

_HALF = MAX_NODE_SCORE // 2
_PAIR = 2

_Columns = tuple[int, ...]


class _Counted(NamedTuple):
    """The resources that count for a pod: their columns, and its requests.

    `provided` are their names, or empty for a resource that no device provides.
    """

    columns: _Columns
    wanted: tuple[int, ...]
    provided: tuple[str, ...]


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
        self._before: dict[_Columns, CachedColumn] = {}
        self._resources = [each for each in self._resources or CPU_AND_MEMORY if each.name != PODS]
        self._extended = any(each.extended for each in self._resources)
        self._devices = DeviceAmounts(handle)

    @property
    def scores_per_node(self) -> bool:
        """Whether no device counts: claims that change the use of devices are no change of a node."""
        return not self._extended

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods that request none of the resources, as they would all go to the same node."""
        demanding = any(pod.requests.get(resource.name) for resource in self._resources)
        return SUCCESS if demanding else SKIP_ALIKE

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score 75 for no change, more where the pod evens the node out."""
        few = len(rows) * 2 < len(snapshot)  # else it is cheaper to score all and pick
        counted, part = self._counted(pod), rows if few else slice(None)
        shares = _Shares(counted.columns, snapshot, part, np)
        if any(counted.provided):
            shares.add_devices(self._devices, counted.provided, snapshot, part)
        known = not few and isinstance(snapshot.rows, slice) and not any(counted.provided)
        before = self._known(counted.columns)[snapshot.rows] if known else shares.evenness()
        scores: Scores = gain_in_evenness(before, shares.evenness(counted.wanted), np)
        return scores if few or len(rows) == len(snapshot) else scores[rows]

    def score_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Score one node."""
        if self._extended:
            return float(self.score(state, pod, snapshot, np.array([row]))[0])
        counted = self._counted(pod)
        shares = _Shares(counted.columns, snapshot, row, scalars)
        return float(gain_in_evenness(shares.evenness(), shares.evenness(counted.wanted), scalars))

    def _counted(self, pod: Pod) -> _Counted:
        """Return the resources that count for a pod, and its requests."""
        column_of, counted = self.handle.columns.column_of, []
        for each in self._resources:
            wanted = pod.requests.get(each.name, 0)
            provided = each.name if each.extended and self._devices.provide(each.name) else ""
            if (wanted or not each.extended) and (each.name in column_of or provided):
                counted.append((column_of.get(each.name, NO_ROW), wanted, provided))
        return _Counted(*zip(*counted, strict=True)) if counted else _Counted((), (), ())

    def _known(self, columns: _Columns) -> Values:
        """Return the evenness of all nodes without the pod."""
        whole = self.handle.cache.snapshot()
        kept = self._before.get(columns)
        if kept is None:
            kept = self._before[columns] = CachedColumn(self.handle.columns)
        return kept.renewed(
            whole,
            lambda part: np.asarray(_Shares(columns, part, slice(None), np).evenness()),
            lambda row: float(_Shares(columns, whole, row, scalars).evenness()),
        )


def gain_in_evenness(before: Any, after: Any, xp: ModuleType) -> Any:
    """Score the gain in evenness."""
    return xp.floor((_HALF + after - before) / 2) + _HALF


class _Shares:
    """The used shares of resources, of some nodes with NumPy, or of one node with `scalars`."""

    def __init__(self, columns: _Columns, snapshot: Snapshot, part: Part, xp: ModuleType) -> None:
        traits, requested, reserved = snapshot.traits, snapshot.requested, snapshot.reserved
        self._taken = [amount(requested, part, each) + amount(reserved, part, each) for each in columns]
        self._holdings = [amount(traits.capacity, part, each) for each in columns]
        pair = len(columns) == _PAIR and traits.least[columns[0]] > 0 and traits.least[columns[1]] > 0
        self._rate = evenness_of_pairs if pair else _of_all
        self._xp = xp

    def add_devices(
        self, devices: DeviceAmounts, provided: Sequence[str], snapshot: Snapshot, part: slice | Rows
    ) -> None:
        """Count the devices of nodes that have nothing of a resource themselves."""
        for index, resource in enumerate(provided):
            if resource:
                amounts = self._taken[index], self._holdings[index]
                self._taken[index], self._holdings[index] = devices.added(resource, snapshot, part, *amounts)

    def evenness(self, wanted: Sequence[int] | None = None) -> Any:
        """Score from 50 to 100 how even the shares are, if so much more of each resource were taken."""
        taken = self._taken
        if wanted is not None:
            taken = [each + more for each, more in zip(taken, wanted, strict=True)]
        return self._rate(taken, self._holdings, self._xp)


def evenness_of_pairs(taken: Sequence[Any], holdings: Sequence[Any], xp: ModuleType) -> Any:
    """Score evenness of nodes that all have both of two resources."""
    spread = xp.minimum(taken[0] / holdings[0], 1.0)
    spread = spread - xp.minimum(taken[1] / holdings[1], 1.0)
    return xp.floor((1 - abs(spread) / 2) * MAX_NODE_SCORE)


def _of_all(taken: Sequence[Any], holdings: Sequence[Any], xp: ModuleType) -> Any:
    """Return the evenness. A node with only one of the resources is even."""
    return xp.floor((1 - _deviation(np.array(taken), np.array(holdings))) * MAX_NODE_SCORE)


def _deviation(taken: Scores, holdings: Scores) -> Scores:
    """Return the standard deviation of the shares of each node. Both arrays are resources x nodes.

    For one node they have no second axis. The order of operations is kube-scheduler's, so no rounding
    differs. Of two shares it is half of their difference. Resources that a node does not have do not count.
    """
    has = holdings > 0
    shares = np.where(has, np.minimum(taken / np.maximum(holdings, 1), 1.0), 0.0)
    count = np.maximum(has.sum(axis=0), 1)
    mean = sum(shares, np.zeros(shares.shape[1:])) / count
    squares = sum(np.where(has, (shares - mean) ** 2, 0.0), np.zeros(shares.shape[1:]))
    spread = np.where(has, shares, -np.inf).max(axis=0) - np.where(has, shares, np.inf).min(axis=0)
    pair = spread / 2
    return np.select([count == _PAIR, count > _PAIR], [pair, np.sqrt(squares / count)], 0.0)
