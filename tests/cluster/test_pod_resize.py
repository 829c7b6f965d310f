"""Pods that are resized in place, without a decision of a scheduler. The ledger follows their sizes.

It needs an API server that changes the sizes of pods through the subresource resize.
"""

from cluster.world import World


def test_a_pod_that_grows_into_reserved_capacity_violates_the_reservation_until_it_shrinks(
    world: World,
) -> None:
    node = world.node(cpu="4")
    pod = world.bound_pod(node, cpu="1")
    pod.grant("1")
    reservation = world.active_reservation("web-0", "3", node)
    pod.ask_for("2")
    text = f"pod {pod.namespace}/{pod.name} took cpu 1 reserved on {node.name}"
    assert reservation.until_condition("Violated", "True", "CapacityTaken")["message"] == text
    assert reservation.status()["resources"] == {"cpu": "2"}
    pod.ask_for("1")
    reservation.until_condition("Active", "True", "Restored")
    assert reservation.status()["resources"] == {"cpu": "3"}


def test_capacity_that_a_pod_gives_up_in_place_is_free_once_its_node_reports_it(world: World) -> None:
    node = world.node(cpu="4")
    pod = world.bound_pod(node, cpu="3")
    pod.grant("3")
    pod.ask_for("1")
    reservation = world.reservation("web-0", "3", node, pendingDeadlineSeconds=600)
    refused = reservation.until_condition("Active", "False", "InsufficientCapacity")
    assert "cpu 3 needed, 1 free" in refused["message"]
    pod.grant("1")
    reservation.until_phase("Active")
