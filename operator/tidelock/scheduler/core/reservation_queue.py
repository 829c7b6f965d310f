"""The queue of reservations to try: the order in which they get capacity.

Higher priority comes first. Of equal priority, the namespace with the smallest share comes first, with its
oldest reservation. Capacity that it gets counts at once. So capacity goes to the namespaces that have the
least. A namespace with thousands of reservations does not delay others: after a few refusals in a row, each
other namespace has one tried.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count

from tidelock.ledger.reservation_info import Order, ReservationInfo

# Refusals of a namespace in a row before others have their turn.
_PATIENCE = 4

_Queue = tuple[int, str]
"""A priority, as a smaller number the higher it is, and a namespace."""

_Head = tuple[int, int, float, Order, _Queue]
"""The sort key of queues: priority, round, share, and the order of the first reservation."""


class ReservationQueue:
    """Reservations to try, by priority and namespace.

    Args:
        share: returns the share of a namespace. The smallest comes first.

    """

    def __init__(self, share: Callable[[str], float]) -> None:
        self._share = share
        self._sequence = count()
        self._length = 0
        self._queues: defaultdict[_Queue, list[tuple[Order, int, ReservationInfo]]] = defaultdict(list)
        self._heads: list[_Head] = []
        self._head_of: dict[_Queue, _Head] = {}  # others in the heap are out of date
        self._last: tuple[_Queue, ReservationInfo] | None = None
        self._refused: defaultdict[_Queue, int] = defaultdict(int)
        self._rounds: dict[_Queue, int] = {}
        self._round: defaultdict[int, int] = defaultdict(int)  # by priority, that of the last reservation
        self._latest: defaultdict[int, int] = defaultdict(int)  # by priority, the latest that any is in

    def __len__(self) -> int:
        return self._length

    def add(self, entries: Iterable[ReservationInfo]) -> None:
        """Add reservations."""
        queues: dict[_Queue, None] = {}
        for entry in entries:
            queue = entry.order[0], entry.key.namespace
            queues[queue] = None
            heapq.heappush(self._queues[queue], (entry.order, next(self._sequence), entry))
            self._length += 1
        for queue in queues:
            self._put(queue)

    def pop(self) -> ReservationInfo:
        """Take out the next reservation. The next call looks at its result."""
        self._note_last()
        head = self._first()
        while self._queues[head[-1]][0][0] != self._queues[head[-1]][0][-1].order:
            self._requeue(head[-1])
            head = self._first()
        queue = head[-1]
        *_, entry = heapq.heappop(self._queues[queue])
        self._round[queue[0]] = head[1]
        self._last = queue, entry
        self._length -= 1
        if not self._length:
            self.clear()
        return entry

    def clear(self) -> None:
        """Forget all."""
        self._length = 0
        self._last = None
        for part in (self._queues, self._heads, self._head_of, self._refused, self._rounds):
            part.clear()
        self._round.clear()
        self._latest.clear()

    def _first(self) -> _Head:
        """Take out the head of the next queue."""
        head = heapq.heappop(self._heads)
        while (now := self._renewed(head)) != head:
            head = heapq.heappushpop(self._heads, now) if now is not None else heapq.heappop(self._heads)
        del self._head_of[head[-1]]
        return head

    def _requeue(self, queue: _Queue) -> None:
        """Move the first reservation of a queue after an edit of its priority."""
        *_, entry = heapq.heappop(self._queues[queue])
        self._length -= 1
        self._put(queue)
        self.add([entry])

    def _put(self, queue: _Queue) -> None:
        """Move a queue to its present position, if it is not empty."""
        if self._queues.get(queue):
            head = self._head(queue)
            if self._head_of.get(queue) != head:
                self._head_of[queue] = head
                heapq.heappush(self._heads, head)

    def _head(self, queue: _Queue) -> _Head:
        priority, namespace = queue
        turn = self._rounds.setdefault(queue, self._round[priority])
        return priority, turn, self._share(namespace), self._queues[queue][0][0], queue

    def _renewed(self, head: _Head) -> _Head | None:
        """Return a head as it should be now, or None if another has replaced it."""
        queue = head[-1]
        if self._head_of.get(queue) != head:
            return None
        now = self._head_of[queue] = self._head(queue)
        return now

    def _note_last(self) -> None:
        """Note the result of the last reservation, and add the next one of its queue."""
        if self._last is None:
            return
        queue, entry = self._last
        self._last = None
        priority = queue[0]
        turn = self._rounds[queue]
        given = entry.reserved and not entry.wanting
        self._refused[queue] = 0 if given else self._refused[queue] + 1
        if turn < self._latest[priority] or self._refused[queue] >= _PATIENCE:
            self._refused[queue] = 0
            self._rounds[queue] = turn + 1
            self._latest[priority] = max(self._latest[priority], turn + 1)
        self._put(queue)
