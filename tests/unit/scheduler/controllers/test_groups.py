"""The members that are created for a ReservationGroup, and its status."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, encode, node
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.kube.errors import Conflict, Forbidden
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup, decode_group
from tidelock.scheduler.controllers.base import DesiredState
from tidelock.scheduler.controllers.groups import GroupController
from unit.scheduler.gang import OWNERS, worker
from unit.scheduler.machinery import Shell, lock_path, turns

KEY = Key(NAMESPACE, "train")
PATH = RESERVATIONGROUPS.item("train", NAMESPACE)
WORKERS = ["train-worker-0", "train-worker-1"]


def group_json(
    *, uid: str = "uid-train", created: float = NOW, status: Json | None = None, **spec: Any
) -> Json:
    metadata = {"name": "train", "namespace": NAMESPACE, "uid": uid, "generation": 1, "resourceVersion": "1"}
    metadata["creationTimestamp"] = format_instant(created)
    members = [{"name": "worker", "count": 2, "resources": {"cpu": "1"}, "owners": OWNERS}]
    wanted = {"members": members, "ttlSeconds": 600} | spec
    return {"metadata": metadata, "spec": wanted, "status": status or {"observedGeneration": -1}}


def group(**fields: Any) -> ReservationGroup:
    return decode_group(encode(group_json(**fields)))


class Scene:
    """A scheduler and a group controller."""

    def __init__(self, cpu: str = "4") -> None:
        self.shell = shell = Shell(node("node-a", cpu=cpu))
        self.api = shell.api
        self.controller = GroupController(shell.context, shell.ledger)

    def ask(self, **fields: Any) -> None:
        """Create a group and deliver it by the watch."""
        self.api.objects[PATH] = group_json(**fields)
        self.see()

    def see(self) -> None:
        """Deliver the stored version by the watch."""
        self.controller.upsert(None, decode_group(encode(self.api.objects[PATH])))

    def see_members(self) -> None:
        for name in WORKERS:
            self.shell.see_reservation(name)

    async def go_on(self) -> None:
        """Run controller, decisions and writers for several rounds."""
        for _ in range(8):
            await turns(30)
            for name in WORKERS:
                if lock_path(name) in self.api.objects:
                    self.shell.see_reservation(name)
            self.shell.decide()
            await self.shell.publish()

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[PATH]["status"]
        return status

    def condition(self, kind: str) -> Json:
        return next((each for each in self.status["conditions"] if each["type"] == kind), {})

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        started = asyncio.Event()
        started.set()
        running = asyncio.create_task(self.controller.run(started))
        await turns(30)
        yield
        running.cancel()
        await asyncio.wait([running])


async def test_members_are_created_once_and_are_owned_by_their_group() -> None:
    scene = Scene()
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
    scene = Scene()
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
    scene = Scene()
    async with scene.open():
        scene.ask(members=[{"name": "worker", "count": 100, "resources": {"cpu": "1"}, "owners": OWNERS}])
        await turns(300)
    first, *others = (each.method for each in scene.api.asked)
    assert first == "PUT"
    assert others.count("POST") == 100
    assert scene.condition("Active")["message"] == "0 of 100 reservations are made"


async def test_the_status_of_a_group_follows_its_members_until_all_are_consumed() -> None:
    scene = Scene()
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
    scene = Scene()
    scene.ask()
    async with scene.open():
        await scene.go_on()
        scene.shell.clock.advance(600)
        await scene.go_on()
    assert PATH not in scene.api.objects


async def test_a_group_is_removed_later_if_the_clock_is_set_back() -> None:
    scene = Scene()
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


async def test_a_rejected_group_has_a_reason_in_its_status_and_does_not_create_its_members_again() -> None:
    scene = Scene(cpu="1")
    scene.ask(pendingDeadlineSeconds=0)
    async with scene.open():
        await scene.go_on()
        assert scene.status["phase"] == "Rejected"
        assert scene.condition("Stalled")["reason"] == "DeadlineExceeded"
        for name in WORKERS:
            entry = scene.shell.ledger.entries[Key(NAMESPACE, name)]
            del scene.api.objects[lock_path(name)]
            scene.shell.event_handlers.reservations.remove(entry.reservation)
        await turns(30)
        assert scene.status["phase"] == "Rejected"
        assert scene.api.verbs.count("POST") == 2
        scene.shell.clock.advance(600)
        scene.controller.reconcile(KEY)
        await scene.go_on()
    assert PATH not in scene.api.objects


async def test_a_rejected_group_names_the_invalid_member_and_not_one_that_ended_with_it() -> None:
    scene = Scene(cpu="1")
    scene.ask()
    async with scene.open():
        await scene.go_on()
        scene.api.edit(lock_path(WORKERS[1]), {"spec": {"resources": {"cpu": "much"}}})
        scene.api.objects[lock_path(WORKERS[1])]["metadata"]["generation"] += 1
        await scene.go_on()
    assert scene.status["phase"] == "Rejected"
    assert scene.condition("Stalled")["reason"] == "InvalidSpec"
    assert scene.condition("Stalled")["message"].startswith("train-worker-1: spec.resources")


async def test_a_group_that_is_first_seen_after_its_deadline_is_rejected_and_no_member_is_created() -> None:
    """Regression: members were created with a deadline of their own, and became active without any use."""
    scene = Scene()
    scene.ask(pendingDeadlineSeconds=5, created=NOW - 58, retention="Retain")
    async with scene.open():
        await scene.go_on()
        assert scene.status["phase"] == "Rejected"
        condition = scene.condition("Stalled")
        assert condition["reason"] == "DeadlineExceeded"
        assert (
            condition["message"]
            == "spec.pendingDeadlineSeconds (5) had passed when 0 of 2 reservations were made"
        )
        assert scene.status["finishedAt"] == format_instant(NOW)
    assert "POST" not in scene.api.verbs


async def test_a_group_with_members_that_were_not_created_before_its_deadline_is_rejected() -> None:
    scene = Scene()
    scene.ask(pendingDeadlineSeconds=5, minMembers=1, retention="Retain")
    member = scene.controller._kept[KEY].manifest(WORKERS[0])
    fields = {"spec": member["spec"], "status": {"observedGeneration": -1}}
    metadata = member["metadata"] | {"uid": "uid-0", "creationTimestamp": format_instant(NOW)}
    metadata |= {"resourceVersion": "1", "generation": 1}
    scene.api.objects[lock_path(WORKERS[0])] = member | fields | {"metadata": metadata}
    scene.shell.clock.advance(58)
    scene.shell.see_reservation(WORKERS[0])
    async with scene.open():
        await scene.go_on()
        assert scene.status["phase"] == "Rejected"
        assert scene.condition("Active")["message"].endswith("had passed when 1 of 2 reservations were made")
    assert "POST" not in scene.api.verbs
    assert scene.shell.reserved() == 0


async def test_a_member_that_appears_after_its_group_was_rejected_is_removed() -> None:
    """An API server may carry out a request after its client has given up, so the group was complete."""
    scene = Scene()
    finished = {"phase": "Rejected", "finishedAt": format_instant(NOW), "conditions": []}
    scene.ask(pendingDeadlineSeconds=5, retention="Retain", status=finished)
    for name in WORKERS:
        member = scene.controller._kept[KEY].manifest(name)
        metadata = member["metadata"] | {"uid": f"uid-{name}", "creationTimestamp": format_instant(NOW)}
        metadata |= {"resourceVersion": "1", "generation": 1}
        scene.api.objects[lock_path(name)] = member | {
            "metadata": metadata,
            "status": {"observedGeneration": -1},
        }
    scene.see_members()
    async with scene.open():
        await scene.go_on()
        (gone,) = [name for name in WORKERS if lock_path(name) not in scene.api.objects]
        scene.shell.event_handlers.reservations.remove(
            scene.shell.ledger.entries[Key(NAMESPACE, gone)].reservation
        )
        await scene.go_on()
    assert scene.shell.reserved() == 0
    assert scene.status == finished


async def test_members_that_are_created_late_get_the_rest_of_the_deadline_of_their_group() -> None:
    """Regression: a member had the full deadline from its creation.

    The group became active after its own deadline.
    """
    scene = Scene()
    scene.ask(pendingDeadlineSeconds=60, created=NOW - 41)
    async with scene.open():
        await turns(30)
        assert scene.api.objects[lock_path(WORKERS[0])]["spec"]["pendingDeadlineSeconds"] == 20
        await scene.go_on()
        assert scene.status["phase"] == "Active"


async def test_a_creation_that_is_refused_is_reported_and_retried() -> None:
    scene = Scene()
    scene.api.refuses["POST"] = Forbidden("quota of objects", status=403)
    scene.ask()
    async with scene.open():
        assert "0 of 2 reservations are made: 403: quota of objects" in scene.condition("Active")["message"]
        del scene.api.refuses["POST"]
        scene.shell.clock.advance(1)
        scene.controller.look()
        await scene.go_on()
        assert scene.status["phase"] == "Active"


async def test_a_member_that_was_created_and_never_seen_is_created_again() -> None:
    scene = Scene()
    scene.ask()
    async with scene.open():
        for name in WORKERS:
            del scene.api.objects[lock_path(name)]
        scene.controller.reconcile(KEY)
        scene.shell.clock.advance(11)
        scene.controller.reconcile(KEY)
        await turns(30)
        assert scene.api.verbs.count("POST") == 4


async def test_a_foreign_reservation_with_the_name_of_a_member_is_reported() -> None:
    scene = Scene()
    scene.api.objects[lock_path(WORKERS[0])] = {"metadata": {}}
    scene.ask()
    async with scene.open():
        assert "there is another Reservation train-worker-0" in scene.condition("Active")["message"]


async def test_a_status_that_conflicts_with_a_newer_version_waits_for_the_watch() -> None:
    scene = Scene()
    scene.ask()
    scene.api.fails(Conflict("", status=409), Conflict("", status=409))
    async with scene.open():
        scene.see()
        await turns(30)
    assert scene.api.verbs.count("POST") >= 2


async def test_a_group_with_an_unreadable_spec_is_rejected_with_the_field_in_the_message() -> None:
    scene = Scene()
    scene.ask(members=[])
    async with scene.open():
        await turns(30)
    assert (scene.status["phase"], scene.condition("Stalled")["reason"]) == ("Rejected", "InvalidSpec")
    assert "spec.members" in scene.condition("Stalled")["message"]
    assert scene.api.verbs == ["PUT"]


async def test_a_group_that_is_gone_is_forgotten_and_one_of_the_same_name_is_another() -> None:
    scene = Scene()
    scene.ask()
    scene.controller.upsert(None, group(uid="another"))
    scene.controller.remove(group(uid="another"))
    async with scene.open():
        await turns(30)
    assert scene.api.asked == []
    assert not scene.controller.lags(KEY)
    scene.controller.synced()


async def test_the_members_of_a_group_are_created_again_for_its_successor_of_the_same_name() -> None:
    scene = Scene()
    scene.ask()
    async with scene.open():
        for name in WORKERS:
            del scene.api.objects[lock_path(name)]
        scene.ask(uid="another")
        await turns(30)
    owners = [scene.api.objects[lock_path(name)]["metadata"]["ownerReferences"] for name in WORKERS]
    assert [owner["uid"] for (owner,) in owners] == ["another"] * 2


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


async def test_a_group_that_is_being_deleted_has_the_phase_terminating() -> None:
    """Regression: while a finalizer kept the group, its status still had Active=True."""
    scene = Scene()
    scene.ask(retention="Retain")
    async with scene.open():
        await scene.go_on()
        assert scene.status["phase"] == "Active"
        scene.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW + 60)
        scene.api.objects.pop(lock_path("train-worker-1"))
        scene.shell.event_handlers.reservations.remove(
            scene.shell.ledger.entries[Key(NAMESPACE, "train-worker-1")].reservation
        )
        asked = len(scene.api.asked)
        scene.see()
        await scene.go_on()
        written = [verb for verb in scene.api.verbs[asked:] if verb == "PUT"]

    assert scene.status["phase"] == "Terminating"
    assert scene.status["ready"] == 0
    assert scene.status["finishedAt"] == format_instant(NOW + 60)
    assert {each["type"]: each["status"] for each in scene.status["conditions"]} == {
        "Active": "False",
        "Ready": "False",
    }
    assert scene.condition("Active")["reason"] == "Terminating"
    assert "POST" not in scene.api.verbs[asked:], "its member is not created again"
    assert len(written) <= 2, "written once, beside the change of its member"
    assert not scene.controller.lags(KEY)
    scene.controller.remove(group())
    assert not scene.controller._kept


async def test_a_group_that_had_finished_keeps_its_status_while_it_is_being_deleted() -> None:
    scene = Scene()
    ended = {"phase": "Expired", "finishedAt": format_instant(NOW)}
    scene.ask(retention="Retain", status=ended)
    scene.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW)
    scene.see()
    async with scene.open():
        await scene.go_on()
    assert scene.status == ended
    assert scene.api.verbs == []


async def test_a_fault_of_the_controller_is_in_the_status_of_the_group_and_pauses_its_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: the fault was only an event, and each change of the group led to a retry at once."""
    scene, tries = Scene(), list[float]()
    desired = scene.controller._desired_state

    def fails(kept: ReservationGroup) -> DesiredState:
        tries.append(scene.shell.clock.monotonic())
        raise LookupError("a bug")

    monkeypatch.setattr(scene.controller, "_desired_state", fails)
    scene.ask(pendingDeadlineSeconds=3600)
    async with scene.open():
        for _ in range(3):
            scene.see()
            await scene.go_on()
        assert len(tries) == 1
        assert scene.condition("Stalled")["status"] == "True"
        assert scene.condition("Ready")["reason"] == "InternalError"
        assert "a bug" in scene.condition("Ready")["message"]
        versions = scene.api.verbs.count("PUT")
        for _ in range(8):
            scene.shell.clock.advance(1)
            scene.see()
            await scene.go_on()
        assert [round(each) for each in tries] == [0, 1, 3, 7]
        assert scene.api.verbs.count("PUT") == versions  # the same status is not written again
        monkeypatch.setattr(scene.controller, "_desired_state", desired)
        scene.shell.clock.advance(60)
        scene.see()
        await scene.go_on()
    assert scene.condition("Active")["status"] == "True"
    assert not scene.condition("Stalled")
    assert scene.shell.isolation.faults == ["keeping shop/train: a bug"] * 4


async def test_a_fault_while_a_member_is_created_is_reported_in_the_status_of_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    monkeypatch.setattr(scene.controller, "_manifest", lambda *_: 1 / 0)
    scene.ask()
    async with scene.open():
        await scene.go_on()
    assert scene.condition("Ready")["reason"] == "InternalError"
    assert scene.shell.isolation.faults == ["keeping shop/train: division by zero"]


async def test_a_fault_while_a_group_is_settled_is_reported_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    settle = scene.shell.ledger._settlement.settle
    monkeypatch.setattr(scene.shell.ledger._settlement, "settle", lambda *_: 1 / 0)
    scene.shell.ledger.recovery.on_failure = scene.shell.isolation.failed
    scene.ask(pendingDeadlineSeconds=3600)
    async with scene.open():
        await scene.go_on()
        assert scene.condition("Active")["reason"] == "InternalError"
        assert "ZeroDivisionError" in scene.condition("Active")["message"]
        monkeypatch.setattr(scene.shell.ledger._settlement, "settle", settle)
        scene.shell.clock.advance(400)
        await scene.go_on()
    assert scene.condition("Active")["status"] == "True"


async def test_a_group_gets_an_event_when_it_waits_and_when_it_holds() -> None:
    scene = Scene(cpu="1")
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
