"""A command starts with the modules that it needs, as each of these packages takes up to 0.2 s."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelock.cli.app import COMMANDS
from tidelock.kube.client import RESERVATIONS, WATERLEVELS
from unit.cli.scenes import active_json
from unit.cli.server import listed, serving


def imported_by(program: str) -> set[str]:
    """Return the modules that a new Python has imported after a program."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        stdout=subprocess.PIPE,
        env=environ,
        check=True,
    )
    return set(run.stdout.decode().split())


def test_help_needs_no_command() -> None:
    told = imported_by("from tidelock.cli.app import make_app; make_app()")
    assert not told & {"aiohttp", "kubernetes", "numpy", "pydantic", "rich", "yaml", "asyncio"}


@pytest.mark.parametrize("command", ["status", "reserve", "commit", "approve", "timeline"])
def test_a_quick_command_needs_no_scheduler(command: str) -> None:
    assert command in COMMANDS
    told = imported_by(f"import tidelock.cli.app, tidelock.cli.{command}")
    assert not told & {"aiohttp", "kopf", "kubernetes", "matplotlib", "numpy", "rich", "textual"}
    assert not any(name.startswith("tidelock.scheduler") for name in told)


@pytest.mark.parametrize("command", [*COMMANDS, "top_app"])
def test_no_command_needs_a_package_of_the_operator_alone(command: str) -> None:
    """`pip install '.[cli]'` and the single file have none of them. `why` once imported prometheus_client."""
    told = imported_by(f"import tidelock.cli.{command}")
    assert not told & {"cryptography", "grpclib", "kopf", "prometheus_client", "uvloop"}


def test_status_reads_without_aiohttp(tmp_path: Path) -> None:
    answers = {
        f"GET {RESERVATIONS.collection('shop')}": listed(active_json("batch")),
        f"GET {WATERLEVELS.collection()}": listed(),
    }
    with serving(answers, tmp_path) as server:
        words = ["kubectl-tidelock", "status", "--kubeconfig", str(server.kubeconfig)]
        program = f"import contextlib, sys; sys.argv = {words}\nfrom tidelock.cli.main import main\n"
        told = imported_by(f"{program}with contextlib.suppress(SystemExit): main()")
    assert "node-a" in told  # a word of the table
    assert not told & {"aiohttp", "kubernetes", "numpy", "rich"}
