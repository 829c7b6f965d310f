"""The package, installed in a virtual environment by the pip commands of README and docs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import PAGES, ROOT, commands, page_blocks
from tidelock import __version__

CLIENT = "pip install ."
_UNTRACKED = shutil.ignore_patterns("__pycache__", "*.egg-info")


def typed() -> list[str]:
    """Return each pip command of README and docs once, without its comment."""
    found = [
        command.typed.partition("#")[0].strip()
        for page in PAGES
        for block in page_blocks(page)
        if block.language in {"sh", "console"}
        for command in commands(block)
        if command.words[0] == "pip"
    ]
    return list(dict.fromkeys(found))


def test_readme_and_docs_have_pip_commands() -> None:
    assert set(typed()) >= {CLIENT, "pip install '.[cli]'", "pip install '.[operator]'"}


@pytest.mark.nightly  # test_release.py installs the same wheel
@pytest.mark.timeout(1200)
def test_the_documented_pip_commands_install_working_programs(tmp_path: Path) -> None:
    source, installed = tmp_path / "src", tmp_path / "venv"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):  # building leaves files behind
        shutil.copy(ROOT / name, source)
    for name in ("operator", "docs/examples/plugin"):
        shutil.copytree(ROOT / name, source / name, ignore=_UNTRACKED)
    subprocess.run([sys.executable, "-m", "venv", installed], check=True)
    environment = os.environ | {"PATH": f"{installed / 'bin'}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)  # otherwise it would find the package in the repository
    environment["PIP_NO_COMPILE"] = "1"  # most modules are never imported

    def play(line: str) -> None:
        subprocess.run(["sh", "-ec", line], cwd=source, env=environment, check=True)

    def printed(*words: str) -> str:
        return subprocess.check_output(words, cwd=tmp_path, env=environment, text=True)

    play(CLIENT)
    there = "import importlib.util, tidelock.client; print(importlib.util.find_spec('kopf') is not None)"
    assert printed("python", "-c", there) == "False\n"
    for line in [each for each in typed() if each != CLIENT]:
        play(line)
    assert printed("python", "-c", there) == "True\n"
    assert printed("tidelock", "--version").strip() == __version__
    assert "reserve" in printed("kubectl-tidelock", "--help")
    assert (installed / "bin" / "kubectl_complete-tidelock").exists()
    assert printed("python", "-c", "import matplotlib, tidelock_example; print(tidelock_example.__name__)")
