"""The fetch of axe-core by npm, without a network."""

import os
from pathlib import Path

import pytest

from webview import axe


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    return tmp_path


def npm(folder: Path, script: str) -> None:
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_failure_of_npm_is_reported_and_is_no_error(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npm(cache, "echo no network >&2; exit 1")
    assert axe.main() == 0
    assert capsys.readouterr().out == (
        "npm has failed: no network: the web view is not tested with axe-core\n"
    )
    assert not axe.script().exists()


def test_a_package_with_another_hash_is_refused(cache: Path) -> None:
    npm(cache, f"echo other > axe-core-{axe.VERSION}.tgz")
    with pytest.raises(axe.FetchError, match="has another SHA-512 than expected"):
        axe.fetch()
    assert not axe.script().exists()


def test_a_machine_without_npm_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(axe.FetchError, match="there is no npm"):
        axe.fetch()


def test_a_script_that_is_there_is_not_fetched_again(cache: Path) -> None:
    npm(cache, "exit 1")
    axe.script().parent.mkdir(parents=True)
    axe.script().write_text("")
    axe.fetch()
