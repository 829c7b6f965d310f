"""Measured use, from a real Prometheus to the annotations of real objects and the status of a WaterLevel.

It needs an API server that stores annotations of nodes and workloads of several writers.
"""

import math
from collections.abc import Callable

import pytest

from cluster.api import Api, Manifest
from cluster.live import Live, Node, condition
from cluster.operator_process import OperatorProcess
from cluster.water_level import NODE_COUNTER, POD_COUNTER, until_rated, water_level
from cluster.workloads import install_clone_sets, make_workloads
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter
from tidelock.kube.client import EVENTS, WATERLEVELS
from tidelock.model.usage_annotations import (
    CRANE_METRICS,
    NODE_LEVEL,
    POD_USAGE,
    CraneReading,
    NodeLevel,
    PodUsage,
    decode_crane,
    decode_crane_hot_value,
    decode_node_level,
    decode_pod_usage,
)

OURS = {NODE_LEVEL, POD_USAGE}


@pytest.fixture
def world(private_world: World, private_cluster: LocalCluster) -> World:
    install_clone_sets(private_cluster)
    return private_world


@pytest.fixture
def operator(private_operator: OperatorProcess, world: World) -> OperatorProcess:
    return private_operator


def has(kind: str, status: str) -> Callable[[Manifest], bool]:
    return lambda found: condition(found.get("status", {}), kind).get("status") == status


def level_of(node: Manifest) -> NodeLevel:
    level = decode_node_level(node["metadata"]["annotations"][NODE_LEVEL])
    assert isinstance(level, NodeLevel)
    return level


def measured(cpu: float, memory: float) -> Callable[[Manifest], bool]:
    """Return a check that a node is annotated with these means of the last 15 minutes, in percent."""

    def check(node: Manifest) -> bool:
        if NODE_LEVEL not in node["metadata"].get("annotations", {}):
            return False
        uses = level_of(node).windows["15m"]
        return uses.keys() == {"cpu", "memory"} and (
            math.isclose(uses["cpu"].mean, cpu, abs_tol=2.0)
            and math.isclose(uses["memory"].mean, memory, abs_tol=0.1)
        )

    return check


def event_reasons(api: Api, level: Live) -> set[str]:
    events = api.get(f"{EVENTS.collection('default')}?fieldSelector=regarding.name={level.name}")["items"]
    return {event["reason"] for event in events if event["regarding"]["uid"] == level.uid}


def three_nodes(world: World, exporter: Exporter) -> list[Node]:
    """Create nodes that use 20, 40 and 60 percent of their CPU, and half of their memory."""
    nodes = [world.node(name) for name in ("a", "b", "c")]
    exporter.nodes |= {node.name: (part, 0.5) for node, part in zip(nodes, (0.2, 0.4, 0.6), strict=True)}
    return nodes


def test_levels_are_annotated_and_summed_up_in_the_status(
    world: World, exporter: Exporter, prometheus: PrometheusServer, operator: OperatorProcess
) -> None:
    nodes = three_nodes(world, exporter)
    until_rated(prometheus.url, NODE_COUNTER)
    level = water_level(
        world, prometheus.url, craneAnnotations=True, target={"mode": "Dynamic", "minWeight": 1}
    )

    for node, part in zip(nodes, (20, 40, 60), strict=True):
        found = node.until(measured(part, 50), f"be measured at {part} %")
        crane = [decode_crane(found["metadata"]["annotations"][name]) for name in CRANE_METRICS]
        assert all(isinstance(each, CraneReading) for each in crane)
        assert isinstance(
            decode_crane_hot_value(found["metadata"]["annotations"]["node_hot_value"]), CraneReading
        )
        (managed,) = [
            each for each in found["metadata"]["managedFields"] if each["manager"] == "tidelock-load"
        ]
        assert managed["operation"] == "Apply"
    found = level.until(
        lambda seen: has("Ready", "True")(seen) and seen["status"]["nodesMeasured"] == 3,
        "sum up three nodes",
    )
    status = found["status"]
    expected = {"mean": 40, "min": 20, "max": 60, "standardDeviation": 16, "target": 30}
    assert {name: pytest.approx(value, abs=2) for name, value in expected.items()} == status["cpu"]
    assert status["memory"] == {"mean": 50, "min": 50, "max": 50, "standardDeviation": 0, "target": 50}
    assert (status["nodesStale"], status["nodesMissing"], status["nodesInvalid"]) == (0, 0, 0)
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert condition(status, "MetricsStale")["status"] == "False"
    assert "finalizers" not in found["metadata"]
    metrics = operator.metrics()
    assert metrics[f'tidelock_water_level_nodes{{quality="fresh",waterlevel="{level.name}"}}'] == 3
    assert metrics['tidelock_water_level_patches_total{kind="Node",result="written"}'] >= 3


def test_kubectl_get_shows_a_water_level_as_a_table(
    world: World,
    exporter: Exporter,
    prometheus: PrometheusServer,
    operator: OperatorProcess,
    private_cluster: LocalCluster,
) -> None:
    three_nodes(world, exporter)
    target = {"mode": "Static", "percent": 45}
    always = {"name": "always", "start": "@yearly", "end": "@yearly", "target": target, "weightPercent": 50}
    until_rated(prometheus.url, NODE_COUNTER)
    level = water_level(world, prometheus.url, tides=[always], overloadLimits={"cpuPercent": 80})
    level.until(  # a rate needs two samples, so the memory is known earlier
        lambda seen: seen.get("status", {}).get("cpu", {}).get("mean") in {39, 40, 41},
        "be measured",
    )

    header, row = private_cluster.kubectl("get", "waterlevels", level.name).splitlines()
    assert header.split() == ["NAME", "TARGET", "MEAN", "MAX", "STDDEV", "NODES", "STALE", "TIDE", "AGE"]
    name, percent, *numbers, nodes, stale, tide, _age = row.split()
    assert (name, percent, nodes, stale, tide) == (level.name, "45", "3", "0", "always")
    assert [int(each) for each in numbers] == pytest.approx([40, 60, 16], abs=2)
    status = world.api.get(WATERLEVELS.item(level.name))["status"]
    assert (status["weightPercent"], status["cpu"]["limit"]) == (50, 80)
    assert status["nextTideChange"].endswith("-01-01T00:00:00Z")


def test_the_use_of_one_pod_is_annotated_on_workloads_as_long_as_a_water_level_exists(
    world: World, exporter: Exporter, prometheus: PrometheusServer, operator: OperatorProcess
) -> None:
    node, *_ = three_nodes(world, exporter)
    workloads = make_workloads(world, node)
    for part, live in enumerate(workloads.values(), start=1):
        exporter.pods[world.namespace, live.name] = (part / 10, part * 2.0**20)
    until_rated(prometheus.url, NODE_COUNTER, POD_COUNTER)
    water_level(world, prometheus.url)

    assert workloads
    for part, live in enumerate(workloads.values(), start=1):
        found = live.until(
            lambda seen: "cpu" in seen["metadata"].get("annotations", {}).get(POD_USAGE, ""),
            "be annotated",
        )
        usage = decode_pod_usage(found["metadata"]["annotations"][POD_USAGE])
        assert isinstance(usage, PodUsage)
        assert usage.windows["15m"]["memory"].mean == part * 2**20
        assert 0 < usage.windows["15m"]["cpu"].mean <= part / 10 * 1.2

    operator.kill()
    world.api.delete_all(WATERLEVELS.collection())
    operator.start()
    operator.ready()
    for live in (node, *workloads.values()):
        found = live.until(
            lambda seen: not OURS & seen["metadata"].get("annotations", {}).keys(), "be cleared"
        )
        assert all(each["manager"] != "tidelock-load" for each in found["metadata"]["managedFields"])


def test_a_server_that_dies_makes_levels_stale_and_never_zero(
    world: World, exporter: Exporter, prometheus: PrometheusServer, operator: OperatorProcess
) -> None:
    nodes = three_nodes(world, exporter)
    until_rated(prometheus.url, NODE_COUNTER)
    level = water_level(world, prometheus.url, stalenessSeconds=10)
    for node, part in zip(nodes, (20, 40, 60), strict=True):
        node.until(measured(part, 50), f"be measured at {part} %")
    level.until(has("Ready", "True"), "be ready")

    prometheus.component.kill()
    stale = level.until(has("MetricsStale", "True"), "be stale")

    assert stale["status"]["nodesStale"] == 3
    assert condition(stale["status"], "Ready")["reason"] == "SourceUnreachable"
    for node, part in zip(nodes, (20, 40, 60), strict=True):
        found = node.read()
        assert found is not None
        assert measured(part, 50)(found)
    prometheus.component.start()
    level.until(has("MetricsStale", "False"), "be fresh again")
    wait_for(
        lambda: event_reasons(world.api, level),
        until={"Measured", "NothingFresh", "SourceUnreachable"}.issubset,
        what="events of the transitions",
    )


def test_invalid_and_missing_samples_of_nodes_are_left_out_of_the_statistics(
    world: World, exporter: Exporter, prometheus: PrometheusServer, operator: OperatorProcess
) -> None:
    bad, missing, good = three_nodes(world, exporter)
    exporter.nodes[bad.name] = (0.2, math.nan)
    del exporter.nodes[missing.name]
    until_rated(prometheus.url, NODE_COUNTER)
    level = water_level(world, prometheus.url)

    good.until(measured(60, 50), "be measured")
    found = level.until(
        lambda seen: (
            seen.get("status", {}).get("nodesMissing") == 1 and seen["status"].get("nodesMeasured", 0) >= 1
        ),
        "tell of its nodes",
    )
    assert NODE_LEVEL not in (missing.read() or {})["metadata"].get("annotations", {})
    partly = bad.read()
    assert partly is not None
    assert "memory" not in partly["metadata"].get("annotations", {}).get(NODE_LEVEL, "")
    assert found["status"]["memory"]["min"] == 50


def test_an_edited_spec_counts_at_once(
    world: World, exporter: Exporter, prometheus: PrometheusServer, operator: OperatorProcess
) -> None:
    nodes = three_nodes(world, exporter)
    until_rated(prometheus.url, NODE_COUNTER)
    level = water_level(world, prometheus.url)
    level.until(has("Ready", "True"), "be ready")
    for node in nodes:
        node.until(lambda seen: NODE_LEVEL in seen["metadata"].get("annotations", {}), "be annotated")

    level.merge({"spec": {"nodeSelector": {"matchLabels": {"no": "such"}}}})
    found = level.until(has("Ready", "False"), "have no node")

    assert condition(found["status"], "Ready")["reason"] == "NoNodes"
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    for node in nodes:
        node.until(lambda seen: NODE_LEVEL not in seen["metadata"].get("annotations", {}), "be cleared")
    level.delete()
    level.until_gone()
