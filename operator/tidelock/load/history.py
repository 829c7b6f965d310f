"""Readings, kept for as long as the windows last, and their statistics.

Each window is a ring of slots. The first of all readings within a slot is kept. A slot without a reading is
NaN, which is left out of the statistics.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tidelock.load.cooperative import paced
from tidelock.model.usage_annotations import WINDOW_SECONDS, WindowName

Floats = npt.NDArray[np.float64]
Sample = tuple[float, ...]

# Seconds of a slot: 15, 12 and 96 slots.
STEPS: Mapping[WindowName, int] = {"15m": 60, "1h": 300, "1d": 900}

_ROWS_A_SLICE = 200
_PERCENTILE = 0.95

_K = TypeVar("_K", bound=Hashable)


class _Ring:
    """The slots of one window for all rows."""

    def __init__(self, step: int, slots: int, width: int) -> None:
        self.step = step
        self.slots = slots
        self.newest = -1
        self.read = np.zeros(slots, bool)  # whether a reading has covered the time of a slot
        self.values = np.full((0, width, slots), np.nan, np.float32)
        self.stats = np.full((3, 0, width), np.nan)
        self.changed = True

    def grow(self, rows: int) -> None:
        _, width, slots = self.values.shape
        more = rows - len(self.values)
        self.values = np.concatenate([self.values, np.full((more, width, slots), np.nan, np.float32)])

    def advance(self, now: float) -> None:
        """Make the slot of this time the newest one."""
        slot = int(now // self.step)
        fresh = min(slot - self.newest, self.slots)
        if fresh > 0:
            gone = (np.arange(slot - fresh + 1, slot + 1)) % self.slots
            self.values[:, :, gone] = np.nan
            self.read[gone] = False
            self.newest = slot
            self.changed = True

    def put(self, rows: npt.NDArray[np.int64], values: Floats, times: Floats) -> None:
        """Keep values that came first in their slots, without NaN and values that are too old or too new."""
        slots = np.floor(times / self.step)
        good = ~np.isnan(values) & (slots > self.newest - self.slots) & (slots <= self.newest)
        which, column = np.nonzero(good)
        where = rows[which], column, slots[which, column].astype(np.int64) % self.slots
        first = np.isnan(self.values[where])
        if first.any():
            row, column, slot = (index[first] for index in where)
            self.values[row, column, slot] = values[good][first]
            self.changed = True

    def unread(self) -> range:
        """Return the instants, a step apart, from the first slot that was not read to the last one."""
        slots = np.arange(max(self.newest - self.slots + 1, 0), self.newest)
        missed = slots[~self.read[slots % self.slots]]
        if not len(missed):
            return range(0)
        return range(int(missed[0]) * self.step, (int(missed[-1]) + 1) * self.step, self.step)

    def judge(self) -> Iterator[None]:
        """Compute the statistics again if values have changed, some rows at a time."""
        if not self.changed:
            return
        self.changed = False
        stats = np.full((3, *self.values.shape[:2]), np.nan)
        for first in range(0, len(self.values), _ROWS_A_SLICE):
            some = slice(first, first + _ROWS_A_SLICE)
            stats[:, some] = statistics(self.values[some])
            yield
        self.stats = stats


def statistics(values: npt.NDArray[np.float32]) -> Floats:
    """Mean, maximum and 95th percentile over the last axis, or NaN where all values are NaN.

    The percentile interpolates between the two values next to it, as PromQL's quantile_over_time does.
    """
    ordered = np.sort(values.astype(np.float64), axis=-1)  # NaN goes to the end
    count = np.sum(~np.isnan(ordered), axis=-1)
    last = np.maximum(count - 1, 0)
    mean = np.where(count > 0, np.nansum(ordered, axis=-1), np.nan) / np.maximum(count, 1)
    rank = _PERCENTILE * last
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, last)
    low, high, top = (
        np.take_along_axis(ordered, index[..., None], axis=-1)[..., 0] for index in (below, above, last)
    )
    return np.stack([mean, top, low + (high - low) * (rank - below)])


class Row(NamedTuple):
    """The position of an object's statistics, and the time of the last measurement of each value."""

    number: int
    latest: Floats


class History(Generic[_K]):
    """Values of many objects over all windows. Each object has the same number of values."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rings = {name: _Ring(step, WINDOW_SECONDS[name] // step, width) for name, step in STEPS.items()}
        self._row_of: dict[_K, int] = {}
        self._free: list[int] = []
        self._latest = np.full((0, width), -np.inf)

    def __len__(self) -> int:
        return len(self._row_of)

    def advance(self, now: float) -> None:
        """Drop values that are older than the windows."""
        for ring in self._rings.values():
            ring.advance(now)

    def put(self, samples: Sequence[tuple[_K, Sample, Sample]]) -> None:
        """Add values with the time of each; call `advance` before."""
        if not samples:
            return
        rows = np.array([self._row(key) for key, _, _ in samples])
        values = np.array([each for _, each, _ in samples], np.float64)
        times = np.array([each for _, _, each in samples], np.float64)
        for ring in self._rings.values():
            ring.put(rows, values, times)
        measured = np.where(np.isnan(values), -np.inf, times)
        np.maximum.at(self._latest, rows, measured)

    def looked(self, now: float) -> None:
        """Note that everything has been read, as it is at this time."""
        for ring in self._rings.values():
            if ring.newest - ring.slots < now // ring.step <= ring.newest:
                ring.read[int(now // ring.step) % ring.slots] = True

    def unread(self) -> Iterator[range]:
        """Return the instants that were not read, of each window, the shortest first."""
        return (times for ring in self._rings.values() if (times := ring.unread()))

    def judge(self) -> Iterator[None]:
        """Compute all statistics, a slice at a time."""
        for ring in self._rings.values():
            yield from ring.judge()

    def stats(self) -> Mapping[WindowName, Floats]:
        """Mean, maximum and 95th percentile by row and value, as of the last `judge`."""
        return {name: ring.stats for name, ring in self._rings.items()}

    def rows(self) -> Iterable[tuple[_K, Row]]:
        """Return all objects with their rows."""
        return ((key, Row(row, self._latest[row])) for key, row in self._row_of.items())

    def retain(self, wanted: Callable[[_K], bool]) -> Iterator[None]:
        """Drop all other objects, a slice at a time."""
        gone = []
        for key in paced(tuple(self._row_of)):
            if key is None:
                yield
            elif not wanted(key):
                gone.append(key)
        rows = [self._row_of.pop(key) for key in gone]
        self._free.extend(rows)
        self._latest[rows] = -np.inf
        for ring in self._rings.values():
            ring.values[rows] = np.nan
            ring.changed = ring.changed or bool(rows)

    def _row(self, key: _K) -> int:
        row = self._row_of.get(key)
        if row is None:
            if not self._free:
                self._grow()
            row = self._row_of[key] = self._free.pop()
        return row

    def _grow(self) -> None:
        have = len(self._latest)
        rows = max(2 * have, 64)
        self._free.extend(range(rows - 1, have - 1, -1))
        self._latest = np.concatenate([self._latest, np.full((rows - have, self._width), -np.inf)])
        for ring in self._rings.values():
            ring.grow(rows)
            ring.changed = True
