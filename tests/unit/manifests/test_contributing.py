"""The tools for contributors: targets, hooks, the container, templates, and the map of tests."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def test_make_help_shows_every_target() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[0] for line in shown.splitlines()] == targets
    assert all(re.search(r"\S {2,}\S", line) for line in shown.splitlines())


def test_all_checks_run_and_all_that_failed_are_named(tmp_path: Path) -> None:
    hack = tmp_path / "hack"
    hack.mkdir()
    for script in ("verify-all", "in-venv"):
        shutil.copy(ROOT / "hack" / script, hack)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    for name, status in (("a", 1), ("b", 0), ("c", 2)):
        check = hack / f"verify-{name}"
        check.write_text(f"#!/bin/sh\necho looked at {name}\nexit {status}\n")
        check.chmod(0o755)

    done = subprocess.run([hack / "verify-all"], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if "looked" in line] == [
        f"looked at {name}" for name in "abc"
    ]
    assert done.stdout.splitlines()[-1] == "FAILED: hack/verify-a hack/verify-c"


def test_hooks_are_local_and_run_existing_programs() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        program = hook["entry"].split()[0]
        assert hook["language"] == "system"
        assert program.startswith(".venv/bin/") or (ROOT / program).is_file(), program


def test_the_development_container_is_built_from_existing_files() -> None:
    folder = ROOT / ".devcontainer"
    container = json.loads((folder / "devcontainer.json").read_text())
    dockerfile = (folder / container["build"]["dockerfile"]).read_text()
    command, target = container["postCreateCommand"].split()
    assert command == "make"
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    needed = re.search(r"^go (\d+\.\d+)", (ROOT / "hack/controlplane/go.mod").read_text(), re.MULTILINE)
    assert needed is not None
    assert f"golang:{needed[1]}" in dockerfile


@pytest.mark.parametrize(
    "template", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yaml")), ids=lambda path: path.stem
)
def test_issue_templates_are_forms(template: Path) -> None:
    form = yaml.safe_load(template.read_text())
    assert {"name", "description", "body"} <= set(form)
    assert all(each["type"] in {"textarea", "input", "dropdown", "checkboxes"} for each in form["body"])
    ids = [each["id"] for each in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(each["attributes"]["label"] for each in form["body"])


def test_the_map_of_tests_names_every_folder() -> None:
    described = set(
        re.findall(r"^\| `([a-z0-9]+)/` \|", (ROOT / "tests/README.md").read_text(), re.MULTILINE)
    )
    tracked = subprocess.run(
        ["git", "ls-files", "tests"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    folders = {parts[1] for line in tracked.splitlines() if len(parts := line.split("/")) > 2}
    assert described == folders
