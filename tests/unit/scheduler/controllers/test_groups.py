"""The members of a ReservationGroup, and its status."""

import asyncio

from builders import NAMESPACE, NOW, encode, node
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.model.instants import format_instant
from tidelock.model.reservation_group import decode_group
from unit.scheduler.gang import OWNERS, worker
from unit.scheduler.grouped import KEY, PATH, GroupScene, group, group_json
from unit.scheduler.machinery import lock_path, turns


async def test_members_are_created_once_and_are_owned_by_their_group() -> None:
    scene = GroupScene()
    scene.ask(priority=7)
    async with scene.open():
        scene.see()
        await turns(30)
        made = scene.api.objects[lock_path("train-worker-1")]
        assert scene.api.verbs.count("POST") == 2
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-train"
    assert made["spec"] == {
        "resources": {"cpu": "1"},
        "owners": OWNERS,
        "ttlSeconds": 600,
        "priority": 7,
        "retention": "Retain",
        "group": {"name": "train", "uid": "uid-train", "members": 2, "minMembers": 2},
    }
    assert scene.condition("Active")["message"] == "0 of 2 reservations are made"


async def test_a_large_group_does_not_delay_the_next_one_of_its_namespace() -> None:
    """Regression: beside a group of 256 members, another of its namespace got no status for many seconds."""
    scene = GroupScene()
    scene.api.gate.clear()
    large = [{"name": "worker", "count": 100, "resources": {"cpu": "1"}, "owners": OWNERS}]
    small = group_json()
    small["metadata"] |= {"name": "small", "uid": "uid-small"}
    scene.api.objects[RESERVATIONGROUPS.item("small", NAMESPACE)] = small
    async with scene.open():
        scene.ask(members=large, status={"observedGeneration": 1})  # the controller has seen it before
        await turns(30)
        scene.controller.upsert(None, decode_group(encode(small)))
        await turns(30)
        scene.api.gate.set()
        await turns(300)
    asked = [each.path if each.method == "PUT" else each.body["metadata"]["name"] for each in scene.api.asked]
    answered = asked.index(f"{RESERVATIONGROUPS.item('small', NAMESPACE)}/status")
    assert answered < asked.index("train-worker-60")


async def test_a_large_group_has_a_status_before_its_members_are_created() -> None:
    """Regression: the group had no status until all 256 members were created, which took 4 to 30 s."""
    scene = GroupScene()
    async with scene.open():
        scene.ask(members=[{"name": "worker", "count": 100, "resources": {"cpu": "1"}, "owners": OWNERS}])
        await turns(300)
    first, *others = (each.method for each in scene.api.asked)
    assert first == "PUT"
    assert others.count("POST") == 100
    assert scene.condition("Active")["message"] == "0 of 100 reservations are made"


async def test_the_status_of_a_group_follows_its_members_until_all_are_consumed() -> None:
    scene = GroupScene()
    scene.ask(retention="Retain")
    async with scene.open():
        await scene.go_on()
        assert (scene.status["phase"], scene.status["ready"]) == ("Active", 2)
        assert scene.condition("Ready")["status"] == "True"
        for number in range(2):
            scene.shell.add(worker(number))
            scene.shell.decider.bound(scene.shell.place(), NOW)
            await scene.go_on()
            assert scene.status["consumed"] == number + 1
    assert (scene.status["phase"], scene.status["ready"]) == ("Consumed", 0)
    assert scene.status["finishedAt"] == format_instant(NOW)
    assert not scene.condition("Ready")


async def test_a_finished_group_is_removed_unless_it_is_retained() -> None:
    scene = GroupScene()
    scene.ask()
    async with scene.open():
        await scene.go_on()
        scene.shell.clock.advance(600)
        await scene.go_on()
    assert PATH not in scene.api.objects


async def test_a_group_is_removed_later_if_the_clock_is_set_back() -> None:
    scene = GroupScene()
    scene.ask(retention="Retain", ttlSecondsAfterFinished=60)
    async with scene.open():
        await scene.go_on()
        scene.shell.clock.advance(600)
        await scene.go_on()
        await turns(30)
        scene.shell.clock.advance(60)
        assert list(scene.controller._due.pop_due(scene.shell.clock.now())) == [KEY]
        scene.controller.reconcile(KEY)
        scene.shell.clock.advance(-0.02)
        await turns(30)
        assert scene.status["phase"] == "Expired"
        scene.shell.clock.advance(0.02)
        await asyncio.sleep(0.1)  # longer than the rest of the time
        await turns(30)
    assert PATH not in scene.api.objects


def test_the_removal_time_of_a_finished_group_depends_on_its_phase_and_retention() -> None:
    end = format_instant(NOW)
    consumed = {"phase": "Consumed", "finishedAt": end}
    rejected = {"phase": "Rejected", "finishedAt": end}
    expires = format_instant(NOW + 60)
    assert group().removable_at is None
    assert group(status=consumed).removable_at == NOW
    assert group(status=rejected).removable_at == NOW + 600
    assert group(status=rejected, ttlSeconds=None, expireAt=expires).removable_at == NOW + 60
    assert group(status=consumed, retention="Retain").removable_at is None
    assert group(status=consumed, retention="Retain", ttlSecondsAfterFinished=5).removable_at == NOW + 5
    assert group(status=rejected, ttlSecondsAfterFinished=5).removable_at == NOW + 5


async def test_a_group_gets_an_event_when_it_waits_and_when_it_holds() -> None:
    scene = GroupScene(cpu="1")
    scene.ask()
    async with scene.open():
        await scene.go_on()
        scene.shell.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
        await scene.go_on()
    told = [each for each in scene.shell.recorder if each.regarding.kind == "ReservationGroup"]
    assert [(each.type, each.reason, each.action) for each in told] == [
        ("Warning", "InsufficientCapacity", "Pending"),
        ("Normal", "Admitted", "Active"),
    ]
    assert told[0].note.startswith("train-worker-0: ")
