"""Tides: recurring spans of time, each from an instant of one schedule to the next instant of another.

A tide is in force from its start on, and not at its end. A start within it changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, pairwise
from math import inf
from typing import NamedTuple

from tidelock.model.cron import Timetable

_MINUTE = 60.0
_DAY_SECONDS = 86_400.0
_YEAR_SECONDS = 366 * _DAY_SECONDS
# Overlaps are looked for in a whole year, which has both changes of the clocks and a 29th of February. Some
# weeks more show those between a tide that crosses New Year and one that follows it.
_SAMPLE = datetime(2028, 1, 1, tzinfo=UTC).timestamp()
_SAMPLE_SECONDS = _YEAR_SECONDS + 34 * _DAY_SECONDS
_MOST_SPANS = 1000


class TideSpan(NamedTuple):
    """One occurrence of a tide, in seconds since the epoch. The end is infinite if it never comes."""

    start: float
    end: float


class Overlap(NamedTuple):
    """Two tides that are both in force at an instant, by their indexes. The second one begins there."""

    first: int
    second: int
    at: float


@dataclass(frozen=True, slots=True)
class TideTimes:
    """The instants at which a tide begins, and those at which it ends."""

    starts: Timetable
    ends: Timetable

    def in_force(self, now: float) -> bool:
        """Return whether the tide is in force. A start more than a year ago does not count."""
        start = self.starts.latest(now, now - _YEAR_SECONDS)
        return start is not None and self.ends.latest(now, start) is None

    def next_change(self, now: float) -> float:
        """Return when the tide next begins or ends, or infinity if it never does."""
        return next((self.ends if self.in_force(now) else self.starts).after(now), inf)

    def spans(self, since: float, until: float) -> Iterator[TideSpan]:
        """Yield the occurrences that begin later than one instant and up to another, in order."""
        start = next(self.starts.after(since, until), inf)
        while start <= until:
            end = next(self.ends.after(start), inf)
            yield TideSpan(start, end)
            # Many starts may lie within the tide. The next one can be at its end.
            start = next(self.starts.after(end - _MINUTE, until), inf) if end <= until else inf


def first_overlap(tides: Sequence[TideTimes]) -> Overlap | None:
    """Return the first instant of a sample year at which two tides are in force, if there is any.

    Raises:
        ValueError: a tide begins too often to be looked at.

    """
    spans = sorted((span, index) for index, each in enumerate(tides) for span in _sample(each))
    for (earlier, first), (later, second) in pairwise(spans):
        if later.start < earlier.end:
            return Overlap(first, second, later.start)
    return None


@lru_cache(maxsize=64)
def _sample(tide: TideTimes) -> tuple[TideSpan, ...]:
    """Return the occurrences in the sample year, which take some 50 ms for a tide of each day."""
    found = tuple(islice(tide.spans(_SAMPLE, _SAMPLE + _SAMPLE_SECONDS), _MOST_SPANS + 1))
    if len(found) > _MOST_SPANS:
        raise ValueError(f"a tide should begin at most {_MOST_SPANS} times a year")
    return found
