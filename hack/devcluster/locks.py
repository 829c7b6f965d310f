import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.output import say


@contextmanager
def exclusive(path: Path, notice: str) -> Iterator[None]:
    """Hold a lock file; gives `notice` if it must wait. The system lets go of it even after SIGKILL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(notice)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
