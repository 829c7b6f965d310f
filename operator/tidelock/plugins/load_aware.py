"""LoadAware: nodes with the most unused capacity come first, busy ones are rejected (Koordinator).

A pod is expected to use 85 % of the larger one of its cpu request and limit, and 70 % of memory, never more
than its limit. With neither it is 250m and 200Mi. Pods bound later than a report before the node's sample
count with that, as far as it exceeds their measured use. A node scores the mean over resources of the unused
part of its allocatable amounts, in whole percent. If production pods have thresholds of their own, those pods
are judged by the use of production pods only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.arrays import Mask
from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, NEVER, WINDOWS, LevelArray, NodeLevels
from tidelock.cluster.usage.sums import Slots, Sums
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    EnqueueExtensions,
    Handle,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.measured_use import follow_expected_use, in_whole
from tidelock.framework.overload import ExceededLimits, OverloadFilter
from tidelock.framework.plugin_args import read_args
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_resources
from tidelock.model.requests import lasting_use
from tidelock.model.usage_annotations import WindowName

_FULL = 100.0
_DEFAULTS = (250.0, 200.0 * 1024 * 1024)

_Name = Literal["cpu", "memory"]
_Statistic = Literal["avg", "p95", "max"]
_Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
_Factor = Annotated[int, msgspec.Meta(gt=0, le=1000)]
_Weight = Annotated[int, msgspec.Meta(ge=1, le=100)]


class _Aggregated(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    usage_thresholds: dict[_Name, _Percent] = {}
    usage_aggregation_type: _Statistic = "p95"
    usage_aggregated_duration: WindowName = "15m"
    score_aggregation_type: _Statistic = "avg"
    score_aggregated_duration: WindowName = "15m"


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    node_metric_expiration_seconds: Annotated[float, msgspec.Meta(gt=0)] = 180
    report_interval_seconds: Annotated[float, msgspec.Meta(ge=0)] = 60
    resource_weights: dict[_Name, _Weight] = msgspec.field(default_factory=lambda: {"cpu": 1, "memory": 1})
    usage_thresholds: dict[_Name, _Percent] = msgspec.field(default_factory=lambda: {"cpu": 65, "memory": 95})
    prod_usage_thresholds: dict[_Name, _Percent] = {}
    score_according_prod_usage: bool = False
    estimated_scaling_factors: dict[_Name, _Factor] = {}
    aggregated: _Aggregated = _Aggregated()


_FACTORS = {"cpu": 85, "memory": 70}
_STATISTIC = {"avg": "mean", "p95": "p95", "max": "max"}

_PRIORITY_CLASS = "koordinator.sh/priority-class"
_QOS_CLASS = "koordinator.sh/qosClass"
_PRODUCTION = "koord-prod"
_PRIORITIES = {
    _PRODUCTION: range(9000, 10_000),
    "koord-mid": range(7000, 8000),
    "koord-batch": range(5000, 6000),
    "koord-free": range(3000, 4000),
}
_OF_PRODUCTION = {"LSE": True, "LSR": True, "LS": True, "SYSTEM": True, "BE": False}


@dataclass(frozen=True, slots=True)
class _ExceededLimits(ExceededLimits):
    """Use beyond a threshold, R x N, with the use, the thresholds (R), and their kind."""

    percent: LevelArray
    thresholds: Sequence[float]
    kind: str


class LoadAware(OverloadFilter, PreScore, Score, EnqueueExtensions):
    """Prefers nodes that are least used, and rules out those above a threshold."""

    name = "LoadAware"
    found = _ExceededLimits

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take thresholds, weights, factors, and which statistic they are held against."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        read = self._args
        if not read.resource_weights:
            raise ValueError(f"pluginConfig of {self.name}: resourceWeights: expected cpu, memory or both")
        factors = _FACTORS | read.estimated_scaling_factors
        self._factors = tuple(factors[name] / _FULL for name in MEASURED_RESOURCES)
        self._weights = np.array(
            [read.resource_weights.get(name, 0) for name in MEASURED_RESOURCES], np.float64
        )
        self._thresholds = _by_resource(read.aggregated.usage_thresholds or read.usage_thresholds)
        self._prod_thresholds = _by_resource(read.prod_usage_thresholds)
        self._levels = NodeLevels()
        handle.cache.add_observer(self._levels)
        residents = follow_expected_use(handle, estimate=self._estimated, history=False, measured=True)
        self._arrivals = residents.summed(self._unreported)
        self._production: Sums | None = None
        if np.isfinite(self._prod_thresholds).any() or read.score_according_prod_usage:
            production = follow_expected_use(
                handle, estimate=self._estimated, history=False, measured=True, among=_is_production
            )
            self._production = production.summed(self._of_production)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the nodes above a threshold. Skip pods of DaemonSets, and all pods without such nodes."""
        of_production = bool(np.isfinite(self._prod_thresholds).any()) and _is_production(pod)
        thresholds = self._prod_thresholds if of_production else self._thresholds
        if pod.of_daemon_set or not np.isfinite(thresholds).any():
            return SKIP
        aggregated = self._args.aggregated
        kind = "usage"
        if of_production:
            used = self._used_by_production(state, pod)
        elif aggregated.usage_thresholds:
            kind = "aggregated usage"
            used = self._used(
                state, pod, aggregated.usage_aggregation_type, aggregated.usage_aggregated_duration
            )
        else:
            used = self._used(state, pod, "avg", WINDOWS[0])
        capacity = _capacity(snapshot)
        percent = np.where(
            capacity > 0, np.floor(_FULL * used / np.where(capacity > 0, capacity, 1.0) + 0.5), 0.0
        )
        beyond = np.greater(percent, thresholds[:, np.newaxis]) & ~np.isnan(used)
        state.write(_ExceededLimits(beyond, percent, thresholds.tolist(), kind), temporary=True)
        return SUCCESS if beyond.any() else SKIP

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name the first resource, in Koordinator's words."""
        beyond = self.beyond(state, snapshot, row)
        kind = state.expect(_ExceededLimits).kind
        return (above_threshold(MEASURED_RESOURCES[int(np.argmax(beyond))], kind),)

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the expected use and the threshold."""
        beyond = self.beyond(state, snapshot, row)
        found = state.expect(_ExceededLimits)
        percent = found.percent[:, snapshot.rows][:, row]
        return ", ".join(
            f"{name} {percent[index]:.0f} % with the pod, threshold {found.thresholds[index]:.0f} %"
            for index, name in enumerate(MEASURED_RESOURCES)
            if beyond[index]
        )

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if no node was measured lately."""
        return SUCCESS if self._fresh(state).any() else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the unused part, or 0 for nodes without a fresh measurement."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        aggregated = self._args.aggregated
        if self._args.score_according_prod_usage and _is_production(pod):
            used = self._used_by_production(state, pod)
        else:
            used = self._used(
                state, pod, aggregated.score_aggregation_type, aggregated.score_aggregated_duration
            )
        capacity = _capacity(snapshot)
        with np.errstate(invalid="ignore"):
            left = np.where(
                (capacity > 0) & (used <= capacity),
                (capacity - np.floor(used)) / np.maximum(capacity, 1),
                0.0,
            )
        points = np.floor(left * MAX_NODE_SCORE)
        scores: Scores = np.floor(self._weights @ points / self._weights.sum())[rows]
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: new measurements, and pods that go."""
        node = Action.ADD | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_ALLOCATABLE
        return (
            Registration(ClusterEvent(Resource.NODE, node)),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
        )

    def _fresh(self, state: CycleState) -> Mask:
        now = state.expect(DecisionTime).now
        return self._levels.fresh(now, self._args.node_metric_expiration_seconds)

    def _used(self, state: CycleState, pod: Pod, statistic: str, window: str) -> LevelArray:
        """Return the use with the pod, R x N in units, or NaN without a fresh measurement."""
        levels = self._levels
        measured = levels.use(_STATISTIC[statistic])[WINDOWS.index(window)] * levels.capacity / _FULL
        return self._with(pod, measured + self._summed(self._arrivals), state)

    def _used_by_production(self, state: CycleState, pod: Pod) -> LevelArray:
        """Return the use of production pods with this one, R x N in units, or NaN as above."""
        if self._production is None:
            raise LookupError("the use of production pods is not kept")
        return self._with(pod, self._summed(self._production), state)

    def _with(self, pod: Pod, used: LevelArray, state: CycleState) -> LevelArray:
        wanted = np.array(self._estimated(pod))[:, np.newaxis]
        return np.where(self._fresh(state), used + wanted, np.nan)

    def _summed(self, sums: Sums) -> LevelArray:
        """Return the sums of the shortest window, R x N in units."""
        levels = self._levels
        at = np.where(np.isfinite(levels.at), levels.at, NEVER)
        summed: LevelArray = sums.of(at, np.zeros_like(levels.capacity))[0]
        return summed

    def _unreported(self, slots: Slots) -> LevelArray:
        """Count the expected use of pods that the sample may lack, beyond their measured use."""
        own = np.where(np.isnan(slots.own), 0.0, slots.own)
        more = np.maximum(slots.expected - own, 0.0)
        return np.where(self._young(slots), more, 0.0)

    def _of_production(self, slots: Slots) -> LevelArray:
        """Count the measured use of pods, or the expected one if that is more or nothing was measured."""
        most = np.fmax(slots.own, slots.expected)
        return np.where(self._young(slots) | np.isnan(slots.own), most, slots.own)

    def _young(self, slots: Slots) -> Mask:
        """Return the pods that the sample may lack: S x 1 x 1."""
        young = slots.bound_at > slots.sampled_at - self._args.report_interval_seconds
        return young[:, np.newaxis, np.newaxis]

    def _estimated(self, pod: Pod) -> tuple[float, ...]:
        limits = _limits(pod)
        return tuple(
            _estimate(pod.requests.get(name, 0), limits.get(name, 0), factor, default)
            for name, factor, default in zip(MEASURED_RESOURCES, self._factors, _DEFAULTS, strict=True)
        )


def _is_production(pod: Pod) -> bool:
    """Return whether a pod is of production for Koordinator: by label, priority, or QoS class."""
    labels, priority = pod.meta.labels, pod.spec.priority
    named = labels.get(_PRIORITY_CLASS)
    if named is None:
        named = next((name for name, values in _PRIORITIES.items() if priority in values), None)
    if named in _PRIORITIES:
        return named == _PRODUCTION
    limits = _limits(pod)
    best_effort = not any(pod.requests.get(name) or limits.get(name) for name in MEASURED_RESOURCES)
    return _OF_PRODUCTION.get(labels.get(_QOS_CLASS, ""), not best_effort)


def _limits(pod: Pod) -> dict[str, int]:
    return lasting_use(pod.spec, lambda amounts: parse_resources(amounts.limits))


def _by_resource(percent: Mapping[_Name, int]) -> LevelArray:
    """Return thresholds by resource. A missing one is infinite."""
    return np.array([percent.get(name, 0) or np.inf for name in MEASURED_RESOURCES])


def _estimate(request: int, limit: int, factor: float, default: float) -> float:
    amount = max(request, limit)
    if not amount:
        return default
    estimate = float(int(amount * factor + 0.5))
    return min(estimate, limit) if limit else estimate


def _capacity(snapshot: Snapshot) -> LevelArray:
    columns = [snapshot.column(name) for name in MEASURED_RESOURCES]
    return snapshot.allocatable[:, columns].T.astype(np.float64)


def above_threshold(resource: str, kind: str) -> str:
    """Return the reason for which a node is ruled out, in Koordinator's words."""
    return f"node(s) {resource} {kind} exceed threshold"
