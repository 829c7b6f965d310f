"""Changes of several parts that are made as a whole, or not at all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")


def apply_all(parts: Sequence[Callable[[T, int], None]], item: T, sign: int) -> None:
    """Add something to all parts (sign 1), or subtract it (-1). If one fails, the others are as before.

    Raises:
        Exception: the exception of a part.

    """
    done = 0
    try:
        for part in parts:
            part(item, sign)
            done += 1
    except Exception:
        for part in reversed(parts[:done]):
            with suppress(Exception):  # the first error is the one to raise
                part(item, -sign)
        raise


@contextmanager
def undone_on_failure() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Return a function that takes the undo of each step. After an exception all are called, last first."""
    steps: list[Callable[[], object]] = []
    try:
        yield steps.append
    except Exception:
        for step in reversed(steps):
            with suppress(Exception):
                step()
        raise
