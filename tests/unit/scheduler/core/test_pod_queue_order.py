import pytest

from builders import NOW, pod
from tidelock.framework.events import ASSIGNED_POD_DELETE
from tidelock.scheduler.core.pod_queue import FLUSH_AFTER, SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.machinery import Core

GATE = [{"name": "example.com/quota"}]


@pytest.fixture
def queue() -> SchedulingQueue:
    return Core().queue


def popped(queue: SchedulingQueue, now: float = NOW) -> list[str]:
    """Pop all pods that are ready. Return their names."""
    names = []
    while (waiting := queue.pop(now)) is not None:
        names.append(waiting.pod.meta.name)
    return names


def test_pods_go_by_priority_and_then_by_arrival(queue: SchedulingQueue) -> None:
    queue.upsert(pod("early"), NOW + 1)
    queue.upsert(pod("late"), NOW + 2)
    queue.upsert(pod("urgent", priority=5), NOW + 3)

    assert popped(queue, NOW + 3) == ["urgent", "early", "late"]


def test_pods_that_arrive_at_the_same_time_go_in_the_order_of_their_events(queue: SchedulingQueue) -> None:
    for name in ("b", "c", "a"):
        queue.upsert(pod(name), NOW)

    assert popped(queue) == ["b", "c", "a"]


def test_a_pod_of_another_scheduler_is_ignored(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0", scheduler="default-scheduler"), NOW)

    assert queue.get("uid-web-0") is None
    assert queue.next_due() is None


def test_a_removed_pod_never_pops(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0"), NOW)
    queue.remove("uid-web-0")

    assert queue.pop(NOW) is None
    assert queue.next_due() is None


def test_a_pod_that_comes_back_with_its_uid_pops_once(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0"), NOW)
    queue.remove("uid-web-0")
    queue.upsert(pod("web-0"), NOW)

    assert popped(queue) == ["web-0"]


def test_the_newest_version_of_a_pod_pops(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0"), NOW)
    queue.upsert(pod("web-0", version=2), NOW + 1)
    waiting = queue.pop(NOW + 1)

    assert waiting is not None
    assert (waiting.pod.meta.version, waiting.added_at, waiting.attempts) == (2, NOW, 1)
    assert queue.pop(NOW + 1) is None


def refuse_after_taking(queue: SchedulingQueue, name: str, now: float) -> None:
    """Try a pod before its turn, as its group does, and refuse it."""
    waiting = queue.get(f"uid-{name}")
    assert waiting is not None
    queue.take(waiting)
    queue.add_unschedulable(waiting.pod.uid, now, {"NodeResourcesFit"})


def test_a_pod_that_was_tried_before_its_turn_goes_behind_the_others_then(queue: SchedulingQueue) -> None:
    """Bug: its entry from before the attempt stayed in the heap, and had it popped first."""
    queue.upsert(pod("taken"), NOW)
    queue.upsert(pod("other"), NOW + 1)
    refuse_after_taking(queue, "taken", NOW + 2)
    queue.activate("uid-taken", NOW + 3)

    assert popped(queue, NOW + 3) == ["other", "taken"]


def test_a_pod_that_came_back_while_its_old_entry_was_in_the_heap_pops_once_per_attempt(
    queue: SchedulingQueue,
) -> None:
    queue.upsert(pod("web-0"), NOW)
    refuse_after_taking(queue, "web-0", NOW)
    queue.activate("uid-web-0", NOW)

    assert popped(queue) == ["web-0"]
    assert queue.next_due() is None


@pytest.mark.parametrize("backs_off", [False, True])
def test_an_update_that_changes_the_sort_key_of_a_pod_moves_it(
    queue: SchedulingQueue, *, backs_off: bool
) -> None:
    """Bug: a pod in a heap kept the place of its first version there. kube-scheduler sorts it again."""
    for name in ("first", "second"):
        queue.upsert(pod(name), NOW)
        if backs_off:
            queue.pop(NOW)
            queue.add_unschedulable(f"uid-{name}", NOW, {"NodeResourcesFit"})
    queue.notify(ASSIGNED_POD_DELETE, pod("other", node_name="node-a"), None, NOW)
    queue.upsert(pod("second", priority=5, version=2), NOW)

    assert popped(queue) == ["second", "first"]


def test_an_update_that_keeps_the_sort_key_keeps_the_place_of_a_pod(queue: SchedulingQueue) -> None:
    for name in ("first", "second"):
        queue.upsert(pod(name), NOW)
    queue.upsert(pod("first", labels={"app": "web"}, version=2), NOW)

    assert popped(queue) == ["first", "second"]


def test_a_gated_pod_waits_until_an_update_opens_its_gate(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0", schedulingGates=GATE), NOW)
    waiting = queue.get("uid-web-0")

    assert waiting is not None
    assert (waiting.queue, waiting.gated_by) == (QueueName.GATED, "SchedulingGates")
    assert popped(queue) == []
    assert queue.next_due() == NOW + FLUSH_AFTER
    queue.upsert(pod("web-0", version=2), NOW + 1)
    assert popped(queue) == ["web-0"]


def test_a_pod_that_is_gated_after_it_was_refused_waits_for_its_gate(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0"), NOW)
    queue.pop(NOW)
    queue.add_unschedulable("uid-web-0", NOW, {"NodeResourcesFit"})
    queue.upsert(pod("web-0", schedulingGates=GATE, labels={"edited": "yes"}, version=2), NOW)
    queue.notify(ASSIGNED_POD_DELETE, pod("other", node_name="node-a"), None, NOW)

    assert popped(queue, NOW + 3600) == []
    assert queue.counts()[QueueName.GATED] == 1


def test_pods_are_counted_by_the_part_of_the_queue(queue: SchedulingQueue) -> None:
    for name in ("flying", "refused", "backing-off"):
        queue.upsert(pod(name), NOW)
        queue.pop(NOW)
    queue.add_unschedulable("uid-refused", NOW, {"NodeResourcesFit"})
    queue.back_off("uid-backing-off", NOW)
    queue.upsert(pod("gated", schedulingGates=GATE), NOW)
    queue.upsert(pod("first"), NOW)
    queue.upsert(pod("second"), NOW)

    assert queue.counts() == {
        QueueName.ACTIVE: 2,
        QueueName.BACKOFF: 1,
        QueueName.UNSCHEDULABLE: 1,
        QueueName.GATED: 1,
        QueueName.IN_FLIGHT: 1,
    }


def test_the_hook_is_called_for_each_part_of_the_queue_that_a_pod_enters() -> None:
    core = Core()
    queue, heard = core.queue, core.enqueued

    queue.upsert(pod("web-0", schedulingGates=GATE), NOW)
    queue.upsert(pod("web-0", schedulingGates=GATE, version=2), NOW)  # still gated: no call
    queue.upsert(pod("web-0", version=3), NOW)
    queue.pop(NOW)
    queue.add_unschedulable("uid-web-0", NOW, {"NodeResourcesFit"})
    queue.notify(ASSIGNED_POD_DELETE, pod("other", node_name="node-a"), None, NOW)
    queue.pop(NOW)
    queue.back_off("uid-web-0", NOW)
    queue.pop(NOW + 1)

    assert heard == [
        ("gated", "UnscheduledPodAdd"),
        ("active", "TargetPodUpdatePodSchedulingGatesEliminated"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "AssignedPodDelete"),
        ("active", "PopFromBackoffQ"),
        ("backoff", "ScheduleAttemptFailure"),
        ("active", "BackoffComplete"),
    ]
