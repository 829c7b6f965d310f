"""Koordinator's estimator, thresholds and score."""

from typing import Any

import numpy as np
import pytest

from builders import NOW, level, node, pod, pod_use
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.api import Code, PreScore
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, Resource
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    MeasuredUses,
    NodeLevel,
    Stat,
    encode_node_level,
)
from tidelock.plugins.load_aware import LoadAware, above_threshold
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


def test_weights_can_be_configured() -> None:
    scene = Scene(measured(20, 60))
    tiny = pod(requests={"cpu": "1m", "memory": "1"})
    assert scene.judge(LoadAware, tiny, resourceWeights={"cpu": 3, "memory": 1}).scores["node-a"] == 69
    assert scene.judge(LoadAware, tiny, resourceWeights={"memory": 1}).scores["node-a"] == 39


def test_a_node_that_would_exceed_its_capacity_scores_zero() -> None:
    assert Scene(measured(90, 90)).judge(LoadAware, BIG).scores == {"node-a": 0}
    assert Scene(measured(0, 0, cpu="0", memory="0")).judge(LoadAware, pod()).scores == {"node-a": 0}


# Pods without a measurement so far.


@pytest.mark.parametrize(("age", "counts"), [(-5, True), (59, True), (60, False), (900, False)])
def test_pods_that_a_measurement_may_lack_are_added(age: float, counts: bool) -> None:
    scene = Scene(measured(0, 0))
    other = both(("10", "10Gi"), None)
    scene.cache.upsert(pod("other", requests={"cpu": "20"}, node_name="node-a", bound_at=NOW - age))
    expected = 100 - 17 * counts - 8.5
    found = scene.judge(LoadAware, other, resourceWeights={"cpu": 1}).scores["node-a"]
    assert found == np.floor(expected)


@pytest.mark.parametrize(("own", "more"), [(3.0, 14), (30.0, 0)])
def test_measured_use_of_a_new_pod_is_not_counted_twice(own: float, more: float) -> None:
    scene = Scene(measured(0, 0))
    at_once(scene.measurements.take(MeasuredUses({"uid-other": pod_use(own)}, {})))
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
    assert judged.reasons("node-b") == (above_threshold("cpu", "usage"),)
    assert judged.reasons("node-c") == (above_threshold("memory", "usage"),)
    assert judged.detail("node-b") == "cpu 66 % with the pod, threshold 65 %"
    assert not judged.preemption_may_help("node-b")
    assert judged.narrowed("node-c", "node-a").mask.tolist() == [False, True]


def test_thresholds_can_apply_to_percentiles() -> None:
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


def test_the_reason_names_aggregated_usage() -> None:
    scene = Scene(measured(90, 0))
    judged = scene.judge(LoadAware, pod(), aggregated={"usageThresholds": {"cpu": 50}})
    assert judged.reasons() == (above_threshold("cpu", "aggregated usage"),)


# Production pods.

PRODUCTION = 9999
MID = 7999


def big_node(cpu: float, memory: float) -> Node:
    """Return a node of 96 cores and 512 GiB, with this measured use."""
    return measured(100 * cpu / 96, 100 * memory / 512, cpu="96", memory="512Gi")


def resident(
    scene: Scene,
    name: str,
    own: tuple[float, float] | None = None,
    *,
    requests: tuple[str, str] = ("0", "0"),
    age: float = 900,
    priority: int = PRODUCTION,
) -> None:
    """Bind a pod with its measured cores and GiB, or without a measurement."""
    if own is not None:
        uses = {**scene.measurements.uses.pods, f"uid-{name}": pod_use(own[0], own[1] * GIB)}
        at_once(scene.measurements.take(MeasuredUses(uses, {})))
    wanted = dict(zip(("cpu", "memory"), requests, strict=True))
    scene.cache.upsert(pod(name, requests=wanted, node_name="node-a", bound_at=NOW - age, priority=priority))


@pytest.mark.parametrize(
    ("used", "of_pods", "wanting", "thresholds", "beyond"),
    [
        ((63, 500), ((30, 200), (33, 300)), ("0", "0"), (50, 100), "cpu"),
        ((53, 500), ((30, 200), (23, 300)), ("0", "0"), (60, 100), ""),
        ((53, 500), ((30, 100), (23, 200)), ("20", "100Gi"), (60, 100), "cpu"),
        ((53, 300), ((30, 100), (23, 200)), ("1", "165Gi"), (60, 70), "memory"),
    ],
)
def test_production_pods_are_filtered_by_the_use_of_production_pods(
    used: tuple[float, float],
    of_pods: tuple[tuple[float, float], ...],
    wanting: tuple[str, str],
    thresholds: tuple[int, int],
    beyond: str,
) -> None:
    """The figures are those of Koordinator's own tests, for a node of 96 cores and 512 GiB."""
    scene = Scene(big_node(*used))
    for number, own in enumerate(of_pods):
        resident(scene, f"prod-{number}", own)
    new = pod(requests=dict(zip(("cpu", "memory"), wanting, strict=True)), priority=PRODUCTION)
    judged = scene.judge(
        LoadAware,
        new,
        usageThresholds={"cpu": 100, "memory": 100},
        prodUsageThresholds=dict(zip(("cpu", "memory"), thresholds, strict=True)),
    )
    assert judged.fitting == (set() if beyond else {"node-a"})
    if beyond:
        assert judged.reasons() == (above_threshold(beyond, "usage"),)


@pytest.mark.parametrize(("own", "age"), [(None, 5), (None, 900), ((0, 0), 5)])
def test_production_pods_without_a_measurement_count_as_estimated(
    own: tuple[float, float] | None, age: float
) -> None:
    """Of 512 GiB, 100 are measured and two pods of 200 are estimated at 140: 74 %."""
    scene = Scene(big_node(53, 300))
    resident(scene, "prod-1", (30, 100))
    resident(scene, "prod-2", own, requests=("1", "200Gi"), age=age)
    new = both(("1", "200Gi"), None)
    thresholds = {"cpu": 60, "memory": 70}
    judged = scene.judge(LoadAware, new, prodUsageThresholds=thresholds)
    assert judged.fitting == set()
    assert judged.detail() == "memory 74 % with the pod, threshold 70 %"


def test_other_pods_are_filtered_by_the_use_of_the_node_and_do_not_count_as_production() -> None:
    scene = Scene(big_node(70, 0))
    resident(scene, "prod-1", (30, 0))
    resident(scene, "mid-1", (40, 0), priority=MID)
    args = {"usageThresholds": {"cpu": 65}, "prodUsageThresholds": {"cpu": 40}}
    tiny = {"cpu": "1m", "memory": "1"}
    assert scene.judge(LoadAware, pod(requests=tiny, priority=PRODUCTION), **args).fitting == {"node-a"}
    assert scene.judge(LoadAware, pod(requests=tiny, priority=MID), **args).fitting == set()


def test_production_pods_can_be_scored_by_the_use_of_production_pods() -> None:
    """Of 512 GiB, 100 are measured and 22.4 estimated. The requested cores exceed the node."""
    scene = Scene(big_node(0, 0))
    resident(scene, "prod-1", (30, 100), requests=("16", "32Gi"), age=0)
    huge = pod(requests={"cpu": "16000", "memory": "32Gi"}, priority=PRODUCTION)
    assert scene.judge(LoadAware, huge, scoreAccordingProdUsage=True).scores == {"node-a": 38}


@pytest.mark.parametrize(
    ("fields", "production"),
    [
        ({}, True),
        ({"requests": {}}, False),
        ({"requests": {}, "labels": {"koordinator.sh/qosClass": "LS"}}, True),
        ({"labels": {"koordinator.sh/qosClass": "BE"}}, False),
        ({"labels": {"koordinator.sh/qosClass": "?"}}, True),
        ({"priority": 9000, "requests": {}}, True),
        ({"priority": 7000}, False),
        ({"priority": 3999}, False),
        ({"priority": 100}, True),
        ({"priority": 9000, "labels": {"koordinator.sh/priority-class": "koord-batch"}}, False),
        ({"priority": 5000, "labels": {"koordinator.sh/priority-class": "koord-prod"}}, True),
        ({"priority": 5000, "labels": {"koordinator.sh/priority-class": "?"}}, True),
    ],
)
def test_priority_qos_and_labels_define_production_pods(fields: dict[str, Any], production: bool) -> None:
    """The node is fully used, but not by production pods."""
    judged = Scene(measured(100, 0)).judge(
        LoadAware, pod(**fields), usageThresholds={"cpu": 65}, prodUsageThresholds={"cpu": 65}
    )
    assert judged.fitting == ({"node-a"} if production else set())


def test_pods_of_daemon_sets_are_not_filtered() -> None:
    agent = pod(controller="apps/v1/DaemonSet/agent")
    assert Scene(measured(99, 99)).judge(LoadAware, agent).fitting == {"node-a"}


def test_a_threshold_of_zero_is_no_threshold() -> None:
    judged = Scene(measured(99, 99)).judge(LoadAware, pod(), usageThresholds={"cpu": 0})
    assert judged.status.code is Code.SKIP


def test_nodes_with_stale_measurements_are_not_ruled_out_and_score_zero() -> None:
    scene = Scene(measured(99, 99), measured(0, 0, name="node-b", at=NOW - 1))
    plugin = LoadAware(scene.handle, {})
    judged = scene.judging(plugin, pod(), DecisionTime(NOW + 180))
    assert judged.fitting == {"node-b"}
    assert judged.scores == {"node-a": 0, "node-b": 0}
    later = scene.judging(plugin, pod(), DecisionTime(NOW + 181))
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
def test_invalid_args_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of LoadAware: ") as caught:
        LoadAware(Scene().handle, args)
    assert problem in str(caught.value)


def test_node_annotation_updates_and_pod_deletions_are_registered() -> None:
    registrations = LoadAware(Scene().handle, {}).events_to_register()
    measured_anew = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ANNOTATION)
    for event in (measured_anew, ASSIGNED_POD_DELETE):
        assert any(each.event.covers(event) for each in registrations)
