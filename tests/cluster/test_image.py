"""The image without a container engine: its build steps run in a virtual environment.

It needs no API server, but one for the operator that it starts.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

from tidelock import __version__

_ROOT = Path(__file__).parents[2]
_ASSETS = _ROOT / "operator/tidelock/web/assets"
_PREFIX = "/opt/tidelock"  # the virtual environment of the image


def instructions() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile, each of which is one line."""
    for line in (_ROOT / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, argument = line.partition(" ")
            yield name, argument


def stages() -> list[list[tuple[str, str]]]:
    parts: list[list[tuple[str, str]]] = []
    for name, argument in instructions():
        if name == "FROM":
            parts.append([])
        parts[-1].append((name, argument))
    return parts


def copied() -> list[str]:
    """Return the paths that the build stage copies from the repository."""
    return [path for name, argument in stages()[0] if name == "COPY" for path in argument.split()[:-1]]


def test_the_build_context_has_exactly_the_copied_paths() -> None:
    patterns = (_ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in patterns
    assert sorted(copied()) == [pattern[1:] for pattern in patterns if pattern.startswith("!")]


def test_both_stages_begin_with_the_same_pinned_image() -> None:
    bases = {dict(stage)["FROM"].partition(" ")[0] for stage in stages()}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", bases.pop())


def test_the_image_runs_the_operator_as_an_unprivileged_user() -> None:
    final = dict(stages()[-1])
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final["USER"])
    assert json.loads(final["ENTRYPOINT"]) + json.loads(final["CMD"]) == ["tidelock", "run"]


def test_the_image_has_a_user_and_a_group_of_these_numbers(tmp_path: Path) -> None:
    """Without them the runtime gave the process the group 0, and no name to programs that look one up."""
    users, groups = tmp_path / "passwd", tmp_path / "group"
    for file in (users, groups):
        file.write_text("root:x:0:\n")
    for name, argument in stages()[-1]:
        if name == "RUN":
            subprocess.run(["sh", "-ec", argument.replace("/etc/", f"{tmp_path}/")], check=True)
    uid, _, gid = dict(stages()[-1])["USER"].partition(":")
    (user,) = (line.split(":") for line in users.read_text().splitlines() if f":{uid}:" in line)
    (group,) = (line.split(":") for line in groups.read_text().splitlines() if f":{gid}:" in line)
    assert (user[2], user[3], group[2], group[0]) == (uid, gid, gid, user[0])
    assert len(user) == 7
    assert users.read_text().startswith("root:x:0:\n")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_build_steps_produce_a_working_command(tmp_path: Path) -> None:
    source, installed = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)  # otherwise it would find the package in the repository
    environment["PIP_NO_COMPILE"] = "1"  # most modules are never imported
    for name, argument in stages()[0]:
        words = argument.replace(_PREFIX, str(installed))
        if name == "ENV":
            variable, _, value = words.partition("=")
            environment[variable] = Template(value).substitute(environment)
        elif name == "COPY":
            copy(words.split()[:-1], source)
        elif name == "RUN":
            subprocess.run(["sh", "-ec", words], cwd=source, env=environment, check=True)
    printed = subprocess.check_output(["tidelock", "--version"], cwd=tmp_path, env=environment, text=True)
    assert printed.strip() == __version__
    assert len(list(installed.glob("lib/*/site-packages/tidelock/web/assets/*"))) == len(
        list(_ASSETS.iterdir())
    )
    assert not list(installed.glob("lib/*/site-packages/setuptools"))


def copy(names: list[str], target: Path) -> None:
    for path in (_ROOT / name for name in names):
        if path.is_dir():
            shutil.copytree(
                path, target / path.name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(path, target)
