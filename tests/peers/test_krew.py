"""krew installs kubectl tidelock from the files that `make plugin` writes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devcluster.binaries import find_binaries
from devcluster.loopback import HOST, running
from devcluster.tools import find_program
from plugin.__main__ import build
from tidelock import __version__

_GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.com")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Build the files, and serve them at the URL that the manifest names."""
    folder = tmp_path_factory.mktemp("plugin")
    server = ThreadingHTTPServer((HOST, 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    with running(server):
        yield build(folder, f"http://{HOST}:{server.server_port}")


class Home:
    """A home folder with krew's, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "krew" / "bin"
        path = (self.bin, Path(sys.executable).parent, os.environ["PATH"])
        self._environment = {
            "HOME": str(folder),
            "KREW_ROOT": str(folder / "krew"),
            "KREW_DEFAULT_INDEX_URI": str(folder / "index"),
            "PATH": os.pathsep.join(map(str, path)),
        }

    def run(self, *command: object) -> str:
        """Run a command, and return the text that it prints. It must succeed."""
        done = subprocess.run(
            [str(word) for word in command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def version(self) -> str:
        """Return the version that kubectl prints of the plugin."""
        return self.run(find_binaries().programs["kubectl"], "tidelock", "--version")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_manifest_and_the_archive_are_installed_without_an_index(built: list[Path], home: Home) -> None:
    _, archive, manifest = built
    home.run(find_program("krew"), "install", f"--manifest={manifest}", f"--archive={archive}")
    assert home.version() == f"kubectl tidelock {__version__}\n"


def test_an_index_with_the_manifest_installs_and_removes_the_plugin(
    built: list[Path], home: Home, tmp_path: Path
) -> None:
    krew, index = find_program("krew"), tmp_path / "index"
    (index / "plugins").mkdir(parents=True)
    shutil.copy(built[-1], index / "plugins")
    home.run(*_GIT, "-C", index, "init", "--quiet")
    home.run(*_GIT, "-C", index, "add", "plugins")
    home.run(*_GIT, "-C", index, "commit", "--quiet", "--message=Add the plugin")

    home.run(krew, "update")
    home.run(krew, "install", "tidelock")
    assert home.version() == f"kubectl tidelock {__version__}\n"
    assert home.run(krew, "list").split() == ["tidelock"]

    home.run(krew, "uninstall", "tidelock")
    assert not list(home.bin.iterdir())


def test_the_manifest_passes_the_checks_of_krews_own_index(built: list[Path], home: Home) -> None:
    home.run(find_program("validate-krew-manifest"), f"-manifest={built[-1]}", "-skip-install")
