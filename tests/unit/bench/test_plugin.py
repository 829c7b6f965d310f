import os
import sys
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import cast

import pytest

from bench.plugin import environments, milliseconds
from devcluster import LocalCluster

PATH = {"PATH": os.environ["PATH"]}


def test_the_time_of_a_command_is_that_until_its_end() -> None:
    assert milliseconds([sys.executable, "-c", "import time; time.sleep(0.05)"], PATH) >= 50.0


def test_a_command_that_fails_has_no_time() -> None:
    with pytest.raises(CalledProcessError):
        milliseconds([sys.executable, "-c", "raise SystemExit(1)"], PATH)


def test_the_single_file_is_found_before_the_installed_plugin(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # would have each start compile all modules
    folder = tmp_path_factory.mktemp("plugin")
    cluster = cast(LocalCluster, SimpleNamespace(kubeconfig=folder / "kubeconfig"))
    installed, single_file = environments(cluster, folder)
    assert single_file["PATH"] == f"{folder}{os.pathsep}{installed['PATH']}"
    assert "PYTHONDONTWRITEBYTECODE" not in installed.keys() | single_file.keys()
