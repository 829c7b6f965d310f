"""The operator as a separate process, started as an installation starts it."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from cluster.forked import ForkedProcess, fork_server
from devcluster import wait_for
from devcluster.loopback import HOST, Health, free_ports

COMMAND = Path(sys.executable).with_name("tidelock")
"""The command of an installation."""


_START_TIMEOUT = 100.0  # seconds, of which an idle machine needs two
_STOP_TIMEOUT = 60.0


class OperatorProcess:
    """`tidelock run`, which can be started, stopped and killed repeatedly at the same port.

    Without a command it runs at the pace of `quick_operator`. Tests of the pace itself need `COMMAND`.

    As a context manager it is started and ready at once, and it is killed at the end of the context if it
    still runs. By default it leads without an election. So a process that is started after a kill need not
    wait for the end of the Lease.
    """

    def __init__(self, kubeconfig: Path, directory: Path, *options: str, command: Path | None = None) -> None:
        (self.port,) = free_ports(1)
        self._command = command
        self._arguments = [
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--listen={HOST}",
            f"--port={self.port}",
            "--no-leader-elect",
            *options,
        ]
        self._log = directory / "operator.log"
        self._log_begins = 0
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.running:
            self.kill()

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        return self._started().pid

    @property
    def exit_status(self) -> int | None:
        """The exit status, less than 0 after a signal, or None while the process runs."""
        return self._started().poll()

    @property
    def log(self) -> str:
        """The log of all its starts, or its part since `begin_log` was called."""
        return self._log.read_text()[self._log_begins :]

    def begin_log(self) -> None:
        """Let `log` begin with the next line that is written, if any process has been started."""
        self._log_begins = len(self._log.read_text()) if self._log.exists() else 0

    def start(self) -> None:
        """Start the process without waiting."""
        if self._command is None:
            self._process = fork_server().start(self._arguments, self._log)
            return
        words = [str(self._command), *self._arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def ready(self) -> None:
        """Wait until the operator has read the cluster and makes decisions.

        Raises:
            WaitTimeoutError: it was not ready in time. The message names its log.

        """
        wait_for(
            lambda: self.healthy("/readyz") or not self.running,
            what=f"the operator to be ready; its log is {self._log}",
            timeout=_START_TIMEOUT,
            interval=0.05,
        )
        assert self.running, f"the operator ended at its start:\n{self.log}"

    def healthy(self, probe: str = "/healthz") -> bool:
        """Return whether a probe is answered with 200 within two seconds."""
        return Health(self.port, probe, None).ok()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the process by a signal, and return its exit status."""
        self.signal(number)
        return self.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._started().send_signal(number)

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit status."""
        return self._started().wait(_STOP_TIMEOUT)

    def kill(self) -> None:
        """End the process at once by SIGKILL, as a crash would."""
        process = self._started()
        process.kill()
        process.wait(_STOP_TIMEOUT)

    def metrics(self) -> dict[str, float]:
        """Scrape all samples, and return their values by name and labels, as in `a_total{b="c",d="e"}`."""
        with urlopen(f"http://{HOST}:{self.port}/metrics", timeout=_STOP_TIMEOUT) as answer:
            text = answer.read().decode()
        return {
            _series(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def _started(self) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._process is None:
            raise RuntimeError("the operator has not been started")
        return self._process


Launch = Callable[..., OperatorProcess]
"""A function that starts an operator with these command line options and waits until it is ready."""


def _series(name: str, labels: dict[str, str]) -> str:
    text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{text}}}" if text else name
