"""The events that may help pods which a plugin refused."""

from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import Plugin
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    RESERVATION_ACTIVE,
    RESERVATION_FREED,
    Action,
    ClusterEvent,
    Resource,
    pod_changes,
)
from tidelock.ledger.owners.awaited import NAMED_BY_NONE
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.node_affinity import NodeAffinityPlugin
from tidelock.plugins.node_declared_features import NodeDeclaredFeatures
from tidelock.plugins.node_name import NodeName
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.plugins.scheduling_gates import SchedulingGates
from tidelock.plugins.taint_toleration import TaintToleration
from unit.plugins.hinting import change_wakes, changes, wakes, woken_by
from unit.plugins.scene import Scene

GPU = pod(requests={"cpu": "1", "example.com/gpu": "1"})
OF_USER_2 = pod(tolerations=[{"key": "dedicated", "value": "user2", "effect": "NoSchedule"}])
EVERYTHING = [{"operator": "Exists"}]
TAINTED = node(taints=["dedicated=batch:NoSchedule"])


def gpus(count: int, **fields: str) -> Node:
    return node(**{"example.com/gpu": str(count)}, **fields)


def of_users(*numbers: int) -> Node:
    return node(taints=[f"dedicated=user{number}:NoSchedule" for number in numbers])


@pytest.mark.parametrize(
    ("kind", "refused", "old", "new", "hopeful"),
    [
        (NodeResourcesFit, pod(), None, node(), True),
        (NodeResourcesFit, pod(), None, node(cpu="500m"), False),
        (NodeResourcesFit, pod(), None, node(pods="0"), False),
        (NodeResourcesFit, pod(), node(cpu="500m"), node(cpu="1"), True),
        (NodeResourcesFit, pod(), node(cpu="2"), node(cpu="1"), False),
        (NodeResourcesFit, pod(), node(memory="1Gi"), node(memory="2Gi"), False),
        (NodeResourcesFit, pod(), node(pods="1"), node(pods="2"), True),
        (NodeResourcesFit, pod(), TAINTED, node(), False),
        (NodeResourcesFit, GPU, None, node(**{"example.com/fpga": "1"}), False),
        (NodeResourcesFit, GPU, None, gpus(2), True),
        (NodeResourcesFit, GPU, gpus(2), gpus(1, **{"example.com/fpga": "2"}), False),
        (NodeResourcesFit, GPU, gpus(1), gpus(2), True),
        (NodeResourcesFit, GPU, gpus(2), gpus(2, cpu="500m"), False),
        (NodeResourcesFit, GPU, gpus(2, cpu="500m"), gpus(2), True),
        (NodeUnschedulable, pod(), None, node(), True),
        (NodeUnschedulable, pod(), None, node(cordoned=True), False),
        (NodeUnschedulable, pod(), node(cordoned=True), node(), True),
        (NodeUnschedulable, pod(), TAINTED, node(), False),
        (NodeUnschedulable, pod(), node(cordoned=True), node(cordoned=True, taints=["a=b:NoExecute"]), False),
        (NodeDeclaredFeatures, pod(), None, node(), True),
        (NodeDeclaredFeatures, pod(), node(), node(features=["Other"]), True),
        (NodeDeclaredFeatures, pod(), TAINTED, node(), False),
        (NodeName, pod(node_name="node-a"), None, node("node-a"), True),
        (NodeName, pod(node_name="node-a"), None, node("node-b"), False),
        (TaintToleration, pod(), None, node(), True),
        (TaintToleration, pod(), None, TAINTED, False),
        (TaintToleration, pod(), TAINTED, node(), True),
        (TaintToleration, pod(tolerations=EVERYTHING), TAINTED, node(), False),
        (TaintToleration, pod(), node(), node(taints=["a=b:PreferNoSchedule"]), False),
        (TaintToleration, OF_USER_2, None, of_users(1), False),
        (TaintToleration, OF_USER_2, None, of_users(2), True),
        (TaintToleration, OF_USER_2, of_users(1), of_users(1, 3), False),
        (TaintToleration, OF_USER_2, of_users(1), of_users(2), True),
        (NodeAffinityPlugin, pod(nodeSelector={"zone": "a"}), None, node(labels={"zone": "a"}), True),
        (NodeAffinityPlugin, pod(nodeSelector={"zone": "a"}), None, node(labels={"zone": "b"}), False),
        (NodeAffinityPlugin, pod(nodeSelector={"zone": "a"}), node(), node(labels={"zone": "a"}), True),
        (
            NodeAffinityPlugin,
            pod(nodeSelector={"zone": "a"}),
            node(labels={"zone": "a"}),
            node(labels={"zone": "a", "rack": "1"}),
            False,
        ),
        (NodeAffinityPlugin, pod(nodeSelector={"zone": "a"}), node(), node(labels={"rack": "1"}), False),
        (NodeAffinityPlugin, pod(nodeSelector={"zone": "a"}), node(labels={"zone": "a"}), node(), False),
        (ReservationPlugin, pod(), None, node(), True),
        (ReservationPlugin, pod(), None, node(cpu="500m"), False),
        (ReservationPlugin, pod(), node(), node(cordoned=True), False),
    ],
)
def test_a_node_event_wakes_a_pod_only_if_the_plugin_would_accept_the_node(
    kind: type[Plugin], refused: Pod, old: Node | None, new: Node, hopeful: bool
) -> None:
    assert change_wakes(kind, refused, old, new) is hopeful


OTHER = pod("other", node_name="node-a", requests={"cpu": "2", "memory": "2Gi"})
LESS_MEMORY = pod("other", node_name="node-a", requests={"cpu": "2", "memory": "1Gi"})


@pytest.mark.parametrize(
    ("kind", "event", "old", "new", "hopeful"),
    [
        (NodeResourcesFit, ASSIGNED_POD_DELETE, OTHER, None, True),
        (NodeResourcesFit, ASSIGNED_POD_ADD, None, OTHER, False),
        (NodeResourcesFit, RESERVATION_FREED, None, None, False),
        (NodeResourcesFit, NODE_DELETE, node(), None, False),
        (ReservationPlugin, ASSIGNED_POD_DELETE, OTHER, None, True),
        (ReservationPlugin, RESERVATION_FREED, None, None, True),
        (NodeName, ASSIGNED_POD_DELETE, OTHER, None, False),
        (TaintToleration, ASSIGNED_POD_DELETE, OTHER, None, False),
        (NodeAffinityPlugin, ASSIGNED_POD_DELETE, OTHER, None, False),
        (NodeUnschedulable, ASSIGNED_POD_DELETE, OTHER, None, False),
    ],
)
def test_freed_capacity_wakes_only_pods_of_plugins_that_count_capacity(
    kind: type[Plugin], event: ClusterEvent, old: Any, new: Any, hopeful: bool
) -> None:
    assert wakes(kind, pod(), event, old, new) is hopeful


@pytest.mark.parametrize(("requests", "hopeful"), [({"cpu": "1"}, False), ({"memory": "1Gi"}, True)])
def test_a_pod_that_lowers_a_request_wakes_pods_that_request_that_resource(
    requests: dict[str, str], hopeful: bool
) -> None:
    (event,) = pod_changes(OTHER, LESS_MEMORY)

    assert wakes(NodeResourcesFit, pod(requests=requests), event, OTHER, LESS_MEMORY) is hopeful


def test_a_node_without_an_ignored_resource_wakes_a_pod_that_requests_it() -> None:
    refused = pod(requests={"cpu": "1", "example.com/left": "1"})
    plugin = NodeResourcesFit(Scene().handle, {"ignoredResources": ["example.com/left"]})

    assert woken_by(plugin, refused, [NODE_ADD], None, node())
    assert not change_wakes(NodeResourcesFit, refused, None, node())


@pytest.mark.parametrize(
    ("kind", "new", "hopeful"),
    [
        (NodeResourcesFit, pod(requests={"cpu": "500m"}), True),
        (NodeResourcesFit, pod(tolerations=EVERYTHING), False),
        (NodeUnschedulable, pod(tolerations=EVERYTHING), True),
        (NodeUnschedulable, pod(tolerations=[{"key": "other", "operator": "Exists"}]), False),
        (TaintToleration, pod(tolerations=EVERYTHING), True),
        (TaintToleration, pod(labels={"app": "web"}), False),
        (ReservationPlugin, pod(labels={"app": "web"}), True),
        (ReservationPlugin, pod(annotations={"tidelock.dev/require-reservation": "true"}), True),
        (NodeDeclaredFeatures, pod(labels={"app": "web"}), False),
        (NodeDeclaredFeatures, pod(hostNetwork=True, hostUsers=False), True),
    ],
)
def test_an_update_of_a_refused_pod_wakes_it_if_the_plugin_reads_the_field(
    kind: type[Plugin], new: Pod, hopeful: bool
) -> None:
    assert any(wakes(kind, new, event, pod(), new) for event in pod_changes(pod(), new)) is hopeful


@pytest.mark.parametrize(("requests", "hopeful"), [({"cpu": "1"}, False), ({"memory": "1Gi"}, True)])
def test_a_pod_that_lowers_a_request_of_the_whole_pod_wakes_others(
    requests: dict[str, str], hopeful: bool
) -> None:
    old, new = (
        pod("other", node_name="node-a", requests={}, resources={"requests": {"memory": memory}})
        for memory in ("2Gi", "1Gi")
    )
    refused = pod(requests={}, resources={"requests": requests})

    assert change_wakes(NodeResourcesFit, refused, old, new) is hopeful


@pytest.mark.parametrize(
    ("old", "new", "hopeful"),
    [
        (None, node(labels={"foo": "bar"}), True),
        (None, node(), False),
        (node(labels={"zone": "a"}), node(labels={"foo": "bar"}), True),
        (node(labels={"foo": "bar"}), node(labels={"foo": "bar", "zone": "a"}), False),
    ],
)
def test_a_node_must_match_the_added_affinity_too(old: Node | None, new: Node, hopeful: bool) -> None:
    terms = [{"matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    plugin = NodeAffinityPlugin(Scene().handle, {"addedAffinity": required})

    assert woken_by(plugin, pod(), changes(old, new), old, new) is hopeful


def test_scheduling_gates_wait_only_for_an_update_of_the_pod_itself() -> None:
    gated = pod(schedulingGates=[{"name": "hold"}])
    (own,) = pod_changes(gated, pod())
    others = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)

    assert wakes(SchedulingGates, pod(), own, gated, pod())
    assert not wakes(SchedulingGates, pod(), others, gated, pod())


@pytest.mark.parametrize(("name", "hopeful"), [("web-0", True), ("web-1", False)])
def test_an_active_reservation_wakes_only_its_owner(name: str, hopeful: bool) -> None:
    entry = Scene(node()).reservation(owner="web-0", name="lock")

    assert wakes(ReservationPlugin, pod(name), RESERVATION_ACTIVE, None, entry) is hopeful
    assert not wakes(ReservationPlugin, pod(name, namespace="other"), RESERVATION_ACTIVE, None, entry)


def test_a_pod_that_requires_its_reservation_passes_pre_enqueue_once_one_is_active() -> None:
    scene = Scene(node())
    plugin = ReservationPlugin(scene.handle, {})
    wanting = pod(annotations={"tidelock.dev/require-reservation": "true"})
    scene.reservation("foreign", owner="web-1")

    assert plugin.pre_enqueue(pod()).ok
    refused = plugin.pre_enqueue(wanting)
    assert refused.reasons == (NAMED_BY_NONE,)
    scene.reservation("own", owner="web-0")
    assert plugin.pre_enqueue(wanting).ok
