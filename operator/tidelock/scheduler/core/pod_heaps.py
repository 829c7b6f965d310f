"""The heaps of the scheduling queue: pods that are ready, and pods that back off.

An entry of a heap names the position that its pod had when it was added. It is outdated, and skipped, as soon
as the pod has another position or none.
"""

import heapq
from functools import partial
from itertools import count

from tidelock.model.failures import Attempt, OnFailure
from tidelock.scheduler.core.queued_pod import Position, QueuedPodInfo, SortKey

# A pod that waits for days would otherwise overflow a float.
_MOST_DOUBLINGS = 32
# A heap with fewer entries may have any number of outdated ones.
_LEAST_CLEANED = 64


class PodOrder:
    """The order of the profile's QueueSort plugin."""

    def __init__(self, on_failure: OnFailure) -> None:
        self._on_failure = on_failure
        self._sequence = count()

    def place(self, waiting: QueuedPodInfo) -> Position:
        """Give a pod a new position, and return it."""
        waiting.position = position = self._key(waiting), next(self._sequence)
        return position

    def differs(self, waiting: QueuedPodInfo) -> bool:
        """Return whether a pod in a heap has another sort key now than when it was added."""
        return waiting.position is not None and waiting.position[0] != self._key(waiting)

    def _key(self, waiting: QueuedPodInfo) -> SortKey:
        """Return the sort key of a pod: by its priority if the plugin fails or returns no numbers."""
        pod = waiting.pod
        with Attempt(partial(self._on_failure, "sort", "Pod", pod.meta)):
            return tuple(map(float, waiting.profile.queue_sort.sort_key(pod, waiting.since)))
        return -float(pod.spec.priority), waiting.since


class PodHeap:
    """Pods by the instant at which they are due, and then by their order."""

    def __init__(self, order: PodOrder) -> None:
        self._order = order
        self._entries: list[tuple[float, Position, QueuedPodInfo]] = []
        self._cleaned_at = _LEAST_CLEANED

    def __len__(self) -> int:
        """Return the number of entries, outdated ones included."""
        return len(self._entries)

    @property
    def next_due(self) -> float | None:
        """The instant at which the first entry is due, or None without any."""
        return self._entries[0][0] if self._entries else None

    def push(self, waiting: QueuedPodInfo, due: float = 0.0) -> None:
        """Add a pod, or move it to where its order is now."""
        heapq.heappush(self._entries, (due, self._order.place(waiting), waiting))
        if len(self._entries) >= self._cleaned_at:  # pods that go before their turn could fill the memory
            self._entries = [entry for entry in self._entries if _stands(entry)]
            heapq.heapify(self._entries)
            self._cleaned_at = max(_LEAST_CLEANED, 2 * len(self._entries))

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod, or return None."""
        while self._entries:
            entry = heapq.heappop(self._entries)
            if _stands(entry):
                return entry[-1]
        return None

    def pop_due(self, now: float, most: int) -> tuple[list[QueuedPodInfo], int]:
        """Take the pods that are due by now. Return them, and how many of `most` entries are left."""
        due: list[QueuedPodInfo] = []
        while most > 0 and self._entries and (self._entries[0][0] <= now or not _stands(self._entries[0])):
            entry = heapq.heappop(self._entries)
            if _stands(entry):
                due.append(entry[-1])
            most -= 1
        return due, most


class BackoffQueue:
    """The pods that wait for the end of their backoff.

    A pod that was rejected can be tried early, if no other pod is ready. After an error it can't.

    Args:
        order: the order of pods with the same end of the backoff.
        initial: seconds of the first backoff, which doubles with each further one.
        most: longest backoff in seconds.

    """

    def __init__(self, order: PodOrder, initial: float, most: float) -> None:
        self._initial = initial
        self._most = most
        self._rejected = PodHeap(order)
        self._failed = PodHeap(order)

    @property
    def poppable(self) -> bool:
        """Whether there may be a pod that can be tried early."""
        return bool(self._rejected)

    def seconds(self, failures: int) -> float:
        """Return the backoff after a number of failures."""
        return min(self._initial * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self._most)

    def push(self, waiting: QueuedPodInfo) -> None:
        """Add a pod, or move it to where its order is now."""
        heap = self._rejected if waiting.plugins or waiting.pending else self._failed
        heap.push(waiting, waiting.due)

    def pop_completed(self, now: float, most: int) -> tuple[list[QueuedPodInfo], int]:
        """Take pods at the end of their backoff. Return them, and how many of `most` entries are left."""
        rejected, most = self._rejected.pop_due(now, most)
        failed, most = self._failed.pop_due(now, most)
        return rejected + failed, most

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the first pod that backs off after a rejection, or return None."""
        return self._rejected.pop()

    def next_failed(self) -> float | None:
        """Return when the first backoff after an error ends, or None."""
        return self._failed.next_due


def _stands(entry: tuple[float, Position, QueuedPodInfo]) -> bool:
    """Return whether an entry still stands for its pod."""
    return entry[-1].position is entry[1]
