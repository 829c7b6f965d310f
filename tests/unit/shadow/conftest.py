import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo the settings of logs that the command makes for its process."""
    root, watch = logging.getLogger(), logging.getLogger("tidelock.kube.watch")
    before = root.handlers[:], root.level, watch.level
    yield
    root.handlers[:], level, of_watch = before
    root.setLevel(level)
    watch.setLevel(of_watch)
