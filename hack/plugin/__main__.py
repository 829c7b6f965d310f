"""Builds kubectl tidelock: python -m plugin [FOLDER] [--url URL].

The folder, build/plugin by default, gets three files: the single file kubectl-tidelock, an archive of it with
the license, and the manifest with which krew installs the archive. The packages are those of the virtual
environment, which has the versions of the lock file. They are for its Python version and platform.

The same packages always yield the same files.
"""

import argparse
import gzip
import io
import platform
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from itertools import chain
from pathlib import Path
from typing import IO, Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tidelock import __version__

_PROJECT = Path(__file__).parents[2]
_SOURCE = _PROJECT / "operator"
_NAME = "kubectl-tidelock"
_ENTRY = Path(__file__).with_name("bootstrap.py")
_NEEDLESS = frozenset({"__pycache__", "tests"})  # folders
# The generated classes of all APIs, of which a login needs none: 70 of 155 MB.
_GENERATED = ("kubernetes/aio/", "kubernetes/client/api/", "kubernetes/client/models/")
_DATE = (1980, 1, 1, 0, 0, 0)  # of each member: the first that a zip file can have
_NOWHERE = "https://localhost"  # krew requires a URL, even beside --archive
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def packages(*extras: str) -> list[Distribution]:
    """Return the installed packages that Tidelock needs with some of its extras, by name."""
    found: dict[str, Distribution] = {}
    project = tomllib.loads((_PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    left = [Requirement(line) for line in chain.from_iterable(lines)]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(name)
        left += [Requirement(line) for line in found[name].requires or ()]
    return [found[name] for name in sorted(found)]


def members() -> Iterator[tuple[str, Path]]:
    """Yield the name of each file of the content, and its place."""
    for path in sorted((_SOURCE / "tidelock").rglob("*")):
        if path.is_file() and not _NEEDLESS & set(path.relative_to(_SOURCE).parts):
            yield path.relative_to(_SOURCE).as_posix(), path
    for package in packages("cli"):
        for file in package.files or ():
            name = file.as_posix()
            generated = name.startswith(_GENERATED) and file.name != "__init__.py"
            # Scripts are outside of the folder of packages, and modules are compiled when they are imported.
            if file.parts[0] != ".." and not generated and not _NEEDLESS & set(file.parts):
                yield name, Path(str(file.locate()))


def write_single_file(target: Path) -> None:
    """Write the executable file: a zip archive behind the line that names its interpreter.

    The packages are a zip archive in it, for the sake of each start.
    """
    content = [(name, path.read_bytes()) for name, path in members()]
    digest = sha256()
    for name, data in content:
        digest.update(f"{name} {len(data)}\n".encode() + data)
    version = "{}.{}".format(*sys.version_info[:2])
    build = f"{version} {platform.system()}-{platform.machine()} {digest.hexdigest()[:16]}"
    inner = io.BytesIO()
    _write_zip(inner, content, zipfile.ZIP_DEFLATED)
    outer = [
        ("__main__.py", _ENTRY.read_bytes()),
        ("BUILD", build.encode()),
        ("content.zip", inner.getvalue()),
    ]
    with target.open("wb") as file:
        file.write(f"#!/usr/bin/env python{version}\n".encode())
        _write_zip(file, outer, zipfile.ZIP_STORED)
    target.chmod(0o755)


def _write_zip(file: IO[bytes], content: Iterable[tuple[str, bytes]], compression: int) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, compression)


def write_archive(target: Path, single_file: Path) -> None:
    """Write the archive of the single file and the license."""
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path, mode in ((single_file, 0o755), (_PROJECT / "LICENSE", 0o644)):
            data = path.read_bytes()
            member = tarfile.TarInfo(path.name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))


def manifest(archive: Path, url: str) -> dict[str, Any]:
    """Return krew's manifest of the plugin, with its archive in the folder at a URL."""
    system, machine = platform.system().lower(), platform.machine()
    version = "{}.{}".format(*sys.version_info[:2])
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "tidelock"},
        "spec": {
            "version": f"v{__version__}",
            **({} if url == _NOWHERE else {"homepage": url}),
            "shortDescription": "Reserve node capacity, and explain placement",
            "description": (
                "Creates and lists reservations of node capacity, explains why a pod or a reservation\n"
                "waits, shows a cluster live, simulates changes, and checks the installation of Tidelock.\n"
            ),
            "caveats": f"The plugin needs python{version} on the PATH.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": _MACHINES.get(machine, machine)}},
                    "uri": f"{url}/{archive.name}",
                    "sha256": sha256(archive.read_bytes()).hexdigest(),
                    "bin": _NAME,
                    "files": [{"from": name, "to": "."} for name in (_NAME, "LICENSE")],
                }
            ],
        },
    }


def build(folder: Path, url: str) -> list[Path]:
    """Write the three files, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    single_file = folder / _NAME
    write_single_file(single_file)
    system, machine = platform.system().lower(), platform.machine()
    archive = folder / f"{_NAME}-v{__version__}-{system}-{_MACHINES.get(machine, machine)}.tar.gz"
    write_archive(archive, single_file)
    description = folder / "tidelock.yaml"
    description.write_text(yaml.safe_dump(manifest(archive, url), sort_keys=False), encoding="utf-8")
    return [single_file, archive, description]


def main() -> int:
    """Build the files, and print their paths and sizes."""
    parser = argparse.ArgumentParser(prog="python -m plugin")
    parser.add_argument("folder", nargs="?", type=Path, default=_PROJECT / "build" / "plugin")
    parser.add_argument(
        "--url",
        default=_NOWHERE,
        help="URL of the folder from which the archive can be downloaded. krew install --archive ignores it",
    )
    given = parser.parse_args()
    for path in build(given.folder, given.url.rstrip("/")):
        print(f"{path}  {path.stat().st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
