"""Retries of pods that were tried before."""

import pytest

from builders import NOW, SCHEDULER, node, pod
from tidelock.framework.api import SUCCESS, Code, Status
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from tidelock.model.pods import REQUIRE_RESERVATION, Pod
from tidelock.scheduler.core.pod_queue import FLUSH_AFTER, SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.machinery import Core

UID = "uid-web-0"
FIT = {"NodeResourcesFit"}


@pytest.fixture
def queue() -> SchedulingQueue:
    """Build a queue from which its only pod has been popped once."""
    queue = Core().queue
    queue.upsert(pod("web-0"), NOW)
    queue.pop(NOW)
    return queue


def pod_goes(queue: SchedulingQueue, now: float = NOW, name: str = "other") -> None:
    """Notify the queue that a pod has left its node."""
    queue.notify(ASSIGNED_POD_DELETE, pod(name, node_name="node-a"), None, now)


def place(queue: SchedulingQueue, uid: str = UID) -> QueueName:
    waiting = queue.get(uid)
    assert waiting is not None
    return waiting.queue


def test_the_backoff_after_errors_starts_at_one_second_and_doubles_up_to_ten(queue: SchedulingQueue) -> None:
    now, delays = NOW, []
    for _ in range(6):
        queue.back_off(UID, now)
        due = queue.next_due()
        assert due is not None
        assert queue.pop(due - 0.001) is None
        delays.append(due - now)
        now = due
        assert queue.pop(now) is not None

    assert delays == [1, 2, 4, 8, 10, 10]


def test_pods_that_require_a_reservation_are_woken_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the gate compares a pod with all selectors of its namespace.

    256 pods took up to 36 s in a step.
    """
    decider = Core().decider
    gate = next(each for each in decider.profile.pre_enqueue if each.name == "Reservation")
    asked: list[str] = []

    def opened(each: Pod) -> Status:
        asked.append(each.meta.name)
        return SUCCESS

    monkeypatch.setattr(gate, "pre_enqueue", opened)
    for number in range(3):
        name = f"web-{number}"
        decider.queue.upsert(pod(name, annotations={REQUIRE_RESERVATION: "true"}), NOW)
        decider.queue.pop(NOW)
        decider.queue.add_unschedulable(f"uid-{name}", NOW, FIT)
    asked.clear()
    pod_goes(decider.queue, NOW + 60)
    woken = [len(asked)]
    while decider.queue.pop(NOW + 60) is None:
        woken.append(len(asked))
    assert woken == [1, 2]
    assert len(asked) == 3


def test_backoffs_can_be_configured() -> None:
    queue = SchedulingQueue(
        {SCHEDULER: Core().decider.profile},
        initial_backoff=3,
        max_backoff=4,
        flush_after=7,
    )
    queue.upsert(pod("web-0"), NOW)
    queue.pop(NOW)
    for delay in (3, 4, 4):
        queue.back_off(UID, NOW)
        assert queue.next_due() == NOW + delay
        queue.pop(NOW + delay)
    queue.add_unschedulable(UID, NOW, FIT)
    assert queue.next_due() == NOW + 7


def test_a_refusal_ends_a_series_of_errors(queue: SchedulingQueue) -> None:
    for _ in range(4):
        queue.back_off(UID, NOW)
        queue.pop(NOW + 10)
    queue.add_unschedulable(UID, NOW, FIT)
    pod_goes(queue)
    queue.pop(NOW)
    queue.back_off(UID, NOW)

    assert queue.next_due() == NOW + 1


def test_a_pod_that_has_waited_for_days_still_has_a_backoff(queue: SchedulingQueue) -> None:
    """Regression: the backoff doubled with each attempt and overflowed a float after a thousand."""
    waiting = queue.get(UID)
    assert waiting is not None
    waiting.errors_in_a_row = 5000
    queue.back_off(UID, NOW)
    assert queue.next_due() == NOW + 10


def test_an_event_wakes_a_refused_pod_after_its_backoff(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    pod_goes(queue, NOW + 0.5)
    assert place(queue) is QueueName.BACKOFF
    queue.upsert(pod("web-1"), NOW + 1)

    popped = [waiting.pod.meta.name for _ in range(2) if (waiting := queue.pop(NOW + 1)) is not None]
    assert popped == ["web-0", "web-1"]  # web-0 was tried before web-1 arrived


def test_a_woken_pod_is_tried_before_its_backoff_ends_if_no_other_pod_is_ready(
    queue: SchedulingQueue,
) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    pod_goes(queue)
    queue.upsert(pod("web-1"), NOW)

    popped = [waiting.pod.meta.name for _ in range(2) if (waiting := queue.pop(NOW)) is not None]
    assert popped == ["web-1", "web-0"]
    assert queue.pop(NOW) is None


def test_a_refused_pod_is_ready_at_once_if_its_backoff_is_over_at_the_event(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    pod_goes(queue, NOW + 60)

    assert place(queue) is QueueName.ACTIVE


def test_an_event_that_no_refusing_plugin_has_registered_wakes_no_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"NodeName", "TaintToleration"})
    pod_goes(queue)
    queue.notify(ASSIGNED_POD_ADD, None, pod("other", node_name="node-a"), NOW)

    assert place(queue) is QueueName.UNSCHEDULABLE


def test_an_update_of_a_pod_in_flight_helps_no_other_pod_in_flight(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-1"), NOW)
    queue.pop(NOW)
    queue.upsert(pod("web-1", tolerations=[{"operator": "Exists"}]), NOW)
    for uid in (UID, "uid-web-1"):
        queue.add_unschedulable(uid, NOW, {"TaintToleration"})

    assert (place(queue), place(queue, "uid-web-1")) == (QueueName.UNSCHEDULABLE, QueueName.BACKOFF)


def test_a_pod_that_is_too_large_for_hints_wakes_the_pods_of_all_plugins_that_wait_for_it(
    queue: SchedulingQueue,
) -> None:
    """Check that no tenant's pod of thousands of volumes is compared with every pod that waits."""
    queue.add_unschedulable(UID, NOW, {"NodePorts"})
    volumes = [{"name": f"v-{number}", "emptyDir": {}} for number in range(257)]
    queue.notify(ASSIGNED_POD_DELETE, pod("other", node_name="node-a"), None, NOW)
    assert place(queue) is QueueName.UNSCHEDULABLE

    queue.notify(ASSIGNED_POD_DELETE, pod("large", node_name="node-a", volumes=volumes), None, NOW)
    assert place(queue) is QueueName.BACKOFF


def test_an_event_that_the_hint_does_not_expect_to_help_wakes_no_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    queue.notify(NODE_ADD, None, node("tiny", cpu="100m"), NOW)
    assert place(queue) is QueueName.UNSCHEDULABLE

    queue.notify(NODE_ADD, None, node("large"), NOW)
    assert place(queue) is QueueName.BACKOFF


def test_any_event_wakes_a_pod_that_was_refused_by_a_plugin_without_hints(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"ImageLocality"})
    queue.notify(ClusterEvent(Resource.CSI_NODE, Action.DELETE), node("node-a"), None, NOW)

    assert place(queue) is QueueName.BACKOFF


def test_a_hint_that_fails_wakes_the_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"TaintToleration"})
    queue.notify(NODE_ADD, None, "no node", NOW)

    assert place(queue) is QueueName.BACKOFF


def test_a_pod_is_not_woken_by_its_own_deletion_event(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    pod_goes(queue, name="web-0")

    assert place(queue) is QueueName.UNSCHEDULABLE


def test_an_event_during_an_attempt_counts_after_its_failure(queue: SchedulingQueue) -> None:
    pod_goes(queue)
    queue.add_unschedulable(UID, NOW, FIT)
    assert place(queue) is QueueName.BACKOFF


def test_an_event_before_an_attempt_does_not_count(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-1"), NOW)
    pod_goes(queue)
    queue.pop(NOW)
    queue.add_unschedulable("uid-web-1", NOW, FIT)
    queue.add_unschedulable(UID, NOW, {"NodeName"})

    assert place(queue, "uid-web-1") is QueueName.UNSCHEDULABLE
    assert place(queue) is QueueName.UNSCHEDULABLE


def test_events_are_kept_only_while_a_pod_is_in_flight(queue: SchedulingQueue) -> None:
    pod_goes(queue)
    queue.done(UID)
    pod_goes(queue)
    queue.add_unschedulable(UID, NOW, FIT)

    assert place(queue) is QueueName.UNSCHEDULABLE


def test_an_edit_during_an_attempt_counts_after_its_failure(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-0", requests={"cpu": "500m"}, version=2), NOW)
    queue.add_unschedulable(UID, NOW, FIT)

    assert place(queue) is QueueName.BACKOFF


def test_a_pending_plugin_wakes_a_pod_without_backoff(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"NodeAffinity"}, {"NodeResourcesFit"})
    pod_goes(queue)

    assert place(queue) is QueueName.ACTIVE


def test_an_edit_that_may_help_wakes_a_refused_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    queue.upsert(pod("web-0", requests={"cpu": "500m"}, version=2), NOW)

    assert place(queue) is QueueName.BACKOFF


def test_an_edit_that_no_refusing_plugin_expects_to_help_wakes_no_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    queue.upsert(pod("web-0", labels={"app": "web"}, version=2), NOW)

    assert place(queue) is QueueName.UNSCHEDULABLE


def test_an_update_of_the_status_does_not_wake_a_refused_pod(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"ImageLocality"})
    queue.upsert(pod("web-0", phase="Pending", version=2), NOW)

    assert queue.pop(NOW + 60) is None


def test_an_edit_does_not_shorten_a_backoff(queue: SchedulingQueue) -> None:
    queue.back_off(UID, NOW)
    queue.upsert(pod("web-0", requests={"cpu": "500m"}, version=2), NOW)

    assert queue.pop(NOW) is None
    assert queue.pop(NOW + 1) is not None


def test_a_refused_pod_is_retried_after_five_minutes_without_any_event(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    queue.upsert(pod("web-1"), NOW + 1)
    queue.pop(NOW + 1)
    queue.add_unschedulable("uid-web-1", NOW + 1, FIT)

    assert FLUSH_AFTER == 300
    assert queue.next_due() == NOW + FLUSH_AFTER
    assert queue.pop(NOW + FLUSH_AFTER - 0.001) is None
    assert queue.pop(NOW + FLUSH_AFTER) is not None
    assert queue.next_due() == NOW + 1 + FLUSH_AFTER


def test_a_gate_is_asked_again_after_five_minutes_without_any_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: a gate that opens with time, and not by an event, kept its pod for ever."""
    decider = Core().decider
    gate = next(each for each in decider.profile.pre_enqueue if each.name == "DynamicResources")
    status = Status(Code.UNSCHEDULABLE, ("not yet",))
    monkeypatch.setattr(gate, "pre_enqueue", lambda _: status)
    decider.queue.upsert(pod("web-0"), NOW)

    assert decider.queue.pop(NOW + FLUSH_AFTER) is None
    status = SUCCESS
    assert decider.queue.next_due() == NOW + 2 * FLUSH_AFTER
    assert decider.queue.pop(NOW + 2 * FLUSH_AFTER - 0.001) is None
    assert decider.queue.pop(NOW + 2 * FLUSH_AFTER) is not None


def test_a_pod_that_is_gated_for_its_reservation_waits_for_events_alone() -> None:
    queue = Core().queue
    queue.upsert(pod("web-0", annotations={REQUIRE_RESERVATION: "true"}), NOW)

    assert queue.counts()[QueueName.GATED] == 1
    assert queue.next_due() is None


def test_a_pod_that_an_unknown_plugin_refused_is_retried_after_its_backoff(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"NoSuchPlugin"})

    assert place(queue) is QueueName.BACKOFF


@pytest.mark.parametrize("state", ["unschedulable", "backoff", "in flight"])
def test_a_pod_can_be_activated_in_any_part_of_the_queue(queue: SchedulingQueue, state: str) -> None:
    if state == "unschedulable":
        queue.add_unschedulable(UID, NOW, FIT)
    elif state == "backoff":
        queue.back_off(UID, NOW)
    queue.activate(UID, NOW)
    queue.add_unschedulable(UID, NOW, FIT)
    queue.activate("uid-unknown", NOW)

    assert queue.pop(NOW) is not None
    assert queue.pop(NOW + 3600) is None


def test_the_next_pod_is_due_at_the_end_of_a_backoff_or_at_the_flush(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, FIT)
    queue.upsert(pod("web-1"), NOW)
    assert queue.next_due() == 0.0
    queue.pop(NOW)
    queue.back_off("uid-web-1", NOW)

    assert queue.next_due() == NOW + 1


@pytest.mark.parametrize("state", ["unschedulable", "woken", "backing off", "in flight"])
def test_a_pod_that_was_removed_does_not_come_back(queue: SchedulingQueue, state: str) -> None:
    if state in ("unschedulable", "woken"):
        queue.add_unschedulable(UID, NOW, FIT)
    elif state == "backing off":
        queue.back_off(UID, NOW)
    if state == "woken":
        pod_goes(queue)
    queue.remove(UID)
    queue.add_unschedulable(UID, NOW, FIT)
    queue.back_off(UID, NOW)
    pod_goes(queue)

    assert queue.pop(NOW + 3600) is None
    assert queue.next_due() is None


def test_only_a_pod_in_flight_can_be_refused_or_back_off(queue: SchedulingQueue) -> None:
    queue.upsert(pod("web-1"), NOW)
    queue.add_unschedulable("uid-web-1", NOW, FIT)
    queue.back_off("uid-web-1", NOW)

    assert queue.counts()[QueueName.ACTIVE] == 1


def test_waiting_pods_are_counted_by_the_plugin_that_refused_them(queue: SchedulingQueue) -> None:
    queue.add_unschedulable(UID, NOW, {"NodeResourcesFit", "Reservation"})
    queue.upsert(pod("gated", schedulingGates=[{"name": "hold"}]), NOW)
    queue.upsert(pod("ready"), NOW)

    assert queue.refused_by() == {
        ("NodeResourcesFit", SCHEDULER): 1,
        ("Reservation", SCHEDULER): 1,
        ("SchedulingGates", SCHEDULER): 1,
    }


def crowd(count: int) -> SchedulingQueue:
    """Build a queue in which so many pods are unschedulable, refused for their size."""
    queue = Core().queue
    for index in range(count):
        queue.upsert(pod(f"web-{index}", priority=index), NOW)
    for _ in range(count):
        waiting = queue.pop(NOW)
        assert waiting is not None
        queue.add_unschedulable(waiting.pod.uid, NOW, FIT)
    return queue


def test_many_pods_are_woken_in_several_batches_and_the_first_of_all_goes_first() -> None:
    count = 1000
    queue = crowd(count)
    pod_goes(queue, NOW + 10)
    pod_goes(queue, NOW + 10, "another")
    queue.remove("uid-web-0")

    assert 0 < queue.counts()[QueueName.ACTIVE] < count
    pops = 0
    while (first := queue.pop(NOW + 10)) is None:
        assert queue.next_due() == 0
        pops += 1
    assert first.pod.meta.name == f"web-{count - 1}"
    assert pops > 1
    assert (queue.counts()[QueueName.ACTIVE], queue.counts()[QueueName.UNSCHEDULABLE]) == (count - 2, 0)


@pytest.mark.parametrize("after", [FLUSH_AFTER + 20, 1.0])
def test_many_pods_that_are_due_are_moved_in_several_batches(after: float) -> None:
    """Their backoff is over, or they have waited for `FLUSH_AFTER`."""
    count = 1000
    queue = crowd(count)
    if after < FLUSH_AFTER:
        pod_goes(queue, NOW)
        while queue.counts()[QueueName.UNSCHEDULABLE]:
            queue.pop(NOW)
    batches = 1
    while queue.pop(NOW + after) is None:
        assert queue.next_due() is not None
        batches += 1
    assert batches > 1
    assert queue.counts()[QueueName.UNSCHEDULABLE] == 0
    assert queue.counts()[QueueName.BACKOFF] == 0
