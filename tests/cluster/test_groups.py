"""Groups of reservations: all members get capacity or none, and a gang of pods consumes them one by one.

It needs an API server that creates and deletes members with their owner references.
"""

from functools import partial

import pytest

from cluster.api import Manifest, RefusedError
from cluster.live import Live, Lock, Pod, condition
from cluster.operator_process import Launch
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import RESERVATIONS


def in_phase(phase: str, found: Manifest) -> bool:
    return bool(found["status"].get("phase") == phase)


def until_phase(group: Live, phase: str) -> Manifest:
    status: Manifest = group.until(partial(in_phase, phase), f"be {phase}")["status"]
    return status


def until_refused(group: Live, text: str) -> Manifest:
    def says(found: Manifest) -> bool:
        conditions = found["status"].get("conditions", [])
        return any(each["type"] == "Active" and text in each["message"] for each in conditions)

    status: Manifest = group.until(says, f"have a message with {text!r}")["status"]
    return status


def until_taken(group: Live, count: int) -> None:
    group.until(lambda found: found["status"].get("consumed") == count, f"have {count} members taken")


def members(world: World, name: str = "train", count: int = 2) -> list[Lock]:
    return [world.member(f"{name}-worker-{number}") for number in range(count)]


def gang_pod(world: World, number: int) -> Pod:
    """Create a pod that can consume any member."""
    name = f"train-{number}"
    return world.pod(name, metadata={"name": name, "namespace": world.namespace, "labels": {"job": "train"}})


def test_all_members_become_active_at_once_with_the_same_end(world: World) -> None:
    nodes = [world.node(name, cpu="2") for name in ("a", "b")]
    group = world.group(members=3)
    status = until_phase(group, "Active")
    assert (status["members"], status["ready"], status["consumed"]) == (3, 3, 0)
    reservations = [reservation.until_phase("Active") for reservation in members(world, count=3)]
    assert {reservation["nodeName"] for reservation in reservations} == {node.name for node in nodes}
    assert {reservation["expiresAt"] for reservation in reservations} == {status["expiresAt"]}
    assert {reservation["activatedAt"] for reservation in reservations} == {status["activatedAt"]}
    assert condition(status, "Ready")["status"] == "True"


def test_no_member_is_active_before_all_are_stored_with_their_nodes(world: World) -> None:
    world.node(cpu="4")
    collection = RESERVATIONS.collection(world.namespace)
    before = world.api.get(collection)["metadata"]["resourceVersion"]
    world.group(members=4)
    placed: set[str] = set()
    active: set[str] = set()
    for _, told in world.api.watch(collection, 60, resourceVersion=before):
        name, status = told["metadata"]["name"], told["status"]
        if status.get("nodeName"):
            placed.add(name)
        if condition(status, "Active").get("status") == "True":
            assert len(placed) == 4, f"{name} is active, and only {placed} have a node"
            active.add(name)
        if len(active) == 4:
            return
    raise AssertionError(f"only {active} are active")


def test_members_are_packed_into_one_zone_or_spread_over_all(world: World) -> None:
    zone = "topology.tidelock.dev/zone"
    for name in ("x1", "x2", "y1", "y2"):
        world.node(name, cpu="2", labels={zone: f"{world.namespace}-{name[0]}"})

    def zones(group: str) -> list[str]:
        places = [reservation.until_phase("Active")["nodeName"] for reservation in members(world, group, 4)]
        return sorted(place.rpartition("-")[2][0] for place in places)

    packed = world.group("packed", members=4, topology={"mode": "Pack", "key": zone})
    until_phase(packed, "Active")
    assert zones("packed") == ["x"] * 4
    first = world.member("packed-worker-0")  # it can be gone as soon as its group is
    packed.delete()
    first.until_gone()
    until_phase(world.group("spread", members=4, topology={"mode": "Spread", "key": zone}), "Active")
    assert zones("spread") == ["x", "x", "y", "y"]


def test_a_group_that_does_not_fit_holds_nothing_and_reports_the_numbers(world: World) -> None:
    node = world.node(cpu="3")
    group = world.group(members=4)
    told = until_refused(group, "needs capacity for 4 reservations at once, and 3 fit")
    message = condition(told, "Active")["message"]
    assert "1 Insufficient cpu" in message
    assert "cpu 1 needed, 0 free" in message
    assert world.pod("stranger", "3").until_bound() == node.name
    assert [reservation.status().get("nodeName") for reservation in members(world, count=4)] == [None] * 4
    world.node("more", cpu="4")
    until_phase(group, "Active")


def test_one_of_two_groups_that_need_the_same_capacity_gets_all_of_it(world: World) -> None:
    """Without gangs each group could hold half of the capacity, and wait for ever for the other half."""
    for name in ("a", "b"):
        world.node(name, cpu="2")
    groups = [world.group(name, members=3, ttlSeconds=600) for name in ("one", "two")]

    def phases() -> list[str]:
        return [(group.read() or {})["status"].get("phase", "") for group in groups]

    wait_for(
        phases, until=lambda found: sorted(found) == ["Active", "Pending"], what="one group to be active"
    )
    winner = phases().index("Active")
    until_refused(groups[1 - winner], "needs capacity for 3 reservations at once")
    groups[winner].delete()
    until_phase(groups[1 - winner], "Active")


def test_a_group_without_capacity_in_time_is_rejected_with_all_its_members(world: World) -> None:
    world.node(cpu="1")
    group = world.group(members=2, pendingDeadlineSeconds=1, retention="Retain")
    status = until_phase(group, "Rejected")
    assert condition(status, "Stalled")["reason"] == "DeadlineExceeded"
    for reservation in members(world):
        assert "nodeName" not in reservation.until_phase("Rejected")


def test_a_gang_of_pods_consumes_the_group_member_by_member(world: World) -> None:
    for name in ("a", "b"):
        world.node(name, cpu="2")
    group = world.group(members=4, retention="Retain")
    until_phase(group, "Active")
    world.pod("stranger").until_refused("Insufficient cpu beside reservations")
    for number in range(4):
        gang_pod(world, number).until_bound()
        until_taken(group, number + 1)
    status = until_phase(group, "Consumed")
    assert (status["ready"], status["consumed"]) == (0, 4)
    taken = [
        reservation.until_phase("Consumed")["boundPod"]["name"] for reservation in members(world, count=4)
    ]
    assert sorted(taken) == [f"train-{number}" for number in range(4)]


def test_all_members_expire_in_the_same_moment(world: World) -> None:
    node = world.node(cpu="2")
    group = world.group(members=2, ttlSeconds=1, retention="Retain")
    until_phase(group, "Expired")
    ends = {reservation.until_phase("Expired")["expiresAt"] for reservation in members(world)}
    assert len(ends) == 1
    assert world.pod("stranger", "2").until_bound() == node.name


def test_deleting_a_group_releases_all_of_it(world: World) -> None:
    node = world.node(cpu="2")
    group = world.group(members=2)
    until_phase(group, "Active")
    reservations = members(world)
    group.delete()
    assert world.pod("stranger", "2").until_bound() == node.name
    for reservation in reservations:
        reservation.until_gone()


def test_a_consumed_group_is_deleted_with_its_members(world: World) -> None:
    world.node(cpu="2")
    group = world.group(members=2)
    until_phase(group, "Active")
    reservations = members(world)
    for number in range(2):
        gang_pod(world, number).until_bound()
    group.until_gone()
    for reservation in reservations:
        reservation.until_gone()


def test_all_members_wait_again_when_one_member_loses_its_node(world: World) -> None:
    nodes = {world.node(name, cpu="1").name: name for name in ("a", "b")}
    group = world.group(members=2, pendingDeadlineSeconds=600)
    before = until_phase(group, "Active")
    lost = members(world)[0].until_phase("Active")["nodeName"]
    world.api.delete(f"/api/v1/nodes/{lost}")
    until_refused(group, "needs capacity for 2 reservations at once, and 1 fit")
    (left,) = (name for name in nodes if name != lost)
    assert world.pod("stranger").until_bound() == left
    world.node("c", cpu="2")
    after = until_phase(group, "Active")
    assert after["expiresAt"] == before["expiresAt"]


def test_members_count_against_the_quota_and_all_wait_for_it(world: World) -> None:
    world.node(cpu="8")
    quota = world.quota(hard={"cpu": "3"})
    group = world.group(members=4)
    until_refused(group, "exceeded quota: team")
    assert "nodeName" not in world.member("train-worker-0").status()
    quota.merge({"spec": {"hard": {"cpu": "4"}}})
    until_phase(group, "Active")
    quota.until(lambda found: found["status"].get("used") == {"cpu": "4"}, "count the members")


def test_a_member_that_is_deleted_by_hand_is_created_again(world: World) -> None:
    world.node(cpu="2")
    group = world.group(members=2)
    until_phase(group, "Active")
    member = members(world)[0]
    member.delete()
    member.until_gone()
    again = wait_for(
        lambda: world.member(member.name), until=lambda found: found.uid != member.uid, what="another member"
    )
    again.until_phase("Active")
    until_phase(group, "Active")


def test_another_reservation_with_the_name_of_a_member_blocks_its_group(world: World) -> None:
    world.node(cpu="4")
    other = world.reservation("train-worker-1")
    group = world.group(members=2)
    until_refused(group, "there is another Reservation train-worker-1")
    other.delete()
    until_phase(group, "Active")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"members": []}, "spec.members"),
        ({"members": 300}, "spec.members"),
        ({"members": [{"name": "worker", "resources": {"cpu": "1"}}] * 2}, "Duplicate value"),
        (
            {"members": [{"name": f"k{n}", "count": 100, "resources": {"cpu": "1"}} for n in range(3)]},
            "a group has at most 256 members",
        ),
        ({"members": 2, "minMembers": 3}, "minMembers is more than there are members"),
        (
            {"members": 2, "expireAt": "2035-01-01T00:00:00Z", "ttlSeconds": 1},
            "exactly one of ttlSeconds and",
        ),
        ({"members": [{"name": "worker"}]}, "exactly one of resources and template"),
        ({"name": "t" * 181}, "metadata.name: the name of a group has at most 180 characters"),
    ],
)
def test_a_malformed_group_is_refused(world: World, spec: Manifest, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        world.group(**spec)


def test_neither_a_group_nor_a_member_can_be_edited(world: World) -> None:
    world.node(cpu="2")
    group = world.group(members=2)
    with pytest.raises(RefusedError, match="spec of a group is immutable"):
        group.merge({"spec": {"ttlSeconds": 5}})
    member = world.member("train-worker-0")
    with pytest.raises(RefusedError, match="spec of a group's member is immutable"):
        member.edit(ttlSeconds=5)
    reservation = world.reservation("single")
    membership = {"name": "train", "uid": group.uid, "members": 2, "minMembers": 2}
    with pytest.raises(RefusedError, match="neither joins a group nor leaves one"):
        reservation.edit(group=membership)
    with pytest.raises(RefusedError, match="reuse is refused beside group"):
        world.reservation("member", group=membership, reuse="Always")


def test_after_a_crash_a_group_stays_active_and_its_pod_consumes_no_second_member(
    launch: Launch, private_world: World
) -> None:
    """A bound pod has consumed its member, even if that member was deleted while the operator was down."""
    world, operator = private_world, launch()
    world.node(cpu="3")
    group = world.group(members=3, retention="Retain")
    until_phase(group, "Active")
    pod = gang_pod(world, 0)
    pod.until_bound()
    until_taken(group, 1)

    def consumed() -> list[Lock]:
        return [
            reservation
            for reservation in members(world, count=3)
            if reservation.status().get("phase") == "Consumed"
        ]

    (taken,) = wait_for(consumed, what="a member to be stored as consumed")
    left = [reservation for reservation in members(world, count=3) if reservation.uid != taken.uid]
    before = [reservation.status() for reservation in left]
    operator.kill()
    operator.start()
    operator.ready()
    world.pod("stranger").until_refused("Insufficient cpu beside reservations")
    assert [reservation.status() for reservation in left] == before

    operator.kill()
    taken.delete()
    operator.start()
    operator.ready()
    until_taken(group, 0)
    until_refused(group, "needs capacity for 3 reservations at once")
    assert all("boundPod" not in reservation.status() for reservation in left)


def test_a_crash_before_all_members_are_stored_leaves_no_part_of_a_group_active(
    launch: Launch, private_world: World
) -> None:
    world, operator = private_world, launch()
    world.node(cpu="6")
    for burst in range(3):
        group = world.group(f"g{burst}", members=3)
        wait_for(
            lambda: world.api.get(RESERVATIONS.collection(world.namespace))["items"],
            what="a member to be made",
        )
        operator.kill()
        operator.start()
        operator.ready()

        def held(name: str = f"g{burst}") -> int:
            reservations = world.api.get(RESERVATIONS.collection(world.namespace))["items"]
            mine = [
                reservation for reservation in reservations if reservation["spec"]["group"]["name"] == name
            ]
            return sum(reservation["status"].get("phase") == "Active" for reservation in mine)

        if burst < 2:
            until_phase(group, "Active")
            wait_for(held, until=lambda found: found == 3, what="all to be active")
        else:
            until_refused(group, "needs capacity for 3 reservations at once")
            assert held() == 0
