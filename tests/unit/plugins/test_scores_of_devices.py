"""Devices that provide an extended resource in the scores of the plugins for resources.

The numbers of the first two tests are those of kube-scheduler 1.37's own tests (plugins/noderesources,
fit_test.go and balanced_allocation_test.go), the counts those of resource_allocation_test.go.
"""

from typing import Any

import pytest

from builders import Json, node, pod
from devices import DRIVER, allocated, device, device_class, device_slice, put, resource_claim
from tidelock.model.pods import Pod
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from unit.plugins.scene import Scene

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
EIGHT = [f"device-{number}" for number in range(8)]
LARGE = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory.compareTo(quantity("8Gi")) >= 0'


def scoring(strategy: str, *resources: str) -> Json:
    weights = [{"name": each, "weight": 1} for each in resources]
    return {"scoringStrategy": {"type": strategy, "resources": weights}}


def wanting(count: int = 1, resource: str = GPU) -> Pod:
    return pod(requests={resource: str(count)})


def test_devices_count_as_an_amount_of_the_resource_that_they_provide() -> None:
    scene = Scene(node("node-a"), node("node-b"))
    put(scene.objects, device_class(resource=GPU))
    put(scene.objects, device_slice("a", "d-1", "d-2", "d-3", node_name="node-a"))
    put(scene.objects, device_slice("b", "d-1", "d-2", node_name="node-b"))
    scores = scene.judge(NodeResourcesFit, wanting(), **scoring("LeastAllocated", GPU)).scores
    assert scores == {"node-a": 66, "node-b": 50}


def test_devices_count_in_the_balance_of_resources() -> None:
    scene = Scene(*(node(name, cpu="3500m", memory="40000") for name in ("node-a", "node-b")))
    scene.cache.assume(pod("first", requests={"cpu": "3"}), "node-a")
    scene.cache.assume(pod("second", requests={"cpu": "3", "memory": "5000"}), "node-b")
    put(scene.objects, device_class(resource=GPU), device_slice("a", *EIGHT, node_name="node-a"))
    args = {"resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]}
    scores = scene.judge(NodeResourcesBalancedAllocation, wanting(), **args).scores
    assert scores == {"node-a": 76, "node-b": 75}


@pytest.mark.parametrize(
    ("claims", "used"),
    [
        ([], 0),
        ([allocated("d-1")], 1),
        ([allocated("d-1", shareID="one")], 1),
        ([allocated("d-1"), allocated("d-2", shareID="one")], 2),
        ([allocated("d-1", "d-2")], 2),
        ([allocated("d-1", adminAccess=True)], 0),
        ([allocated("d-1", pool="b")], 0),
    ],
)
def test_devices_that_claims_have_count_as_used(claims: list[Json], used: int) -> None:
    scene = Scene(node("node-a"))
    put(scene.objects, device_class(resource=GPU), device_slice("a", "d-1", "d-2", "d-3", "d-4"))
    put(scene.objects, *(resource_claim(f"claim-{n}", status=status) for n, status in enumerate(claims)))
    scores = scene.judge(NodeResourcesFit, wanting(), **scoring("MostAllocated", GPU)).scores
    assert scores == {"node-a": 25 * (used + 1)}


@pytest.mark.parametrize("kind", [NodeResourcesFit, NodeResourcesBalancedAllocation])
def test_a_change_of_devices_or_of_their_use_changes_the_score(kind: Any) -> None:
    """Check that the counts of a node are renewed after each kind of change."""
    scene = Scene(node("node-a"), node("node-b"))
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")
    put(scene.objects, device_class(resource=GPU), device_slice("a", "d-1", "d-2"))
    names = [GPU] if kind is NodeResourcesFit else ["cpu", GPU]
    args = scoring("MostAllocated", *names)
    if kind is NodeResourcesBalancedAllocation:
        args = {"resources": [{"name": name} for name in names]}
    plugin = kind(scene.handle, args)
    changes: tuple[list[Any], ...] = (
        [],
        [resource_claim("one", status=allocated("d-1"))],
        [device_slice("a", *EIGHT, "d-1", "d-2")],
        [resource_claim("one")],
        [device_class("gpu", 'device.driver == "other"', resource=GPU)],
        [device_class("gpu", resource=GPU), device_slice("b", "d-1", node_name="node-b")],
    )
    seen = set()
    for things in changes:
        put(scene.objects, *things)
        known = scene.judging(plugin, wanting()).scores
        assert known == scene.judging(kind(scene.handle, args), wanting()).scores
        seen.add(tuple(known.values()))
    assert len(seen) > len(changes) // 2


def test_only_devices_that_the_class_selects_count_on_nodes_that_reach_them() -> None:
    """Check upstream's slice with a node for each device: node-a reaches two, of which one is in use."""
    large, small = {"memory": "16Gi"}, {"memory": "4Gi"}
    zone = {"key": "zone", "operator": "In", "values": ["one"]}
    devices = [
        device("d-1", amounts=large, nodeName="node-a"),
        device("d-2", amounts=large, nodeName="other"),
        device("d-3", amounts=large, nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [zone]}]}),
        device("d-4", amounts=small, nodeName="node-a"),
    ]
    scene = Scene(node("node-a", labels={"zone": "one"}))
    put(scene.objects, device_class("gpu", LARGE, resource=GPU))
    put(scene.objects, device_slice("a", *devices, perDeviceNodeSelection=True))
    put(scene.objects, resource_claim("one", status=allocated("d-1")))
    for resource in (GPU, IMPLICIT):
        args = scoring("LeastAllocated", resource)
        assert scene.judge(NodeResourcesFit, wanting(0, resource), **args).scores == {"node-a": 0}
        assert scene.judge(NodeResourcesFit, wanting(1, resource), **args).scores == {"node-a": 0}
        args = scoring("MostAllocated", resource)
        assert scene.judge(NodeResourcesFit, wanting(1, resource), **args).scores == {"node-a": 100}


def test_a_node_with_the_resource_itself_counts_by_its_own_amount() -> None:
    scene = Scene(node("node-a", **{GPU: "4"}), node("node-b"))
    put(scene.objects, device_class(resource=GPU))
    put(scene.objects, device_slice("a", *EIGHT, node_name="node-a"))
    put(scene.objects, device_slice("b", *EIGHT, node_name="node-b"))
    scores = scene.judge(NodeResourcesFit, wanting(), **scoring("MostAllocated", GPU)).scores
    assert scores == {"node-a": 25, "node-b": 12}


def test_a_class_that_fails_for_a_device_counts_none_of_the_node() -> None:
    scene = Scene(node("node-a"), node("node-b"))
    put(scene.objects, device_class("gpu", LARGE, resource=GPU))
    memory = {"memory": "16Gi"}
    put(scene.objects, device_slice("a", device("d-1", amounts=memory), device("d-2")))
    put(scene.objects, device_slice("b", device("d-1", amounts=memory), node_name="node-b"))
    scores = scene.judge(NodeResourcesFit, wanting(), **scoring("MostAllocated", GPU)).scores
    assert scores == {"node-a": 0, "node-b": 100}
