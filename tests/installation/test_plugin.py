"""The single file of kubectl tidelock is built from the installed packages, and runs without them."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import reservation_json
from plugin import __main__ as plugin
from tidelock import __version__
from tidelock.cli.app import COMMANDS
from tidelock.kube.client import RESERVATIONS, WATERLEVELS
from unit.cli.scenes import active_json
from unit.cli.server import listed, serving

CREDENTIAL = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "t1"},
}
LOGIN = {
    "apiVersion": CREDENTIAL["apiVersion"],
    "command": "echo",
    "args": [json.dumps(CREDENTIAL)],
    "interactiveMode": "Never",
}
"""A user that logs in by an exec plugin."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return plugin.build(tmp_path_factory.mktemp("plugin"), "https://example.com/v1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(file: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the single file with this Python, without its packages and without other variables."""
    environment = {"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"], "HOME": str(cache)}
    words = [sys.executable, "-I", "-S", str(file), *arguments]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_file_runs_without_any_package(built: list[Path], cache: Path, tmp_path: Path) -> None:
    file, *_ = built
    told = run(file, cache, "--version")
    assert (told.stdout, told.stderr, told.returncode) == (f"kubectl tidelock {__version__}\n", "", 0)

    body = {"apiVersion": RESERVATIONS.api_version, "kind": "Reservation"} | reservation_json("web-0")
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(body))
    told = run(file, cache, "lint", "--offline", "-f", str(tmp_path / "file.yaml"))
    assert told.stdout.endswith(": ok, rules between fields not checked\n"), told.stderr

    answers = {
        f"GET {RESERVATIONS.collection('shop')}": listed(active_json("batch")),
        f"GET {WATERLEVELS.collection()}": listed(),
    }
    with serving(answers, tmp_path) as server:
        told = run(file, cache, "status", "--kubeconfig", str(server.kubeconfig))
        assert told.stdout.splitlines()[1].split()[:3] == ["batch", "Active", "node-a"], told.stderr
        plain = yaml.safe_load(server.kubeconfig.read_text())
        plain["users"][0]["user"] = {"exec": LOGIN}
        server.kubeconfig.write_text(yaml.safe_dump(plain))
        told = run(file, cache, "status", "--kubeconfig", str(server.kubeconfig))
        assert told.stdout.splitlines()[1].split()[:3] == ["batch", "Active", "node-a"], told.stderr


def test_the_file_has_the_packages_of_every_command(built: list[Path], cache: Path) -> None:
    file, *_ = built
    assert run(file, cache, "--version").returncode == 0
    (content,) = (cache / "kubectl-tidelock").iterdir()
    modules = ", ".join(f"tidelock.cli.{name}" for name in (*COMMANDS, "top_app"))
    program = f"import sys; sys.path.insert(0, {str(content)!r}); import {modules}"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert told.returncode == 0, told.stderr


def test_the_content_of_another_build_is_removed(built: list[Path], tmp_path: Path) -> None:
    file, *_ = built
    old = tmp_path / "kubectl-tidelock" / "0123456789abcdef"
    old.mkdir(parents=True)
    assert run(file, tmp_path, "--version").returncode == 0
    (content,) = (tmp_path / "kubectl-tidelock").iterdir()
    assert content != old


def test_the_file_completes_for_kubectl(built: list[Path], cache: Path, tmp_path: Path) -> None:
    file, *_ = built
    link = tmp_path / "kubectl_complete-tidelock"
    link.symlink_to(file)
    told = run(link, cache, "st")
    assert told.stdout.split() == ["status", ":4"], told.stderr


def test_another_python_is_refused_with_one_sentence(built: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "kubectl-tidelock"
    with zipfile.ZipFile(built[0]) as archive, zipfile.ZipFile(other, "w") as made:
        made.writestr("__main__.py", archive.read("__main__.py"))
        made.writestr("BUILD", "3.1 Linux-x86_64 0123456789abcdef")
    told = run(other, tmp_path, "--version")
    found = "{}.{}".format(*sys.version_info[:2])
    expected = f"kubectl-tidelock was built for Python 3.1 on Linux-x86_64, and this is Python {found}"
    assert (told.stderr, told.returncode) == (f"error: {expected}\n", 1)


def test_nothing_in_the_files_depends_on_the_time_of_the_build(built: list[Path], tmp_path: Path) -> None:
    file, archive, _ = built
    with zipfile.ZipFile(file) as opened:
        assert {member.date_time for member in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    plugin.write_archive(tmp_path / archive.name, file)
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def test_the_manifest_of_krew_describes_the_archive(built: list[Path]) -> None:
    file, archive, description = built
    plain: dict[str, Any] = yaml.safe_load(description.read_text())
    assert description.stem == plain["metadata"]["name"] == "tidelock"
    assert (plain["apiVersion"], plain["kind"]) == (
        "krew.googlecontainertools.github.com/v1alpha2",
        "Plugin",
    )
    assert re.fullmatch(r"v\d+\.\d+\.\d+", plain["spec"]["version"])
    assert len(plain["spec"]["shortDescription"]) <= 50
    (platform,) = plain["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"] == f"https://example.com/v1/{archive.name}"
    with tarfile.open(archive) as packed:
        assert packed.getnames() == [each["from"] for each in platform["files"]]
        assert packed.getmember(platform["bin"]).mode == 0o755
        inside = packed.extractfile(platform["bin"])
        assert inside is not None
        assert inside.read() == file.read_bytes()
