"""Reservations with `reuse: Always`, while their owner is replaced.

It needs an API server that lets a ReplicaSet replace pods.
"""

import pytest

from cluster.api import RefusedError
from cluster.world import World
from tidelock.kube.client import PODS


def test_a_replacement_gets_the_reserved_capacity_of_its_predecessor(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node, reuse="Always")
    first = world.pod(cpu="2")
    assert first.until_bound() == node.name
    assert reservation.until_condition("Occupied", "True", "Occupied")["message"].endswith("/web-0 uses it")

    first.delete()
    reservation.until_condition("Occupied", "False", "Vacant")
    world.pod("stranger", cpu="1").until_refused("1 Insufficient cpu beside reservations")
    second = world.pod(cpu="2")
    assert second.until_bound() == node.name
    reservation.until(
        lambda found: found["status"].get("boundPod", {}).get("uid") == second.uid, "have the second"
    )
    assert reservation.phases() == ["Active"]
    with pytest.raises(RefusedError, match="reuse is immutable"):
        reservation.edit(reuse="Never")


def test_the_next_pod_of_a_deployment_uses_the_reservation_of_its_predecessor(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(
        "shop", "2", node, reuse="Always", owners=[{"selector": {"matchLabels": {"app": "shop"}}}]
    )
    world.deployment("shop", cpu="2")
    first = reservation.until(lambda found: found["status"].get("boundPod"), "have a pod")["status"][
        "boundPod"
    ]
    world.api.delete(PODS.item(first["name"], world.namespace))
    second = reservation.until(
        lambda found: found["status"].get("boundPod", first)["name"] != first["name"], "have the next pod"
    )
    assert second["status"]["used"] == {"cpu": "2"}
    assert reservation.phases() == ["Active"]
