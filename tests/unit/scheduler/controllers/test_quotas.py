"""The status of a ReservationQuota: when it is written, and when not."""

import asyncio

import pytest

from builders import NAMESPACE, Json, encode, node
from tidelock.kube.client import RESERVATIONQUOTAS
from tidelock.kube.errors import Conflict, Invalid, ServerError
from tidelock.model.quotas import decode_reservation_quota
from tidelock.scheduler.controllers.quotas import QuotaController
from unit.scheduler.machinery import Shell, turns

PATH = RESERVATIONQUOTAS.item("team", NAMESPACE)


class Office:
    """A scheduler and a quota controller."""

    def __init__(self) -> None:
        self.shell = Shell(node("node-a"))
        shell = self.shell
        self.reporter = QuotaController(shell.context, shell.ledger.quotas)

    def see_quota(self, plain: Json) -> None:
        quotas = self.shell.decider.objects.reservation_quotas
        quotas.upsert(quotas.get("team", NAMESPACE), decode_reservation_quota(encode(plain)))

    def store_quota(self, **spec: object) -> None:
        metadata = {"name": "team", "namespace": NAMESPACE, "uid": "uid-team", "resourceVersion": "7"}
        self.shell.api.objects[PATH] = {"metadata": metadata, "spec": spec, "status": {"hard": {"gpu": "1"}}}
        self.see_quota(self.shell.api.objects[PATH])

    async def report(self) -> None:
        """Write the statuses that have changed."""
        await self.reporter.flush()
        await self.shell.settle()


async def test_the_used_amount_is_written_once() -> None:
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    office.shell.reservation()
    office.shell.step()
    await office.report()

    (asked,) = office.shell.api.asked
    assert (asked.method, asked.path) == ("PUT", f"{PATH}/status")
    assert asked.body["metadata"]["resourceVersion"] == "7"
    assert asked.body["status"]["used"] == {"cpu": "1"}
    office.see_quota(office.shell.api.objects[PATH])
    await office.report()
    assert len(office.shell.api.asked) == 1


@pytest.mark.usefixtures("naps")
async def test_a_failed_write_is_retried_and_a_conflicting_one_is_not() -> None:
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    office.shell.api.fails(ServerError("no", status=500), Conflict("old", status=409))
    await office.report()
    await office.report()
    assert office.shell.api.verbs == ["PUT", "PUT"]


async def test_a_status_that_is_refused_is_written_with_growing_pauses(naps: list[float]) -> None:
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    office.shell.api.fails(*[Invalid("no", status=422) for _ in range(30)])
    await office.report()
    assert len(naps) == 30
    assert sum(naps[:10]) > 30
    assert min(naps[-5:]) >= 30


async def test_the_response_to_a_write_is_known_before_the_watch_delivers_it() -> None:
    """Regression: the same status was written again, in the version that the first write had replaced."""
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    await office.report()
    office.shell.reservation()
    office.shell.step()
    await office.report()
    assert [asked.body["metadata"]["resourceVersion"] for asked in office.shell.api.asked] == ["7", "8"]
    assert office.shell.api.objects[PATH]["status"]["used"] == {"cpu": "1"}


async def test_a_quota_that_is_deleted_while_its_status_is_refused_is_not_written_again() -> None:
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    office.shell.api.fails(Invalid("no", status=422))
    await office.reporter.flush()
    await turns()
    assert office.shell.api.verbs == ["PUT"]
    quotas = office.shell.decider.objects.reservation_quotas
    known = quotas.get("team", NAMESPACE)
    assert known is not None
    quotas.remove(known)
    async with asyncio.timeout(60):
        while len(office.shell.tasks):  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0.01)
    for _ in range(2):
        await office.report()
    assert not office.shell.ledger.quotas.changed
    assert office.shell.api.verbs == ["PUT"]


@pytest.mark.usefixtures("naps")
async def test_the_controller_starts_writing_when_all_objects_are_known() -> None:
    office = Office()
    started = asyncio.Event()
    running = asyncio.create_task(office.reporter.run(started))
    office.store_quota(hard={"cpu": "3"})
    await turns()
    assert office.shell.api.asked == []
    started.set()
    await turns()
    running.cancel()
    await asyncio.wait([running])
    assert office.shell.api.verbs == ["PUT"]


async def test_a_fault_of_the_operator_is_reported_in_the_status_of_the_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    office = Office()
    office.store_quota(hard={"cpu": "3"})
    monkeypatch.setattr("tidelock.scheduler.controllers.quotas.render_quota", lambda *_: 1 / 0)
    await office.report()
    status = office.shell.api.objects[PATH]["status"]
    assert [each["reason"] for each in status["conditions"]] == ["InternalError"] * 2
    assert status["hard"] == {"gpu": "1"}  # the other fields of the status stay
    monkeypatch.undo()
    office.see_quota(office.shell.api.objects[PATH])
    office.shell.clock.advance(2)
    await office.report()
    assert office.shell.api.objects[PATH]["status"]["conditions"][0]["reason"] == "Enforced"
    assert office.shell.isolation.faults == ["status shop/team: division by zero"]
