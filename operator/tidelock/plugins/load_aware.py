"""LoadAware: nodes with the most unused capacity come first, busy ones are ruled out (Koordinator).

A pod is expected to use 85 % of the larger one of its cpu request and limit, and 70 % of memory, never more
than its limit; 250m and 200Mi if it has neither. Pods bound later than a report before the node's sample
count with that, as far as it is more than what was measured of them. A node scores the mean over resources of
what is left of its allocatable, in whole percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.levels import NEVER, RESOURCES, WINDOWS, Figures, Mask, NodeLevels
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.use_sums import Slots
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
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.levels import follow_expected_use, in_whole
from tidelock.framework.moment import Moment
from tidelock.framework.overload import Beyond, OverloadFilter, of_daemon_set
from tidelock.framework.pluginargs import read_args
from tidelock.model.levels import WindowName
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_resources
from tidelock.model.requests import lasting_use

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
    estimated_scaling_factors: dict[_Name, _Factor] = {}
    aggregated: _Aggregated = _Aggregated()


_FACTORS = {"cpu": 85, "memory": 70}
_STATISTIC = {"avg": "mean", "p95": "p95", "max": "max"}


@dataclass(frozen=True, slots=True)
class _Beyond(Beyond):
    """Use beyond a threshold, R x N, and the use."""

    percent: Figures


class LoadAware(OverloadFilter, PreScore, Score, EnqueueExtensions):
    """Prefers nodes that are least used, and rules out those above a threshold."""

    name = "LoadAware"
    found = _Beyond

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take thresholds, weights, factors, and which statistic they are held against."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        read = self._args
        if not read.resource_weights:
            raise ValueError(f"pluginConfig of {self.name}: resourceWeights: expected cpu, memory or both")
        factors = _FACTORS | read.estimated_scaling_factors
        self._factors = tuple(factors[name] / _FULL for name in RESOURCES)
        self._weights = np.array([read.resource_weights.get(name, 0) for name in RESOURCES], np.float64)
        thresholds = read.aggregated.usage_thresholds or read.usage_thresholds
        self._thresholds = np.array([[thresholds.get(name, 0) or np.inf] for name in RESOURCES])
        self._levels = NodeLevels()
        handle.cache.follow(self._levels)
        residents = follow_expected_use(handle, estimate=self._estimated, history=False, measured=True)
        self._arrivals = residents.summed(self._unreported)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the nodes above a threshold; skip if there are none, and pods of DaemonSets."""
        if of_daemon_set(pod) or not np.isfinite(self._thresholds).any():
            return SKIP
        aggregated = self._args.aggregated
        if aggregated.usage_thresholds:
            used = self._used(
                state, pod, aggregated.usage_aggregation_type, aggregated.usage_aggregated_duration
            )
        else:
            used = self._used(state, pod, "avg", WINDOWS[0])
        room = _room(snapshot)
        percent = np.where(room > 0, np.floor(_FULL * used / np.where(room > 0, room, 1.0) + 0.5), 0.0)
        beyond = np.greater(percent, self._thresholds) & ~np.isnan(used)
        state.write(_Beyond(beyond, percent))
        return SUCCESS if beyond.any() else SKIP

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name the first resource, in Koordinator's words."""
        beyond = self.beyond(state, snapshot, row)
        kind = "aggregated usage" if self._args.aggregated.usage_thresholds else "usage"
        return (f"node(s) {RESOURCES[int(np.argmax(beyond))]} {kind} exceed threshold",)

    def numbers(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Say how much would be used, and what the threshold is."""
        beyond = self.beyond(state, snapshot, row)
        percent = state.expect(_Beyond).percent[:, snapshot.rows][:, row]
        return ", ".join(
            f"{name} {percent[index]:.0f} % with the pod, threshold {self._thresholds[index, 0]:.0f} %"
            for index, name in enumerate(RESOURCES)
            if beyond[index]
        )

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if no node was measured lately."""
        return SUCCESS if self._fresh(state).any() else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score what is left unused; 0 for nodes that were not measured lately."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        aggregated = self._args.aggregated
        used = self._used(state, pod, aggregated.score_aggregation_type, aggregated.score_aggregated_duration)
        room = _room(snapshot)
        with np.errstate(invalid="ignore"):
            left = np.where((room > 0) & (used <= room), (room - np.floor(used)) / np.maximum(room, 1), 0.0)
        points = np.floor(left * MAX_NODE_SCORE)
        scores: Scores = np.floor(self._weights @ points / self._weights.sum())[rows]
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Hope for new measurements and for pods that go."""
        node = Action.ADD | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_ALLOCATABLE
        return (
            Registration(ClusterEvent(Resource.NODE, node)),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
        )

    def _fresh(self, state: CycleState) -> Mask:
        now = state.expect(Moment).now
        return self._levels.fresh(now, self._args.node_metric_expiration_seconds)

    def _used(self, state: CycleState, pod: Pod, statistic: str, window: str) -> Figures:
        """Give what is used with the pod, R x N in units; NaN where there is no fresh measurement."""
        levels = self._levels
        at = np.where(np.isfinite(levels.at), levels.at, NEVER)
        arrivals = self._arrivals.of(at, np.zeros_like(levels.capacity))[0]
        measured = levels.use(_STATISTIC[statistic])[WINDOWS.index(window)] * levels.capacity / _FULL
        wanted = np.array(self._estimated(pod))[:, np.newaxis]
        return np.where(self._fresh(state), measured + arrivals + wanted, np.nan)

    def _unreported(self, slots: Slots) -> Figures:
        """Count what is expected of pods that the sample may lack, beyond what was measured of them."""
        young = slots.bound_at > slots.sampled_at - self._args.report_interval_seconds
        own = np.where(np.isnan(slots.own), 0.0, slots.own)
        more = np.maximum(slots.expected - own, 0.0)
        return np.where(young[:, np.newaxis, np.newaxis], more, 0.0)

    def _estimated(self, pod: Pod) -> tuple[float, ...]:
        limits = lasting_use(pod.spec, lambda amounts: parse_resources(amounts.limits))
        return tuple(
            _estimate(pod.requests.get(name, 0), limits.get(name, 0), factor, default)
            for name, factor, default in zip(RESOURCES, self._factors, _DEFAULTS, strict=True)
        )


def _estimate(request: int, limit: int, factor: float, default: float) -> float:
    amount = max(request, limit)
    if not amount:
        return default
    estimate = float(int(amount * factor + 0.5))
    return min(estimate, limit) if limit else estimate


def _room(snapshot: Snapshot) -> Figures:
    columns = [snapshot.column(name) for name in RESOURCES]
    return snapshot.allocatable[:, columns].T.astype(np.float64)
