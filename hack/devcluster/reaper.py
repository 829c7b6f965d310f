"""A process that outlives its owner only to stop the programs that the owner left running."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.component import Component
from devcluster.processes import stop_recorded

_KEEP = "import sys; from devcluster.reaper import keep; keep(sys.argv[1])"


class ProcessReaper:
    """A helper process that stops the processes of a folder once this process ends, even by SIGKILL."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _KEEP, str(directory)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            start_new_session=True,  # so that only the owner gets a Ctrl-C
        )

    def close(self) -> None:
        """Let the helper process stop the remaining programs, and wait for it."""
        self._process.communicate()


@contextmanager
def kept(component: Component) -> Iterator[None]:
    """Run a program, the only one of its folder, until the context or this process ends."""
    reaper = ProcessReaper(component.directory)
    try:
        component.start()
        yield
    finally:
        stop_recorded(component.directory)
        reaper.close()


def keep(directory: str) -> None:
    """Wait for the owner's end, which closes the pipe to standard input, and stop its programs."""
    sys.stdin.read()
    stop_recorded(Path(directory))
