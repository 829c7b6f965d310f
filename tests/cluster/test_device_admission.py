"""The admission webhook refuses reserved devices to others, and detection names the claims that have some.

It needs an API server that calls the webhook for statuses of resource claims.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.accelerators import Accelerators, claiming_from, devices_of
from cluster.api import Manifest, RefusedError
from cluster.live import Live, Lock, Node
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import wait_for

VIOLATIONS = 'tidelock_reservation_violations_total{policy="Move"}'
EXEMPT = "kube-system"


@pytest.fixture
def accelerators(private_world: World) -> Iterator[Accelerators]:
    """Yield devices that only this test uses."""
    with closing(Accelerators(private_world)) as made:
        yield made


def reserved(world: World, accelerators: Accelerators, node: Node, *devices: str) -> tuple[Lock, str]:
    """Reserve one of a node's devices, and return the reservation with the name of the device."""
    accelerators.slice(node, *devices)
    reservation = world.active_reservation(node=node, template=pod_template(world, accelerators, "one"))
    (device,) = reservation.status()["devices"]
    assert (device["driver"], device["pool"]) == (accelerators.driver, node.name)
    return reservation, str(device["device"])


def pod_template(world: World, accelerators: Accelerators, name: str) -> Manifest:
    """Create a template of claims for one device, and return that of a pod with such a claim."""
    return {"spec": world.pod_spec("100m") | claiming_from(accelerators.template(name))}


def allocate(claim: Live, accelerators: Accelerators, node: Node, device: str) -> str:
    """Allocate a device to a claim as any client can, and return the text of a refusal, or an empty text."""
    result = {"request": "gpu", "driver": accelerators.driver, "pool": node.name, "device": device}
    try:
        claim.merge({"status": {"allocation": {"devices": {"results": [result]}}}}, "status")
    except RefusedError as refusal:
        return str(refusal)
    return ""


def test_a_reserved_device_is_refused_to_other_clients_and_a_free_one_counts_at_once(
    reviewing: OperatorProcess, private_world: World, accelerators: Accelerators
) -> None:
    node = private_world.node()
    reservation, held = reserved(private_world, accelerators, node, "gpu-0", "gpu-1")
    claims = [accelerators.claim(name) for name in ("first", "second")]
    name = f"device {accelerators.driver}/{node.name}/{held} is reserved by {private_world.namespace}/web-0"
    assert name in allocate(claims[0], accelerators, node, held)
    (free,) = {"gpu-0", "gpu-1"} - {held}
    assert allocate(claims[1], accelerators, node, free) == ""
    late = private_world.reservation(
        "late", node=node, template=pod_template(private_world, accelerators, "two")
    )
    late.until(lambda each: "cannot allocate all claims" in str(each["status"]), "find no device")
    assert reservation.status()["phase"] == "Active"
    assert devices_of(claims[1]) == [free]


def test_a_claim_that_takes_a_reserved_device_past_admission_is_named(
    reviewing: OperatorProcess, private_world: World, accelerators: Accelerators
) -> None:
    violations = reviewing.metrics().get(VIOLATIONS, 0)
    node = private_world.node()
    reservation, held = reserved(private_world, accelerators, node, "gpu-0")
    claim = accelerators.claim(private_world.namespace, namespace=EXEMPT)
    try:
        assert allocate(claim, accelerators, node, held) == ""
        taken = f"device {accelerators.driver}/{node.name}/{held} reserved on {node.name}"
        text = f"claim {EXEMPT}/{claim.name} took {taken}"
        assert reservation.until_condition("Violated", "True", "CapacityTaken")["message"] == text
        wait_for(lambda: "Violated" in private_world.event_reasons(reservation), what="the event", timeout=30)
        assert reviewing.metrics()[VIOLATIONS] == violations + 1
        assert "devices" not in reservation.status()
    finally:
        claim.delete()
    reservation.until_condition("Active", "True", "Admitted")
    assert [each["device"] for each in reservation.status()["devices"]] == [held]
