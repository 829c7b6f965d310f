"""The policies to compare, each of which is a profile of the scheduler's real plugins.

A policy by measured use replaces the scores of requests (NodeResourcesFit and
NodeResourcesBalancedAllocation). The rest is the default profile without the plugins that have no effect on
simulated pods, which have no volumes, ports, images or affinity. The decisions are the same in half the time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, Handle, Score, Scores
from tidelock.framework.config import Configuration
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.profile import Enabled, PluginSet, ProfileSettings
from tidelock.model.pods import Pod
from tidelock.plugins.default_binder import DefaultBinder
from tidelock.plugins.dynamic_load import DynamicLoad
from tidelock.plugins.load_aware import LoadAware
from tidelock.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.registry import BUILTINS
from tidelock.plugins.target_load_packing import TargetLoadPacking
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.simulation.cluster import SCHEDULER
from tidelock.simulation.level_rules import (
    LevelRule,
    least_used_scores,
    least_variance_scores,
)
from tidelock.simulation.world import STEP

_BY_REQUESTS = frozenset({NodeResourcesFit.name, NodeResourcesBalancedAllocation.name})
TELLING = frozenset(
    {
        PrioritySort.name,
        NodeResourcesFit.name,
        NodeResourcesBalancedAllocation.name,
        PodTopologySpread.name,
        DefaultBinder.name,
    }
)
"""Plugins of the default profile that distinguish simulated pods or nodes, and mandatory ones."""
_STALENESS = 900
"""Seconds: samples are five minutes apart and five minutes late, and one may be missed."""
_LONG_STALENESS = 3720
"""Seconds: twice a delay of half an hour, and four times the time between readings, as the docs advise."""
_HOUR = 12  # steps
_WEIGHT = 3
"""Weight of a score of measured use. The score is absolute, so its weight matters little."""
_SHIPPED_WEIGHT = next(each.weight for each in BUILTINS.defaults if each.name == WaterLevelBalance.name)

Args = dict[str, Any]


class RandomScore(Score):
    """Scores nodes at random. Its argument is the seed."""

    name: ClassVar[str] = "RandomScore"

    def __init__(self, handle: Handle, args: Args) -> None:
        super().__init__(handle, {})
        self._rng = np.random.default_rng(args["seed"])

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Draw a score for each node."""
        return self._rng.uniform(0, MAX_NODE_SCORE, len(rows))


@dataclass(frozen=True, slots=True)
class SimulatedPolicy:
    """A policy by its name.

    Attributes:
        name: its name in tables.
        about: one line about its rule.
        plugin: its characteristic plugin, or empty for the default profile alone.
        args: arguments of that plugin.
        water_level: spec of the WaterLevel that selects all nodes, without its source, or None for no
            WaterLevel.
        weight: weight of its score.
        by_requests: whether the default scores of requests also count.
        measures: whether it needs measured use.
        rule: scores of nodes by their levels, in place of the plugin's. Only arrays are simulated with it.
        foresight: number of coming steps. Their mean use is known, and counts in place of measured use. 0 for
            measured use. Only arrays are simulated with foresight.

    """

    name: str
    about: str
    plugin: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    water_level: Mapping[str, Any] | None = None
    weight: int = _WEIGHT
    by_requests: bool = False
    measures: bool = True
    rule: LevelRule | None = None
    foresight: int = 0

    @property
    def for_arrays_only(self) -> bool:
        """Whether the whole scheduler lacks it: no plugin decides like this, or nothing learns there."""
        learns = bool(self.water_level and self.water_level.get("learnWeight"))
        return self.rule is not None or self.foresight > 0 or learns

    def configuration(self, seed: int) -> Configuration:
        """Return the scheduler's configuration, with a seed for random choices.

        Raises:
            ValueError: the policy is for arrays only.

        """
        if self.for_arrays_only:
            raise ValueError(f"{self.name}: only arrays simulate this policy")
        args = {"seed": seed} if self.plugin == RandomScore.name else dict(self.args)
        enabled = tuple(each for each in BUILTINS.defaults if each.name in TELLING)
        if self.plugin:
            enabled += (Enabled(self.plugin, self.weight),)
        disabled = frozenset() if self.by_requests else _BY_REQUESTS
        profile = ProfileSettings(
            SCHEDULER,
            enabled=enabled,
            points={"score": PluginSet(disabled=disabled)},
            args={self.plugin: args},
            kept=BUILTINS.kept,
        )
        registry = {**BUILTINS.registry, RandomScore.name: RandomScore}
        return Configuration(profiles=(profile,), registry=registry)


def _water_level(
    name: str,
    about: str,
    *,
    mode: str = "PodSums",
    target: Args | None = None,
    windows: Sequence[Args] = (),
    weight: int = _WEIGHT,
    rule: LevelRule | None = None,
    foresight: int = 0,
    **args: Any,
) -> SimulatedPolicy:
    """Return a WaterLevelBalance policy over cpu alone, as only cpu is compared."""
    spec: Args = {"stalenessSeconds": _STALENESS}
    if target is not None:
        spec["target"] = target
    if windows:
        spec["windows"] = list(windows)
    return SimulatedPolicy(
        name,
        about,
        WaterLevelBalance.name,
        {"mode": mode, "resources": [{"name": "cpu"}], **args},
        spec,
        weight,
        rule=rule,
        foresight=foresight,
    )


def _static(percent: float) -> Args:
    return {"mode": "Static", "percent": percent}


_SHORT_WINDOW = [{"duration": "15m", "weight": 1}]


def _named(policies: Iterable[SimulatedPolicy]) -> dict[str, SimulatedPolicy]:
    return {policy.name: policy for policy in policies}


POLICIES: dict[str, SimulatedPolicy] = _named(
    (
        SimulatedPolicy("random", "any node that fits", RandomScore.name, weight=1000, measures=False),
        SimulatedPolicy("default", "the default profile: by requests", by_requests=True, measures=False),
        SimulatedPolicy(
            "shipped",
            "the default profile under a WaterLevel, as installed",
            WaterLevelBalance.name,
            water_level={},
            weight=_SHIPPED_WEIGHT,
            by_requests=True,
        ),
        SimulatedPolicy(
            "learned-weight",
            "shipped, with less weight where requests predict use",
            WaterLevelBalance.name,
            water_level={"learnWeight": True},
            weight=_SHIPPED_WEIGHT,
            by_requests=True,
        ),
        SimulatedPolicy(
            "long-staleness",
            "shipped, for metrics that are up to half an hour late",
            WaterLevelBalance.name,
            water_level={"stalenessSeconds": _LONG_STALENESS},
            weight=_SHIPPED_WEIGHT,
            by_requests=True,
        ),
        SimulatedPolicy(
            "target-load-packing",
            "Trimaran's, target 40",
            TargetLoadPacking.name,
            {"stalenessSeconds": _STALENESS},
        ),
        SimulatedPolicy(
            "load-variation-risk-balancing",
            "Trimaran's, margin and sensitivity 1",
            LoadVariationRiskBalancing.name,
            {"stalenessSeconds": _STALENESS},
        ),
        SimulatedPolicy(
            "dynamic-load",
            "crane's, by its metrics of cpu",
            DynamicLoad.name,
            {
                "priority": {
                    "cpu_usage_avg_5m": 0.2,
                    "cpu_usage_max_avg_1h": 0.3,
                    "cpu_usage_max_avg_1d": 0.5,
                },
                "syncPeriodSeconds": {"cpu_usage_avg_5m": _STALENESS},
            },
        ),
        SimulatedPolicy(
            "load-aware",
            "Koordinator's, by cpu",
            LoadAware.name,
            {
                "nodeMetricExpirationSeconds": _STALENESS,
                "reportIntervalSeconds": STEP,
                "resourceWeights": {"cpu": 1},
            },
        ),
        _water_level(
            "least-used", "least measured use, with guard", mode="NodeWindows", rule=least_used_scores
        ),
        _water_level("least-pod-sums", "least sum of the pods' own use", rule=least_used_scores),
        _water_level(
            "least-variance",
            "least variance of the measured use, with guard",
            mode="NodeWindows",
            rule=least_variance_scores,
        ),
        _water_level(
            "least-variance-pod-sums",
            "least variance of the sums of the pods' own use",
            rule=least_variance_scores,
        ),
        _water_level(
            "plain-formula",
            "the formula on the node's last 15 minutes, no guard, target 40",
            mode="NodeWindows",
            target=_static(40),
            windows=_SHORT_WINDOW,
            scoring="TargetLoadPacking",
            guard=False,
        ),
        _water_level("water-level-nodes", "WaterLevelBalance in NodeWindows", mode="NodeWindows"),
        _water_level("water-level", "WaterLevelBalance in PodSums"),
        _water_level(
            "water-level-foreseen", "water-level with the use of the next hour known", foresight=_HOUR
        ),
        _water_level(
            "least-pod-sums-foreseen",
            "least-pod-sums with the use of the next hour known",
            rule=least_used_scores,
            foresight=_HOUR,
        ),
        _water_level(
            "nodes-without-guard", "water-level-nodes without its guard", mode="NodeWindows", guard=False
        ),
        _water_level(
            "without-constant-slopes", "water-level with Trimaran's formula", scoring="TargetLoadPacking"
        ),
        _water_level("without-history", "water-level without workloads' history", history=False),
        _water_level("without-windows", "water-level by 15 minutes alone", windows=_SHORT_WINDOW),
        _water_level("without-dynamic-target", "water-level with a target of 40", target=_static(40)),
    )
)
