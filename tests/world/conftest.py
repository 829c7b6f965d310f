import pytest

from world.api.local import LocalClient


@pytest.fixture
def api() -> LocalClient:
    """Return a client of a new server in memory."""
    return LocalClient()
