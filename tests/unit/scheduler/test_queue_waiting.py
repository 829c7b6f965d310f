"""Pods that were tried: when they are tried again."""

import pytest

from builders import NOW, SCHEDULER, pod
from tidelock.framework.config import default_configuration
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.queue import FLUSH_AFTER, Place, SchedulingQueue, Waiting

UID = "uid-web-0"


@pytest.fixture
def queue() -> SchedulingQueue:
    """Give a queue from which its only pod has been popped once."""
    queue = Decider(default_configuration(SCHEDULER, BUILTINS)).queue
    queue.upsert(pod("web-0"), NOW)
    queue.pop(NOW)
    return queue


def test_backoff_is_a_second_and_doubles_to_ten() -> None:
    queue = Decider(default_configuration(SCHEDULER, BUILTINS)).queue
    queue.upsert(pod("web-0"), NOW)
    now, delays = NOW, []
    for _ in range(6):
        assert queue.pop(now) is not None
        queue.back_off(UID, now)
        due = queue.next_due()
        assert due is not None
        assert queue.pop(due - 0.001) is None
        delays.append(due - now)
        now = due

    assert delays == [1, 2, 4, 8, 10, 10]


def test_a_pod_that_was_never_tried_need_not_wait() -> None:
    profile = Decider(default_configuration(SCHEDULER, BUILTINS)).profile
    assert Waiting(pod(), profile, NOW, Place.ACTIVE).backoff_ends(NOW) == NOW


def test_a_pod_that_has_waited_for_days_still_has_a_backoff() -> None:
    """Doubling once an attempt overflowed a float after a thousand attempts."""
    waiting = Waiting(
        pod(), Decider(default_configuration(SCHEDULER, BUILTINS)).profile, NOW, Place.ACTIVE, attempts=5000
    )
    assert waiting.backoff_ends(NOW) == NOW + 10


def test_an_event_wakes_a_parked_pod_after_its_backoff(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)
    queue.wake(NOW + 0.5, "RoomFreed")

    assert queue.pop(NOW + 0.5) is None
    assert queue.next_due() == NOW + 1
    assert queue.pop(NOW + 1) is not None


def test_a_parked_pod_whose_backoff_is_over_is_ready_with_the_event(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)
    queue.wake(NOW + 60, "RoomFreed")

    assert queue.pop(NOW + 60) is not None


def test_an_edit_that_may_help_wakes_a_parked_pod_at_once(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)
    queue.upsert(pod("web-0", requests={"cpu": "500m"}, version=2), NOW)

    assert queue.pop(NOW) is not None


def test_an_update_of_the_status_does_not_wake_a_parked_pod(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)
    queue.upsert(pod("web-0", phase="Pending", version=2), NOW)

    assert queue.pop(NOW + 60) is None


def test_an_edit_does_not_cut_a_backoff_short(queue: SchedulingQueue) -> None:
    queue.back_off(UID, NOW)
    queue.upsert(pod("web-0", requests={"cpu": "500m"}, version=2), NOW)

    assert queue.pop(NOW) is None
    assert queue.pop(NOW + 1) is not None


def test_a_parked_pod_is_tried_again_after_five_minutes_without_any_event(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)

    assert FLUSH_AFTER == 300
    assert queue.next_due() == NOW + FLUSH_AFTER
    assert queue.pop(NOW + FLUSH_AFTER - 0.001) is None
    assert queue.pop(NOW + FLUSH_AFTER) is not None


def test_the_next_pod_is_due_at_the_end_of_a_backoff_or_at_the_flush(queue: SchedulingQueue) -> None:
    queue.park(UID, NOW)
    queue.upsert(pod("web-1"), NOW)
    assert queue.next_due() == 0.0
    queue.pop(NOW)
    queue.back_off("uid-web-1", NOW)

    assert queue.next_due() == NOW + 1


@pytest.mark.parametrize("place", ["parked", "backing off", "in flight"])
def test_a_pod_that_was_removed_does_not_come_back(queue: SchedulingQueue, place: str) -> None:
    if place == "parked":
        queue.park(UID, NOW)
    elif place == "backing off":
        queue.back_off(UID, NOW)
    queue.remove(UID)
    queue.park(UID, NOW)
    queue.back_off(UID, NOW)
    queue.wake(NOW, "RoomFreed")

    assert queue.pop(NOW + 3600) is None
    assert queue.next_due() is None


def test_only_a_pod_in_flight_can_be_parked_or_back_off(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-1"), NOW)
    queue.park("uid-web-1", NOW)
    queue.back_off("uid-web-1", NOW)

    assert queue.counts()[Place.ACTIVE] == 1
