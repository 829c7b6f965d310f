import re
import shutil
import subprocess
from pathlib import Path

import pytest

from unit.devcluster.machines import Machine

HACK = Path(__file__).parents[3] / "hack"
IN_VENV = sorted(
    path.name
    for path in HACK.iterdir()
    if path.is_file() and path.name != "in-venv" and re.search(r"in-venv|\.venv/bin", path.read_text())
)
# A fake Python for hack/make-venv: it prints a version and creates environments with a fake pip and python.
PYTHON = """
case $* in
--version) echo Python {version} ;;
*ensurepip*) {ensurepip} ;;
*version_info\\ *) {new_enough} ;;
*version_info*) echo {version} | cut -d. -f1-2 ;;
-m\\ venv*)
    mkdir -p "$3/bin"
    echo 'exit {pip}' >"$3/bin/pip"
    printf 'echo %s\nexit {status}\n' "tests with {version}" >"$3/bin/python"
    chmod +x "$3/bin/pip" "$3/bin/python"
    ;;
esac
"""


def python(
    version: str, *, ensurepip: str = "true", new_enough: str = "true", pip: int = 0, status: int = 0
) -> str:
    return PYTHON.format(version=version, ensurepip=ensurepip, new_enough=new_enough, pip=pip, status=status)


@pytest.fixture
def checkout(machine: Machine, tmp_path: Path) -> Path:
    """Return a working copy with only the scripts and a lock file, on a machine with bash."""
    machine.link("bash", "cat", "chmod", "cut", "dirname", "env", "mkdir", "touch")
    folder = tmp_path / "checkout"
    (folder / "hack").mkdir(parents=True)
    for name in ("make-venv", "test-pythons"):
        shutil.copy(HACK / name, folder / "hack")
    (folder / "requirements-dev.lock").touch()
    return folder


def run(checkout: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "hack" / script, *arguments], capture_output=True, text=True, check=False
    )


def test_an_environment_is_created(machine: Machine, checkout: Path) -> None:
    machine.install("python3", python("3.13.0"))
    done = run(checkout, "make-venv", "python3", "venv")
    assert (done.returncode, done.stderr) == (0, "")
    assert (checkout / "venv" / "bin" / "python").is_file()


@pytest.mark.parametrize(
    ("installed", "told"),
    [
        (None, "There is no python3 here: install Python 3.11 or later, or name yours, as in: "),
        (
            python("3.9.2", new_enough="false"),
            "Python 3.9.2 is too old: install Python 3.11 or later, or name ",
        ),
        (
            python("3.11.2", ensurepip="false"),
            "Python 3.11.2 lacks what makes virtual environments: install it, as in: apt ",
        ),
    ],
)
def test_missing_requirements_of_an_environment_are_named_in_one_sentence(
    machine: Machine, checkout: Path, installed: str | None, told: str
) -> None:
    if installed:
        machine.install("python3", installed)

    done = run(checkout, "make-venv", "python3", "venv")

    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1
    assert not (checkout / "venv").exists()


def test_packages_that_cannot_be_installed_are_an_error(machine: Machine, checkout: Path) -> None:
    machine.install("python3", python("3.13.0", pip=1))
    done = run(checkout, "make-venv", "python3", "venv")
    assert (done.returncode, done.stderr) == (
        1,
        "pip failed, see above: see that it can reach PyPI, or name another index in PIP_INDEX_URL\n",
    )


@pytest.mark.parametrize("script", IN_VENV)
def test_a_script_without_the_environment_suggests_make_venv(
    machine: Machine, checkout: Path, script: str
) -> None:
    for name in ("in-venv", script):
        shutil.copy(HACK / name, checkout / "hack")
    done = run(checkout, script)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "There is no virtual environment here: run make venv.\n"


def test_each_other_python_runs_the_tests(machine: Machine, checkout: Path) -> None:
    machine.install("python3", python("3.11.2"))
    machine.install("python3.12", python("3.12.1"))
    machine.install("python3.14", python("3.14.0", ensurepip="false"))

    done = run(checkout, "test-pythons", "3.11", "3.12", "3.13", "3.14")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Python 3.11 runs all tests, and is left out here.",
        "Python 3.13 can't be had here, and is left out.",
        "Python 3.14 can't be had here, and is left out.",
        "== Python 3.12",
        "tests with 3.12.1",
    ]


def test_tests_that_fail_with_one_python_fail_the_run(machine: Machine, checkout: Path) -> None:
    machine.install("python3", python("3.11.2"))
    machine.install("python3.12", python("3.12.1", status=1))
    machine.install("python3.13", python("3.13.0"))

    done = run(checkout, "test-pythons", "3.12", "3.13")

    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["tests with 3.13.0", "FAILED with Python 3.12"]


def test_an_environment_that_cannot_be_created_fails_the_run(machine: Machine, checkout: Path) -> None:
    machine.install("python3", python("3.11.2"))
    machine.install("python3.12", "[[ $* != *venv\\ build* ]]")

    done = run(checkout, "test-pythons", "3.12")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "FAILED with Python 3.12")
