"""Invalid specs: they hold nothing, a condition names the fault, and the operator keeps running.

It needs an API server that stores specs that only the operator can judge.
"""

from copy import deepcopy

import pytest

from cluster.api import Manifest, RefusedError
from cluster.live import Lock, condition
from cluster.malformed import API_SERVER_REFUSES, OPERATOR_REFUSES
from cluster.operator_process import OperatorProcess
from cluster.world import World
from tidelock.kube.client import RESERVATIONS

REFUSED = {name: manifest for name, manifest, _ in OPERATOR_REFUSES}


def store(world: World, manifest: Manifest, **spec: object) -> Lock:
    """Create a Reservation from the table of malformed ones, in the test's own namespace."""
    own = deepcopy(manifest)
    own["metadata"]["namespace"] = world.namespace
    own["spec"] |= spec
    return world.store(own)


def test_a_fault_that_only_the_operator_detects_is_rejected_and_named(world: World) -> None:
    reservation = store(world, REFUSED["wrong type in a part of the template that is kept as it is"])
    status = reservation.until_phase("Rejected")
    stalled = condition(status, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    assert "schedulerName" in stalled["message"]
    assert condition(status, "Active")["reason"] == "InvalidSpec"
    assert status["observedGeneration"] == 1


def test_an_invalid_spec_that_is_corrected_is_served(world: World) -> None:
    node = world.node()
    reservation = store(
        world, REFUSED["wrong type in a part of the template that is kept as it is"], nodeName=node.name
    )
    reservation.until_phase("Rejected")
    reservation.edit(template={"spec": {"schedulerName": None}})
    assert not condition(reservation.until_phase("Active"), "Stalled")


def test_an_active_reservation_with_a_spec_that_turns_invalid_keeps_its_amounts(world: World) -> None:
    node = world.node(cpu="2")
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    reservation = world.active_reservation(node=node, template=template)
    reservation.edit(template={"spec": {"schedulerName": 5}})
    reservation.until_condition("Stalled", "True", "InvalidSpec")
    assert condition(reservation.status(), "Active")["status"] == "True"
    world.pod("stranger").until_refused("reserved by")
    assert world.pod(cpu="2").until_bound() == node.name


def test_an_expire_at_in_the_past_expires_at_once(world: World) -> None:
    reservation = store(
        world, REFUSED["expireAt in the past"], retention="Retain", nodeName=world.node().name
    )
    assert "spec.expireAt" in condition(reservation.until_phase("Expired"), "Expired")["message"]
    assert reservation.phases() == ["Expired"]


def test_an_unknown_node_is_reported_until_the_deadline(world: World) -> None:
    reservation = store(world, REFUSED["unknown node"])
    reservation.until_condition("Active", "False", "NodeNotFound")
    reservation.edit(pendingDeadlineSeconds=1)
    assert "no-such-node" in condition(reservation.until_phase("Rejected"), "Active")["message"]


def test_the_operator_survives_every_manifest_that_the_api_server_refuses(
    world: World, operator: OperatorProcess
) -> None:
    for case in API_SERVER_REFUSES:
        with pytest.raises(RefusedError):
            world.api.create(RESERVATIONS.collection("default"), case.manifest)
    world.active_reservation(node=world.node())
    assert operator.running


def test_every_manifest_that_the_operator_refuses_leaves_it_running(
    world: World, operator: OperatorProcess
) -> None:
    reservations = [
        store(
            world,
            manifest | {"metadata": {"name": f"refused-{number}"}},
            pendingDeadlineSeconds=0,
            retention="Retain",
        )
        for number, (_, manifest, _) in enumerate(OPERATOR_REFUSES)
    ]
    world.active_reservation(node=world.node())
    for reservation in reservations:
        reservation.until(lambda found: found["status"].get("phase") in {"Rejected", "Expired"}, "be refused")
        assert "Active" not in reservation.phases()
    assert operator.running
