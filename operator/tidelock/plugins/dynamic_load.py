"""DynamicLoad: nodes with low recent, hourly and daily peaks come first, hot ones later (crane-scheduler).

A node scores the weighted mean of 100 * (1 - use) over six metrics, less 10 points for each unit of its hot
value: the sum of floor(pods bound within a period / count). Nodes above a limit of any metric are rejected.
A metric counts until its period and five more minutes have passed since it was taken. Otherwise it neither
scores nor rejects. Metrics are those of crane's annotations, or otherwise of
`tidelock.dev/water-level`: the mean of 15 minutes for that of five, the highest use of the hour and the day.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import LevelArray, NodeColumns
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
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import (
    CRANE_METRICS,
    NODE_LEVEL,
    CraneMetric,
    CraneReading,
    Measured,
    NodeLevel,
    WindowName,
    decode_crane,
    decode_node_level,
)

_FULL = 100.0
_MORE_SECONDS = 300.0
_POINTS_A_UNIT = 10.0

_Own = tuple[WindowName, Measured, str]
_OWN: dict[CraneMetric, _Own] = {
    "cpu_usage_avg_5m": ("15m", "cpu", "mean"),
    "cpu_usage_max_avg_1h": ("1h", "cpu", "max"),
    "cpu_usage_max_avg_1d": ("1d", "cpu", "max"),
    "mem_usage_avg_5m": ("15m", "memory", "mean"),
    "mem_usage_max_avg_1h": ("1h", "memory", "max"),
    "mem_usage_max_avg_1d": ("1d", "memory", "max"),
}
_PERIODS = {"5m": 180.0, "1h": 900.0, "1d": 10_800.0}
_WEIGHTS = {"5m": 0.2, "1h": 0.3, "1d": 0.5}
_LIMITS = {"5m": 0.65, "1h": 0.75}

_Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _HotValue(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    time_range_seconds: _Positive
    count: Annotated[int, msgspec.Meta(ge=1)]


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    predicate: dict[CraneMetric, _Part] | None = None
    priority: dict[CraneMetric, Annotated[float, msgspec.Meta(ge=0)]] | None = None
    sync_period_seconds: dict[CraneMetric, _Positive] = {}
    hot_value: tuple[_HotValue, ...] = (_HotValue(300, 5), _HotValue(60, 2))


class CraneColumns(NodeColumns):
    """Value and time of each metric: parts of the node, and seconds; 2 x metrics."""

    def __init__(self) -> None:
        super().__init__(2 * len(CRANE_METRICS), (NODE_LEVEL, *CRANE_METRICS))

    def read(self, node: Node) -> LevelArray:
        """Read crane's annotations, and Tidelock's where there is none."""
        annotations = node.meta.annotations
        text = annotations.get(NODE_LEVEL)
        level = decode_node_level(text) if text is not None else None
        own = level if isinstance(level, NodeLevel) else None
        numbers = np.full((2, len(CRANE_METRICS)), np.nan)
        for place, metric in enumerate(CRANE_METRICS):
            reading = decode_crane(annotations[metric]) if metric in annotations else _own(own, metric)
            if isinstance(reading, CraneReading):
                numbers[:, place] = reading.value, reading.at
        return numbers.ravel()


def _own(level: NodeLevel | None, metric: CraneMetric) -> CraneReading | None:
    window, resource, statistic = _OWN[metric]
    stat = level.windows.get(window, {}).get(resource) if level is not None else None
    return CraneReading(getattr(stat, statistic) / _FULL, level.at) if stat is not None and level else None


class _ExceededLimits(ExceededLimits):
    """Use beyond a limit: metrics x N."""


class DynamicLoad(OverloadFilter, PreScore, Score, EnqueueExtensions):
    """Prefers nodes that were not busy lately and have not just got pods."""

    name = "DynamicLoad"
    found = _ExceededLimits

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take limits and weights by metric. The defaults are crane's."""
        read = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        weights = _defaults(_WEIGHTS) if read.priority is None else read.priority
        limits = _defaults(_LIMITS) if read.predicate is None else read.predicate
        periods = _defaults(_PERIODS) | read.sync_period_seconds
        if not sum(weights.values()):
            raise ValueError(f"pluginConfig of {self.name}: priority: expected a weight that is more than 0")
        self._weights = np.array([weights.get(metric, 0.0) for metric in CRANE_METRICS])
        # A limit of 0 is none, as crane has it.
        self._limits = np.array([[limits.get(metric, 0.0) or np.inf] for metric in CRANE_METRICS])
        self._lifetimes = np.array([[periods[metric] + _MORE_SECONDS] for metric in CRANE_METRICS])
        self._hot_values = read.hot_value
        self._columns = CraneColumns()
        handle.cache.add_observer(self._columns)
        self._bindings = follow_expected_use(handle, estimate=_nothing, history=False)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the nodes above a limit. Skip pods of DaemonSets, and all pods without such nodes."""
        if pod.of_daemon_set:
            return SKIP
        beyond = np.greater(self._use(state), self._limits)
        state.write(_ExceededLimits(beyond), temporary=True)
        return SUCCESS if beyond.any() else SKIP

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name the metrics."""
        beyond = self.beyond(state, snapshot, row)
        return tuple(
            metric_above_limit(metric)
            for metric, is_beyond in zip(CRANE_METRICS, beyond, strict=True)
            if is_beyond
        )

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if there is no metric that counts."""
        return SKIP if np.isnan(self._use(state)).all() else SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score the unused part, less the hot value."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        left = np.nan_to_num(1 - self._use(state), nan=0.0)
        points = np.floor(np.round(MAX_NODE_SCORE * (self._weights @ left) / self._weights.sum(), 6))
        hot = self._hot_value(state.expect(DecisionTime).now, len(snapshot))
        scores: Scores = np.clip(points - np.floor(_POINTS_A_UNIT * hot), 0, MAX_NODE_SCORE)[rows]
        return scores

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: new metrics."""
        node = Action.ADD | Action.UPDATE_NODE_ANNOTATION
        return (Registration(ClusterEvent(Resource.NODE, node)),)

    def _use(self, state: CycleState) -> LevelArray:
        """Return the metrics that count, metrics x N, and NaN for all others."""
        values, at = np.split(self._columns.values, 2)
        fresh = np.less(np.abs(state.expect(DecisionTime).now - at), self._lifetimes)
        return np.where(fresh, values, np.nan)

    def _hot_value(self, now: float, count: int) -> LevelArray:
        rows, bound_at = self._bindings.bound_at()
        hot = np.zeros(count)
        for each in self._hot_values:
            lately = rows[bound_at > now - each.time_range_seconds]
            hot += np.bincount(lately, minlength=count) // each.count
        return hot


def _defaults(by_span: dict[str, float]) -> dict[CraneMetric, float]:
    """Return the same figures for cpu and memory, by the end of their names."""
    spans: dict[CraneMetric, str] = {metric: metric.rpartition("_")[2] for metric in CRANE_METRICS}
    return {metric: by_span[span] for metric, span in spans.items() if span in by_span}


def metric_above_limit(metric: CraneMetric) -> str:
    """Return the reason for which a node is ruled out."""
    return f"node(s) with {metric} above the limit"


def _nothing(_: Pod) -> tuple[float, float]:
    return 0.0, 0.0
