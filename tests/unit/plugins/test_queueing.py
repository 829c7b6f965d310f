"""PrioritySort and SchedulingGates: the order of the active queue, and the admission to it."""

from builders import pod
from tidelock.framework.api import SUCCESS, Code
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.scheduling_gates import SchedulingGates
from unit.plugins.scene import Scene


def test_higher_priority_comes_first_and_then_earlier_arrival() -> None:
    sort = PrioritySort(Scene().handle, {})
    arrivals = [
        (pod("low", priority=-5), 1.0),
        (pod("late", priority=10), 3.0),
        (pod("early", priority=10), 2.0),
        (pod("ordinary"), 0.0),
    ]
    arrivals.sort(key=lambda arrival: sort.sort_key(*arrival))
    assert [each.meta.name for each, _ in arrivals] == ["early", "late", "ordinary", "low"]


def test_a_pod_without_gates_passes_pre_enqueue() -> None:
    assert SchedulingGates(Scene().handle, {}).pre_enqueue(pod()) is SUCCESS


def test_a_gated_pod_waits_and_its_gates_are_named() -> None:
    gated = pod(schedulingGates=[{"name": "example.com/quota"}, {"name": "example.com/image"}])

    status = SchedulingGates(Scene().handle, {}).pre_enqueue(gated)

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("waiting for scheduling gates: [example.com/quota example.com/image]",)
