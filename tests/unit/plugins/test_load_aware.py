"""Koordinator's estimator, thresholds and score."""

from typing import Any

import numpy as np
import pytest

from builders import NOW, level, node, pod, usage
from tidelock.cluster.measured import at_once
from tidelock.framework.api import Code, PreScore
from tidelock.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, Resource
from tidelock.framework.moment import Moment
from tidelock.model.levels import NODE_LEVEL, NodeLevel, Stat, Uses, encode_node_level
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.load_aware import LoadAware
from unit.plugins.scene import Scene

GIB = 2**30
BIG = pod(requests={"cpu": "16", "memory": "32Gi"}, limits={"cpu": "16", "memory": "32Gi"})


def measured(
    cpu_use: float,
    memory_use: float,
    *,
    name: str = "node-a",
    at: float = NOW,
    cpu: str = "100",
    memory: str = "100Gi",
) -> Node:
    return node(name, cpu=cpu, memory=memory, annotations={NODE_LEVEL: level(cpu_use, memory_use, at=at)})


def both(requests: tuple[str, str], limits: tuple[str, str] | None) -> Pod:
    names = ("cpu", "memory")
    return pod(
        requests=dict(zip(names, requests, strict=True)),
        limits={} if limits is None else dict(zip(names, limits, strict=True)),
    )


@pytest.mark.parametrize(
    ("wanting", "factors", "expected"),
    [
        (pod(requests={}), {}, (250, 200 * 2**20)),
        (both(("4", "8Gi"), ("4", "8Gi")), {}, (3400, 6012954214)),
        (both(("4", "8Gi"), ("8", "8Gi")), {}, (6800, 6012954214)),
        (both(("4", "8Gi"), ("4", "8Gi")), {"cpu": 110}, (4000, 6012954214)),
        (both(("4", "8Gi"), ("4", "8Gi")), {"memory": 110}, (3400, 8589934592)),
        (both(("4", "8Gi"), None), {"cpu": 80, "memory": 80}, (3200, 6871947674)),
    ],
)
def test_pods_are_estimated_as_published(
    wanting: Pod, factors: dict[str, int], expected: tuple[int, int]
) -> None:
    plugin = LoadAware(Scene().handle, {"estimatedScalingFactors": factors})
    assert plugin._estimated(wanting) == expected


def test_the_published_node_scores_72() -> None:
    """96 cores and 512 GiB, of which 32 and 10 are used."""
    scene = Scene(measured(100 * 32 / 96, 100 * 10 / 512, cpu="96", memory="512Gi"))
    assert scene.judge(LoadAware, BIG).scores == {"node-a": 72}


def test_weights_can_be_given() -> None:
    scene = Scene(measured(20, 60))
    tiny = pod(requests={"cpu": "1m", "memory": "1"})
    assert scene.judge(LoadAware, tiny, resourceWeights={"cpu": 3, "memory": 1}).scores["node-a"] == 69
    assert scene.judge(LoadAware, tiny, resourceWeights={"memory": 1}).scores["node-a"] == 39


def test_a_node_that_would_be_more_than_full_is_worth_nothing() -> None:
    assert Scene(measured(90, 90)).judge(LoadAware, BIG).scores == {"node-a": 0}
    assert Scene(measured(0, 0, cpu="0", memory="0")).judge(LoadAware, pod()).scores == {"node-a": 0}


# Pods that were not reported yet.


@pytest.mark.parametrize(("age", "counts"), [(-5, True), (59, True), (60, False), (900, False)])
def test_pods_that_a_report_may_lack_are_added(age: float, counts: bool) -> None:
    scene = Scene(measured(0, 0))
    other = both(("10", "10Gi"), None)
    scene.cache.upsert(pod("other", requests={"cpu": "20"}, node_name="node-a", bound_at=NOW - age))
    expected = 100 - 17 * counts - 8.5
    found = scene.judge(LoadAware, other, resourceWeights={"cpu": 1}).scores["node-a"]
    assert found == np.floor(expected)


@pytest.mark.parametrize(("own", "more"), [(3.0, 14), (30.0, 0)])
def test_what_was_measured_of_them_is_not_counted_twice(own: float, more: float) -> None:
    scene = Scene(measured(0, 0))
    at_once(scene.measurements.take(Uses({"uid-other": usage(own)}, {})))
    scene.cache.upsert(pod("other", requests={"cpu": "20"}, node_name="node-a", bound_at=NOW))
    wanting = pod(requests={"cpu": "20"})
    found = scene.judge(LoadAware, wanting, resourceWeights={"cpu": 1}).scores["node-a"]
    assert found == 100 - 17 - more


# Thresholds.


def test_nodes_above_a_threshold_with_the_pod_are_ruled_out() -> None:
    scene = Scene(measured(48.4, 0), measured(48.6, 0, name="node-b"), measured(0, 96, name="node-c"))
    wanting = pod(requests={"cpu": "20", "memory": "1"})
    judged = scene.judge(LoadAware, wanting)
    assert judged.fitting == {"node-a"}
    assert judged.reasons("node-b") == ("node(s) cpu usage exceed threshold",)
    assert judged.reasons("node-c") == ("node(s) memory usage exceed threshold",)
    assert judged.numbers("node-b") == "cpu 66 % with the pod, threshold 65 %"
    assert not judged.resolvable("node-b")
    assert judged.narrowed("node-c", "node-a").mask.tolist() == [False, True]


def test_thresholds_may_be_held_against_percentiles() -> None:
    uses: Any = {name: Stat(10, 90, 80) for name in ("cpu", "memory")}
    text = encode_node_level(NodeLevel(NOW, {"15m": uses, "1h": uses}))
    scene = Scene(node(cpu="100", memory="100Gi", annotations={NODE_LEVEL: text}))
    tiny = pod(requests={"cpu": "1m", "memory": "1"})

    def judged(kind: str) -> set[str]:
        aggregated = {
            "usageThresholds": {"cpu": 85},
            "usageAggregationType": kind,
            "usageAggregatedDuration": "1h",
        }
        return scene.judge(LoadAware, tiny, aggregated=aggregated).fitting

    assert judged("p95") == {"node-a"}
    assert judged("max") == set()
    scored = {"scoreAggregationType": "max"}
    assert scene.judge(LoadAware, tiny, aggregated=scored, usageThresholds={}).scores["node-a"] == 9


def test_the_reason_names_percentiles() -> None:
    scene = Scene(measured(90, 0))
    judged = scene.judge(LoadAware, pod(), aggregated={"usageThresholds": {"cpu": 50}})
    assert judged.reasons() == ("node(s) cpu aggregated usage exceed threshold",)


def test_pods_of_daemon_sets_go_where_they_must() -> None:
    agent = pod(controller="apps/v1/DaemonSet/agent")
    assert Scene(measured(99, 99)).judge(LoadAware, agent).fitting == {"node-a"}


def test_thresholds_of_nothing_are_none() -> None:
    judged = Scene(measured(99, 99)).judge(LoadAware, pod(), usageThresholds={"cpu": 0})
    assert judged.status.code is Code.SKIP


def test_stale_nodes_are_not_ruled_out_and_score_nothing() -> None:
    scene = Scene(measured(99, 99), measured(0, 0, name="node-b", at=NOW - 1))
    plugin = LoadAware(scene.handle, {})
    judged = scene.judging(plugin, pod(), Moment(NOW + 180))
    assert judged.fitting == {"node-b"}
    assert judged.scores == {"node-a": 0, "node-b": 0}
    later = scene.judging(plugin, pod(), Moment(NOW + 181))
    assert later.fitting == {"node-a", "node-b"}
    assert isinstance(plugin, PreScore)
    assert plugin.pre_score(later.state, later.pod, later.snapshot, np.arange(2)).code is Code.SKIP


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"resourceWeights": {}}, "resourceWeights: expected cpu, memory or both"),
        ({"usageThresholds": {"cpu": 101}}, "Expected `int` <= 100"),
        ({"estimatedScalingFactors": {"gpu": 1}}, "Invalid enum value 'gpu'"),
        ({"aggregated": {"usageAggregationType": "p50"}}, "Invalid enum value 'p50'"),
        ({"nodeMetricExpirationSeconds": 0}, "Expected `float` > 0"),
    ],
)
def test_args_that_cannot_be_meant_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of LoadAware: ") as caught:
        LoadAware(Scene().handle, args)
    assert problem in str(caught.value)


def test_hopes_for_measurements_and_pods_that_go() -> None:
    registrations = LoadAware(Scene().handle, {}).events_to_register()
    measured_anew = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
    for event in (measured_anew, ASSIGNED_POD_DELETE):
        assert any(each.event.covers(event) for each in registrations)
