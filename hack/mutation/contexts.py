"""A pytest plugin for runs with coverage: each line that runs is noted for the file of the present test.

coverage's own contexts miss all background tasks, as these do not run inside the test function.
"""

from collections.abc import Generator

import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the lines of a test, its fixtures and its tasks for its file, by the path from the root."""
    measured = coverage.Coverage.current()
    assert measured is not None, "coverage does not run"  # noqa: S101
    measured.switch_context(item.location[0])
    return (yield)
