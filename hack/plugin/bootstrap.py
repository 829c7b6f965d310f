"""The first module of the single file kubectl-tidelock.

Compiled modules can't be imported from a zip file. So the content is unpacked into the user's cache at the
first start, and is used from there. The content is an archive within the file, because each start reads the
list of the file's members, and the content has thousands. The syntax is that of Python 3.6, for the message
about an old Python.
"""

import os
import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from zipimport import zipimporter

_NAME = "kubectl-tidelock"
_BUILD = "BUILD"  # a member: the Python version, the platform and the digest of the content
_CONTENT = "content.zip"  # a member: the packages


def _unpacked(archive: zipimporter, digest: str) -> Path:
    """Return the folder with the content, which is complete as soon as it has its name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _NAME
    folder = cache / digest
    if folder.is_dir():
        return folder
    from zipfile import ZipFile  # noqa: PLC0415 -- only the first start needs it

    cache.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=str(cache)))
    with ZipFile(BytesIO(archive.get_data(_CONTENT))) as content:
        content.extractall(str(fresh))
    try:
        fresh.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(str(fresh))
    for other in cache.iterdir():
        if other != folder:
            shutil.rmtree(str(other), ignore_errors=True)
    return folder


def main() -> int:
    """Unpack the content and run the command, or its shell completion."""
    called = Path(sys.argv[0])
    archive = zipimporter(str(Path(__file__).parent))
    version, platform, digest = archive.get_data(_BUILD).decode().split()
    found = "{}.{}".format(*sys.version_info[:2])
    if found != version:
        sys.stderr.write(
            f"error: {_NAME} was built for Python {version} on {platform}, and this is Python {found}\n"
        )
        return 1
    sys.path[0] = str(_unpacked(archive, digest))
    from tidelock.cli import main as command  # noqa: PLC0415 -- it has just been unpacked

    if called.name.startswith("kubectl_complete"):
        command.complete()
    else:
        command.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
