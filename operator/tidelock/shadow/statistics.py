"""Statistics of a stream in bounded memory: samples, means over time, series of counts, frequent keys."""

from collections.abc import Hashable, Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Sample(Generic[T]):
    """A uniform sample of all values so far: Vitter's algorithm R (1985).

    Attributes:
        count: how many values there were.
        values: the sampled ones, in the order in which they took their places.

    """

    def __init__(self, size: int, seed: int) -> None:
        """Keep at most `size` values. The same seed and values give the same sample."""
        self.count = 0
        self.values: list[T] = []
        self._size = size
        self._rng = Random(seed)  # noqa: S311 -- a repeatable sample, and no secret

    def add(self, value: T) -> None:
        """Take a value into account."""
        self.count += 1
        if len(self.values) < self._size:
            self.values.append(value)
        elif (place := self._rng.randrange(self.count)) < self._size:
            self.values[place] = value


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile, with linear interpolation, or None without values."""
    return float(np.quantile(np.asarray(values), share)) if values else None


class TimeMean:
    """A mean over time, in which each value counts for as long as it lasted."""

    __slots__ = ("_sum", "seconds")

    def __init__(self) -> None:
        self._sum = 0.0
        self.seconds = 0.0

    def add(self, value: float, seconds: float) -> None:
        """Take into account a value that lasted for some seconds."""
        self._sum += value * seconds
        self.seconds += seconds

    @property
    def mean(self) -> float | None:
        """The mean, or None before any time has passed."""
        return self._sum / self.seconds if self.seconds else None


class Timeline:
    """Sums by name over equal spans of time. When there are too many spans, pairs of them are merged.

    Attributes:
        width: seconds of a span.

    """

    def __init__(self, start: float, width: float = 60.0, most: int = 240) -> None:
        """Begin with spans of `width` seconds. There are at most `most`, an even number."""
        self.width = width
        self._start = start
        self._most = most
        self._sums: dict[str, list[float]] = {}
        self._length = 0

    def add(self, now: float, name: str, amount: float = 1.0) -> None:
        """Add to the sum of a name in the span of an instant. An instant before the start counts for it."""
        while (place := max(int((now - self._start) // self.width), 0)) >= self._most:
            self._merge()
        self._length = max(self._length, place + 1)
        sums = self._sums.setdefault(name, [])
        sums += [0.0] * (place + 1 - len(sums))
        sums[place] += amount

    def series(self) -> Mapping[str, Sequence[float]]:
        """Return the sums of each name, one for each span."""
        return {name: [*sums, *[0.0] * (self._length - len(sums))] for name, sums in self._sums.items()}

    def _merge(self) -> None:
        self.width *= 2
        self._length = (self._length + 1) // 2
        self._sums = {
            name: [sum(sums[place : place + 2]) for place in range(0, len(sums), 2)]
            for name, sums in self._sums.items()
        }


class FrequentKeys(Generic[K]):
    """The most frequent keys of a stream: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005).

    Each count is at least the true one. It exceeds that by at most the stream's length over `size`.
    """

    def __init__(self, size: int) -> None:
        """Keep at most `size` keys."""
        self._size = size
        self._counts: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Count a key."""
        if key in self._counts or len(self._counts) < self._size:
            self._counts[key] = self._counts.get(key, 0) + 1
            return
        least = min(self._counts, key=self._counts.__getitem__)
        self._counts[key] = self._counts.pop(least) + 1

    def most(self, number: int) -> list[tuple[K, int]]:
        """Return the most frequent keys, with their counts."""
        ordered = sorted(self._counts.items(), key=lambda each: (-each[1], str(each[0])))
        return ordered[:number]
