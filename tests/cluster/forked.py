"""Processes that a server of operators has forked, with the interface of subprocess.Popen."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

# Without -P modules of this folder, such as requests, would hide others of their names.
_SERVER = (sys.executable, "-P", str(Path(__file__).with_name("quick_operator.py")))
_INTERVAL = 0.01  # seconds between two looks whether a process has ended


class ForkServer:
    """A running `quick_operator`. Its processes are killed when it is closed."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(_SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = Lock()
        self._running: list[ForkedProcess] = []

    def start(self, arguments: Sequence[str], log: Path) -> "ForkedProcess":
        """Start an operator with these arguments of its command, which appends to a log."""
        made = ForkedProcess(self, self.ask({"arguments": arguments, "log": str(log)}))
        self._running = [*(each for each in self._running if each.poll() is None), made]
        return made

    def ask(self, request: Any) -> Any:
        """Send a request, and return the answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with self._lock:
            self._server.stdin.write(f"{json.dumps(request)}\n")
            self._server.stdin.flush()
            return json.loads(self._server.stdout.readline())

    def close(self) -> None:
        """End the server and its processes."""
        for each in self._running:
            if each.poll() is None:
                each.kill()
        self._server.communicate()


class ForkedProcess:
    """A process of a server."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, less than 0 after a signal, or None while the process runs."""
        if self._status is None:
            self._status = self._server.ask(self.pid)
        return self._status

    def wait(self, timeout: float) -> int:
        """Wait for the end of the process, and return its exit status."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(_SERVER, timeout)
            time.sleep(_INTERVAL)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)


@cache
def fork_server() -> ForkServer:
    """Return the server of this process, which starts at the first call."""
    made = ForkServer()
    atexit.register(made.close)
    return made
