"""crane's filter, weights and hot value."""

from typing import Any

import numpy as np
import pytest

from builders import NOW, level, node, pod, pod_use
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.api import Code, PreScore
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.events import Action, ClusterEvent, Resource
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import (
    CRANE_METRICS,
    NODE_LEVEL,
    CraneReading,
    MeasuredUses,
    NodeLevel,
    Stat,
    encode_crane,
    encode_node_level,
)
from tidelock.plugins.dynamic_load import DynamicLoad, metric_above_limit
from unit.plugins.scene import Scene

HALF: dict[str, float] = dict.fromkeys(CRANE_METRICS, 0.5)


def crane(use: dict[str, float], *, at: float = NOW, name: str = "node-a") -> Node:
    annotations = {metric: encode_crane(CraneReading(value, at)) for metric, value in use.items()}
    return node(name, annotations=annotations)


def score(scene: Scene, **args: Any) -> float:
    return scene.judge(DynamicLoad, pod(), **args).scores["node-a"]


def test_all_metrics_count_by_cranes_weights() -> None:
    assert score(Scene(crane(HALF))) == 50
    assert score(Scene(crane(HALF | {"cpu_usage_avg_5m": 0.0}))) == 55
    assert score(Scene(crane(HALF | {"mem_usage_max_avg_1h": 0.0}))) == 57
    assert score(Scene(crane(HALF | {"cpu_usage_max_avg_1d": 0.0}))) == 62


def test_weights_can_be_configured() -> None:
    weights = {"cpu_usage_avg_5m": 1.0}
    assert score(Scene(crane(HALF | {"cpu_usage_avg_5m": 0.2})), priority=weights) == 80


def test_a_missing_metric_scores_zero_and_keeps_its_weight() -> None:
    some = {metric: value for metric, value in HALF.items() if metric.startswith("cpu")}
    assert score(Scene(crane(some))) == 25


@pytest.mark.parametrize(("age", "points"), [(479, 50), (480, 40), (1200, 25), (11_099, 25)])
def test_each_metric_lives_for_its_period_and_five_minutes(age: float, points: float) -> None:
    assert score(Scene(crane(HALF, at=NOW - age))) == points


def test_stale_metrics_alone_make_the_plugin_skip() -> None:
    scene = Scene(crane(HALF | {"cpu_usage_avg_5m": 0.9}, at=NOW - 11_100))
    judged = scene.judge(DynamicLoad, pod())
    assert judged.status.code is Code.SKIP
    assert isinstance(judged.plugin, PreScore)
    assert judged.plugin.pre_score(judged.state, judged.pod, judged.snapshot, np.arange(1)).code is Code.SKIP


def test_without_cranes_annotations_those_of_tidelock_count() -> None:
    uses: Any = {name: Stat(40, 60, 50) for name in ("cpu", "memory")}
    text = encode_node_level(NodeLevel(NOW, dict.fromkeys(("15m", "1h", "1d"), uses)))
    assert score(Scene(node(annotations={NODE_LEVEL: text}))) == 44  # 0.2 * 60 + 0.8 * 40
    both = node(annotations={NODE_LEVEL: text, "cpu_usage_max_avg_1d": encode_crane(CraneReading(0.0, NOW))})
    assert score(Scene(both)) == 59


def test_unreadable_annotations_do_not_count() -> None:
    annotations = {"cpu_usage_avg_5m": "NaN,2026-01-01T00:00:00Z", NODE_LEVEL: "rubbish"}
    judged = Scene(node(annotations=annotations)).judge(DynamicLoad, pod())
    assert judged.fitting == {"node-a"}
    assert judged.scores == {"node-a": 0}


@pytest.mark.parametrize(
    ("ages", "points"), [([30], 50), ([30, 59], 40), ([61] * 4, 50), ([61] * 5, 40), ([1] * 5, 20)]
)
def test_a_node_that_recently_got_pods_is_hot(ages: list[float], points: float) -> None:
    scene = Scene(crane(HALF))
    for number, age in enumerate(ages):
        scene.cache.upsert(pod(f"other-{number}", node_name="node-a", bound_at=NOW - age))
    assert score(scene) == points


def test_the_hot_value_expires_with_time_and_never_lowers_a_score_below_zero() -> None:
    scene = Scene(crane(HALF))
    for number in range(50):
        scene.cache.assume(pod(f"other-{number}"), "node-a")
    plugin = DynamicLoad(scene.handle, {})
    assert scene.judging(plugin, pod()).scores == {"node-a": 0}
    for number in range(50):
        scene.cache.upsert(pod(f"other-{number}", node_name="node-a", bound_at=NOW))
    assert scene.judging(plugin, pod(), DecisionTime(NOW + 299)).scores == {"node-a": 0}
    assert scene.judging(plugin, pod(), DecisionTime(NOW + 300)).scores == {"node-a": 50}


def test_nodes_above_a_limit_are_ruled_out_and_the_metrics_are_named() -> None:
    scene = Scene(
        crane(HALF | {"cpu_usage_avg_5m": 0.65, "cpu_usage_max_avg_1d": 0.99}),
        crane(HALF | {"cpu_usage_avg_5m": 0.66, "mem_usage_max_avg_1h": 0.76}, name="node-b"),
        crane(HALF | {"cpu_usage_avg_5m": 0.66}, at=NOW - 480, name="node-c"),
    )
    judged = scene.judge(DynamicLoad, pod())
    assert judged.fitting == {"node-a", "node-c"}
    assert judged.reasons("node-b") == (
        metric_above_limit("cpu_usage_avg_5m"),
        metric_above_limit("mem_usage_max_avg_1h"),
    )
    assert not judged.preemption_may_help("node-b")
    assert judged.narrowed("node-b", "node-a").mask.tolist() == [False, True]


def test_a_limit_of_zero_is_no_limit() -> None:
    scene = Scene(crane(HALF | {"cpu_usage_avg_5m": 1.0}))
    assert scene.judge(DynamicLoad, pod(), predicate={"cpu_usage_avg_5m": 0.0}).fitting == {"node-a"}


def test_pods_of_daemon_sets_are_not_filtered() -> None:
    scene = Scene(crane(HALF | {"cpu_usage_avg_5m": 1.0}))
    agent = pod(controller="apps/v1/DaemonSet/agent")
    assert scene.judge(DynamicLoad, agent).fitting == {"node-a"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"predicate": {"cpu": 0.5}}, "Invalid enum value 'cpu'"),
        ({"predicate": {"cpu_usage_avg_5m": 65}}, "Expected `float` <= 1"),
        ({"priority": {"cpu_usage_avg_5m": 0}}, "priority: expected a weight that is more than 0"),
        ({"hotValue": [{"timeRangeSeconds": 60, "count": 0}]}, "Expected `int` >= 1"),
        ({"syncPeriodSeconds": {"cpu_usage_avg_5m": 0}}, "Expected `float` > 0"),
    ],
)
def test_invalid_args_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of DynamicLoad: ") as caught:
        DynamicLoad(Scene().handle, args)
    assert problem in str(caught.value)


def test_a_level_without_a_window_leaves_that_metric_out() -> None:
    text = level(windows={"15m": (50, 50)})
    assert score(Scene(node(annotations={NODE_LEVEL: text}))) == 10


def test_updates_of_node_annotations_are_registered() -> None:
    measured_anew = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
    registrations = DynamicLoad(Scene().handle, {}).events_to_register()
    assert any(each.event.covers(measured_anew) for each in registrations)


def test_measurements_of_pods_do_not_change_the_score() -> None:
    scene = Scene(crane(HALF))
    plugin = DynamicLoad(scene.handle, {})
    scene.cache.assume(pod("other"), "node-a")
    at_once(scene.measurements.take(MeasuredUses({"uid-other": pod_use(3)}, {})))
    assert scene.judging(plugin, pod()).scores == {"node-a": 50}
