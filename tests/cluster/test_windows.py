"""Windows: reservations that begin later, on a real API server.

It needs an API server that stores instants of specs to the second.
"""

import pytest

from cluster.api import RefusedError
from cluster.live import condition, in_seconds
from cluster.world import World


def test_a_planned_reservation_excludes_other_pods_and_is_active_from_its_start(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.reservation(cpu="2", node=node, startAt=in_seconds(8), ttlSeconds=600)
    planned = reservation.until_phase("Planned")
    assert planned["nodeName"] == node.name
    assert condition(planned, "Active")["reason"] == "Planned"
    world.pod("stranger", cpu="1").until_refused("1 Insufficient cpu beside reservations")
    reservation.until_phase("Active")

    assert world.pod(cpu="2").until_bound() == node.name
    reservation.until_gone()
    assert reservation.phases() == ["Planned", "Active"]


def test_a_pod_that_ends_in_time_uses_the_capacity_before_the_window(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.reservation(cpu="2", node=node, startAt=in_seconds(3600))
    reservation.until_phase("Planned")
    short = world.pod("short", cpu="2", activeDeadlineSeconds=600)

    assert short.until_bound() == node.name
    world.pod("long", cpu="2", activeDeadlineSeconds=3600).until_refused("1 Insufficient cpu")
    assert reservation.phases() == ["Planned"]


def test_windows_after_one_another_share_a_node(world: World) -> None:
    node = world.node(cpu="2")
    hours = {"morning": 3600, "noon": 3 * 3600}
    for name, begins in hours.items():
        reservation = world.reservation(
            name, "2", node, startAt=in_seconds(begins), ttlSeconds=600, runSeconds=3600
        )
        reservation.until_phase("Planned")
    between = world.reservation("between", "2", node, startAt=in_seconds(2 * 3600), pendingDeadlineSeconds=0)
    between.until_phase("Rejected")


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"startAt": in_seconds(7200)}, "startAt is immutable"),
        ({"runSeconds": 60}, "spec.runSeconds: Forbidden: runSeconds is immutable"),
        ({"ttlSeconds": 60}, "spec.ttlSeconds: Forbidden: ttlSeconds is immutable beside runSeconds"),
    ],
    ids=["startAt", "runSeconds", "ttlSeconds"],
)
def test_the_times_of_a_planned_reservation_are_immutable(
    world: World, edit: dict[str, object], problem: str
) -> None:
    reservation = world.reservation(node=world.node(), startAt=in_seconds(3600), runSeconds=600)
    reservation.until_phase("Planned")
    with pytest.raises(RefusedError, match=problem):
        reservation.edit(**edit)


def test_a_reservation_cannot_end_before_it_begins(world: World) -> None:
    with pytest.raises(RefusedError, match="expireAt must be after startAt"):
        world.reservation(startAt=in_seconds(3600), expireAt=in_seconds(1800), ttlSeconds=None)
