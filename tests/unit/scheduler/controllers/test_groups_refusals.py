"""Groups that are rejected or deleted, creations that are refused, and faults."""

import pytest

from builders import NAMESPACE, NOW
from tidelock.kube.errors import AdmissionUnavailable, ApiError, Conflict, Forbidden, NotFound
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup
from tidelock.scheduler.controllers.base import DesiredState
from unit.scheduler.grouped import KEY, PATH, WORKERS, GroupScene, group
from unit.scheduler.machinery import lock_path, turns


async def test_a_rejected_group_has_a_reason_in_its_status_and_does_not_create_its_members_again() -> None:
    scene = GroupScene(cpu="1")
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
    scene = GroupScene(cpu="1")
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
    scene = GroupScene()
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
    scene = GroupScene()
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


@pytest.mark.parametrize("refused", [False, True], ids=["at once", "after a conflict"])
async def test_a_member_that_appears_after_its_group_was_rejected_is_removed(refused: bool) -> None:
    """An API server may carry out a request after its client has given up, so the group was complete."""
    scene = GroupScene()
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
    if refused:
        scene.api.refuses["DELETE"] = Conflict("the object has been modified", status=409)
    async with scene.open():
        await scene.go_on()
        if refused:
            del scene.api.refuses["DELETE"]
            assert scene.shell.tasks.await_pause()
            await turns(30)
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
    scene = GroupScene()
    scene.ask(pendingDeadlineSeconds=60, created=NOW - 41)
    async with scene.open():
        await turns(30)
        assert scene.api.objects[lock_path(WORKERS[0])]["spec"]["pendingDeadlineSeconds"] == 20
        await scene.go_on()
        assert scene.status["phase"] == "Active"


async def test_a_creation_that_is_refused_is_reported_and_retried() -> None:
    scene = GroupScene()
    scene.api.refuses["POST"] = Forbidden("quota of objects", status=403)
    scene.ask()
    async with scene.open():
        assert "0 of 2 reservations are made: 403: quota of objects" in scene.condition("Active")["message"]
        del scene.api.refuses["POST"]
        scene.shell.clock.advance(1)
        scene.controller.look()
        await scene.go_on()
        assert scene.status["phase"] == "Active"


async def test_a_creation_that_admission_could_not_judge_is_soon_retried() -> None:
    """Regression: the group paused as after a refusal by a quota, though the API server had just started."""
    scene = GroupScene()
    scene.api.fails(*[AdmissionUnavailable("failed to configure binding", status=422)] * 2)
    scene.ask()
    async with scene.open():
        while scene.shell.tasks.await_pause():
            await scene.go_on()
        assert scene.status["phase"] == "Active"
    assert len(scene.shell.tasks.pauses) >= 1
    assert max(scene.shell.tasks.pauses) <= 5


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        (Conflict("Operation cannot be fulfilled on resourcequotas", status=409), 5),
        (NotFound("the server could not find the requested resource", status=404), 60),
    ],
)
async def test_a_creation_that_meets_a_conflict_or_a_missing_kind_again_and_again_is_retried(
    error: ApiError, longest: float
) -> None:
    """Regression: the error was taken for one of the group itself, so no member was created any more."""
    scene = GroupScene()
    scene.api.refuses["POST"] = error
    scene.ask(pendingDeadlineSeconds=86_400)
    async with scene.open():
        for _ in range(12):
            await scene.go_on()
            assert str(error) in scene.condition("Active")["message"]
            assert scene.shell.tasks.await_pause()
        assert max(scene.shell.tasks.pauses) <= longest
        del scene.api.refuses["POST"]
        await scene.go_on()
        while scene.shell.tasks.await_pause():
            await scene.go_on()
        assert scene.status["phase"] == "Active"


async def test_a_member_that_was_created_and_never_seen_is_created_again() -> None:
    scene = GroupScene()
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
    scene = GroupScene()
    scene.api.objects[lock_path(WORKERS[0])] = {"metadata": {}}
    scene.ask()
    async with scene.open():
        assert "there is another Reservation train-worker-0" in scene.condition("Active")["message"]


async def test_a_status_that_conflicts_with_a_newer_version_waits_for_the_watch() -> None:
    scene = GroupScene()
    scene.ask()
    scene.api.fails(Conflict("", status=409), Conflict("", status=409))
    async with scene.open():
        scene.see()
        await turns(30)
    assert scene.api.verbs.count("POST") >= 2


async def test_a_group_with_an_unreadable_spec_is_rejected_with_the_field_in_the_message() -> None:
    scene = GroupScene()
    scene.ask(members=[])
    async with scene.open():
        await turns(30)
    assert (scene.status["phase"], scene.condition("Stalled")["reason"]) == ("Rejected", "InvalidSpec")
    assert "spec.members" in scene.condition("Stalled")["message"]
    assert scene.api.verbs == ["PUT"]


async def test_a_group_that_is_gone_is_forgotten_and_one_of_the_same_name_is_another() -> None:
    scene = GroupScene()
    scene.ask()
    scene.controller.upsert(None, group(uid="another"))
    scene.controller.remove(group(uid="another"))
    async with scene.open():
        await turns(30)
    assert scene.api.asked == []
    assert not scene.controller.lags(KEY)
    scene.controller.synced()


async def test_the_members_of_a_group_are_created_again_for_its_successor_of_the_same_name() -> None:
    scene = GroupScene()
    scene.ask()
    async with scene.open():
        for name in WORKERS:
            del scene.api.objects[lock_path(name)]
        scene.ask(uid="another")
        await turns(30)
    owners = [scene.api.objects[lock_path(name)]["metadata"]["ownerReferences"] for name in WORKERS]
    assert [owner["uid"] for (owner,) in owners] == ["another"] * 2


async def test_a_group_that_is_being_deleted_has_the_phase_terminating() -> None:
    """Regression: while a finalizer kept the group, its status still had Active=True."""
    scene = GroupScene()
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
    scene = GroupScene()
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
    scene, tries = GroupScene(), list[float]()
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
    scene = GroupScene()
    monkeypatch.setattr(scene.controller, "_manifest", lambda *_: 1 / 0)
    scene.ask()
    async with scene.open():
        await scene.go_on()
    assert scene.condition("Ready")["reason"] == "InternalError"
    assert scene.shell.isolation.faults == ["keeping shop/train: division by zero"]


async def test_a_fault_while_a_group_is_settled_is_reported_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = GroupScene()
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
