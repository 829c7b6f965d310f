"""A ledger for answers, with one node."""

import pytest

from unit.ledger.answered import Scene


@pytest.fixture
def ledger() -> Scene:
    return Scene()
