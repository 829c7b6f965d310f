"""Crashes and outages: the ledger is rebuilt from the API, and no capacity is reserved twice.

It needs an API server that keeps and lists all objects after a crash, its own included.
"""

from decimal import Decimal

from cluster.api import Manifest
from cluster.live import condition, in_seconds, until_past
from cluster.operator_process import Launch
from cluster.world import World
from devcluster import LocalCluster, wait_for


def test_active_reservations_survive_a_crash(launch: Launch, private_world: World) -> None:
    world, operator = private_world, launch()
    node = world.node(cpu="4")
    reservations = [world.active_reservation(name, "2", node) for name in ("web-0", "web-1")]
    before = [reservation.status() for reservation in reservations]
    operator.kill()
    stranger = world.pod("stranger")
    operator.start()
    operator.ready()
    stranger.until_refused("4 reserved by")
    assert [reservation.status() for reservation in reservations] == before

    assert world.pod("web-0", cpu="2").until_bound() == node.name
    reservations[0].until_gone()
    assert reservations[1].status() == before[1]


def test_changes_while_the_operator_was_down_take_effect_at_its_start(
    launch: Launch, private_world: World
) -> None:
    world, operator = private_world, launch()
    node, doomed = world.node(cpu="8"), world.node("doomed")
    expiring = world.active_reservation("expiring", node=node, expireAt=in_seconds(4), retention="Retain")
    arrived = world.active_reservation("arrived", node=node, retention="Retain")
    deleted = world.active_reservation("deleted", node=node)
    shrunk = world.active_reservation("shrunk", "2", node)
    lost = world.active_reservation("lost", node=doomed)
    operator.kill()
    until_past(expiring.status()["expiresAt"])
    owner = world.pod("arrived", nodeName=node.name)
    deleted.delete()
    shrunk.edit(resources={"cpu": "1"})
    doomed.delete()
    late = world.reservation("late", "6", node)

    operator.start()
    expiring.until_phase("Expired")
    assert arrived.until_phase("Consumed")["boundPod"]["uid"] == owner.uid
    lost.until_phase("Lost")
    late.until_phase("Active")
    assert shrunk.until(lambda found: found["status"]["resources"] == {"cpu": "1"}, "shrink")
    assert world.taken_cpu(node) == Decimal(8)


def test_reservations_that_passed_their_deadline_while_the_operator_was_down_are_rejected(
    launch: Launch, private_world: World
) -> None:
    """Reservations became active at the start of the operator, 58 s after their creation and too late."""
    world, operator = private_world, launch()
    node = world.node(cpu="8")
    full = world.reservation("full", "9", node, pendingDeadlineSeconds=6)
    full.until_phase("Pending")
    leased = world.active_reservation("leased", node=node, lease={"durationSeconds": 1, "graceSeconds": 1})
    held = world.active_reservation("held", node=node, commit={"withinSeconds": 2})
    operator.kill()
    node.resize(cpu="16")
    gone = [
        world.reservation(f"gone-{seconds}", "1", node, pendingDeadlineSeconds=seconds) for seconds in (0, 5)
    ]
    gang = world.group(members=2, pendingDeadlineSeconds=5)
    patient = world.reservation("patient", "1", node, pendingDeadlineSeconds=600)
    until_past(in_seconds(7))

    operator.start()
    for reservation in (*gone, full):
        status = reservation.until_phase("Rejected")
        assert "had passed when the operator saw it" in condition(status, "Active")["message"]
        assert not any(says_active(version) for _, version in reservation.history())
    status = gang.until(lambda found: found["status"].get("phase") == "Rejected", "be rejected")["status"]
    assert condition(status, "Active")["reason"] == "DeadlineExceeded"
    patient.until_phase("Active")
    leased.until_gone()
    held.until_gone()
    assert world.taken_cpu(node) == Decimal(1)


def says_active(version: Manifest) -> bool:
    conditions = version.get("status", {}).get("conditions", [])
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def test_crashes_under_load_never_reserve_capacity_twice(launch: Launch, private_world: World) -> None:
    world, operator = private_world, launch()
    nodes = [world.node(name, cpu="10") for name in ("a", "b")]
    for burst in range(3):
        for number in range(10):
            world.reservation(f"lock-{burst}-{number}", "1", retention="Retain")
            world.pod(f"pod-{burst}-{number}")
            world.pod(f"lock-{burst}-{number}")
        operator.kill()
        for node in nodes:
            assert world.taken_cpu(node) <= 10
        operator.start()
    operator.ready()

    def taken() -> list[Decimal]:
        return [world.taken_cpu(node) for node in nodes]

    wait_for(lambda: taken() == [10, 10], what="the nodes to be full")
    stranger = world.pod("stranger")
    stranger.until_refused("Insufficient cpu")
    assert taken() == [10, 10]


def test_the_operator_survives_an_outage_of_the_api_server(
    launch: Launch, private_world: World, private_cluster: LocalCluster
) -> None:
    world, operator = private_world, launch()
    node = world.node(cpu="4")
    held = world.active_reservation("held", "2", node)
    end = in_seconds(4)
    expiring = world.active_reservation("expiring", "2", node, expireAt=end, retention="Retain")
    before = held.status()
    private_cluster.apiserver.stop()
    until_past(end)
    private_cluster.apiserver.start()

    assert expiring.until_phase("Expired")["expiresAt"] == end
    assert world.pod("stranger", cpu="2").until_bound() == node.name
    assert held.status() == before
    assert world.pod("held", cpu="2").until_bound() == node.name
    assert operator.stop() == 0
    assert "Traceback" not in operator.log
