"""Specs that lock nothing: who says so, where, and that the operator is none the worse for them."""

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
    """Create a Reservation of the tables in the test's own namespace."""
    own = deepcopy(manifest)
    own["metadata"]["namespace"] = world.namespace
    own["spec"] |= spec
    return world.store(own)


def test_what_only_the_operator_can_see_is_rejected_and_named(world: World) -> None:
    lock = store(world, REFUSED["wrong type in a part of the template that is kept as it is"])
    status = lock.until_phase("Rejected")
    stalled = condition(status, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    assert "schedulerName" in stalled["message"]
    assert condition(status, "Active")["reason"] == "InvalidSpec"
    assert status["observedGeneration"] == 1


def test_an_invalid_spec_that_is_put_right_is_served(world: World) -> None:
    node = world.node()
    lock = store(
        world, REFUSED["wrong type in a part of the template that is kept as it is"], nodeName=node.name
    )
    lock.until_phase("Rejected")
    lock.edit(template={"spec": {"schedulerName": None}})
    assert not condition(lock.until_phase("Active"), "Stalled")


def test_an_active_lock_whose_spec_turns_invalid_holds_what_it_had(world: World) -> None:
    node = world.node(cpu="2")
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    lock = world.active_lock(node=node, template=template)
    lock.edit(template={"spec": {"schedulerName": 5}})
    lock.until_condition("Stalled", "True", "InvalidSpec")
    assert condition(lock.status(), "Active")["status"] == "True"
    world.pod("stranger").until_refused("locked by")
    assert world.pod(cpu="2").until_bound() == node.name


def test_an_expire_at_in_the_past_expires_at_once(world: World) -> None:
    lock = store(world, REFUSED["expireAt in the past"], retention="Retain", nodeName=world.node().name)
    assert "spec.expireAt" in condition(lock.until_phase("Expired"), "Expired")["message"]
    assert lock.phases() == ["Expired"]


def test_a_node_that_is_unknown_is_told_until_the_deadline(world: World) -> None:
    lock = store(world, REFUSED["unknown node"])
    lock.until_condition("Active", "False", "NodeNotFound")
    lock.edit(pendingDeadlineSeconds=1)
    assert "no-such-node" in condition(lock.until_phase("Rejected"), "Active")["message"]


def test_the_operator_survives_every_manifest_that_the_api_server_refuses(
    world: World, operator: OperatorProcess
) -> None:
    for case in API_SERVER_REFUSES:
        with pytest.raises(RefusedError):
            world.api.create(RESERVATIONS.collection("default"), case.manifest)
    world.active_lock(node=world.node())
    assert operator.running


def test_every_manifest_that_the_operator_refuses_leaves_it_running(
    world: World, operator: OperatorProcess
) -> None:
    locks = [
        store(
            world,
            manifest | {"metadata": {"name": f"refused-{number}"}},
            pendingDeadlineSeconds=0,
            retention="Retain",
        )
        for number, (_, manifest, _) in enumerate(OPERATOR_REFUSES)
    ]
    world.active_lock(node=world.node())
    for lock in locks:
        lock.until(lambda found: found["status"].get("phase") in {"Rejected", "Expired"}, "be refused")
        assert "Active" not in lock.phases()
    assert operator.running
