"""Pods with resource claims get devices of their node, which are allocated before they are bound.

It needs an API server that validates the allocations of resource claims.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.accelerators import Accelerators, claiming, devices_of
from cluster.versions import needs_extended_resources
from cluster.world import World


@pytest.fixture
def accelerators(world: World) -> Iterator[Accelerators]:
    """Yield devices that only this test uses."""
    with closing(Accelerators(world)) as made:
        yield made


def test_pods_get_different_devices_until_none_is_left(world: World, accelerators: Accelerators) -> None:
    node = world.node("a")
    world.node("b")
    accelerators.slice(node, "gpu-0", "gpu-1")
    claims = [accelerators.claim(f"gpu-{index}") for index in range(3)]
    pods = [world.pod(f"web-{index}", "100m", **claiming(claim)) for index, claim in enumerate(claims[:2])]
    for pod in pods:
        assert pod.until_bound() == node.name
    assert sorted(device for claim in claims[:2] for device in devices_of(claim)) == ["gpu-0", "gpu-1"]
    stored = claims[0].until(lambda each: each["status"].get("reservedFor"), "have a user")
    assert stored["status"]["reservedFor"] == [{"resource": "pods", "name": pods[0].name, "uid": pods[0].uid}]
    assert stored["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]

    late = world.pod("web-2", "100m", **claiming(claims[2]))
    late.until_refused("cannot allocate all claims")
    freed = devices_of(claims[0])
    pods[0].delete()  # the controller of claims takes the devices back
    assert late.until_bound() == node.name
    assert devices_of(claims[2]) == freed


def test_an_expression_chooses_the_device_and_the_node(world: World, accelerators: Accelerators) -> None:
    small, large = world.node("a"), world.node("b")
    for node, memory in ((small, "10Gi"), (large, "80Gi")):
        accelerators.slice(node, {"name": "gpu-0", "capacity": {"memory": {"value": memory}}})
    wanted = f"device.capacity['{accelerators.driver}'].memory.compareTo(quantity('40Gi')) >= 0"
    claim = accelerators.claim("large", wanted)
    first = world.pod("first", **claiming(claim))
    assert first.until_bound() == large.name
    second = world.pod("second", **claiming(claim))
    assert second.until_bound() == large.name, "a shared claim keeps its pods on one node"


def test_a_pod_waits_for_its_claim(world: World, accelerators: Accelerators) -> None:
    node = world.node("a")
    accelerators.slice(node, "gpu-0")
    pod = world.pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    pod.until(lambda found: "could not find ResourceClaim" in str(found["status"]), "wait for its claim")
    accelerators.claim("gpu")
    assert pod.until_bound() == node.name


@needs_extended_resources
def test_devices_provide_an_extended_resource(world: World, accelerators: Accelerators) -> None:
    node = world.node("a")
    world.node("b")
    accelerators.slice(node, "gpu-0", "gpu-1")
    pod = world.pod("trainer", **accelerators.asking(2))
    assert pod.until_bound() == node.name
    status = pod.until(lambda each: each["status"].get("extendedResourceClaimStatus"), "name its claim")[
        "status"
    ]
    made = status["extendedResourceClaimStatus"]
    mapping = {
        "containerName": "main",
        "resourceName": accelerators.resource,
        "requestName": "container-0-request-0",
    }
    assert made["requestMappings"] == [mapping]
    claim = accelerators.stored(made["resourceClaimName"])
    assert sorted(devices_of(claim)) == ["gpu-0", "gpu-1"]

    late = world.pod("late", **accelerators.asking(1))
    late.until_refused("cannot allocate all claims")
    pod.delete()  # the garbage collector deletes its claim
    assert late.until_bound() == node.name


@needs_extended_resources
def test_a_claim_that_an_attempt_has_left_goes_before_the_next_one(
    world: World, accelerators: Accelerators
) -> None:
    pod = world.pod("trainer", **accelerators.asking())
    world.node("a")
    pod.until_refused("cannot allocate all claims")
    leftover = accelerators.leftover(pod)
    more = world.node("b")
    accelerators.slice(more, "gpu-0")
    assert pod.until_bound() == more.name
    leftover.until_gone()
