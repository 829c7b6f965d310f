"""Long work in the event loop, one slice at a time."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from tidelock.load.source import FailureReason, SourceError

_T = TypeVar("_T")

# Items that cost a Python loop some microseconds each. A slice takes one or two milliseconds.
_ITEMS = 100
# Seconds to rest after a slice of work that is not urgent.
AT_LEISURE = 0.005


def paced(items: Iterable[_T]) -> Iterator[_T | None]:
    """Iterate over items, with a None between slices of them, at which the work on them yields."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % _ITEMS == 0:
            yield None


async def in_slices(work: Iterable[object], rest: float = 0.0) -> None:
    """Run work that yields between its slices. Other tasks run in between, and it rests for some seconds.

    Raises:
        SourceError: an item of an answer is malformed.

    """
    try:
        for _ in work:
            await asyncio.sleep(rest)
    except msgspec.MsgspecError as error:
        raise SourceError(FailureReason.MALFORMED, f"an item of the answer is malformed: {error}") from error
