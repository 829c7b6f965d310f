"""Operators as manifests/base installs them, and assertions that they are alive."""

import signal
from collections.abc import Callable

from cluster.operator_process import OperatorProcess
from devcluster import wait_for
from devcluster.identity import SYSTEM_NAMESPACE

AS_INSTALLED = ("--leader-elect", f"--lease-namespace={SYSTEM_NAMESPACE}", "--lease-duration-seconds=20")

Replica = Callable[..., OperatorProcess]
"""Starts an operator under a name, with more options, and waits until it leads or stands by."""


def until_led(process: OperatorProcess) -> None:
    """Wait until an operator leads."""
    wait_for(lambda: "leading" in process.log or not process.running, what="the operator to lead")
    assert process.running, f"the operator ended:\n{process.log[-4000:]}"


def lives(process: OperatorProcess) -> None:
    """Assert that an operator has not ended by itself, answers /healthz and has logged no traceback."""
    assert process.exit_status in {None, 0, -signal.SIGKILL}, f"the operator ended:\n{process.log[-4000:]}"
    assert not process.running or process.healthy(), "the operator does not answer /healthz"
    assert "Traceback" not in process.log, process.log[process.log.index("Traceback") :][:4000]
