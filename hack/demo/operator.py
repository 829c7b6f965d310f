"""The operator in its own process, as a user runs it."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from devcluster import wait_for
from devcluster.loopback import free_ports

_STOP_SECONDS = 60.0


@contextmanager
def running_operator(kubeconfig: Path, log: Path, *options: str) -> Iterator[int]:
    """Run `tidelock run` while the context lasts, and yield its port once it is ready."""
    (port,) = free_ports(1)
    run = (sys.executable, "-m", "tidelock.main", "run")
    command = [*run, f"--kubeconfig={kubeconfig}", f"--port={port}", *options]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_for(lambda: _ready(process, port, log), what="the operator to be ready")
            yield port
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def _ready(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the operator ended with status {process.returncode}:\n{log.read_text()}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except (urllib.error.URLError, OSError):
        return False
