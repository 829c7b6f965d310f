"""Instants at which something is due, earliest first."""

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """One instant for each key; setting another replaces it.

    Replaced instants stay in the heap until they surface, which keeps every call at O(log n).
    """

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def set(self, key: K, instant: float | None) -> None:
        """Set when the key is due; None clears it."""
        if instant is None:
            self._due.pop(key, None)
        elif self._due.get(key) != instant:
            self._due[key] = instant
            self._sequence += 1
            heapq.heappush(self._heap, (instant, self._sequence, key))

    def next(self) -> float | None:
        """Earliest instant, or None if nothing is due ever."""
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
