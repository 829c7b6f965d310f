"""A lock with `reuse: Always` through its owner's restart."""

import pytest

from cluster.api import RefusedError
from cluster.world import World


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
