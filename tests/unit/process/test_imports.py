import os
import subprocess
import sys

import pytest


def imported_by(module: str) -> set[str]:
    """Return the modules that a new Python has imported after it has imported one."""
    program = f"import sys, {module}; print(*sys.modules)"
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ, check=True)
    return set(run.stdout.decode().split())


@pytest.mark.parametrize("package", ["cryptography", "kopf", "kubernetes", "tidelock.simulation"])
def test_a_start_does_not_import_what_the_first_decision_does_not_need(package: str) -> None:
    """Each of them took up to a fifth of the time from the launch to the first binding."""
    assert package not in imported_by("tidelock.process")


def test_the_command_line_is_read_before_the_scheduler_is_imported() -> None:
    """The garbage collector searched all modules again and again while they were imported."""
    assert {name for name in imported_by("tidelock.main") if name.startswith("tidelock")} == {
        "tidelock",
        "tidelock.main",
        "tidelock.running",
        "tidelock.settings",
    }
