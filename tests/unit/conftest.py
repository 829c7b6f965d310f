import logging
from collections.abc import AsyncIterator, Iterator

import pytest

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
