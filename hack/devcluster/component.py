"""One program of the control plane: its command, its health check and its current process."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.loopback import Health
from devcluster.output import tail
from devcluster.processes import Process, record, recorded, spawn

_START_TIMEOUT = 300.0  # seconds. An idle machine needs at most 5, but a loaded one has taken more than 120
_POLL_INTERVAL = 0.05


@dataclass(frozen=True)
class Component:
    """A program that can be started, stopped, frozen and killed, again and again, at the same address.

    Its process is recorded in `directory`, so that other programs can stop it, too.
    """

    name: str
    command: tuple[str, ...]
    health: Health
    directory: Path

    @property
    def log(self) -> Path:
        """The file with the output of all its starts."""
        return self.directory / f"{self.name}.log"

    @property
    def process(self) -> Process | None:
        """The process of the last start, or None before the first."""
        return recorded(self.directory).get(self.name)

    @property
    def running(self) -> bool:
        """Whether the process exists, even if it is frozen or not yet healthy."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Start the program and wait until it is healthy.

        Raises:
            DevClusterError: the program runs already, ended at once or did not become healthy.

        """
        self.launch()
        self.wait_healthy()

    def launch(self) -> None:
        """Start the program without waiting."""
        if self.running:
            raise DevClusterError(f"{self.name} runs already.")
        record(self.directory, self.name, spawn(self.command, self.log))

    def wait_healthy(self) -> None:
        """Wait until the program reports that it is healthy, and raise at once if it has ended."""
        deadline = time.monotonic() + _START_TIMEOUT
        while not self.healthy():
            if not self.running:
                raise self._failure("ended at its start")
            if time.monotonic() >= deadline:
                raise self._failure(f"is not healthy after {_START_TIMEOUT:g} s")
            time.sleep(_POLL_INTERVAL)

    def healthy(self) -> bool:
        """Return whether the program now reports that it is healthy."""
        return self.health.ok()

    def stop(self) -> None:
        """Ask the program to end and wait for it. This does nothing if it does not run."""
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        """End the program at once (SIGKILL), as a crash would, and wait for it."""
        self._running_process().kill()

    def freeze(self) -> None:
        """Freeze the program (SIGSTOP). Its connections stay open, but it does not answer."""
        self._running_process().send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen program continue (SIGCONT)."""
        self._running_process().send(signal.SIGCONT)

    def _running_process(self) -> Process:
        process = self.process
        if process is None or not process.alive:
            raise DevClusterError(f"{self.name} does not run.")
        return process

    def _failure(self, what: str) -> DevClusterError:
        return DevClusterError(f"{self.name} {what}; the end of {self.log}:\n{tail(self.log)}")
