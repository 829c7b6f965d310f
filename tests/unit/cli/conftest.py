"""A server with fixed answers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from unit.cli.server import Answers, FixedServer, serving


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Answers], FixedServer]]:
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(serving(answers, tmp_path))
