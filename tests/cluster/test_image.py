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
from itertools import chain
from pathlib import Path

import pytest

from tidelock import __version__

_ROOT = Path(__file__).parents[2]
_ASSETS = _ROOT / "operator/tidelock/web/assets"
_ABSOLUTE = re.compile(r"(?<![\w.])/(?=opt/|src\b|wheel\b)")  # a path that the build makes


def instructions() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile."""
    lines = (_ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            name, _, argument = line.partition(" ")
            yield name, argument


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, without those before the first."""
    parts: list[list[tuple[str, str]]] = [[]]
    for name, argument in instructions():
        if name == "FROM":
            parts.append([])
        parts[-1].append((name, argument))
    return parts[1:]


def copied() -> list[str]:
    """Return the paths that are copied from the repository."""
    copies = (argument.split() for name, argument in chain(*stages()) if name == "COPY")
    return [path for words in copies if not words[0].startswith("--from=") for path in words[:-1]]


def test_the_build_context_has_exactly_the_copied_paths() -> None:
    patterns = (_ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in patterns
    assert sorted(copied()) == [pattern[1:] for pattern in patterns if pattern.startswith("!")]


def test_all_stages_begin_with_one_pinned_image_that_can_be_replaced() -> None:
    name, argument = next(instructions())
    assert name == "ARG"
    assert re.fullmatch(r"BASE=python:3\.\d+-slim@sha256:[0-9a-f]{64}", argument)
    begun = [dict(stage)["FROM"].split() for stage in stages()]
    names = {words[2] for words in begun if len(words) > 1}
    assert {words[0] for words in begun} - names == {"$BASE"}


def test_code_has_a_layer_of_its_own_and_the_image_has_labels() -> None:
    final = stages()[-1]
    copies = [argument.split()[0] for name, argument in final if name == "COPY"]
    assert copies == ["--from=packages", "--from=code"]
    labels = re.findall(r"org\.opencontainers\.image\.(\w+)=", dict(final)["LABEL"])
    assert labels == ["title", "description", "licenses", "version", "revision"]


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
        if name == "RUN" and "/etc/" in argument:
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
    base, place = tmp_path / "base", tmp_path
    subprocess.run([sys.executable, "-m", "venv", base], check=True)
    environment = os.environ | {"PATH": f"{base / 'bin'}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)  # otherwise it would find the package in the repository
    environment["PIP_NO_COMPILE"] = "1"  # most modules are never imported
    for name, argument in chain(*stages()[:-1]):
        words = _ABSOLUTE.sub(f"{tmp_path}/", argument)
        if name == "ENV":
            variable, _, value = words.partition("=")
            environment[variable] = value
        elif name == "WORKDIR":
            place = Path(words)
            place.mkdir()
        elif name == "COPY":
            copy(words.split()[:-1], place)
        elif name == "RUN":
            subprocess.run(["sh", "-ec", words], cwd=place, env=environment, check=True)
    shutil.copytree(tmp_path / "opt/code", tmp_path / "opt/tidelock", dirs_exist_ok=True)
    packages = next(tmp_path.glob("opt/tidelock/lib/*/site-packages"))
    command = tmp_path / "opt/tidelock/bin/tidelock"
    del environment["PATH"]
    assert (
        subprocess.check_output([command, "--version"], cwd=tmp_path, env=environment, text=True).strip()
        == __version__
    )
    assert {each.name for each in (packages / "tidelock/web/assets").iterdir()} == {
        each.name for each in _ASSETS.iterdir()
    }
    left_out = {"kubernetes", "pip", "setuptools", "numpy/tests"}
    assert [each for each in left_out if (packages / each).exists()] == []


def copy(names: list[str], target: Path) -> None:
    for path in (_ROOT / name for name in names):
        if path.is_dir():
            shutil.copytree(
                path, target / path.name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(path, target)
