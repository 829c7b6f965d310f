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


class Works:
    """A scheduler and a group controller."""

    def __init__(self, cpu: str = "4") -> None:
        self.shell = shell = Shell(node("node-a", cpu=cpu))
        self.api = shell.api
        self.keeper = GroupController(shell.context, shell.ledger)

    def ask(self, **fields: Any) -> None:
        """Create a group and deliver it by the watch."""
        self.api.objects[PATH] = group_json(**fields)
        self.see()

    def see(self) -> None:
        """Deliver the stored version by the watch."""
        self.keeper.upsert(None, decode_group(encode(self.api.objects[PATH])))

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
        running = asyncio.create_task(self.keeper.run(started))
        await turns(30)
        yield
        running.cancel()
        await asyncio.wait([running])


async def test_members_are_created_once_and_are_owned_by_their_group() -> None:
    works = Works()
    works.ask(priority=7)
    async with works.open():
        works.see()
        await turns(30)
        made = works.api.objects[lock_path("train-worker-1")]
        assert works.api.verbs.count("POST") == 2
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-train"
    assert made["spec"] == {
        "resources": {"cpu": "1"},
        "owners": OWNERS,
        "ttlSeconds": 600,
        "priority": 7,
        "retention": "Retain",
        "group": {"name": "train", "uid": "uid-train", "members": 2, "minMembers": 2},
    }
    assert works.condition("Active")["message"] == "0 of 2 reservations are made"


async def test_a_large_group_does_not_delay_the_next_one_of_its_namespace() -> None:
    """Regression: beside a group of 256 members, another of its namespace got no status for many seconds."""
    works = Works()
    works.api.gate.clear()
    large = [{"name": "worker", "count": 100, "resources": {"cpu": "1"}, "owners": OWNERS}]
    small = group_json()
    small["metadata"] |= {"name": "small", "uid": "uid-small"}
    works.api.objects[RESERVATIONGROUPS.item("small", NAMESPACE)] = small
    async with works.open():
        works.ask(members=large, status={"observedGeneration": 1})  # the controller has seen it before
        await turns(30)
        works.keeper.upsert(None, decode_group(encode(small)))
        await turns(30)
        works.api.gate.set()
        await turns(300)
    asked = [each.path if each.method == "PUT" else each.body["metadata"]["name"] for each in works.api.asked]
    answered = asked.index(f"{RESERVATIONGROUPS.item('small', NAMESPACE)}/status")
    assert answered < asked.index("train-worker-60")


async def test_a_large_group_has_a_status_before_its_members_are_created() -> None:
    """Regression: the group had no status until all 256 members were created, which took 4 to 30 s."""
    works = Works()
    async with works.open():
        works.ask(members=[{"name": "worker", "count": 100, "resources": {"cpu": "1"}, "owners": OWNERS}])
        await turns(300)
    first, *others = (each.method for each in works.api.asked)
    assert first == "PUT"
    assert others.count("POST") == 100
    assert works.condition("Active")["message"] == "0 of 100 reservations are made"


async def test_the_status_of_a_group_follows_its_members_until_all_are_consumed() -> None:
    works = Works()
    works.ask(retention="Retain")
    async with works.open():
        await works.go_on()
        assert (works.status["phase"], works.status["ready"]) == ("Active", 2)
        assert works.condition("Ready")["status"] == "True"
        for number in range(2):
            works.shell.add(worker(number))
            works.shell.decider.bound(works.shell.place(), NOW)
            await works.go_on()
            assert works.status["consumed"] == number + 1
    assert (works.status["phase"], works.status["ready"]) == ("Consumed", 0)
    assert works.status["finishedAt"] == format_instant(NOW)
    assert not works.condition("Ready")


async def test_a_finished_group_is_removed_unless_it_is_retained() -> None:
    works = Works()
    works.ask()
    async with works.open():
        await works.go_on()
        works.shell.clock.advance(600)
        await works.go_on()
    assert PATH not in works.api.objects


async def test_a_group_is_removed_later_if_the_clock_is_set_back() -> None:
    works = Works()
    works.ask(retention="Retain", ttlSecondsAfterFinished=60)
    async with works.open():
        await works.go_on()
        works.shell.clock.advance(600)
        await works.go_on()
        await turns(30)
        works.shell.clock.advance(60)
        assert list(works.keeper._due.pop_due(works.shell.clock.now())) == [KEY]
        works.keeper.reconcile(KEY)
        works.shell.clock.advance(-0.02)
        await turns(30)
        assert works.status["phase"] == "Expired"
        works.shell.clock.advance(0.02)
        await asyncio.sleep(0.1)  # longer than the rest of the time
        await turns(30)
    assert PATH not in works.api.objects


async def test_a_rejected_group_has_a_reason_in_its_status_and_does_not_create_its_members_again() -> None:
    works = Works(cpu="1")
    works.ask(pendingDeadlineSeconds=0)
    async with works.open():
        await works.go_on()
        assert works.status["phase"] == "Rejected"
        assert works.condition("Stalled")["reason"] == "DeadlineExceeded"
        for name in WORKERS:
            entry = works.shell.ledger.entries[Key(NAMESPACE, name)]
            del works.api.objects[lock_path(name)]
            works.shell.event_handlers.reservations.remove(entry.reservation)
        await turns(30)
        assert works.status["phase"] == "Rejected"
        assert works.api.verbs.count("POST") == 2
        works.shell.clock.advance(600)
        works.keeper.reconcile(KEY)
        await works.go_on()
    assert PATH not in works.api.objects


async def test_a_rejected_group_names_the_invalid_member_and_not_one_that_ended_with_it() -> None:
    works = Works(cpu="1")
    works.ask()
    async with works.open():
        await works.go_on()
        works.api.edit(lock_path(WORKERS[1]), {"spec": {"resources": {"cpu": "much"}}})
        works.api.objects[lock_path(WORKERS[1])]["metadata"]["generation"] += 1
        await works.go_on()
    assert works.status["phase"] == "Rejected"
    assert works.condition("Stalled")["reason"] == "InvalidSpec"
    assert works.condition("Stalled")["message"].startswith("train-worker-1: spec.resources")


async def test_a_group_that_is_first_seen_after_its_deadline_is_rejected_and_no_member_is_created() -> None:
    """Regression: members were created with a deadline of their own, and became active without any use."""
    works = Works()
    works.ask(pendingDeadlineSeconds=5, created=NOW - 58, retention="Retain")
    async with works.open():
        await works.go_on()
        assert works.status["phase"] == "Rejected"
        condition = works.condition("Stalled")
        assert condition["reason"] == "DeadlineExceeded"
        assert (
            condition["message"]
            == "spec.pendingDeadlineSeconds (5) had passed when 0 of 2 reservations were made"
        )
        assert works.status["finishedAt"] == format_instant(NOW)
    assert "POST" not in works.api.verbs


async def test_a_group_with_members_that_were_not_created_before_its_deadline_is_rejected() -> None:
    works = Works()
    works.ask(pendingDeadlineSeconds=5, minMembers=1, retention="Retain")
    member = works.keeper._kept[KEY].manifest(WORKERS[0])
    fields = {"spec": member["spec"], "status": {"observedGeneration": -1}}
    metadata = member["metadata"] | {"uid": "uid-0", "creationTimestamp": format_instant(NOW)}
    metadata |= {"resourceVersion": "1", "generation": 1}
    works.api.objects[lock_path(WORKERS[0])] = member | fields | {"metadata": metadata}
    works.shell.clock.advance(58)
    works.shell.see_reservation(WORKERS[0])
    async with works.open():
        await works.go_on()
        assert works.status["phase"] == "Rejected"
        assert works.condition("Active")["message"].endswith("had passed when 1 of 2 reservations were made")
    assert "POST" not in works.api.verbs
    assert works.shell.reserved() == 0


async def test_a_member_that_appears_after_its_group_was_rejected_is_removed() -> None:
    """An API server may carry out a request after its client has given up, so the group was complete."""
    works = Works()
    finished = {"phase": "Rejected", "finishedAt": format_instant(NOW), "conditions": []}
    works.ask(pendingDeadlineSeconds=5, retention="Retain", status=finished)
    for name in WORKERS:
        member = works.keeper._kept[KEY].manifest(name)
        metadata = member["metadata"] | {"uid": f"uid-{name}", "creationTimestamp": format_instant(NOW)}
        metadata |= {"resourceVersion": "1", "generation": 1}
        works.api.objects[lock_path(name)] = member | {
            "metadata": metadata,
            "status": {"observedGeneration": -1},
        }
    works.see_members()
    async with works.open():
        await works.go_on()
        (gone,) = [name for name in WORKERS if lock_path(name) not in works.api.objects]
        works.shell.event_handlers.reservations.remove(
            works.shell.ledger.entries[Key(NAMESPACE, gone)].reservation
        )
        await works.go_on()
    assert works.shell.reserved() == 0
    assert works.status == finished


async def test_members_that_are_created_late_get_the_rest_of_the_deadline_of_their_group() -> None:
    """Regression: a member had the full deadline from its creation.

    The group became active after its own deadline.
    """
    works = Works()
    works.ask(pendingDeadlineSeconds=60, created=NOW - 41)
    async with works.open():
        await turns(30)
        assert works.api.objects[lock_path(WORKERS[0])]["spec"]["pendingDeadlineSeconds"] == 20
        await works.go_on()
        assert works.status["phase"] == "Active"


async def test_a_creation_that_is_refused_is_reported_and_retried() -> None:
    works = Works()
    works.api.refuses["POST"] = Forbidden("quota of objects", status=403)
    works.ask()
    async with works.open():
        assert "0 of 2 reservations are made: 403: quota of objects" in works.condition("Active")["message"]
        del works.api.refuses["POST"]
        works.shell.clock.advance(1)
        works.keeper.look()
        await works.go_on()
        assert works.status["phase"] == "Active"


async def test_a_member_that_was_created_and_never_seen_is_created_again() -> None:
    works = Works()
    works.ask()
    async with works.open():
        for name in WORKERS:
            del works.api.objects[lock_path(name)]
        works.keeper.reconcile(KEY)
        works.shell.clock.advance(11)
        works.keeper.reconcile(KEY)
        await turns(30)
        assert works.api.verbs.count("POST") == 4


async def test_a_foreign_reservation_with_the_name_of_a_member_is_reported() -> None:
    works = Works()
    works.api.objects[lock_path(WORKERS[0])] = {"metadata": {}}
    works.ask()
    async with works.open():
        assert "there is another Reservation train-worker-0" in works.condition("Active")["message"]


async def test_a_status_that_conflicts_with_a_newer_version_waits_for_the_watch() -> None:
    works = Works()
    works.ask()
    works.api.fails(Conflict("", status=409), Conflict("", status=409))
    async with works.open():
        works.see()
        await turns(30)
    assert works.api.verbs.count("POST") >= 2


async def test_a_group_with_an_unreadable_spec_is_rejected_with_the_field_in_the_message() -> None:
    works = Works()
    works.ask(members=[])
    async with works.open():
        await turns(30)
    assert (works.status["phase"], works.condition("Stalled")["reason"]) == ("Rejected", "InvalidSpec")
    assert "spec.members" in works.condition("Stalled")["message"]
    assert works.api.verbs == ["PUT"]


async def test_a_group_that_is_gone_is_forgotten_and_one_of_the_same_name_is_another() -> None:
    works = Works()
    works.ask()
    works.keeper.upsert(None, group(uid="another"))
    works.keeper.remove(group(uid="another"))
    async with works.open():
        await turns(30)
    assert works.api.asked == []
    assert not works.keeper.lags(KEY)
    works.keeper.synced()


async def test_the_members_of_a_group_are_created_again_for_its_successor_of_the_same_name() -> None:
    works = Works()
    works.ask()
    async with works.open():
        for name in WORKERS:
            del works.api.objects[lock_path(name)]
        works.ask(uid="another")
        await turns(30)
    owners = [works.api.objects[lock_path(name)]["metadata"]["ownerReferences"] for name in WORKERS]
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
    works = Works()
    works.ask(retention="Retain")
    async with works.open():
        await works.go_on()
        assert works.status["phase"] == "Active"
        works.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW + 60)
        works.api.objects.pop(lock_path("train-worker-1"))
        works.shell.event_handlers.reservations.remove(
            works.shell.ledger.entries[Key(NAMESPACE, "train-worker-1")].reservation
        )
        asked = len(works.api.asked)
        works.see()
        await works.go_on()
        written = [verb for verb in works.api.verbs[asked:] if verb == "PUT"]

    assert works.status["phase"] == "Terminating"
    assert works.status["ready"] == 0
    assert works.status["finishedAt"] == format_instant(NOW + 60)
    assert {each["type"]: each["status"] for each in works.status["conditions"]} == {
        "Active": "False",
        "Ready": "False",
    }
    assert works.condition("Active")["reason"] == "Terminating"
    assert "POST" not in works.api.verbs[asked:], "its member is not created again"
    assert len(written) <= 2, "written once, beside the change of its member"
    assert not works.keeper.lags(KEY)
    works.keeper.remove(group())
    assert not works.keeper._kept


async def test_a_group_that_had_finished_keeps_its_status_while_it_is_being_deleted() -> None:
    works = Works()
    ended = {"phase": "Expired", "finishedAt": format_instant(NOW)}
    works.ask(retention="Retain", status=ended)
    works.api.objects[PATH]["metadata"]["deletionTimestamp"] = format_instant(NOW)
    works.see()
    async with works.open():
        await works.go_on()
    assert works.status == ended
    assert works.api.verbs == []


async def test_a_fault_of_the_controller_is_in_the_status_of_the_group_and_pauses_its_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: the fault was only an event, and each change of the group led to a retry at once."""
    works, tries = Works(), list[float]()
    demand = works.keeper._demand

    def fails(kept: ReservationGroup) -> DesiredState:
        tries.append(works.shell.clock.monotonic())
        raise LookupError("a bug")

    monkeypatch.setattr(works.keeper, "_demand", fails)
    works.ask(pendingDeadlineSeconds=3600)
    async with works.open():
        for _ in range(3):
            works.see()
            await works.go_on()
        assert len(tries) == 1
        assert works.condition("Stalled")["status"] == "True"
        assert works.condition("Ready")["reason"] == "InternalError"
        assert "a bug" in works.condition("Ready")["message"]
        versions = works.api.verbs.count("PUT")
        for _ in range(8):
            works.shell.clock.advance(1)
            works.see()
            await works.go_on()
        assert [round(each) for each in tries] == [0, 1, 3, 7]
        assert works.api.verbs.count("PUT") == versions  # the same status is not written again
        monkeypatch.setattr(works.keeper, "_demand", demand)
        works.shell.clock.advance(60)
        works.see()
        await works.go_on()
    assert works.condition("Active")["status"] == "True"
    assert not works.condition("Stalled")
    assert works.shell.isolation.faults == ["keeping shop/train: a bug"] * 4


async def test_a_fault_while_a_member_is_created_is_reported_in_the_status_of_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works = Works()
    monkeypatch.setattr(works.keeper, "_manifest", lambda *_: 1 / 0)
    works.ask()
    async with works.open():
        await works.go_on()
    assert works.condition("Ready")["reason"] == "InternalError"
    assert works.shell.isolation.faults == ["keeping shop/train: division by zero"]


async def test_a_fault_while_a_group_is_settled_is_reported_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works = Works()
    settle = works.shell.ledger._settlement.settle
    monkeypatch.setattr(works.shell.ledger._settlement, "settle", lambda *_: 1 / 0)
    works.shell.ledger.recovery.on_failure = works.shell.isolation.failed
    works.ask(pendingDeadlineSeconds=3600)
    async with works.open():
        await works.go_on()
        assert works.condition("Active")["reason"] == "InternalError"
        assert "ZeroDivisionError" in works.condition("Active")["message"]
        monkeypatch.setattr(works.shell.ledger._settlement, "settle", settle)
        works.shell.clock.advance(400)
        await works.go_on()
    assert works.condition("Active")["status"] == "True"


async def test_a_group_gets_an_event_when_it_waits_and_when_it_holds() -> None:
    works = Works(cpu="1")
    works.ask()
    async with works.open():
        await works.go_on()
        works.shell.event_handlers.nodes.upsert(None, node("node-b", cpu="1"))
        await works.go_on()
    told = [each for each in works.shell.recorder if each.regarding.kind == "ReservationGroup"]
    assert [(each.type, each.reason, each.action) for each in told] == [
        ("Warning", "InsufficientCapacity", "Pending"),
        ("Normal", "Admitted", "Active"),
    ]
    assert told[0].note.startswith("train-worker-0: ")
