import json
from typing import Any

import msgspec
import pytest

from builders import NAMESPACE, node, pod
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Code
from tidelock.framework.events import ASSIGNED_POD_DELETE
from tidelock.model.pods import Pod
from tidelock.model.workloads import Workload
from tidelock.plugins.workload_topology_spread.plugin import WorkloadTopologySpread
from unit.plugins.scene import Scene

ZONE = "topology.kubernetes.io/zone"
SET = "apps/v1/StatefulSet/web"


def world() -> Scene:
    """Return two nodes in zone a, one in zone b, and one without a zone."""
    zones = {"node-a": "a", "node-b": "a", "node-c": "b"}
    return Scene(
        *(node(name, labels={ZONE: zone, "host": name}) for name, zone in zones.items()), node("node-d")
    )


def web(name: str, **fields: Any) -> Pod:
    return pod(name, controller=SET, **fields)


def limits(**constraint: Any) -> dict[str, Any]:
    return {"constraints": [{"topologyKey": ZONE, **constraint}]}


def stateful_set(replicas: int) -> Workload:
    plain = {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"replicas": replicas}}
    return msgspec.json.decode(json.dumps(plain), type=Workload)


def test_a_domain_gets_at_most_the_allowed_number_of_pods() -> None:
    scene = world()
    scene.cache.assume(web("web-0"), "node-a")
    plugin = WorkloadTopologySpread(scene.handle, limits(maxPods=2))
    assert scene.judging(plugin, web("web-1")).fitting == {"node-a", "node-b", "node-c", "node-d"}

    scene.cache.assume(web("web-1"), "node-b")
    judged = scene.judging(plugin, web("web-2"))
    assert judged.fitting == {"node-c", "node-d"}
    assert judged.reasons("node-a") == (WorkloadTopologySpread.reason,)
    assert judged.preemption_may_help("node-a")
    assert judged.narrowed("node-b", "node-c").mask.tolist() == [False, True]

    scene.cache.remove("uid-web-0")
    assert scene.judging(plugin, web("web-2")).fitting == {"node-a", "node-b", "node-c", "node-d"}


@pytest.mark.parametrize(("replicas", "fits"), [(3, False), (4, False), (5, True), (0, False)])
def test_a_percentage_of_the_replicas_is_rounded_up(replicas: int, fits: bool) -> None:
    """A quarter of up to four replicas is one pod, and of five two. Without replicas one is still allowed."""
    scene = world()
    scene.objects.stateful_sets.upsert(None, stateful_set(replicas))
    scene.cache.assume(web("web-0"), "node-a")
    judged = scene.judge(WorkloadTopologySpread, web("web-1"), **limits(maxPercent=25))
    assert ("node-b" in judged.fitting) is fits


def test_the_existing_pods_count_if_the_number_of_replicas_is_unknown() -> None:
    scene = world()
    job = {"controller": "batch/v1/Job/sums"}
    scene.cache.assume(pod("sums-0", **job), "node-a")
    judged = scene.judge(WorkloadTopologySpread, pod("sums-1", **job), **limits(maxPercent=50))
    assert judged.fitting == {"node-c", "node-d"}


def test_only_pods_of_the_same_controller_count() -> None:
    scene = world()
    scene.cache.assume(pod("other", controller="apps/v1/StatefulSet/other"), "node-a")
    scene.cache.assume(pod("bare"), "node-a")
    scene.cache.upsert(web("leaving", node_name="node-a", deleted=True))
    judged = scene.judge(WorkloadTopologySpread, web("web-0"), **limits(maxPods=1))
    assert len(judged.fitting) == 4


@pytest.mark.parametrize(
    "wanting",
    [
        pod("bare"),
        web(
            "web-1",
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            ],
        ),
    ],
    ids=["of no workload", "with constraints of its own"],
)
def test_pods_without_a_workload_or_with_own_constraints_are_skipped(wanting: Pod) -> None:
    scene = world()
    scene.cache.assume(web("web-0"), "node-a")
    judged = scene.judge(WorkloadTopologySpread, wanting, **limits(maxPods=1))
    assert judged.status.code is Code.SKIP
    assert set(judged.scores.values()) == {0}


def test_without_constraints_the_plugin_skips() -> None:
    judged = world().judge(WorkloadTopologySpread, web("web-0"))
    assert judged.status.code is Code.SKIP
    assert set(judged.scores.values()) == {0}


def test_a_preferred_constraint_rules_out_no_node_and_is_scored() -> None:
    scene = world()
    for number in range(3):
        scene.cache.assume(web(f"web-{number}"), "node-a")
    scene.cache.assume(web("web-3"), "node-c")
    args = limits(maxPods=2, whenUnsatisfiable="ScheduleAnyway")
    judged = scene.judge(WorkloadTopologySpread, web("web-4"), **args)
    assert judged.status.code is Code.SKIP
    assert judged.scores == {"node-a": 0, "node-b": 0, "node-c": 50, "node-d": 100}


def test_all_constraints_must_be_met_and_are_scored_in_the_mean() -> None:
    scene = world()
    scene.cache.assume(web("web-0"), "node-a")
    args = {"constraints": [{"topologyKey": "host", "maxPods": 1}, {"topologyKey": ZONE, "maxPods": 4}]}
    judged = scene.judge(WorkloadTopologySpread, web("web-1"), **args)
    assert judged.fitting == {"node-b", "node-c", "node-d"}
    assert judged.scores == {"node-a": 37.5, "node-b": 87.5, "node-c": 100, "node-d": 100}


def test_added_and_removed_pods_change_the_counts_of_the_state() -> None:
    scene = world()
    scene.cache.assume(web("web-0"), "node-a")
    judged = scene.judge(WorkloadTopologySpread, web("web-1"), **limits(maxPods=1))
    plugin = judged.plugin
    assert isinstance(plugin, WorkloadTopologySpread)
    gone = judged.copied()
    plugin.remove_pod(gone.state, gone.pod, Placed(web("web-0"), "node-a", assumed=False), gone.snapshot)
    assert len(gone.fitting) == 4
    plugin.add_pod(gone.state, gone.pod, Placed(web("web-9"), "node-c", assumed=True), gone.snapshot)
    assert gone.fitting == {"node-a", "node-b", "node-d"}
    for other, where in ((pod("bare"), "node-c"), (web("web-8"), "node-d"), (web("web-7"), "gone")):
        plugin.add_pod(judged.state, judged.pod, Placed(other, where, assumed=True), judged.snapshot)
    leaving = Placed(web("web-0", deleted=True), "node-a", assumed=False)
    plugin.remove_pod(judged.state, judged.pod, leaving, judged.snapshot)
    assert judged.fitting == {"node-c", "node-d"}


def test_a_pod_that_is_seen_several_times_counts_once() -> None:
    scene = world()
    plugin = WorkloadTopologySpread(scene.handle, limits(maxPods=2))
    for _ in range(2):
        scene.cache.assume(web("web-0"), "node-a")
        scene.cache.upsert(web("web-0", node_name="node-a"))
    assert scene.judging(plugin, web("web-1")).fitting == {"node-a", "node-b", "node-c", "node-d"}
    scene.cache.upsert(web("web-0", node_name="node-a", deleted=True))
    scene.cache.remove("uid-web-0")
    for name in ("web-5", "web-6"):
        scene.cache.assume(web(name), "node-a")
    scene.cache.remove("uid-web-6")
    scene.cache.assume(web("web-7"), "node-that-nobody-knows")
    assert scene.judging(plugin, web("web-1")).scores["node-a"] == 50


def test_a_deleted_pod_wakes_only_pods_of_its_workload() -> None:
    plugin = WorkloadTopologySpread(world().handle, limits(maxPods=2))
    registration = plugin.events_to_register()[0]
    assert registration.event.covers(ASSIGNED_POD_DELETE)
    assert registration.hint is not None
    assert registration.hint(web("web-1"), web("web-0"), None)
    assert not registration.hint(web("web-1"), pod("bare"), None)
    assert not registration.hint(web("web-1"), pod("other", controller="apps/v1/StatefulSet/other"), None)


@pytest.mark.parametrize(
    ("constraint", "problem"),
    [
        ({}, "constraints[0]: exactly one of maxPods and maxPercent is required"),
        (
            {"maxPods": 1, "maxPercent": 1},
            "constraints[0]: exactly one of maxPods and maxPercent is required",
        ),
        ({"maxPods": 0}, "Expected `int` >= 1"),
        ({"maxPercent": 101}, "Expected `int` <= 100"),
        ({"maxPods": 1, "topologyKey": ""}, "Expected `str` of length >= 1"),
        ({"maxPods": 1, "whenUnsatisfiable": "Never"}, "Invalid enum value 'Never'"),
        ({"maxPods": 1, "maxSkew": 1}, "Object contains unknown field `maxSkew`"),
    ],
)
def test_invalid_args_are_refused(constraint: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of WorkloadTopologySpread: ") as caught:
        WorkloadTopologySpread(Scene().handle, limits(**constraint))
    assert problem in str(caught.value)
