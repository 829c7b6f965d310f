"""Answers to ReservationQuotes, their removal, and retries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, encode, node, pod
from tidelock.kube.client import RESERVATIONQUOTES
from tidelock.kube.errors import Invalid, ServerError
from tidelock.model.quantities import CPU
from tidelock.model.reservation_quote import Quote, decode_quote
from tidelock.plugins.reservation.plugin import insufficient_beside
from tidelock.scheduler.core.dry_run import DryRunResult
from unit.scheduler.machinery import Shell, turns

PATH = RESERVATIONQUOTES.item("ask", NAMESPACE)


def quote_json(**spec: Any) -> Json:
    metadata = {
        "name": "ask",
        "namespace": NAMESPACE,
        "uid": "uid-ask",
        "generation": 1,
        "resourceVersion": "1",
    }
    return {
        "metadata": metadata,
        "spec": {"resources": {"cpu": "2"}} | spec,
        "status": {"observedGeneration": -1},
    }


def quote(**spec: Any) -> Quote:
    return decode_quote(encode(quote_json(**spec)))


class Scene:
    """A scheduler and a quote controller."""

    def __init__(self) -> None:
        self.shell = Shell(node("node-a", cpu="4"))
        shell = self.shell
        self.controller = shell.controllers.quotes

    def ask(self, **spec: Any) -> None:
        self.shell.api.objects[PATH] = quote_json(**spec)
        self.controller.upsert(None, quote(**spec))

    async def go_through_pauses(self) -> None:
        await turns(20)
        while self.shell.tasks.await_pause():
            await turns(20)

    @property
    def status(self) -> Json:
        status: Json = self.shell.api.objects[PATH]["status"]
        return status

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        started = asyncio.Event()
        started.set()
        running = asyncio.create_task(self.controller.run(started))
        await turns(20)
        yield
        running.cancel()
        await asyncio.wait([running])


async def test_a_quote_is_answered_once() -> None:
    scene = Scene()
    scene.ask()
    async with scene.open():
        scene.controller.upsert(None, quote())  # the watch is late
        await turns(20)
    assert scene.shell.api.verbs == ["PUT"]
    assert (scene.status["nodeName"], scene.status["count"]) == ("node-a", 2)
    assert scene.status["fitsAt"] == scene.status["answeredAt"]


async def test_a_quote_lists_the_pods_and_reservations_in_its_way_and_its_earliest_start() -> None:
    scene = Scene()
    scene.shell.add(pod("resident", node_name="node-a", requests={"cpu": "1"}))
    scene.shell.reservation(resources={"cpu": "2"})
    scene.shell.step()
    scene.ask()
    async with scene.open():
        pass
    blockers = scene.status["blockers"]
    assert blockers["reasons"] == [{"reason": insufficient_beside(CPU), "nodes": 1}]
    assert (blockers["nodeName"], blockers["shortfall"]) == ("node-a", {"cpu": "1"})
    assert [each["name"] for each in blockers["pods"]] == ["resident"]
    (reservation,) = blockers["locks"]
    assert (reservation["name"], reservation["resources"]) == ("lock", {"cpu": "2"})
    assert scene.status["fitsAt"] == scene.status["earliestStart"] == reservation["expiresAt"]
    assert scene.status["count"] == 0


async def test_the_capacity_that_pods_use_has_no_known_end() -> None:
    scene = Scene()
    scene.shell.add(pod("resident", node_name="node-a", requests={"cpu": "3"}))
    scene.ask()
    async with scene.open():
        pass
    assert "fitsAt" not in scene.status
    assert "earliestStart" not in scene.status
    assert scene.status["blockers"]["locks"] == []


async def test_the_deadline_of_a_pod_only_affects_the_earliest_start() -> None:
    scene = Scene()
    requests = {"cpu": "3"}
    resident = pod("resident", requests=requests, node_name="node-a", created=NOW, activeDeadlineSeconds=300)
    scene.shell.add(resident)
    scene.ask()
    async with scene.open():
        pass
    assert "fitsAt" not in scene.status
    assert scene.status["earliestStart"] > scene.status["answeredAt"]


async def test_a_quote_has_no_earliest_start_if_something_besides_capacity_is_missing() -> None:
    scene = Scene()
    scene.ask(nodeSelector={"zone": "none"})
    async with scene.open():
        pass
    assert "earliestStart" not in scene.status


async def test_a_quote_with_an_unreadable_spec_names_the_field() -> None:
    scene = Scene()
    scene.ask(resources={"cpu": "two"})
    async with scene.open():
        pass
    conditions = {each["type"]: each for each in scene.status["conditions"]}
    assert conditions["Stalled"]["reason"] == "InvalidSpec"
    assert "spec.resources" in conditions["Feasible"]["message"]


async def test_an_answered_quote_is_removed_when_its_time_is_over() -> None:
    scene = Scene()
    scene.ask(ttlSeconds=60)
    async with scene.open():
        answered = decode_quote(encode(scene.shell.api.objects[PATH]))
        scene.shell.clock.advance(61)
        scene.controller.upsert(None, answered)
        await turns(20)
    assert scene.shell.api.verbs == ["PUT", "DELETE"]
    assert PATH not in scene.shell.api.objects


async def test_a_write_that_failed_is_repeated() -> None:
    scene = Scene()
    scene.shell.api.fails(ServerError("no", status=500))
    scene.ask()
    async with scene.open():
        await scene.go_through_pauses()
    assert scene.shell.api.verbs == ["PUT", "PUT"]
    assert len(scene.shell.tasks.pauses) == 1


async def test_a_status_that_is_refused_is_written_with_growing_pauses() -> None:
    """Regression: a status that the API server refuses was written twelve times a second."""
    scene = Scene()
    scene.shell.api.fails(*[Invalid("no", status=422) for _ in range(30)])
    scene.ask()
    async with scene.open():
        await scene.go_through_pauses()
    pauses = scene.shell.tasks.pauses
    assert len(pauses) == 30
    assert sum(pauses[:10]) > 30
    assert min(pauses[-5:]) >= 30
    assert scene.status["count"] == 2


async def test_a_fault_of_the_operator_is_reported_in_the_status_of_the_quote_and_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: the fault was only an event, and each change of the quote led to a retry at once."""
    scene = Scene()
    judge, tries = scene.controller._judge, list[float]()

    def fails(asked: Quote, now: float) -> DryRunResult:
        tries.append(now)
        if len(tries) < 3:
            raise LookupError("a bug")
        return judge(asked, now)

    monkeypatch.setattr(scene.controller, "_judge", fails)
    scene.ask()
    async with scene.open():
        scene.controller.upsert(None, quote())
        await turns(20)
        assert len(tries) == 1
        ready, stalled = scene.status["conditions"]
        assert (ready["type"], ready["reason"]) == ("Ready", "InternalError")
        assert (stalled["type"], stalled["status"]) == ("Stalled", "True")
        assert "a bug" in ready["message"]
        assert "answeredAt" not in scene.status
        await scene.go_through_pauses()
    assert "answeredAt" in scene.status
    assert scene.shell.api.verbs == ["PUT", "PUT"]
    assert scene.status["nodeName"] == "node-a"
    assert scene.shell.isolation.faults == ["quote shop/ask: a bug"] * 2


async def test_a_fault_of_a_plugin_is_reported_in_the_status_of_the_quote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: the fault was not counted, and there was no event."""
    scene = Scene()
    scene.shell.decider._dry_run._on_failure = scene.shell.isolation.failed
    fit = scene.shell.decider.profile.plugins["NodeResourcesFit"]
    monkeypatch.setattr(fit, "filter", lambda *_: 1 / 0)
    scene.ask()
    async with scene.open():
        await turns(20)
    assert [each["reason"] for each in scene.status["conditions"]] == ["PluginFailed"] * 3
    [fault] = scene.shell.isolation.faults
    assert fault.startswith("quote shop/ask: ")


async def test_a_quote_does_not_wait_behind_all_those_of_another_namespace() -> None:
    """Regression: quotes had their turns in the order of their creation, also across namespaces."""
    scene = Scene()
    for index in range(100):
        plain = quote_json()
        plain["metadata"] |= {"name": f"ask-{index}", "namespace": "mill", "uid": f"uid-{index}"}
        scene.controller.upsert(None, decode_quote(encode(plain)))
        scene.shell.api.objects[RESERVATIONQUOTES.item(f"ask-{index}", "mill")] = plain
    scene.ask()
    scene.shell.api.gate.clear()
    async with scene.open():
        await turns(200)  # by then all of them wait
        scene.shell.api.gate.set()
        await turns(1000)
    paths = [asked.path for asked in scene.shell.api.asked]
    assert len(paths) == 101
    assert paths.index(f"{PATH}/status") < 20
