"""Probes and metrics beside the start of the decisions."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from devcluster.loopback import HOST
from tidelock import process
from tidelock.handlers import supervision
from tidelock.kube.lease import LEASES
from tidelock.machine import Machine
from tidelock.pace import Pace
from tidelock.settings import Settings
from tidelock.tcp_server import ListenError
from unit.kube.kubeconfigs import write_kubeconfig
from unit.process.empty_server import EmptyServer, empty_server

PATIENCE = 60.0
# The watchdog would end the process of all tests some seconds later.
WITHOUT_WATCHDOG = Machine(end_within=lambda _seconds: None)


@pytest.fixture(autouse=True)
def _within_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run without Kopf."""

    @asynccontextmanager
    async def running(*_: Any) -> AsyncIterator[asyncio.Future[None]]:
        yield asyncio.get_running_loop().create_future()

    monkeypatch.setattr(supervision, "running", running)


@pytest.mark.parametrize("leader_elect", [False, True])
async def test_a_port_in_use_ends_the_process(leader_elect: bool, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {})  # which nothing answers
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = Settings(kubeconfig=str(kubeconfig), listen=HOST, port=port, leader_elect=leader_elect)
        operator = process.operate(settings, asyncio.Event(), Pace(serving=0.1), WITHOUT_WATCHDOG)
        with pytest.raises(ListenError, match="--port"):
            await asyncio.wait_for(operator, PATIENCE)


@pytest.mark.parametrize(("chosen", "place"), [("", "tidelock-system"), ("platform", "platform")])
async def test_the_context_of_a_kubeconfig_does_not_move_the_lease(
    chosen: str, place: str, tmp_path: Path
) -> None:
    """The tutorial changes the context's namespace. A second operator then led beside the first."""
    stop = asyncio.Event()
    async with empty_server(tmp_path / "kubeconfig") as (server, connection, _):
        write_kubeconfig(tmp_path / "kubeconfig", connection.server, {}, namespace="shop")
        settings = Settings(
            kubeconfig=str(tmp_path / "kubeconfig"), listen=HOST, port=0, lease_namespace=chosen
        )
        running = asyncio.create_task(process.operate(settings, stop, machine=WITHOUT_WATCHDOG))
        async with asyncio.timeout(PATIENCE):
            while not server.written:  # noqa: ASYNC110 -- no event is set
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.wait_for(running, PATIENCE)
    assert server.written[0] == ("POST", LEASES.collection(place))


@pytest.mark.parametrize("begun", [True, False])
async def test_probes_are_answered_once_decisions_begin_or_are_long_in_coming(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The import of the HTTP server once took a tenth of the time until the first binding."""

    async def never(_server: EmptyServer, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(PATIENCE)
        raise web.HTTPServiceUnavailable

    if not begun:
        monkeypatch.setattr(EmptyServer, "handle", never)
    pace = Pace(serving=PATIENCE if begun else 0.0)
    caplog.set_level("INFO")
    stop = asyncio.Event()
    async with empty_server(tmp_path / "kubeconfig"):
        settings = Settings(kubeconfig=str(tmp_path / "kubeconfig"), listen=HOST, port=0, leader_elect=False)
        running = asyncio.create_task(process.operate(settings, stop, pace, WITHOUT_WATCHDOG))
        while "serving" not in caplog.messages:
            await asyncio.sleep(0.01)
            assert not running.done()
        assert ("ready, decisions begin" in caplog.messages) == begun
        (port,) = (record.__dict__["port"] for record in caplog.records if record.message == "serving")
        async with aiohttp.ClientSession() as prober:
            for path, status in (("healthz", 200), ("readyz", 200 if begun else 503)):
                async with prober.get(f"http://{HOST}:{port}/{path}") as answer:
                    assert answer.status == status
        stop.set()
        await asyncio.wait_for(running, PATIENCE)
