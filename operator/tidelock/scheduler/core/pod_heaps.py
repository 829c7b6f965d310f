"""The heaps of the scheduling queue: pods that are ready, and pods that back off.

A pod that has left a heap's part of the queue stays in the heap until its turn, and is skipped then.
"""

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count

from tidelock.model.failures import Attempt, OnFailure
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName

SortKey = tuple[float, ...]

# A pod that waits for days would otherwise overflow a float.
_MOST_DOUBLINGS = 32


class PodOrder:
    """The order of the profile's QueueSort plugin."""

    def __init__(self, on_failure: OnFailure) -> None:
        self._on_failure = on_failure
        self._sequence = count()

    def key(self, waiting: QueuedPodInfo) -> tuple[SortKey, int]:
        """Return the sort key of a pod: by its priority if the plugin fails or returns no numbers."""
        pod = waiting.pod
        with Attempt(partial(self._on_failure, "sort", "Pod", pod.meta)):
            key = tuple(map(float, waiting.profile.queue_sort.sort_key(pod, waiting.since)))
            return key, next(self._sequence)
        return (-float(pod.spec.priority), waiting.since), next(self._sequence)


class ActiveQueue:
    """The pods that are ready.

    Args:
        order: the order of pods.
        known: returns whether the queue still has an entry.

    """

    def __init__(self, order: PodOrder, known: Callable[[QueuedPodInfo], bool]) -> None:
        self._order = order
        self._known = known
        self._heap: list[tuple[SortKey, int, QueuedPodInfo]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, waiting: QueuedPodInfo) -> None:
        """Add a pod."""
        heapq.heappush(self._heap, (*self._order.key(waiting), waiting))

    def pop(self) -> QueuedPodInfo | None:
        """Take the first pod, or return None."""
        while self._heap:
            waiting = heapq.heappop(self._heap)[-1]
            if self._known(waiting) and waiting.queue is QueueName.ACTIVE:
                return waiting
        return None


class BackoffQueue:
    """The pods that wait for the end of their backoff.

    A pod that was rejected can be tried early, if no other pod is ready. After an error it can't.

    Args:
        order: the order of pods with the same end of the backoff.
        known: returns whether the queue still has an entry.
        initial: seconds of the first backoff, which doubles with each further one.
        most: longest backoff in seconds.

    """

    def __init__(
        self, order: PodOrder, known: Callable[[QueuedPodInfo], bool], initial: float, most: float
    ) -> None:
        self._order = order
        self._known = known
        self._initial = initial
        self._most = most
        self._rejected: list[tuple[float, SortKey, int, QueuedPodInfo]] = []
        self._failed: list[tuple[float, SortKey, int, QueuedPodInfo]] = []

    @property
    def poppable(self) -> bool:
        """Whether there may be a pod that can be tried early."""
        return bool(self._rejected)

    def seconds(self, failures: int) -> float:
        """Return the backoff after a number of failures."""
        return min(self._initial * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self._most)

    def push(self, waiting: QueuedPodInfo) -> None:
        """Add a pod."""
        heap = self._rejected if waiting.plugins or waiting.pending else self._failed
        heapq.heappush(heap, (waiting.due, *self._order.key(waiting), waiting))

    def pop_completed(self, now: float, most: int) -> tuple[list[QueuedPodInfo], int]:
        """Take pods at the end of their backoff. Return them, and how many of `most` entries are left."""
        completed = []
        for heap in (self._rejected, self._failed):
            while most > 0 and heap and (heap[0][0] <= now or not self._backs_off(heap[0][0], heap[0][-1])):
                due, _, _, waiting = heapq.heappop(heap)
                if self._backs_off(due, waiting):
                    completed.append(waiting)
                most -= 1
        return completed, most

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the first pod that backs off after a rejection, or return None."""
        while self._rejected:
            due, _, _, waiting = heapq.heappop(self._rejected)
            if self._backs_off(due, waiting):
                return waiting
        return None

    def next_failed(self) -> float | None:
        """Return when the first backoff after an error ends, or None."""
        return self._failed[0][0] if self._failed else None

    def _backs_off(self, due: float, waiting: QueuedPodInfo) -> bool:
        """Return whether an entry still stands for a pod that backs off."""
        return self._known(waiting) and waiting.queue is QueueName.BACKOFF and waiting.due == due
