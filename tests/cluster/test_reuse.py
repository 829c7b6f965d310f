"""A lock with `reuse: Always` through its owner's restart."""

import pytest

from cluster.api import RefusedError
from cluster.world import World
from tidelock.kube.client import PODS


def test_a_replacement_finds_the_room_that_its_forerunner_had(world: World) -> None:
    node = world.node(cpu="2")
    lock = world.active_lock(cpu="2", node=node, reuse="Always")
    first = world.pod(cpu="2")
    assert first.until_bound() == node.name
    assert lock.until_condition("Occupied", "True", "Occupied")["message"].endswith("/web-0 is in")

    first.delete()
    lock.until_condition("Occupied", "False", "Vacant")
    world.pod("stranger", cpu="1").until_refused("1 Insufficient cpu beside reservations")
    second = world.pod(cpu="2")
    assert second.until_bound() == node.name
    lock.until(lambda found: found["status"].get("boundPod", {}).get("uid") == second.uid, "have the second")
    assert lock.phases() == ["Active"]
    with pytest.raises(RefusedError, match="reuse is immutable"):
        lock.edit(reuse="Never")


def test_a_deployments_next_pod_takes_the_place_of_the_one_before(world: World) -> None:
    node = world.node(cpu="2")
    lock = world.active_lock(
        "shop", "2", node, reuse="Always", owners=[{"selector": {"matchLabels": {"app": "shop"}}}]
    )
    world.deployment("shop", cpu="2")
    first = lock.until(lambda found: found["status"].get("boundPod"), "have a pod")["status"]["boundPod"]
    world.api.delete(PODS.item(first["name"], world.namespace))
    second = lock.until(
        lambda found: found["status"].get("boundPod", first)["name"] != first["name"], "have the next pod"
    )
    assert second["status"]["used"] == {"cpu": "2"}
    assert lock.phases() == ["Active"]
