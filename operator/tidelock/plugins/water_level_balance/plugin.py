"""WaterLevelBalance: new pods go where they bring the measured use of nodes towards a target level.

A node's level is the sum of its pods' own measured use (mode PodSums), or its measured use plus the expected
use of pods that the measurement does not cover yet (NodeWindows). With u the level with the pod and C the
target, both in percent, a node scores 100 - (C - u) up to C, and 100 - (u - C) / 2 beyond it. That is the
scoring ConstantSlopes. TargetLoadPacking is the rule of Trimaran's plugin of this name. The score is the mean
over windows and resources by their weights, or as `combination` says. The dynamic target of a group of nodes
is (mean + w * min) / (1 + w). A node without a fresh measurement counts as using the same part of its
requests as the measured nodes. If none is fresh, nodes are scored by requests only.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.expected_use import ExpectedUse
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, LevelArray, NodeLevels
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
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.plugin_args import quantity_of, read_args
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import NODE_LEVEL, Unreadable, WindowName, decode_node_level
from tidelock.plugins.water_level_balance.scoring import Combination, LevelScoring, Scoring, weighed
from tidelock.plugins.water_level_balance.usage_levels import UsageLevelCache, UsageLevels, requested
from tidelock.plugins.water_level_balance.usage_policies import (
    UNLIMITED,
    Grouping,
    UsagePolicies,
    UsagePolicy,
    window_shares,
)

logger = logging.getLogger(__name__)

_DIGITS = 6

_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Limit = Annotated[float, msgspec.Meta(ge=1, le=100)]
_Weight = Annotated[float, msgspec.Meta(ge=0, le=100)]


class _Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    duration: WindowName
    weight: Annotated[int, msgspec.Meta(ge=1, le=100)]


class _Target(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    mode: Literal["Static", "Dynamic"] = "Dynamic"
    percent: _Percent | None = None
    min_weight: _Weight | None = None


class _Limits(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    cpu_percent: _Limit = UNLIMITED
    memory_percent: _Limit = UNLIMITED


class _Estimation(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    default_cpu: str = msgspec.field(default="250m", name="defaultCPU")
    default_memory: str = "200Mi"


class _ResourceShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Literal["cpu", "memory"]
    weight: _Weight = 1


class WaterLevelBalanceArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of the plugin."""

    mode: Literal["NodeWindows", "PodSums"] = "PodSums"
    scoring: Scoring = "ConstantSlopes"
    combination: Combination = "Mean"
    resources: tuple[_ResourceShare, ...] = (_ResourceShare("cpu"), _ResourceShare("memory"))
    windows: tuple[_Window, ...] = (_Window("15m", 1), _Window("1h", 1), _Window("1d", 1))
    target: _Target = _Target(min_weight=1)
    overload_limits: _Limits = _Limits()
    staleness_seconds: Annotated[float, msgspec.Meta(gt=0)] = 900
    pod_estimation: _Estimation = _Estimation()
    mature_seconds: Annotated[float, msgspec.Meta(gt=0)] = 1800
    guard: bool = True
    history: bool = True


class _ExceededLimits(ExceededLimits):
    """Use beyond a limit: R x N."""


class WaterLevelBalance(OverloadFilter, PreScore, Score, EnqueueExtensions):
    """Levels nodes by their measured use, and rules out those beyond a limit."""

    name = "WaterLevelBalance"
    found = _ExceededLimits

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the settings of nodes without a WaterLevel, and the mode of levels."""
        read = read_args(self.name, args, WaterLevelBalanceArgs)
        super().__init__(handle, {})
        problem = next(_problems(read), "")
        if problem:
            raise ValueError(f"pluginConfig of {self.name}: {problem}")
        shares = {each.name: each.weight for each in read.resources}
        self._shares = [shares.get(name, 0.0) / sum(shares.values()) for name in MEASURED_RESOURCES]
        self._scoring = LevelScoring(read.scoring, read.combination, self._shares)
        self._groups = UsagePolicies(handle.objects.water_levels, _policy(self.name, read))
        self._levels = NodeLevels()
        handle.cache.add_observer(self._levels)
        self._level_cache = UsageLevelCache(
            self._levels,
            handle.measurements,
            partial(self._follow, history=read.history, measured=read.mode == "PodSums"),
            of_pods=read.mode == "PodSums",
            guard=read.guard,
            mature=read.mature_seconds,
        )
        self._blind = False
        self._fresh_row = 0

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the nodes beyond a limit. Skip pods of DaemonSets, and all pods without limits."""
        if not self._groups.of(snapshot, state.expect(DecisionTime).now).limited or pod.of_daemon_set:
            return SKIP
        if not self._informed(state, snapshot):
            return SKIP
        levels = self._drawn(state, snapshot)
        grouping = levels.grouping
        above = np.greater(_shortest(levels.use, grouping), grouping.limits)
        beyond = np.logical_and(above, levels.known)
        state.write(_ExceededLimits(beyond), temporary=True)
        return SUCCESS if beyond.any() else SKIP

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Name the resources."""
        beyond = self.beyond(state, snapshot, row)
        return tuple(
            use_above_limit(name)
            for name, is_beyond in zip(MEASURED_RESOURCES, beyond, strict=True)
            if is_beyond
        )

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the use and the limit."""
        levels = self._drawn(state, snapshot)
        beyond = self.beyond(state, snapshot, row)
        use = _shortest(levels.use, levels.grouping)[:, snapshot.rows][:, row]
        limits = levels.grouping.limits[:, snapshot.rows][:, row]
        return ", ".join(
            f"{name} {use[index]:.0f} % used, limit {limits[index]:.0f} %"
            for index, name in enumerate(MEASURED_RESOURCES)
            if beyond[index]
        )

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if there is no WaterLevel and nothing was measured lately."""
        if not self._informed(state, snapshot):
            return SKIP
        levels = self._drawn(state, snapshot)
        self._say(blind=not levels.any_known)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by the level with the pod, or by requests if no level is fresh."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        levels = self._drawn(state, snapshot)
        if not levels.any_known:
            taken = np.minimum(requested(pod, snapshot), MAX_NODE_SCORE)
            scores = np.dot(self._shares, MAX_NODE_SCORE - taken)
        else:
            scores = self._scoring.scores(levels, self._level_cache.expected(pod))
        return _rounded(weighed(scores, levels.grouping), rows, snapshot)

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: measurements within the limits, pods that go, and edits of WaterLevels."""
        node = Action.ADD | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_LABEL
        return (
            Registration(ClusterEvent(Resource.NODE, node), self._may_be_within),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
            Registration(ClusterEvent(Resource.WATER_LEVEL, Action.ALL)),
        )

    def _may_be_within(self, _: Pod, old: Node | None, new: Node) -> bool:
        """Return whether a node is new, or has a new measurement within the limits."""
        text = new.meta.annotations.get(NODE_LEVEL)
        if text is None or old is None or old.meta.labels != new.meta.labels:
            return True
        if old.meta.annotations.get(NODE_LEVEL) == text:
            return False
        level = decode_node_level(text)
        highest = self._groups.highest_limits
        return isinstance(level, Unreadable) or all(
            uses[name].mean <= highest[index]
            for uses in level.windows.values()
            for index, name in enumerate(MEASURED_RESOURCES)
            if name in uses
        )

    def _informed(self, state: CycleState, snapshot: Snapshot) -> bool:
        """Return whether there is a WaterLevel, or a node with a fresh measurement."""
        if self._groups.any:
            return True
        now = state.expect(DecisionTime).now
        staleness = self._groups.of(snapshot, now).staleness
        if not self._levels.is_fresh(self._fresh_row, now, staleness):  # one is enough
            self._fresh_row = int(self._levels.fresh(now, staleness).argmax()) if len(snapshot) else 0
        return self._levels.is_fresh(self._fresh_row, now, staleness)

    def _follow(self, *, history: bool, measured: bool) -> ExpectedUse:
        return follow_expected_use(self.handle, estimate=_likely_use, history=history, measured=measured)

    def _drawn(self, state: CycleState, snapshot: Snapshot) -> UsageLevels:
        """Return the levels of all nodes, computed once for each decision."""
        levels = state.read(UsageLevels)
        if levels is None:
            now = state.expect(DecisionTime).now
            grouping = self._groups.of(snapshot, now)
            levels = self._level_cache.draw(now, grouping, snapshot, state.read(OwnReservations))
            state.write(levels, temporary=True)
        return levels

    def _say(self, *, blind: bool) -> None:
        """Log when scoring falls back to requests, and when it has levels again."""
        if blind is not self._blind:
            self._blind = blind
            if blind:
                logger.warning("no fresh measurement of any node: scoring by requests")
            else:
                logger.info("nodes are measured again: scoring by their levels")


def use_above_limit(resource: str) -> str:
    """Return the reason for which a node is ruled out."""
    return f"node(s) with measured {resource} use above the limit"


def _likely_use(pod: Pod) -> tuple[float, float]:
    return pod.likely_use


def _policy(plugin: str, read: WaterLevelBalanceArgs) -> UsagePolicy:
    estimation = read.pod_estimation
    return UsagePolicy(
        windows=window_shares({each.duration: each.weight for each in read.windows}),
        percent=read.target.percent,
        min_weight=read.target.min_weight or 0.0,
        limits=(read.overload_limits.cpu_percent, read.overload_limits.memory_percent),
        staleness=read.staleness_seconds,
        defaults=(
            quantity_of(plugin, "podEstimation.defaultCPU", CPU, estimation.default_cpu),
            quantity_of(plugin, "podEstimation.defaultMemory", MEMORY, estimation.default_memory),
        ),
    )


def _problems(read: WaterLevelBalanceArgs) -> Iterator[str]:
    """Return the problem of args that contradict each other."""
    durations = [each.duration for each in read.windows]
    names = [each.name for each in read.resources]
    if not durations or len(set(durations)) < len(durations):
        yield "windows: expected at least one of 15m, 1h and 1d, each once"
    if not sum(each.weight for each in read.resources) or len(set(names)) < len(names):
        yield "resources: expected cpu, memory or both, each once, and not all of weight 0"
    if (read.target.mode == "Static") != (read.target.percent is not None):
        yield "target.percent: required for Static and refused for Dynamic"
    if read.target.mode == "Static" and read.target.min_weight is not None:
        yield "target.minWeight: refused for Static"


def _rounded(scores: Scores, rows: Rows, snapshot: Snapshot) -> Scores:
    """Return the scores of some rows without the last digits, which depend on the order of terms."""
    picked = scores if rows is snapshot.indexes else scores[rows]
    return picked.round(_DIGITS, out=picked)


def _shortest(use: LevelArray, grouping: Grouping) -> LevelArray:
    """Return R x N of the shortest window that counts for each node."""
    first = np.argmax(grouping.windows > 0, axis=0)
    shortest: LevelArray = use[first, :, np.arange(use.shape[2])].T
    return shortest
