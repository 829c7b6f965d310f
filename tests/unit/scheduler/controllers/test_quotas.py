"""The status of a ReservationQuota: when it is written, and when not."""

import asyncio

import pytest

from builders import NAMESPACE, Json, encode, node
from tidelock.kube.client import RESERVATIONQUOTAS
from tidelock.kube.errors import Conflict, Invalid, ServerError
from tidelock.model.quotas import decode_reservation_quota
from unit.scheduler.machinery import Shell, turns

PATH = RESERVATIONQUOTAS.item("team", NAMESPACE)


class Scene:
    """A scheduler and a quota controller."""

    def __init__(self) -> None:
        self.shell = Shell(node("node-a"))
        shell = self.shell
        self.reporter = shell.controllers.quotas

    def see_quota(self, plain: Json) -> None:
        quotas = self.shell.decider.objects.reservation_quotas
        quotas.upsert(quotas.get("team", NAMESPACE), decode_reservation_quota(encode(plain)))

    def store_quota(self, **spec: object) -> None:
        metadata = {"name": "team", "namespace": NAMESPACE, "uid": "uid-team", "resourceVersion": "7"}
        self.shell.api.objects[PATH] = {"metadata": metadata, "spec": spec, "status": {"hard": {"gpu": "1"}}}
        self.see_quota(self.shell.api.objects[PATH])

    async def report(self) -> None:
        """Write the statuses that have changed, also during pauses that are over by now."""
        self.shell.tasks.end_pauses()
        await self.reporter.flush()
        await self.shell.settle()

    async def report_through_pauses(self) -> None:
        await self.report()
        while self.shell.tasks.await_pause():
            await self.report()


async def test_the_used_amount_is_written_once() -> None:
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    scene.shell.reservation()
    scene.shell.step()
    await scene.report()

    (asked,) = scene.shell.api.asked
    assert (asked.method, asked.path) == ("PUT", f"{PATH}/status")
    assert asked.body["metadata"]["resourceVersion"] == "7"
    assert asked.body["status"]["used"] == {"cpu": "1"}
    scene.see_quota(scene.shell.api.objects[PATH])
    await scene.report()
    assert len(scene.shell.api.asked) == 1


async def test_a_failed_write_is_retried_and_a_conflicting_one_is_not() -> None:
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    scene.shell.api.fails(ServerError("no", status=500), Conflict("old", status=409))
    await scene.report_through_pauses()
    assert scene.shell.api.verbs == ["PUT", "PUT"]


async def test_a_status_that_is_refused_is_written_with_growing_pauses() -> None:
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    scene.shell.api.fails(*[Invalid("no", status=422) for _ in range(30)])
    await scene.report_through_pauses()
    pauses = scene.shell.tasks.pauses
    assert len(pauses) == 30
    assert sum(pauses[:10]) > 30
    assert min(pauses[-5:]) >= 30


async def test_the_response_to_a_write_is_known_before_the_watch_delivers_it() -> None:
    """Regression: the same status was written again, in the version that the first write had replaced."""
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    await scene.report()
    scene.shell.reservation()
    scene.shell.step()
    await scene.report()
    assert [asked.body["metadata"]["resourceVersion"] for asked in scene.shell.api.asked] == ["7", "8"]
    assert scene.shell.api.objects[PATH]["status"]["used"] == {"cpu": "1"}


async def test_a_quota_that_is_deleted_while_its_status_is_refused_is_not_written_again() -> None:
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    scene.shell.api.fails(Invalid("no", status=422))
    await scene.reporter.flush()
    await turns()
    assert scene.shell.api.verbs == ["PUT"]
    quotas = scene.shell.decider.objects.reservation_quotas
    known = quotas.get("team", NAMESPACE)
    assert known is not None
    quotas.remove(known)
    async with asyncio.timeout(60):
        while len(scene.shell.tasks):  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0.01)
    for _ in range(2):
        await scene.report()
    assert not scene.shell.ledger.quotas.changed
    assert scene.shell.api.verbs == ["PUT"]


@pytest.mark.usefixtures("sleeps")
async def test_the_controller_starts_writing_when_all_objects_are_known() -> None:
    scene = Scene()
    started = asyncio.Event()
    running = asyncio.create_task(scene.reporter.run(started))
    scene.store_quota(hard={"cpu": "3"})
    await turns()
    assert scene.shell.api.asked == []
    started.set()
    await turns()
    running.cancel()
    await asyncio.wait([running])
    assert scene.shell.api.verbs == ["PUT"]


async def test_a_fault_of_the_operator_is_reported_in_the_status_of_the_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.store_quota(hard={"cpu": "3"})
    monkeypatch.setattr("tidelock.scheduler.controllers.quotas.render_quota", lambda *_: 1 / 0)
    await scene.report()
    status = scene.shell.api.objects[PATH]["status"]
    assert [each["reason"] for each in status["conditions"]] == ["InternalError"] * 2
    assert status["hard"] == {"gpu": "1"}  # the other fields of the status stay
    monkeypatch.undo()
    scene.see_quota(scene.shell.api.objects[PATH])
    scene.shell.clock.advance(2)
    await scene.report()
    assert scene.shell.api.objects[PATH]["status"]["conditions"][0]["reason"] == "Enforced"
    assert scene.shell.isolation.faults == ["status shop/team: division by zero"]
