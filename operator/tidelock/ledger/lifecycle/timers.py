"""Instants at which something is due, earliest first."""

import heapq
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Up to this many replaced instants are not worth tidying up.
_FEW = 64


class Timers(Generic[K]):
    """One instant for each key. Setting another one replaces it.

    Replaced instants stay in the heap until they surface, or until they are most of it: a reservation with a
    deadline of a day may be gone in a second. So a call takes O(log n) on average.
    """

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def set(self, key: K, instant: float | None) -> None:
        """Set when the key is due, or clear it with None."""
        if instant is None:
            self._due.pop(key, None)
        elif self._due.get(key) != instant:
            self._due[key] = instant
            self._sequence += 1
            heapq.heappush(self._heap, (instant, self._sequence, key))
            self._tidy()

    def get(self, key: K) -> float | None:
        """Return when a key is due, or None."""
        return self._due.get(key)

    def next(self) -> float | None:
        """Return the earliest instant, or None if nothing is due."""
        while self._heap:
            instant, _, key = self._heap[0]
            if self._due.get(key) == instant:
                return instant
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> Iterator[K]:
        """Take out every key that is due, in order of instants, then of setting."""
        while (instant := self.next()) is not None and instant <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            yield key

    def items(self) -> Iterable[tuple[K, float]]:
        """Return all keys with their instants."""
        return self._due.items()

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._due) + _FEW:
            self._heap = [due for due in self._heap if self._due.get(due[2]) == due[0]]
            heapq.heapify(self._heap)
