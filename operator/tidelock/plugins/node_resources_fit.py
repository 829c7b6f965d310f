"""NodeResourcesFit: a node must have what the pod requests; by default emptier nodes are preferred.

Filter, the three scoring strategies and their whole-number arithmetic are those of kube-scheduler 1.37
(plugins/noderesources). Held amounts count as used in the score.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.columns import NO_ROW, Part, Rows, amount
from tidelock.cluster.snapshot import Snapshot, Wanted
from tidelock.framework import scalars
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SUCCESS,
    Counts,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreFilter,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.device_amounts import DeviceAmounts
from tidelock.framework.events import (
    ASSIGNED_POD_DELETE,
    RESERVATION_LENT,
    Action,
    ClusterEvent,
    Registration,
    Resource,
)
from tidelock.framework.function_shape import ShapePoint, scores_of, shape_problems
from tidelock.framework.plugin_args import (
    CPU_AND_MEMORY,
    IgnoredResources,
    ResourceWeight,
    read_args,
    refuse_args,
)
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.devices import DeviceClass
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY, PODS, Resources, covers, format_quantity

# The resources of which a container that asks for none weighs something, by their column in `nonzero`.
_WEIGHED = {CPU: 0, MEMORY: 1}

_LARGEST_WEIGHT = 100

# Below this a hundredfold is exact in floating point, and so is the whole part of its quotient. Arrays of
# such amounts are rated as floats, of which many are divided five times as fast.
_EXACT_BELOW = 2**46

Points = Callable[[Any, Any], Any]
"""Rates a resource from 0 to MAX_NODE_SCORE by its use, at most all of it, and its amount.

Takes arrays, or two numbers.
"""


class _Ratio(msgspec.Struct, frozen=True):
    shape: tuple[ShapePoint, ...] = ()


class _Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: tuple[ResourceWeight, ...] = ()
    requested_to_capacity_ratio: _Ratio | None = None


class _Args(IgnoredResources, frozen=True, rename="camel", kw_only=True):
    """NodeResourcesFitArgs."""

    scoring_strategy: _Strategy = _Strategy("LeastAllocated")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The pod's requests without ignored resources. `absent` are resources of no node."""

    amounts: Wanted
    absent: Resources


class NodeResourcesFit(PreFilter, Filter, Score, EnqueueExtensions):
    """Rejects nodes with too little of any requested resource, and scores by free amounts."""

    name = "NodeResourcesFit"
    per_node = True

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        self._args = read_args(self.name, args, _Args)
        refuse_args(self.name, _problems(self._args))
        super().__init__(handle, {})
        strategy = self._args.scoring_strategy
        resources = [each for each in strategy.resources or CPU_AND_MEMORY if each.name != PODS]
        self._weights = [(each, each.counts) for each in resources]
        self._extended = any(each.extended for each in resources)
        self._devices = DeviceAmounts(handle)
        self._points = _points(strategy)
        self._nothing_is_no_vote = strategy.type == "RequestedToCapacityRatio"

    @property
    def scores_per_node(self) -> bool:
        """Whether no device counts: claims that change the use of devices are no change of a node."""
        return not self._extended

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Lay out the requests."""
        requests = self._args.counted(pod.requests)
        state.write(_Wanted(snapshot.wanted(requests), snapshot.absent(requests)))
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes with enough allocatable amounts for their pods and this one."""
        return snapshot.free_for(state.expect(_Wanted).amounts, beside_reservations=False)

    def filter_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return the same for one node."""
        return snapshot.has_free(state.expect(_Wanted).amounts, row, beside_reservations=False)

    def capacity(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Counts:
        """Return how many times the requests are free. This plugin ignores held amounts."""
        return snapshot.multiples(state.expect(_Wanted).amounts, beside_reservations=False)

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name every resource that is short."""
        return tuple(
            insufficient(resource) for resource, _, _ in _shortages(state.expect(_Wanted), snapshot, row)
        )

    def tally(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Counter[str]:
        """Count the nodes on which each resource is short."""
        wanted = state.expect(_Wanted)
        counts = Counter({insufficient(resource): len(rows) for resource in wanted.absent})
        for column, needed in wanted.amounts:
            if column == NO_ROW:
                continue
            if short := int((snapshot.free(column)[rows] < needed).sum()):
                counts[insufficient(snapshot.resources[column])] = short
        return counts

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return whether an empty node of this size would suffice."""
        return all(
            resource == PODS or needed <= snapshot.allocatable[row, snapshot.column(resource)]
            for resource, needed, _ in _shortages(state.expect(_Wanted), snapshot, row)
        )

    def preemption_may_help_on(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return the same for many nodes."""
        large = np.ones(len(rows), np.bool_)
        for column, needed in state.expect(_Wanted).amounts:
            if column != snapshot.column(PODS):
                large &= needed <= snapshot.capacity(column, rows)
        return large

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the needed and free amounts of every missing resource."""
        return ", ".join(
            shortage_text(resource, format_quantity(resource, needed), format_quantity(resource, free))
            for resource, needed, free in _shortages(state.expect(_Wanted), snapshot, row)
        )

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the weighted mean over the resources that a node has, in whole points as upstream."""
        few = len(rows) * 2 < len(snapshot)  # else it is cheaper to score all and pick
        scores = self._mean(pod, snapshot, rows if few else slice(None), np)
        if np.isscalar(scores):  # no resource counts
            return np.zeros(len(rows))
        picked: Scores = scores if few or len(rows) == len(snapshot) else scores[rows]
        return picked

    def score_one(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> float:
        """Score one node."""
        if self._extended:
            return float(self.score(state, pod, snapshot, np.array([row]))[0])
        return float(self._mean(pod, snapshot, row, scalars))

    def _mean(self, pod: Pod, snapshot: Snapshot, part: Part, xp: ModuleType) -> Any:
        """Score a part of the nodes with NumPy, or one of them with `scalars`."""
        total: Any = 0.0
        weights: Any = 0
        for resource, weight in self._weights:
            rated = self._rate(resource, pod, snapshot, part, xp)
            if rated is not None:
                points, counted = rated
                total = total + (points if weight == 1 else points * weight)
                weights += counted * weight
        mean = total / xp.maximum(weights, 1)
        return xp.floor(mean + 0.5 if self._nothing_is_no_vote else mean)

    def _rate(
        self, resource: ResourceWeight, pod: Pod, snapshot: Snapshot, part: Part, xp: ModuleType
    ) -> tuple[Any, Any] | None:
        """Return the rating of one resource, and the nodes for which it counts, or None."""
        column = self.handle.columns.column_of.get(resource.name, NO_ROW)
        weighed = _WEIGHED.get(resource.name)
        provided = resource.extended and self._devices.provide(resource.name)
        if column == NO_ROW and not provided:
            return None
        if weighed is not None:
            taken, wanted = amount(snapshot.nonzero, part, weighed), pod.container_weights[weighed]
        else:
            taken, wanted = amount(snapshot.requested, part, column), pod.requests.get(resource.name, 0)
            if resource.extended and not wanted:
                return None
        traits = snapshot.traits
        exact = xp is np and traits.most[column] < _EXACT_BELOW
        capacity = amount(traits.capacity if exact else snapshot.allocatable, part, column)
        used = taken + amount(snapshot.reserved, part, column)
        if provided and not isinstance(part, int):
            used, capacity = self._devices.added(resource.name, snapshot, part, used, capacity)
        has: Any = True
        if provided or not traits.least[column]:
            has, capacity = capacity > 0, xp.maximum(capacity, 1)
        used += wanted
        points = self._points(xp.minimum(used, capacity), capacity)
        if self._nothing_is_no_vote:
            has = has & (points > 0)
        return (points, has) if has is True else (points * has, has)

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: pods that go or shrink, borrowers to evict, and nodes that are large enough."""
        node_grows = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        return (
            Registration(ASSIGNED_POD_DELETE),
            Registration(ClusterEvent(Resource.POD, Action.UPDATE_POD_SCALE_DOWN), _asks_for_less),
            Registration(node_grows, self._offers_more),
            Registration(RESERVATION_LENT, _may_reclaim),
            Registration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE), _provides_resource),
        )

    def _offers_more(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Return whether an empty node would suffice, and has more of a requested resource than before."""
        requests = self._args.counted(pod.requests)
        wanted = self.handle.columns.not_provided(requests, new)
        return covers(new.allocatable, wanted) and (
            old is None
            or len(wanted) < len(requests)
            or any(
                units > 0 and new.allocatable.get(resource, 0) > old.allocatable.get(resource, 0)
                for resource, units in wanted.items()
            )
        )


def _points(strategy: _Strategy) -> Points:
    match strategy.type:
        case "LeastAllocated":
            return lambda used, capacity: whole_percent(capacity - used, capacity)
        case "MostAllocated":
            return whole_percent
    ratio = strategy.requested_to_capacity_ratio or _Ratio()
    table = scores_of(ratio.shape)
    return lambda used, capacity: table[np.asarray(whole_percent(used, capacity), np.intp)]


def whole_percent(part: Any, whole: Any) -> Any:
    """Return amounts in whole percents, at most 100."""
    hundredfold = part * MAX_NODE_SCORE
    if isinstance(whole, np.ndarray) and whole.dtype == np.float64:
        hundredfold /= whole
        return np.floor(hundredfold, out=hundredfold)
    return hundredfold // whole


def _problems(args: _Args) -> Iterator[str]:
    """Yield the problems of args that kube-scheduler refuses."""
    yield from args.problems()
    strategy, ratio = args.scoring_strategy, args.scoring_strategy.requested_to_capacity_ratio
    for resource in strategy.resources:
        if not 1 <= resource.counts <= _LARGEST_WEIGHT:
            yield f"scoringStrategy.resources: the weight of {resource.name} is not from 1 to 100"
    if (strategy.type == "RequestedToCapacityRatio") != (ratio is not None):
        yield "requestedToCapacityRatio belongs to the strategy of that name, and is needed there"
    if ratio is not None:
        yield from shape_problems("requestedToCapacityRatio.shape", ratio.shape)


def insufficient(resource: str) -> str:
    """Return the reason for which a node has too little of a resource."""
    return "Too many pods" if resource == PODS else f"Insufficient {resource}"


def _shortages(wanted: _Wanted, snapshot: Snapshot, row: int) -> list[tuple[str, int, int]]:
    """Return (resource, needed, free) for each missing resource of a node."""
    free = snapshot.allocatable[row] - snapshot.requested[row]
    return [
        (snapshot.resources[column], needed, int(free[column]))
        for column, needed in wanted.amounts
        if free[column] < needed and column != NO_ROW and not snapshot.provided(column, row)
    ] + [(resource, needed, 0) for resource, needed in wanted.absent.items()]


def _asks_for_less(pod: Pod, old: Pod, new: Pod) -> bool:
    """Return whether it is the pod itself, or another one that frees a requested resource."""
    return new.uid == pod.uid or any(
        units > 0 and new.requests.get(resource, 0) < old.requests.get(resource, 0)
        for resource, units in pod.requests.items()
    )


def _provides_resource(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
    """Return whether a class is new for a requested resource."""
    known = old.extended_resources if old is not None else ()
    return any(pod.requests.get(each) for each in new.extended_resources if each not in known)


def _may_reclaim(pod: Pod, _: ReservationInfo | None, new: ReservationInfo) -> bool:
    """Return whether a pod owns the reservation, so its borrowers can be evicted."""
    return is_owner(pod, new.key, new.reservation.spec)
