"""The line of locks that are to be tried: the order in which room is given out.

Higher priority comes first. Of equal priority, namespaces take turns, each with its own oldest, so that a
namespace with thousands of locks holds nobody else up: start-time fair queueing with a lock as the unit.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from itertools import count

from tidelock.ledger.entry import Entry, Order


class Line:
    """Locks to be tried, each with the turn of its namespace in which that is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Order, int, Entry]] = []
        self._sequence = count()
        self._turn: defaultdict[int, int] = defaultdict(int)
        self._last: defaultdict[tuple[int, str], int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entries: Iterable[Entry]) -> None:
        """Line up locks, which come in their namespace's order."""
        for entry in entries:
            order = entry.order
            place, whose = order[0], (order[0], entry.key.namespace)
            turn = self._last[whose] = max(self._turn[place], self._last[whose]) + 1
            heapq.heappush(self._heap, (place, turn, order, next(self._sequence), entry))

    def pop(self) -> Entry:
        """Take the next lock out."""
        place, turn, *_, entry = heapq.heappop(self._heap)
        self._turn[place] = turn
        if not self._heap:
            self.clear()
        return entry

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()
        self._turn.clear()
        self._last.clear()
