"""The programs of a release, installed from its wheel without a network."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NO_NETWORK = ("--no-index", "--no-deps", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Programs:
    """The programs of a virtual environment, and the environment variables with which they run.

    Only Tidelock is installed there. Its dependencies are those of the tests' own environment.
    """

    folder: Path
    environment: Mapping[str, str]

    def path(self, name: str) -> Path:
        """Return the path of a program."""
        return self.folder / "bin" / name

    def run(self, name: str, *arguments: str) -> str:
        """Run a program in its own folder, and return its output."""
        command = [str(self.path(name)), *arguments]
        return subprocess.check_output(command, cwd=self.folder, env=self.environment, text=True)


def install(release: Path, folder: Path) -> Programs:
    """Install the wheel of a release in a new virtual environment."""
    (wheel,) = release.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", *_NO_NETWORK, wheel], check=True)
    dependencies = sysconfig.get_path("purelib")
    return Programs(folder, os.environ | {"PYTHONPATH": dependencies, "PYTHONNOUSERSITE": "1"})
