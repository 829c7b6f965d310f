"""The pods of PodGroups as they come, change and go."""

from builders import NAMESPACE, pod
from tidelock.cluster.placed import Placed
from tidelock.cluster.pod_groups import CommonFields, PodGroups
from tidelock.model.meta import Key
from unit.scheduler.pod_groups import member, pod_group

TRAIN = Key(NAMESPACE, "train")
ORDINARY = CommonFields("tidelock-scheduler", "PreemptLowerPriority", 0)


def test_a_pod_joins_its_group_once() -> None:
    groups = PodGroups()
    assert groups.join(member("train-0"))
    assert not groups.join(member("train-0", version=2))
    assert [each.meta.resource_version for each in groups.pods(TRAIN).values()] == ["2"]
    assert list(groups.common_fields(TRAIN)) == [ORDINARY]


def test_a_pod_without_a_group_is_in_none() -> None:
    groups = PodGroups()
    groups.upsert(None, pod_group())
    alone = pod()
    assert groups.of_pod(alone) is None
    assert not groups.join(alone)
    assert not groups.leave(alone)
    groups.count_move(Placed(alone, "node-a", assumed=True), 1)
    assert not groups.placed(TRAIN)


def test_the_group_of_a_pod_is_found_in_its_namespace() -> None:
    groups = PodGroups()
    groups.upsert(None, pod_group())
    assert groups.of_pod(member("train-0")) == pod_group()
    assert groups.of_pod(member("train-0", namespace="else")) is None


def test_fields_are_those_of_the_pods_that_are_left() -> None:
    groups = PodGroups()
    for each in (member("a"), member("b"), member("c", priority=5)):
        groups.join(each)
    assert set(groups.common_fields(TRAIN)) == {ORDINARY, ORDINARY._replace(priority=5)}
    assert groups.leave(member("c", priority=5))
    assert groups.leave(member("a"))
    assert not groups.leave(member("a"))
    assert list(groups.common_fields(TRAIN)) == [ORDINARY]


def test_nothing_is_left_of_a_group_without_pods() -> None:
    groups = PodGroups()
    placed = Placed(member("train-0"), "node-a", assumed=True)
    groups.join(placed.pod)
    groups.count_move(placed, 1)
    groups.back_off(TRAIN, 5.0)
    assert list(groups.placed(TRAIN)) == [placed.pod.uid]
    groups.leave(placed.pod)
    assert groups.due(TRAIN) == 5.0
    groups.count_move(placed, -1)
    assert (groups.due(TRAIN), groups.pods(TRAIN), groups.placed(TRAIN)) == (0.0, {}, ())
    assert groups.common_fields(TRAIN) == ()
