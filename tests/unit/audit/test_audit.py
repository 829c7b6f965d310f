import json
import stat
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

import audit

GOOD = "aiohttp==3.14.5 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n    # via tidelock\n"
ROOT = Path(__file__).parents[3]

Answer = Callable[[str], None]


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Install a fake pip-audit beside the interpreter, and return a function that sets its output."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def write(text: str) -> None:
        program = tmp_path / "pip-audit"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit 1\n")
        program.chmod(stat.S_IRWXU)

    return write


@pytest.fixture
def reservation(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.lock"
    path.write_text(GOOD)
    return path


def report(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_a_requirement_is_read_with_its_hashes() -> None:
    assert list(audit.requirements(f"# by pip-compile\n\n{GOOD}")) == [
        ("aiohttp==3.14.5", ["sha256:00", "sha256:01"])
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("aiohttp==3.14.5", "aiohttp==3.14.5: has no sha256 hash"),
        ("aiohttp==3.14.5 --hash=md5:00", "aiohttp==3.14.5: has no sha256 hash"),
        ("aiohttp>=3 --hash=sha256:00", "aiohttp>=3: is not pinned to one version"),
        ("aiohttp==3.* --hash=sha256:00", "aiohttp==3.*: is not pinned to one version"),
        ("aiohttp --hash=sha256:00", "aiohttp: is not pinned to one version"),
        ("--index-url https://example.org", "--index-url https://example.org: Expected"),
    ],
)
def test_unpinned_requirements_are_named(line: str, fault: str) -> None:
    (found,) = audit.unlocked(f"{GOOD}{line}\n{GOOD}")
    assert found.startswith(fault)


def test_packages_that_the_oldest_python_cannot_install_are_named() -> None:
    """A package of the site once needed Python 3.11.5, so `make venv` failed with Debian's 3.11.2."""
    needed, version = metadata("pytest")["Requires-Python"], metadata("pytest")["Version"]
    text = f"pytest=={version} \\\n    --hash=sha256:00\nno-such-package==1 --hash=sha256:00\n"
    assert list(audit.refusing(text, "3.2.0")) == [
        f"pytest=={version}: needs Python {needed}, and 3.2.0 is let in"
    ]
    assert not list(audit.refusing(text, audit.oldest_python()))


def test_a_vulnerability_fails_and_names_the_fixed_version(
    answer: Answer, reservation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(report({"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}))
    assert audit.main([reservation]) == 1
    assert f"{reservation}: a 1: CVE-1, fixed in 2" in capsys.readouterr().out


def test_an_accepted_vulnerability_does_not_fail(
    answer: Answer, reservation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-1": "not that function"})
    answer(report({"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}))
    assert audit.main([reservation]) == 0
    assert "0 known vulnerabilities in 1 packages" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["", report({"name": "a", "skip_reason": "Dependency not found on PyPI"})],
    ids=["no answer", "a mirror that knows of nothing"],
)
def test_without_vulnerability_data_only_pins_and_hashes_count(
    answer: Answer, reservation: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    answer(text)
    assert audit.main([reservation]) == 0
    told = capsys.readouterr().out
    assert "only pins and hashes were checked" in told
    assert "known vulnerabilities" not in told


def test_without_data_a_missing_hash_still_fails(
    answer: Answer, reservation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reservation.write_text("aiohttp==3.14.5\n")
    answer("")
    assert audit.main([reservation]) == 1
    assert f"{reservation}: aiohttp==3.14.5: has no sha256 hash" in capsys.readouterr().out


def test_every_pip_install_requires_hashes() -> None:
    for name in ("Makefile", "Dockerfile"):
        installs = [line for line in (ROOT / name).read_text().splitlines() if "pip install" in line]
        assert installs
        assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
