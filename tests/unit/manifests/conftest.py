from pathlib import Path

import pytest

from devcluster.tools import find_program


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return the program, which is built before the first test."""
    return find_program("promtool")
