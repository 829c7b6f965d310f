"""A server that starts operators at a quicker pace, each as a process of its own.

A start of the command takes two seconds of a processor for its imports. The server has done them, and forks.
"""

import gc
import json
import os
import signal
import sys
from importlib import import_module
from typing import Any

from tidelock.kube.watch import WatchSettings
from tidelock.main import main
from tidelock.pace import Pace

QUICK = Pace(
    # A process that was suspended for minutes finds its streams silent, but not dead.
    watches=WatchSettings(silence=3600.0, longest_retry=1.0, refused_retry=0.5),
    serving=0.0,
    refusal_renewal=0.5,
    migration_plan=1.0,
    gate_renewal=0.5,
    kopf_retry=0.2,
    kopf_working=2.0,  # Kopf repeats a refused request after a second
    garbage_collection=1.0,
    other_leaders=1.0,
    webhooks=1.0,
    certificate_check=1.0,
    certificate_retry=0.2,
)
"""A pace for tests that wait for the effects of an operator."""

_IMPORTED = (
    *("kopf", "tidelock.process", "tidelock.serving", "tidelock.handlers.login"),
    *("tidelock.handlers.water_levels", "tidelock.load.sources", "tidelock.binders.server"),
)


def _serve() -> list[str]:
    """Answer requests until the input ends. Returns in a new process, with the arguments of its command.

    A request is a line of JSON: the arguments and the log of an operator that is started, or the id of one,
    for its exit status. A test process that is killed ends the input. Then no operator is left.
    """
    running: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            status = _exit_status(asked)
            if status is not None:
                running.discard(asked)
            _answer(status)
        elif pid := os.fork():
            running.add(pid)
            _answer(pid)
        else:
            log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            arguments: list[str] = asked["arguments"]
            return arguments
    for pid in running:
        os.kill(pid, signal.SIGKILL)  # it is there, as its status was not read
    sys.exit()


def _answer(value: Any) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


def _exit_status(pid: int) -> int | None:
    """Return the exit status of an operator, less than 0 after a signal, or None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


if __name__ == "__main__":
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as the command does
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    sys.exit(main(_serve(), QUICK))
