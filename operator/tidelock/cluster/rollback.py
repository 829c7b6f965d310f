"""Changes of several parts that are made as a whole, or not at all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")


def apply_all(parts: Sequence[Callable[[T, int], None]], what: T, sign: int) -> None:
    """Count something in all parts (sign 1), or no longer (-1); where one fails the others are as before.

    Raises:
        Exception: what a part raised.

    """
    done = 0
    try:
        for part in parts:
            part(what, sign)
            done += 1
    except Exception:
        for part in reversed(parts[:done]):
            with suppress(Exception):  # the first error is the one to raise
                part(what, -sign)
        raise


@contextmanager
def undone_on_failure() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Take what undoes each step once that is done; after an exception all of it is called, last first."""
    steps: list[Callable[[], object]] = []
    try:
        yield steps.append
    except Exception:
        for step in reversed(steps):
            with suppress(Exception):
                step()
        raise
