"""The gate and the queueing hints of GangScheduling."""

import pytest

from builders import encode, pod
from tidelock.cluster.pod_groups import PodGroups
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    UNSCHEDULED_POD_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from tidelock.model.pod_group import PodGroup, decode_pod_group
from tidelock.model.pods import Pod
from tidelock.plugins.gang_scheduling import MEMBERS_AWAITED, GangScheduling, group_awaited
from unit.plugins.scene import Scene
from unit.scheduler.pod_groups import member, members, pod_group, pod_group_json


def gate(groups: list[PodGroup], pods: list[Pod]) -> GangScheduling:
    scene = Scene()
    known: PodGroups = scene.handle.objects.pod_groups
    for group in groups:
        known.upsert(None, group)
    for each in pods:
        known.join(each)
    return GangScheduling(scene.handle, {})


def reason(plugin: GangScheduling, wanting: Pod) -> str:
    return "".join(plugin.pre_enqueue(wanting).reasons)


def test_a_pod_without_a_group_passes() -> None:
    assert reason(gate([], []), pod()) == ""


def test_a_pod_waits_for_its_group() -> None:
    expected = group_awaited("train")
    assert reason(gate([], members(3)), member("train-0")) == expected
    assert reason(gate([pod_group("other")], members(3)), member("train-0")) == expected


@pytest.mark.parametrize(("count", "passes"), [(2, False), (3, True), (4, True)])
def test_a_pod_waits_for_as_many_pods_as_its_group_needs(count: int, passes: bool) -> None:
    expected = "" if passes else MEMBERS_AWAITED
    assert reason(gate([pod_group(min_count=3)], members(count)), member("train-0")) == expected


def test_a_pod_of_the_basic_policy_waits_for_no_other() -> None:
    assert reason(gate([pod_group(min_count=None)], members(1)), member("train-0")) == ""


def test_a_group_that_cannot_be_read_keeps_its_pods() -> None:
    plain = pod_group_json()
    plain["spec"]["schedulingPolicy"]["gang"]["minCount"] = "many"
    plugin = gate([decode_pod_group(encode(plain))], members(3))
    assert reason(plugin, member("train-0")).startswith('pod group "train" can\'t be read: spec.')


TRAIN = member("train-0")


def helps(event: ClusterEvent, old: object, new: object, waiting: Pod = TRAIN) -> bool:
    """Return whether an event helps a pod."""
    registered = GangScheduling(Scene().handle, {}).events_to_register()
    hints = [each.hint for each in registered if each.event.covers(event)]
    return any(hint is not None and hint(waiting, old, new) for hint in hints)


UPDATE = ClusterEvent(Resource.POD_GROUP, Action.UPDATE)
ADD = ClusterEvent(Resource.POD_GROUP, Action.ADD)
GONE = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        (UNSCHEDULED_POD_ADD, None, member("train-1"), True),
        (UNSCHEDULED_POD_ADD, None, member("other-1", "other"), False),
        (UNSCHEDULED_POD_ADD, None, member("train-1", namespace="else"), False),
        (UNSCHEDULED_POD_ADD, None, pod("web-1"), False),
        (ASSIGNED_POD_ADD, None, member("train-1", node_name="node-a"), True),
        (ASSIGNED_POD_DELETE, member("train-1", node_name="node-a"), None, False),
        (GONE, member("train-1"), None, True),
        (GONE, member("other-1", "other"), None, False),
        (ADD, None, pod_group(), True),
        (ADD, None, pod_group("other"), False),
        (UPDATE, pod_group(min_count=3), pod_group(min_count=2), True),
        (UPDATE, pod_group(min_count=3), pod_group(min_count=3), False),
        (UPDATE, pod_group(min_count=3), pod_group(min_count=4), False),
        (UPDATE, pod_group("other", 3), pod_group("other", 2), False),
    ],
)
def test_events_of_the_same_group_help(event: ClusterEvent, old: object, new: object, expected: bool) -> None:
    assert helps(event, old, new) is expected


@pytest.mark.parametrize(
    ("waiting", "event", "old", "new"),
    [
        (pod(), UNSCHEDULED_POD_ADD, None, pod("web-1")),
        (pod(), ADD, None, pod_group()),
        (member("train-0", namespace="else"), ADD, None, pod_group()),
        (pod(), UPDATE, pod_group(min_count=4), pod_group(min_count=3)),
        (member("train-0", namespace="else"), UPDATE, pod_group(min_count=4), pod_group(min_count=3)),
        (TRAIN, UPDATE, pod_group(min_count=None), pod_group(min_count=None)),
    ],
)
def test_an_event_that_kube_scheduler_skips_does_not_help(
    waiting: Pod, event: ClusterEvent, old: object, new: object
) -> None:
    """Source: kube-scheduler 1.37, the cases of gangscheduling_test.go that are not among the above."""
    assert not helps(event, old, new, waiting)
