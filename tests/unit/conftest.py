import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """Restore handlers and levels, as the operator's command sets them for the whole process."""
    loggers = [logging.getLogger(name) for name in ("", "kopf", "kopf.objects")]
    before = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """Start a server that answers from a script, on a socket of its own."""
    scripted = ScriptedServer()
    await scripted.start()
    yield scripted
    await scripted.close()


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """Open a client of that server."""
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="tidelock-test", timeout_seconds=5.0) as opened:
        yield opened
