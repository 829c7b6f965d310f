"""axe-core, which finds barriers for people in a page. npm fetches it into the cache of the user.

    python -m webview.axe

Without it, the test that needs it is skipped, and says so.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from devcluster.binaries import cache_folder

VERSION = "4.14.1"
INTEGRITY = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""SHA-512 of the package, as npm lists it."""

_PATIENCE = 300  # seconds
_SCRIPT = "package/axe.min.js"


class FetchError(Exception):
    """axe-core can't be fetched. The message says why."""


def script() -> Path:
    """Return the place of the script, which exists once it was fetched."""
    return cache_folder("axe-core") / VERSION / Path(_SCRIPT).name


def fetch() -> None:
    """Fetch the script unless it is there, or raise FetchError."""
    if script().exists():
        return
    if shutil.which("npm") is None:
        raise FetchError("there is no npm")
    with tempfile.TemporaryDirectory() as folder:
        command = ("npm", "pack", f"axe-core@{VERSION}", "--ignore-scripts", "--silent")
        try:
            run = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"npm has not answered within {_PATIENCE} s") from error
        if run.returncode:
            raise FetchError(f"npm has failed: {run.stderr.strip()[-300:] or run.returncode}")
        package = (Path(folder) / f"axe-core-{VERSION}.tgz").read_bytes()
    _store(package)


def _store(package: bytes) -> None:
    """Check a package, and store its script under its name at once."""
    digest = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if digest != INTEGRITY:
        raise FetchError(f"axe-core {VERSION} has another SHA-512 than expected: {digest}")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        member = archive.extractfile(_SCRIPT)
        if member is None:
            raise FetchError(f"axe-core {VERSION} has no {_SCRIPT}")
        body = member.read()
    script().parent.mkdir(parents=True, exist_ok=True)
    part = script().with_suffix(".part")
    part.write_bytes(body)
    part.replace(script())


def main() -> int:
    """Fetch the script. A failure is reported, and is no error."""
    try:
        fetch()
    except FetchError as error:
        print(f"{error}: the web view is not tested with axe-core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
