import pytest

from builders import Json, encode, node, node_json, pod, pod_json
from tidelock.framework.events import (
    ANY_EVENT,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    RESERVATION_ACTIVE,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
    Resource,
    node_changes,
    pod_changes,
)
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, decode_pod


def edited_pod(**changes: Json) -> Pod:
    stored = pod_json(node_name="node-a")
    return decode_pod(encode({part: stored[part] | changes.get(part, {}) for part in stored}))


def edited_node(**changes: Json) -> Node:
    stored = node_json()
    return decode_node(encode({part: stored[part] | changes.get(part, {}) for part in stored}))


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (UNSCHEDULED_POD_ADD, "UnscheduledPodAdd"),
        (NODE_ADD, "NodeAdd"),
        (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(Resource.TARGET_POD, Action.UPDATE), "TargetPodUpdate"),
        (ClusterEvent(Resource.CSI_NODE, Action.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (RESERVATION_ACTIVE, "ReservationActive"),
    ],
)
def test_events_have_the_names_of_kube_scheduler(event: ClusterEvent, label: str) -> None:
    assert event.label == label


@pytest.mark.parametrize(
    ("registered", "event", "heard"),
    [
        (ClusterEvent(Resource.POD, Action.DELETE), ASSIGNED_POD_DELETE, True),
        (ClusterEvent(Resource.POD, Action.ADD), ASSIGNED_POD_DELETE, False),
        (ClusterEvent(Resource.POD, Action.ADD), UNSCHEDULED_POD_ADD, True),
        (ClusterEvent(Resource.POD, Action.UPDATE), ClusterEvent(Resource.TARGET_POD, Action.UPDATE), True),
        (ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), UNSCHEDULED_POD_ADD, False),
        (ClusterEvent(Resource.NODE, Action.DELETE), ASSIGNED_POD_DELETE, False),
        (ClusterEvent(Resource.TARGET_POD, Action.DELETE), ASSIGNED_POD_DELETE, False),
        (ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), NODE_ADD, True),
        (
            ClusterEvent(Resource.NODE, Action.UPDATE),
            ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL),
            True,
        ),
        (
            ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL),
            ClusterEvent(Resource.NODE, Action.UPDATE),
            False,
        ),
        (ANY_EVENT.event, RESERVATION_ACTIVE, True),
        (ANY_EVENT.event, ClusterEvent(Resource.POD, Action.UPDATE), True),
    ],
)
def test_a_registration_for_several_actions_covers_each_of_them(
    registered: ClusterEvent, event: ClusterEvent, heard: bool
) -> None:
    assert registered.covers(event) is heard


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({}, []),
        ({"status": {"phase": "Running"}}, []),
        ({"metadata": {"resourceVersion": "2"}}, []),
        ({"metadata": {"labels": {"app": "web"}}}, [Action.UPDATE_POD_LABEL]),
        ({"metadata": {"annotations": {"a": "b"}}}, [Action.UPDATE]),
        (
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}},
            [Action.UPDATE_POD_SCALE_DOWN],
        ),
        ({"spec": {"containers": [{"name": "main"}]}}, [Action.UPDATE_POD_SCALE_DOWN]),
        (
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
            [Action.UPDATE_POD_SCALE_UP],
        ),
        (
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "1Gi"}}}]}},
            [Action.UPDATE_POD_SCALE_DOWN, Action.UPDATE_POD_SCALE_UP],
        ),
        ({"spec": {"tolerations": [{"operator": "Exists"}]}}, [Action.UPDATE_POD_TOLERATION]),
        (
            {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
                "spec": {"tolerations": [{"operator": "Exists"}]},
            },
            [Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION],
        ),
    ],
)
def test_changes_of_a_pod_are_distinguished(changes: Json, actions: list[Action]) -> None:
    old, new = edited_pod(), edited_pod(**changes)

    assert list(pod_changes(old, new)) == [ClusterEvent(Resource.ASSIGNED_POD, a) for a in actions]


def test_gates_are_eliminated_when_the_last_one_goes() -> None:
    both = pod(schedulingGates=[{"name": "a"}, {"name": "b"}])
    one = pod(schedulingGates=[{"name": "b"}])

    def changes(old: Pod, new: Pod) -> list[ClusterEvent]:
        return list(pod_changes(old, new))

    eliminated = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert changes(both, one) == [ClusterEvent(Resource.TARGET_POD, Action.UPDATE)]
    assert changes(one, pod()) == [eliminated]


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (node(), node(version=2), []),
        (node(), node(cpu="8"), [Action.UPDATE_NODE_ALLOCATABLE]),
        (node(), node(labels={"zone": "a"}), [Action.UPDATE_NODE_LABEL]),
        (node(), node(taints=["a=b:NoSchedule"]), [Action.UPDATE_NODE_TAINT]),
        (node(cordoned=True), node(), [Action.UPDATE_NODE_TAINT]),
        (node(), node(cordoned=True), []),
        (node(ready=False), node(ready=True), [Action.UPDATE_NODE_CONDITION]),
        (edited_node(), edited_node(metadata={"annotations": {"a": "b"}}), [Action.UPDATE_NODE_ANNOTATION]),
        (
            node(cordoned=True, cpu="2"),
            node(labels={"zone": "a"}),
            [Action.UPDATE_NODE_ALLOCATABLE, Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT],
        ),
    ],
)
def test_changes_of_a_node_are_distinguished(old: Node, new: Node, actions: list[Action]) -> None:
    assert list(node_changes(old, new)) == [ClusterEvent(Resource.NODE, action) for action in actions]
