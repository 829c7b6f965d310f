"""The process, its logs and its metrics when Kopf fails."""

import asyncio
import gc
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import kopf
import pytest

from tidelock.handlers import lifecycle, login
from tidelock.handlers.supervision import SupervisedOperator, running
from tidelock.kube import client
from tidelock.kube.backoff import Backoff
from tidelock.kube.client import WATERLEVELS
from tidelock.kube.config import Connection, Credentials
from tidelock.pace import Pace
from tidelock.telemetry import Telemetry

ROOT = Path(__file__).parents[3]
UNREACHABLE = "http://127.0.0.1:9"  # a port without a server
PATIENCE = 60.0  # seconds
IMPATIENT = Pace(kopf_retry=0.0, kopf_working=0.0, kopf_calm=0.0)
LABELS = {"resource": WATERLEVELS.plural}


class Anonymous(Credentials):
    """No credentials."""

    def __init__(self) -> None:
        pass

    def header(self) -> str | None:
        return None


class Scene:
    """A supervised Kopf of one task, which tests let start and fail, with a record of its actions."""

    def __init__(self) -> None:
        self.served = [WATERLEVELS]
        self.refusals: list[Exception] = []
        self.starts: list[asyncio.Future[None]] = []
        self.signals: list[str] = []
        self.stop, self.started = asyncio.Event(), asyncio.Event()
        self.started.set()
        self._telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- it spreads retries
        self.operator = SupervisedOperator(
            WATERLEVELS,
            kopf.OperatorRegistry,
            "tidelock-0",
            self._telemetry,
            Random(1),  # noqa: S311 -- as above
            IMPATIENT,
        )

    async def spawn_tasks(
        self, *, insights: Any, stop_flag: asyncio.Event, **_: Any
    ) -> list[asyncio.Task[None]]:
        """Act as Kopf, which handles the signals itself, and works until it fails or is cancelled."""
        if self.refusals:
            raise self.refusals.pop()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.signals.append, "took a signal")
        insights.watched_resources.update(self.served)
        insights.ready_resources.set()
        fate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.starts.append(fate)

        async def work() -> None:
            try:
                await fate
            except asyncio.CancelledError:
                self.signals.append("ended as it was asked to" if stop_flag.is_set() else "was cut short")
                raise

        return [asyncio.create_task(work())]

    @property
    def up(self) -> float | None:
        return self._telemetry.registry.get_sample_value("tidelock_kopf_up", LABELS)

    def failures(self, reason: str) -> float | None:
        labels = LABELS | {"reason": reason}
        return self._telemetry.registry.get_sample_value("tidelock_kopf_failures_total", labels)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with running((self.operator,), self.started, self.stop):
            yield

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 -- no event is set.
                await asyncio.sleep(0.001)

    async def fail(self, error: Exception) -> None:
        """Make Kopf fail, and wait for the next start."""
        starts = len(self.starts)
        self.starts[-1].set_exception(error)
        await self.until(lambda: len(self.starts) > starts)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    monkeypatch.setattr(kopf, "spawn_tasks", made.spawn_tasks)
    return made


def test_no_kind_that_kopf_watches_preserves_unknown_fields() -> None:
    """One deeply nested object ends Kopf's watch with a RecursionError, for all objects of its kind."""
    wired = (ROOT / "operator/tidelock/handlers/assembly.py").read_text()
    kinds = re.findall(r"return SupervisedOperator\(\s*(\w+),", wired)
    assert kinds == ["WATERLEVELS"]
    for kind in kinds:
        schema = (ROOT / "crds" / f"{getattr(client, kind).plural}.yaml").read_text()
        assert "openAPIV3Schema" in schema
        assert "x-kubernetes-preserve-unknown-fields" not in schema


async def test_signals_set_the_flag_of_the_process_although_kopf_handles_them(scene: Scene) -> None:
    async with scene.run():
        await scene.until(lambda: scene.starts)
        await scene.fail(OSError("down"))
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await scene.stop.wait()

    assert scene.signals == ["ended as it was asked to"]


async def test_kopf_does_not_start_before_the_first_decision(scene: Scene) -> None:
    scene.started.clear()
    async with scene.run():
        await asyncio.sleep(0)

    assert scene.starts == []


async def test_kopf_starts_again_and_logs_this_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert (scene.up, scene.operator.problem) == (0, "NotStarted")
    async with scene.run():
        await scene.until(lambda: not scene.operator.problem)
        assert scene.up == 1
        scene.served.clear()
        await scene.fail(OSError("down"))
        await scene.until(lambda: (scene.failures("NotFound") or 0) >= 3)
        assert (scene.up, scene.operator.problem) == (0, "NotFound")
        scene.served.append(WATERLEVELS)
        await scene.until(lambda: not scene.operator.problem)
        assert scene.up == 1

    assert scene.failures("OS") == 1
    failed = "Kopf has failed and is started again"
    assert [record.message for record in caplog.records] == [failed, failed, "Kopf works again"]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_fault_of_the_program_is_logged_with_its_traceback(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene.run():
        await scene.until(lambda: not scene.operator.problem)
        await scene.fail(ValueError("wrong"))

    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_kopf_that_ends_by_itself_starts_again(scene: Scene) -> None:
    async with scene.run():
        await scene.until(lambda: not scene.operator.problem)
        scene.starts[-1].set_result(None)
        await scene.until(lambda: len(scene.starts) > 1)

    assert scene.failures("Runtime") == 1


async def test_a_start_that_fails_is_tried_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Only a failed task of Kopf was tried again. An error of the start itself ended the whole process."""
    scene.refusals = [ImportError("no module"), KeyError("uid not found")]
    async with scene.run():
        await scene.until(lambda: not scene.operator.problem)
        assert scene.up == 1

    assert (scene.failures("Key"), scene.failures("Import"), len(scene.starts)) == (1, 1, 1)
    failed = [record.exc_info for record in caplog.records if record.levelno == logging.WARNING]
    assert len(failed) == 2
    assert all(failed)


async def test_the_end_does_not_wait_for_a_pause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.operator, "_backoff", Backoff(3600.0, 3600.0, Random(1)))  # noqa: S311 -- no secret
    async with scene.run():
        await scene.until(lambda: not scene.operator.problem)
        scene.starts[-1].set_exception(OSError("down"))
        await scene.until(lambda: scene.operator.problem)

    assert len(scene.starts) == 1


@pytest.fixture
async def stranded(monkeypatch: pytest.MonkeyPatch) -> SupervisedOperator:
    """Return a real Kopf that can't reach its API server."""
    asyncio.get_running_loop().set_exception_handler(lifecycle.close_quietly)
    registry = kopf.OperatorRegistry()
    login.register(registry, Connection(server=UNREACHABLE, credentials=Anonymous()))
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- it spreads retries
    rng = Random(1)  # noqa: S311 -- as above
    return SupervisedOperator(WATERLEVELS, lambda: registry, "tidelock-0", telemetry, rng, IMPATIENT)


async def test_kopf_starts_as_a_user_without_a_name(
    stranded: SupervisedOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kopf looked up the name of the user for an identity, and the image's user has no line in /etc/passwd.

    The process ended a second after it had begun to lead, again and again, and the next one likewise.
    """
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    started = asyncio.Event()
    started.set()
    async with running((stranded,), started, asyncio.Event()) as task, asyncio.timeout(PATIENCE):
        while stranded.problem == "NotStarted":
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    assert stranded.problem == "ClientConnector"


async def test_a_failing_kopf_does_not_cancel_other_tasks(
    stranded: SupervisedOperator, caplog: pytest.LogCaptureFixture
) -> None:
    """`kopf.run_tasks` cancels all later tasks: bindings in progress, watches, and HTTP requests."""
    started = asyncio.Event()
    started.set()
    async with running((stranded,), started, asyncio.Event()):
        await asyncio.sleep(0.1)
        bystander = asyncio.create_task(asyncio.Event().wait())
        async with asyncio.timeout(PATIENCE):
            while stranded.problem == "NotStarted":  # noqa: ASYNC110 -- no event is set.
                await asyncio.sleep(0.01)
    assert stranded.problem == "ClientConnector"
    assert not bystander.done()
    bystander.cancel()

    gc.collect()  # asyncio logs unretrieved errors when their tasks are collected.
    told = [record for record in caplog.records if not record.name.startswith("kopf")]
    assert [(record.name, record.exc_info) for record in told] == [("tidelock.handlers.supervision", None)]
