"""The files of a release: python -m release [FOLDER], by default build/release.

All files depend only on the tracked files, the versions of the build tools, and $SOURCE_DATE_EPOCH. By
default that is the time of the last commit. So two builds of a commit are the same, byte for byte. Nothing is
uploaded, and nothing is signed: the file SIGNATURES lists the signatures that the maintainers add.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import sbom
from tidelock import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = f"tidelock-{__version__}"
CHECKSUMS, SIGNATURES, NOTES = "SHA256SUMS", "SIGNATURES", "RELEASE_NOTES.md"
_DEFAULT = Path("build") / "release"
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "operator")
_PROGRAM, _DATA = 0o755, 0o644
_SIGNATURES = f"""\
The checksums cover all other files, so their signature covers the release. The maintainers add:

{CHECKSUMS}.sigstore.json  cosign sign-blob --bundle {CHECKSUMS}.sigstore.json {CHECKSUMS}
the image's signature  cosign sign REGISTRY/tidelock@DIGEST
"""
_NOTES = """\
# Tidelock {heading}

{changes}

## Files

| file | content |
| --- | --- |
{files}

`sha256sum --check {checksums}` checks all files.
"""


class ReleaseError(Exception):
    """A release can't be built. The message says why."""


def build(root: Path, folder: Path, epoch: int) -> None:
    """Write all files of a release to an empty folder.

    Args:
        root: a checkout.
        folder: is created.
        epoch: date of all files, in seconds since 1970.

    Raises:
        ReleaseError: the changelog has no section for the version, or a build tool fails.

    """
    folder.mkdir(parents=True)
    heading, changes = section((root / "CHANGELOG.md").read_text(), __version__)
    wheel = _wheel(root, folder, epoch)
    context = ["Dockerfile", ".dockerignore", *_copied(root)]
    chart = "manifests/chart"
    archives = {
        f"{NAME}-image.tar.gz": {each: each for each in tracked(root, context)},
        f"{NAME}-manifests.tar.gz": {
            f"{NAME}/{each}": each
            for each in tracked(root, ("LICENSE", "crds", "manifests"))
            if not each.startswith(chart)
        },
        f"{NAME}.tgz": {f"tidelock{each.removeprefix(chart)}": each for each in tracked(root, (chart,))},
    }
    for name, members in archives.items():
        archive(folder / name, {member: root / path for member, path in members.items()}, epoch)
    sbom.write(root / "requirements.lock", folder / f"{NAME}.cdx.json")
    (folder / SIGNATURES).write_text(_SIGNATURES)
    (folder / NOTES).write_text(_notes(root, heading, changes, wheel))
    (folder / CHECKSUMS).write_text(checksums(folder))


def section(changelog: str, version: str) -> tuple[str, str]:
    """Return the heading and the text of a version's section, or raise ReleaseError if there is none."""
    pattern = rf"^## ({re.escape(version)}\b[^\n]*)\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md: expected a section {version}")
    return found[1], found[2].strip()


def tracked(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the tracked files among paths of a checkout, in a fixed order."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--", *paths], cwd=root, text=True)
    return sorted(filter(None, listed.split("\0")))


def archive(file: Path, members: Mapping[str, Path], epoch: int) -> None:
    """Write a compressed tar archive without the traces of this machine: owners, times and most modes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, path in sorted(members.items()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), epoch
            entry.mode = _PROGRAM if os.access(path, os.X_OK) else _DATA
            tar.addfile(entry, io.BytesIO(data))
    file.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def checksums(folder: Path) -> str:
    """Return the checksums of all files but the list itself, in the format of sha256sum."""
    names = sorted(each.name for each in folder.iterdir() if each.name != CHECKSUMS)
    return "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)


def _wheel(root: Path, folder: Path, epoch: int) -> str:
    """Build the wheel from a copy of the tracked files, and return its name."""
    with TemporaryDirectory() as temporary:
        for each in tracked(root, _SOURCES):
            copy = Path(temporary, each)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / each, copy)
            copy.chmod(_DATA)
        command = (
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
        )
        done = subprocess.run(
            [*command, "--wheel-dir", folder.resolve(), temporary],
            env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
            umask=0o022,  # the wheel has the modes of files that the build writes
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ReleaseError(f"pip wheel failed: {done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel.name


def _copied(root: Path) -> list[str]:
    """Return the paths of the image's context, which .dockerignore lists as exceptions."""
    patterns = (root / ".dockerignore").read_text().splitlines()
    return [each.removeprefix("!") for each in patterns if each.startswith("!")]


def _notes(root: Path, heading: str, changes: str, wheel: str) -> str:
    image = f"`docker build --tag REGISTRY/tidelock:{__version__} - < {NAME}-image.tar.gz`"
    python = tomllib.loads((root / "pyproject.toml").read_text())["project"]["requires-python"]
    files = {
        wheel: f"the Python client, for Python {python}, by `pip install`. The extra `cli` adds "
        "`kubectl tidelock`, and the extra `operator` adds `tidelock`",
        f"{NAME}-image.tar.gz": f"the context of the image: {image}",
        f"{NAME}.tgz": f"the Helm chart: `helm install tidelock {NAME}.tgz`",
        f"{NAME}-manifests.tar.gz": "the CRDs, and the manifests for kustomize",
        f"{NAME}.cdx.json": "the image's bill of materials (CycloneDX)",
        SIGNATURES: "the signatures that belong to the release",
    }
    rows = "\n".join(f"| `{name}` | {content} |" for name, content in files.items())
    return _NOTES.format(heading=heading, changes=changes, files=rows, checksums=CHECKSUMS)


def _epoch() -> int:
    """Return $SOURCE_DATE_EPOCH, or the time of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    return int(subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True))


def main() -> int:
    """Build a release in place of an earlier one, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=_DEFAULT, help="is emptied first")
    folder: Path = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    try:
        build(ROOT, folder, _epoch())
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    changed = subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT, text=True)
    if changed:
        print("Uncommitted changes are part of these files, so nobody can build them again:")
        print(changed, end="")
    print((folder / CHECKSUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
