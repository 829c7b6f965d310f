"""Waiting times after repeated failures."""

from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)


class Backoff:
    """Delays that double from `shortest` to `longest` seconds, randomly shortened to keep clients apart."""

    def __init__(self, shortest: float, longest: float, rng: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rng = rng
        self._ceiling = shortest

    def next(self) -> float:
        """Return the seconds to wait now: between half of the present ceiling and all of it."""
        delay = self._ceiling * self._rng.uniform(0.5, 1.0)
        self._ceiling = min(2 * self._ceiling, self._longest)
        return delay

    def reset(self) -> None:
        """Start with the shortest delay again, after a success."""
        self._ceiling = self._shortest


class Backoffs(Generic[_K]):
    """A back-off for each object, which grows until the object succeeds or is gone."""

    def __init__(self, shortest: float, longest: float, rng: Random) -> None:
        self._shortest, self._longest, self._rng = shortest, longest, rng
        self._of: dict[_K, Backoff] = {}

    def __len__(self) -> int:
        """Return the number of objects that have failed since their last success."""
        return len(self._of)

    def next(self, key: _K) -> float:
        """Return the seconds to wait after one more failure of an object."""
        backoff = self._of.get(key)
        if backoff is None:
            backoff = self._of[key] = Backoff(self._shortest, self._longest, self._rng)
        return backoff.next()

    def reset(self, key: _K) -> None:
        """Start with the shortest delay again: the object succeeded, or is gone."""
        self._of.pop(key, None)
