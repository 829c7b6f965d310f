"""Long work in the event loop, a slice at a time."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from tidelock.load.source import SourceError, Trouble

T = TypeVar("T")

# Of what a Python loop does some microseconds for each: a slice is one or two milliseconds.
_ITEMS = 100
# Seconds to rest after a slice of what is in no hurry.
AT_LEISURE = 0.005


def paced(items: Iterable[T]) -> Iterator[T | None]:
    """Go through items, with a None between slices of them; the work on them yields there."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % _ITEMS == 0:
            yield None


async def in_slices(work: Iterable[object], rest: float = 0.0) -> None:
    """Run work that yields between its slices; let all else run in between, and rest for some seconds.

    Raises:
        SourceError: an item of an answer is not what it ought to be.

    """
    try:
        for _ in work:
            await asyncio.sleep(rest)
    except msgspec.MsgspecError as error:
        raise SourceError(Trouble.MALFORMED, f"an item of the answer is malformed: {error}") from error
