from collections.abc import AsyncIterator

import pytest

from unit.kube.scripted import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server on a socket of its own that answers as a test has written down."""
    scripted = ScriptedServer()
    await scripted.start()
    yield scripted
    await scripted.close()
