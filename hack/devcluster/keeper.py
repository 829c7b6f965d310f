"""A process that outlives its owner only to stop what the owner left running."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.component import Component
from devcluster.processes import stop_recorded

_KEEP = "import sys; from devcluster.keeper import keep; keep(sys.argv[1])"


class Keeper:
    """Stops the processes recorded in a folder once this process ends, be it by SIGKILL."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _KEEP, str(directory)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            start_new_session=True,  # a Ctrl-C is for the owner
        )

    def close(self) -> None:
        """Let the keeper stop what still runs, and wait for it."""
        self._process.communicate()


@contextmanager
def kept(component: Component) -> Iterator[None]:
    """Run a program, alone in its folder, while the context lasts or until this process ends."""
    keeper = Keeper(component.directory)
    try:
        component.start()
        yield
    finally:
        stop_recorded(component.directory)
        keeper.close()


def keep(directory: str) -> None:
    """Wait for the owner's end, which closes the pipe to standard input; then stop what it left."""
    sys.stdin.read()
    stop_recorded(Path(directory))
