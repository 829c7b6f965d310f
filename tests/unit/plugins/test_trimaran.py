"""The three plugins of Trimaran, by the figures of its own unit tests and documents."""

from typing import Any

import numpy as np
import pytest

from builders import NOW, level, node, pod
from tidelock.framework.api import Code, Plugin, PreScore
from tidelock.framework.decision_time import DecisionTime
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL, NodeLevel, Stat, encode_node_level
from tidelock.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing, balance
from tidelock.plugins.low_risk_over_commitment.plugin import (
    LowRiskOverCommitment,
    RequestsAndLimits,
    limit_risk,
    load_risk,
)
from tidelock.plugins.target_load_packing import TargetLoadPacking
from unit.plugins.scene import Scene

TRIMARAN: tuple[type[Plugin], ...] = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)


def measured(name: str = "node-a", cpu: float = 0, memory: float = 0, *, at: float = NOW) -> Node:
    return node(name, cpu="1", memory="1Gi", annotations={NODE_LEVEL: level(cpu, memory, at=at)})


def varied(name: str, stats: dict[str, tuple[float, float]]) -> Node:
    """Return a node of one core and 1 GiB with this mean and deviation of cpu and memory, in percent."""
    uses: Any = {
        resource: Stat(mean, 100, mean + 1.6448536269514722 * sigma)
        for resource, (mean, sigma) in stats.items()
    }
    text = encode_node_level(NodeLevel(NOW, dict.fromkeys(("15m", "1h", "1d"), uses)))
    return node(name, cpu="1", memory="1Gi", annotations={NODE_LEVEL: text})


def score(scene: Scene, kind: type[Plugin], wanting: Any, **args: Any) -> float:
    return scene.judge(kind, wanting, **args).scores["node-a"]


# TargetLoadPacking

NO_REQUEST = pod(requests={}, limits={"cpu": "0"})


@pytest.mark.parametrize(
    ("use", "target", "points"),
    [(0, 40, 40), (50, 40, 33), (25, 50, 75), (50, 50, 100), (75, 50, 25), (100, 40, 0)],
)
def test_packing_at_published_points(use: float, target: float, points: float) -> None:
    scene = Scene(measured(cpu=use))
    assert score(scene, TargetLoadPacking, NO_REQUEST, targetUtilization=target) == points


@pytest.mark.parametrize(
    ("wanting", "points"),
    [
        (pod(requests={"cpu": "2"}), 85),  # u = 30: 60 * 30 / 40 + 40
        (pod(requests={"cpu": "2"}, limits={"cpu": "4"}), 100),
        (pod(requests={}), 55),
    ],
)
def test_packing_predicts_by_limit_then_request_then_one_core(wanting: Any, points: float) -> None:
    scene = Scene(node("node-a", cpu="10", annotations={NODE_LEVEL: level()}))
    assert score(scene, TargetLoadPacking, wanting) == points


@pytest.mark.parametrize(("age", "counts"), [(-5, True), (59, True), (60, False), (900, False)])
def test_packing_adds_pods_bound_later_than_a_minute_before_the_sample(age: float, counts: bool) -> None:
    scene = Scene(measured(cpu=0, at=NOW))
    scene.cache.upsert(
        pod("other", requests={}, limits={"cpu": "200m"}, node_name="node-a", bound_at=NOW - age)
    )
    assert score(scene, TargetLoadPacking, NO_REQUEST) == (70 if counts else 40)


def test_packing_beyond_the_capacity_of_the_node_scores_zero() -> None:
    assert score(Scene(measured(cpu=30)), TargetLoadPacking, pod(requests={}, limits={"cpu": "1"})) == 0


# LoadVariationRiskBalancing


@pytest.mark.parametrize(
    ("mean", "sigma", "margin", "sensitivity", "points"),
    [
        (40, 36, 1, 1, 57),
        (-40, 36, 1, 2, 65),
        (200, 36, 1, 2, 20),
        (40, -36, 1, 2, 75),
        (40, 120, 1, 2, 25),
        (40, 36, 1, 0, 75),
    ],
)
def test_risk_at_published_points(
    mean: float, sigma: float, margin: float, sensitivity: float, points: float
) -> None:
    mu = np.clip(np.array([mean / 100]), 0, 1) + 0.1
    assert np.floor(balance(mu, np.array([sigma / 100]), margin, sensitivity) + 0.5) == [points]


def test_the_risk_of_a_node_is_the_higher_risk_of_its_resources() -> None:
    scene = Scene(varied("node-a", {"cpu": (40, 36), "memory": (20, 10)}))
    wanting = pod(requests={"cpu": "100m", "memory": "1"})
    assert score(scene, LoadVariationRiskBalancing, wanting) == 57
    steady = Scene(varied("node-a", {"cpu": (10, 0), "memory": (20, 10)}))
    assert score(steady, LoadVariationRiskBalancing, wanting) == 85


def test_a_resource_without_a_measurement_adds_no_risk() -> None:
    scene = Scene(varied("node-a", {"cpu": (40, 36)}), varied("node-b", {"memory": (20, 10)}))
    wanting = pod(requests={"cpu": "100m", "memory": "1"})
    assert scene.judge(LoadVariationRiskBalancing, wanting).scores == {"node-a": 57, "node-b": 85}


def test_a_node_without_capacity_scores_zero() -> None:
    scene = Scene(node("node-a", cpu="0", annotations={NODE_LEVEL: level(1, 1)}))
    assert score(scene, LoadVariationRiskBalancing, pod()) == 0


# LowRiskOverCommitment


def risk(before: tuple[float, float], after: tuple[float, float], mean: float) -> float:
    promised = [RequestsAndLimits(np.array([each[0]]), np.array([each[1]])) for each in (before, after)]
    load = load_risk(promised[0], np.array([mean]), np.zeros(1))
    return float((0.5 * limit_risk(promised[1]) + 0.5 * load)[0])


@pytest.mark.parametrize(
    ("before", "after", "mean", "expected"),
    [
        ((1 / 4, 2 / 4), (2 / 4, 3 / 4), 0.8, 0.5),
        ((0, 0), (2048 / 4096, 6144 / 4096), 0.25, 0.25),
        ((3 / 4, 4 / 4), (4 / 4, 5 / 4), 0.8, 1.0),
        ((512 / 4096, 6144 / 4096), (1024 / 4096, 7168 / 4096), 0.25, 0.75),
    ],
)
def test_overcommitment_at_published_points(
    before: tuple[float, float], after: tuple[float, float], mean: float, expected: float
) -> None:
    assert risk(before, after, mean) == expected


def test_overcommitment_is_computed_from_the_pods_of_the_node() -> None:
    """The first published case: of 4 cores, 1 is requested, 2 are the limit, 80 % are used. The pod has 1."""
    there = node("node-a", cpu="4", memory="4Gi", annotations={NODE_LEVEL: level(80, 0)})
    scene = Scene(there)
    scene.cache.assume(pod("other", requests={"cpu": "1"}, limits={"cpu": "2"}), "node-a")
    assert score(scene, LowRiskOverCommitment, pod(requests={"cpu": "1"}, limits={"cpu": "1"})) == 50
    weights = {"riskLimitWeights": {"cpu": 1}}
    assert score(scene, LowRiskOverCommitment, pod(requests={"cpu": "1"}), **weights) == 100

    scene.reservation("lock", "node-a", resources={"cpu": "2"})
    assert score(scene, LowRiskOverCommitment, pod(requests={"cpu": "1"}), **weights) == 0


def test_overcommitment_follows_measurements_and_pods() -> None:
    scene = Scene(varied("node-a", {"cpu": (50, 4)}))
    plugin = LowRiskOverCommitment(scene.handle, {"riskLimitWeights": {"cpu": 0, "memory": 0}})
    wanting = pod(requests={"cpu": "100m"})

    def found() -> float:
        return scene.judging(plugin, wanting).scores["node-a"]

    scene.cache.assume(pod("one", requests={"cpu": "400m"}, limits={"cpu": "1"}), "node-a")
    risky = found()
    scene.cache.assume(pod("two", requests={"cpu": "200m"}, limits={"cpu": "1"}), "node-a")
    safer = found()
    scene.cache.put_node(varied("node-a", {"cpu": (90, 1)}))
    assert 0 < risky < 30
    assert 70 < safer < 100
    assert found() == 0


def test_a_pod_without_requests_and_limits_is_not_scored() -> None:
    judged = Scene(measured(cpu=20)).judge(LowRiskOverCommitment, pod(requests={}))
    assert isinstance(judged.plugin, PreScore)
    assert judged.scores == {"node-a": 0}


# All of them.


@pytest.mark.parametrize("kind", TRIMARAN, ids=lambda kind: kind.name)
def test_without_fresh_measurements_the_plugins_skip(kind: type[Plugin]) -> None:
    scene = Scene(measured(cpu=5), measured("node-b", cpu=5))
    plugin = kind(scene.handle, {})
    later = scene.judging(plugin, pod(requests={"cpu": "10m"}), DecisionTime(NOW + 181))
    assert isinstance(plugin, PreScore)
    assert plugin.pre_score(later.state, later.pod, later.snapshot, np.arange(2)).code is Code.SKIP


@pytest.mark.parametrize("kind", TRIMARAN, ids=lambda kind: kind.name)
def test_a_node_without_a_fresh_measurement_scores_zero(kind: type[Plugin]) -> None:
    scene = Scene(measured(cpu=5), measured("node-b", cpu=0, at=NOW - 181), node("node-c"))
    scores = scene.judge(kind, pod(requests={"cpu": "10m"})).scores
    assert scores["node-a"] > scores["node-b"] == scores["node-c"] == 0


@pytest.mark.parametrize(
    ("kind", "args", "problem"),
    [
        (TargetLoadPacking, {"targetUtilization": 100}, "Expected `float` < 100"),
        (TargetLoadPacking, {"defaultRequestsMultiplier": 0.5}, "Expected `float` >= 1"),
        (
            TargetLoadPacking,
            {"defaultRequests": {"cpu": "-1"}},
            "defaultRequests.cpu: '-1' is not more than 0",
        ),
        (TargetLoadPacking, {"defaultRequests": {"gpu": "1"}}, "defaultRequests: only cpu counts"),
        (LoadVariationRiskBalancing, {"safeVarianceMargin": -1}, "Expected `float` >= 0"),
        (LowRiskOverCommitment, {"smoothingWindowSize": 0}, "Expected `int` >= 1"),
        (LowRiskOverCommitment, {"riskLimitWeights": {"cpu": 2}}, "Expected `float` <= 1"),
        (LowRiskOverCommitment, {"riskLimitWeights": {"gpu": 1}}, "Invalid enum value 'gpu'"),
    ],
)
def test_invalid_args_are_refused(kind: type[Plugin], args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^pluginConfig of {kind.name}: ") as caught:
        kind(Scene().handle, args)
    assert problem in str(caught.value)
