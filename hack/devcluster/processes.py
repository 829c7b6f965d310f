"""Processes identified by pid and start time, so that a recycled pid never means another process."""

import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

# Field 22 of /proc/<pid>/stat, counted from the state, the first field after the parenthesised name.
_START_TIME_AFTER_NAME = 19
_GRACE = 2.0  # seconds. An API server with open watches would take a minute, but no program needs that.
_REAPED = 10.0  # seconds. The system may be slow to free the memory of a killed process.


@dataclass(frozen=True)
class Process:
    """One process of this machine. `started` is in clock ticks since boot."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether the process runs or is stopped by a signal. A zombie has ended."""
        return not self.wait(0)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with self._handle() as handle:
            if handle is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end, and return whether it came. A child is reaped."""
        with self._handle() as handle:
            if handle is None:
                return True
            if not _ended(handle, timeout):
                return False
            with suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
            return True

    def stop(self) -> None:
        """End the process with SIGTERM and then, if needed, by force, and wait for its end."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a frozen process would not see the first signal
        if not self.wait(_GRACE):
            self.kill()

    def kill(self) -> None:
        """End the process at once, and wait for its end."""
        self.send(signal.SIGKILL)
        self.wait(_REAPED)

    @contextmanager
    def _handle(self) -> Iterator[int | None]:
        """Yield a descriptor of exactly this process, or None if its pid is free or another process's."""
        if not self._has_its_pid():
            yield None
            return
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:  # checked again, as another process may have got the pid before it was opened
            yield descriptor if self._has_its_pid() else None
        finally:
            os.close(descriptor)

    def _has_its_pid(self) -> bool:
        try:
            return _start_time(self.pid) == self.started
        except ProcessLookupError:
            return False


def spawn(command: Sequence[str], log: Path) -> Process:
    """Run a command in its own session, so that it does not get a Ctrl-C. Its output goes to `log`."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    return Process(pid, _start_time(pid))


def record(directory: Path, name: str, process: Process) -> None:
    """Record a process under a name, for this program and for others."""
    partial = directory / f".{name}.pid"
    partial.write_text(f"{process.pid} {process.started}\n")
    partial.replace(directory / f"{name}.pid")


def recorded(directory: Path) -> Mapping[str, Process]:
    """Return every process recorded in the folder, by name. Some may have ended."""
    return {path.stem: _read(path) for path in sorted(directory.glob("[!.]*.pid"))}


def stop_recorded(directory: Path) -> None:
    """End every process recorded in the folder, the youngest first, and delete the records."""
    for process in sorted(recorded(directory).values(), key=attrgetter("started", "pid"), reverse=True):
        process.stop()
    for path in directory.glob("*.pid"):
        path.unlink(missing_ok=True)


def _read(path: Path) -> Process:
    pid, started = path.read_text().split()
    return Process(int(pid), int(started))


def _start_time(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"no process {pid}") from error
    return int(stat.rpartition(")")[2].split()[_START_TIME_AFTER_NAME])


def _ended(descriptor: int, timeout: float) -> bool:
    """Return whether the process of a pid descriptor ends within `timeout` seconds."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout * 1000))
