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


@pytest.fixture(scope="module")
def imported_at_start() -> set[str]:
    return imported_by("tidelock.process")


@pytest.mark.parametrize(
    "package",
    [
        "aiohttp",
        "cryptography",
        "kopf",
        "kubernetes",
        "tidelock.binders.admission_check",
        "tidelock.cel",
        "tidelock.integrations.autoscalers.capacity_buffers",
        "tidelock.integrations.provisioning_requests.controller",
        "tidelock.simulation",
        "tidelock.web.site",
    ],
)
def test_a_start_does_not_import_what_the_first_decision_does_not_need(
    package: str, imported_at_start: set[str]
) -> None:
    """Some of them took up to a fifth of the time from the launch to the first binding."""
    assert package not in imported_at_start


def test_the_command_line_is_read_before_the_scheduler_is_imported() -> None:
    """The garbage collector searched all modules again and again while they were imported."""
    assert {name for name in imported_by("tidelock.main") if name.startswith("tidelock")} == {
        "tidelock",
        "tidelock.main",
        "tidelock.running",
        "tidelock.settings",
    }


def test_models_are_built_for_their_first_object() -> None:
    """Schemas of configuration files and of rare kinds were built at each start, for a twentieth of it."""
    program = (
        "import sys, pydantic, tidelock.process; seen = [pydantic.BaseModel]\n"
        "for each in seen: seen += each.__subclasses__()\n"
        "print(*(each.__name__ for each in seen if each.__pydantic_complete__))"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ, check=True)
    assert set(run.stdout.decode().split()) <= {"BaseModel", "RootModel"}
