"""Reservations hold devices: no other pod gets them, and the owner gets exactly these.

It needs an API server that stores allocations of several clients in one order.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from cluster.accelerators import Accelerators, claiming_from, devices_of
from cluster.api import Manifest
from cluster.live import Live, Lock
from cluster.operator_process import Launch
from cluster.versions import needs_extended_resources
from cluster.world import World


@pytest.fixture
def accelerators(world: World) -> Iterator[Accelerators]:
    """Yield devices that only this test uses."""
    with closing(Accelerators(world)) as made:
        yield made


def lock(world: World, template: Live, name: str = "web-0", **spec: Any) -> Lock:
    """Create a reservation for a pod with a claim from a template."""
    pod = {"spec": world.pod_spec("100m") | claiming_from(template)}
    manifest = world.manifest(name, template=pod, **spec)
    del manifest["spec"]["nodeSelector"]  # the template has it
    return world.store(manifest)


def test_the_owner_gets_the_held_device_and_strangers_get_others(
    world: World, accelerators: Accelerators
) -> None:
    node = world.node("a")
    world.node("b")
    accelerators.slice(node, "gpu-0", "gpu-1")
    template = accelerators.template("gpus")
    with_claim = claiming_from(template)

    held = lock(world, template)
    status = held.until_phase("Active")
    (device,) = status["devices"]
    assert status["nodeName"] == node.name
    assert device == {
        "claim": "gpu",
        "resourceClaimTemplateName": template.name,
        "request": "gpu",
        "deviceClassName": device["deviceClassName"],
        "driver": accelerators.driver,
        "pool": node.name,
        "device": "gpu-0",
    }

    first = world.pod("stranger-0", "100m", **with_claim)
    assert first.until_bound() == node.name
    assert accelerators.of_pod(first) == ["gpu-1"]
    second = world.pod("stranger-1", "100m", **with_claim)
    second.until_refused(f"gpu-0 reserved by {world.namespace}/web-0")
    rival = lock(world, template, "rival", pendingDeadlineSeconds=0)
    assert "devices" not in rival.until_phase("Rejected")

    owner = world.pod("web-0", "100m", **with_claim)
    assert owner.until_bound() == node.name
    assert accelerators.of_pod(owner) == ["gpu-0"]
    held.until_gone()


@needs_extended_resources
def test_a_reservation_of_an_extended_resource_holds_devices_of_its_class(
    world: World, accelerators: Accelerators
) -> None:
    node = world.node("a")
    accelerators.slice(node, "gpu-0", "gpu-1", "gpu-2")
    manifest = world.manifest("web-0", resources={accelerators.resource: "2"})
    held = world.store(manifest)
    devices = held.until_phase("Active")["devices"]
    assert [(each["device"], each["resourceName"]) for each in devices] == [
        ("gpu-0", accelerators.resource),
        ("gpu-1", accelerators.resource),
    ]

    first = world.pod("stranger-0", **accelerators.asking())
    assert first.until_bound() == node.name
    assert accelerators.of_extended_resources(first) == ["gpu-2"]
    second = world.pod("stranger-1", **accelerators.asking())
    second.until_refused(f"reserved by {world.namespace}/web-0")

    owner = world.pod("web-0", **accelerators.asking(2))
    assert owner.until_bound() == node.name
    assert accelerators.of_extended_resources(owner) == ["gpu-0", "gpu-1"]
    held.until_gone()


def test_a_device_is_free_once_its_reservation_is_gone(world: World, accelerators: Accelerators) -> None:
    node = world.node("a")
    accelerators.slice(node, "gpu-0")
    template = accelerators.template("gpus")
    held = lock(world, template)
    held.until_phase("Active")
    stranger = world.pod("stranger", "100m", **claiming_from(template))
    stranger.until_refused("gpu-0 reserved by")

    held.delete()

    assert stranger.until_bound() == node.name
    assert accelerators.of_pod(stranger) == ["gpu-0"]


def test_held_devices_survive_a_crash(launch: Launch, private_world: World) -> None:
    world, operator = private_world, launch()
    node = world.node("a")
    with closing(Accelerators(world)) as accelerators:
        accelerators.slice(node, "gpu-0")
        held = lock(world, accelerators.template("gpus"))
        before = held.until_phase("Active")
        operator.kill()
        claims = [accelerators.claim(name) for name in ("of-stranger", "of-owner")]  # without a controller
        uses: list[Manifest] = [
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim.name}]} for claim in claims
        ]
        refused = world.pod("stranger", "100m", **uses[0])
        operator.start()
        operator.ready()
        refused.until_refused("gpu-0 reserved by")
        assert held.status() == before

        assert world.pod("web-0", "100m", **uses[1]).until_bound() == node.name
        assert devices_of(claims[1]) == ["gpu-0"]
        held.until_gone()
