"""Objects that kubelets and drivers write with empty lists, which the API server returns as null.

It needs an API server that returns empty lists as null.
"""

from collections.abc import Iterator

import pytest

from cluster.live import Node
from cluster.operator_process import OperatorProcess
from cluster.world import World
from tidelock.kube.client import ApiResource

_CSI_NODES = ApiResource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)


@pytest.fixture
def world(private_operator: OperatorProcess, private_world: World) -> Iterator[World]:
    """Yield a world without kubelets, and check at the end that the operator could read all objects."""
    yield private_world
    unreadable = {
        name: count
        for name, count in private_operator.metrics().items()
        if name.startswith("tidelock_unreadable_objects")
    }
    assert unreadable
    assert not any(unreadable.values())


def report_nameless_image(world: World, node: Node) -> None:
    """Report an image without a tag, as kubelets do."""
    node.merge({"status": {"images": [{"names": None, "sizeBytes": 1}]}}, "status")
    [image] = world.api.get(node.path)["status"]["images"]
    assert image.get("names", None) is None


def test_a_node_with_a_nameless_image_gets_pods_and_reservations(world: World) -> None:
    """Tidelock did not see a node with a nameless image."""
    node = world.node()
    report_nameless_image(world, node)
    other = world.node("b", cpu="1")

    assert world.pod("web-0", "3").until_bound() == node.name
    other.delete()
    world.active_reservation("web-1", "1", node)


def test_a_cordoned_node_with_a_new_nameless_image_gets_no_pod(world: World) -> None:
    """Tidelock kept the state from before the image, so it bound a pod to the cordoned node."""
    node = world.node()
    world.pod("before").until_bound()
    report_nameless_image(world, node)
    node.cordon()
    world.until_known(world.pod("seen-later", nodeName=node.name))  # another watch, so only a pause

    refused = world.pod("after")
    refused.until_refused("1 node(s) were unschedulable")
    node.cordon(on=False)
    assert refused.until_bound() == node.name


def test_a_node_with_a_csi_node_without_drivers_gets_pods(world: World) -> None:
    """The list of drivers is null, and Tidelock could not read the CSINode."""
    node = world.node()
    plain = {"metadata": {"name": node.name}, "spec": {"drivers": []}}
    created = world.api.create(_CSI_NODES.collection(), plain)
    try:
        assert created["spec"]["drivers"] is None
        assert world.pod().until_bound() == node.name
    finally:
        world.api.delete(_CSI_NODES.item(node.name))


def test_a_pod_with_a_limit_beyond_64_bits_is_scheduled(world: World) -> None:
    """Tidelock did not see the pod, because the limit in millicores does not fit 64 bits."""
    node = world.node()
    container = world.pod_spec("1")["containers"][0]
    container["resources"]["limits"] = {"cpu": "1E"}
    assert world.pod("bound", containers=[container]).until_bound() == node.name

    container["resources"]["requests"] = {"cpu": "1E"}
    world.pod("too-large", containers=[container]).until_refused("1 Insufficient cpu")
