import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.output import say


@contextmanager
def exclusive(path: Path, notice: str) -> Iterator[None]:
    """Hold a lock file, and print `notice` if it must wait. The system releases it even after SIGKILL.

    Raises:
        DevClusterError: the folder of the file can't be written to.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("w")
    except OSError as error:
        raise DevClusterError(
            f"Can't write to {path.parent} ({error.strerror}): make it writable, "
            "or name other folders in XDG_CACHE_HOME and XDG_STATE_HOME."
        ) from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(notice)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
