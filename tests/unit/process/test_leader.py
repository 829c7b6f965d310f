"""The order in which the parts of a leader end. The next leader relies on this order."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import aiohttp
import pytest

from devcluster.loopback import HOST
from tidelock import assembly, health, leader
from tidelock.assembly import assemble
from tidelock.clock import SystemClock
from tidelock.framework.config import default_configuration
from tidelock.handlers import supervision
from tidelock.health import Health
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.errors import Forbidden
from tidelock.kube.events import ObjectReference
from tidelock.kube.lease import LeaseLostError, NoElection
from tidelock.leader import lead
from tidelock.model.meta import ObjectMeta
from tidelock.plugins.registry import BUILTINS
from tidelock.process import _served
from tidelock.scheduler.actions.tasks import FaultSubject, Tasks
from tidelock.settings import Settings
from unit.process.empty_server import EmptyServer, empty_server

POD = ObjectReference("v1", "Pod", "web-0", "shop", "u1")
PATIENCE = 60.0

Server = tuple[EmptyServer, Connection, KubeClient]


class Term(NoElection):
    """A leadership that records its release and the coroutines that ran then."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        self.running: set[str] = set()
        self.lost: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    async def keep(self) -> NoReturn:
        await self.lost
        raise AssertionError

    async def release(self) -> None:
        self.told.append("given up")
        self.running = running()


def running() -> set[str]:
    """Return the names of the coroutines that have a task."""
    return {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with empty_server(tmp_path / "kubeconfig") as made:
        yield made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a record of the ends, in order. Kopf is replaced by a sleep."""
    told: list[str] = []

    @asynccontextmanager
    async def kopf_running(*_: Any) -> AsyncIterator[asyncio.Task[None]]:
        kopf = asyncio.create_task(asyncio.sleep(PATIENCE))
        try:
            yield kopf
        finally:
            kopf.cancel()
            told.append("Kopf ended")

    monkeypatch.setattr(supervision, "running", kopf_running)
    return told


class Process:
    """The parts of a process, and its state for probes."""

    def __init__(self, server: Server, term: Term) -> None:
        _, connection, client = server
        settings, configuration = Settings(), default_configuration("tidelock-scheduler", BUILTINS)
        rng = Random(1)  # noqa: S311 -- for jitter
        self.assembly = assemble(settings, configuration, connection, client, term, SystemClock(), rng)
        self.writers = self.assembly.context.writers
        self.ending = asyncio.Event()
        self.health = Health(self.assembly, self.ending)

    async def lead(self, stop: asyncio.Event) -> None:
        await lead(self.assembly, stop, self.ending, lambda _seconds: None)


def make(server: Server, term: Term) -> Process:
    return Process(server, term)


async def until_ready(made: Process) -> None:
    async with asyncio.timeout(PATIENCE):
        while not made.health.ready:  # noqa: ASYNC110 -- no event is set
            await asyncio.sleep(0.01)


def slow_write(tasks: Tasks, told: list[str], seconds: float) -> None:
    async def write() -> None:
        try:
            await asyncio.sleep(seconds)
            told.append("written")
        except asyncio.CancelledError:
            told.append("not written")
            raise

    tasks.spawn(write(), FaultSubject("status", PODS, ObjectMeta("web-0", "shop")))


async def test_the_lease_is_released_after_all_writes_and_before_kopf_ends(
    server: Server, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_LAST_WRITES", PATIENCE)
    monkeypatch.setattr(assembly, "_LAST_EVENTS", PATIENCE)
    seen, *_ = server
    stop, term = asyncio.Event(), Term(told)
    made = make(server, term)
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    slow_write(made.writers.tasks, told, 0.05)
    made.writers.recorder.record(POD, "Normal", "Scheduled", "Binding", "to n1")

    endless = {"DecisionLoop.run", "Reflector.run", "Isolation.supervise", "EventRecorder._work"}
    assert endless <= running()

    stop.set()
    await leading
    assert told == ["written", "given up", "Kopf ended"]
    assert seen.written == [("POST", "/apis/events.k8s.io/v1/namespaces/shop/events")]
    assert not endless & term.running


async def test_a_write_that_takes_too_long_is_cancelled_before_the_lease_is_released(
    server: Server, told: list[str]
) -> None:
    stop = asyncio.Event()
    made = make(server, Term(told))
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    slow_write(made.writers.tasks, told, PATIENCE)

    stop.set()
    await leading
    assert told == ["not written", "given up", "Kopf ended"]
    slow_write(made.writers.tasks, told, 0)  # Kopf's handlers might still request writes
    assert len(made.writers.tasks) == 0


async def test_the_order_is_the_same_after_the_lease_was_lost(server: Server, told: list[str]) -> None:
    term = Term(told)
    made = make(server, term)
    leading = asyncio.create_task(made.lead(asyncio.Event()))
    await until_ready(made)
    term.lost.set_exception(LeaseLostError("Lease a/b is thief's"))
    with pytest.raises(LeaseLostError, match="thief"):
        await leading
    assert told == ["given up", "Kopf ended"]


async def test_the_replica_shows_state_and_instance(server: Server, told: list[str]) -> None:
    stop, term = asyncio.Event(), Term(told)
    made = make(server, term)
    assert (made.health.replica.state, made.health.replica.silence) == ("starting", 0)
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    replica = made.health.replica
    stop.set()
    await leading

    assert (replica.state, replica.instance) == ("leading", Settings().instance)
    assert replica.silence == 0


async def test_the_replica_shows_the_silence_of_the_api_server(
    server: Server, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_SILENT", -1)
    stop = asyncio.Event()
    made = make(server, Term(told))
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    for reflector in made.assembly.reflectors:
        reflector.last_activity -= 90
    silence = made.health.replica.silence
    stop.set()
    await leading

    assert silence >= 80


async def test_the_status_of_a_standby_names_the_leader(server: Server) -> None:
    class Waiting(Term):
        waiting, holder = True, "tidelock-a_1"

    replica = make(server, Waiting([])).health.replica
    assert (replica.state, replica.leader, replica.epoch) == ("standby", "tidelock-a_1", 0)


@pytest.mark.parametrize(("web_view", "status"), [(False, 404), (True, 200)])
async def test_the_web_view_is_served_only_if_enabled(server: Server, web_view: bool, status: int) -> None:
    settings = Settings(listen=HOST, port=0, web_view=web_view) if web_view else Settings(listen=HOST, port=0)
    made = make(server, Term([]))
    async with _served(settings, made.assembly, made.health) as port, aiohttp.ClientSession() as browser:
        async with browser.get(f"http://{HOST}:{port}/web/") as response:
            assert response.status == status
        async with browser.get(f"http://{HOST}:{port}/healthz") as response:
            assert response.status == 200


async def test_the_details_of_readiness_cover_each_watch_and_kopf(server: Server, told: list[str]) -> None:
    stop = asyncio.Event()
    made = make(server, Term(told))
    assert made.health.details["kopf/waterlevels"] == "NotStarted"
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    made.assembly.reflectors[0].lost = Forbidden("no", status=403)
    details = made.health.details
    stop.set()
    await leading

    assert details["watch/nodes"] == "Forbidden"
    assert {name for name in details if not name.startswith("watch/")} == {"kopf/waterlevels"}


async def test_a_leader_works_on_a_kubernetes_without_claims_to_devices(
    server: Server, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    empty, *_ = server
    empty.absent = ("resource.k8s.io",)
    stop = asyncio.Event()
    made = make(server, Term(told))
    leading = asyncio.create_task(made.lead(stop))
    await until_ready(made)
    details = made.health.details
    stop.set()
    await leading

    assert details["watch/resourceclaims"] == details["watch/devicetaintrules"] == ""
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_the_details_of_a_standby_show_a_silent_leader(server: Server) -> None:
    """A standby that waited for the end of a crashed leader's Lease was once ready without any detail."""

    class Waiting(Term):
        waiting, silence = True, "no renewal by tidelock-a_1 seen for 7 s: it can be taken in 8 s"

    assert make(server, Waiting([])).health.details == {"lease": Waiting.silence}


async def test_a_process_is_alive_and_not_ready_before_it_leads(server: Server) -> None:
    made = make(server, Term([]))
    await asyncio.sleep(0)
    assert not made.health.ready
    assert made.health.alive
