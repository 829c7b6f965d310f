"""The heaps of the scheduling queue."""

from collections.abc import Iterator

import pytest

from builders import NOW, pod
from tidelock.model.failures import raise_failure
from tidelock.scheduler.core.pod_heaps import PodHeap, PodOrder
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName
from unit.scheduler.machinery import Core


@pytest.fixture
def arrivals() -> Iterator[QueuedPodInfo]:
    """Yield pods, each with a lower priority than the one before."""
    profile = Core().decider.profile
    return (
        QueuedPodInfo(pod(f"web-{number}", priority=-number), profile, NOW, QueueName.ACTIVE)
        for number in range(1_000)
    )


def test_entries_of_pods_that_left_are_dropped_before_their_turn(arrivals: Iterator[QueuedPodInfo]) -> None:
    """Bug: pods that went before their turn stayed in the heap, and in memory, until then."""
    heap = PodHeap(PodOrder(raise_failure))
    first = next(arrivals)
    heap.push(first)
    most = 0
    for waiting in arrivals:
        heap.push(waiting)
        most = max(most, len(heap))
        waiting.position = None

    assert most < 100
    assert heap.pop() is first
    assert heap.pop() is None


def test_no_pod_is_lost_when_entries_are_dropped(arrivals: Iterator[QueuedPodInfo]) -> None:
    heap = PodHeap(PodOrder(raise_failure))
    pods = list(arrivals)
    for waiting in pods:
        heap.push(waiting)
        heap.push(waiting)

    assert [heap.pop() for _ in pods] == pods
    assert heap.pop() is None
