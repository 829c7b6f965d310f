"""Evictions for gangs."""

from typing import Any

from builders import node, pod
from tidelock.model.pods import Pod
from unit.scheduler.machinery import Core
from unit.scheduler.pod_groups import deliver, grouping, member, members, placed, pod_group, refusals


def low(name: str, node_name: str, **fields: Any) -> Pod:
    """Build a bound pod that a gang of priority 10 may evict."""
    return pod(name, node_name=node_name, **fields)


def urgent(core: Core, count: int, **fields: Any) -> None:
    """Deliver a gang of priority 10."""
    deliver(core, pod_group(min_count=count, priority=10))
    core.add(*members(count, priority=10, **fields))


def victims(core: Core) -> list[str]:
    """Return the names of the pods to evict, by the attempts since the last call."""
    return sorted(each.meta.name for attempt in core.take_preemptions() for each in attempt.victims)


def test_a_gang_evicts_as_many_pods_as_all_of_its_pods_need() -> None:
    core = grouping(node("node-a", cpu="2"), node("node-b", cpu="2"))
    core.add(low("a", "node-a"), low("b", "node-b"), low("c", "node-b"))
    urgent(core, 3)

    outcomes = core.decide()

    assert placed(outcomes) == []
    assert victims(core) in (["a", "b"], ["a", "c"], ["b", "c"])
    assert any("2 pods fit once others are evicted" in text for text in refusals(outcomes).values())
    nominated = [core.cache.nominator.node_of(f"uid-train-{number}") for number in range(3)]
    assert all(nominated)


def test_the_capacity_of_evicted_pods_is_kept_for_the_gang() -> None:
    core = grouping(node("node-a", cpu="1"), node("node-b", cpu="1"))
    core.add(low("a", "node-a"), low("b", "node-b"))
    urgent(core, 2)
    core.decide()
    assert victims(core) == ["a", "b"]

    core.event_handlers.pods.remove(low("a", "node-a"))
    core.add(pod("thief"))
    core.clock.advance(1.0)
    outcomes = core.decide()
    assert placed(outcomes) == []
    assert victims(core) == []

    core.event_handlers.pods.remove(low("b", "node-b"))
    core.clock.advance(10.0)
    assert sorted(placed(core.decide())) == ["train-0", "train-1"]


def test_nothing_is_evicted_for_a_gang_that_does_not_fit_even_then() -> None:
    core = grouping(node("node-a", cpu="1"), node("node-b", cpu="1"))
    core.add(low("a", "node-a"), low("b", "node-b", priority=10))
    urgent(core, 2)
    outcomes = core.decide()
    assert victims(core) == []
    assert not core.cache.nominator.targets
    assert (
        "pod train-1 does not fit" in refusals(outcomes)["train-0"] or "0/2" in refusals(outcomes)["train-0"]
    )


def test_capacity_is_kept_for_no_gang_that_is_incomplete() -> None:
    core = grouping(node("node-a", cpu="1"), node("node-b", cpu="1"))
    core.add(low("a", "node-a"), low("b", "node-b"))
    urgent(core, 2)
    core.decide()
    for name, node_name in (("a", "node-a"), ("b", "node-b")):
        core.event_handlers.pods.remove(low(name, node_name))
    core.event_handlers.pods.remove(member("train-0", priority=10))
    core.add(pod("other"))
    core.clock.advance(1.0)

    assert placed(core.decide()) == ["other"]
    assert not core.cache.nominator.targets


def test_capacity_is_kept_for_no_last_pod_of_a_group_that_is_gone() -> None:
    core = grouping(node("node-a", cpu="1"))
    core.add(low("a", "node-a"))
    urgent(core, 1)
    core.decide()
    assert core.cache.nominator.targets

    core.event_handlers.others["pod_groups"].remove(pod_group(min_count=1))
    core.event_handlers.pods.remove(low("a", "node-a"))
    core.add(pod("other"))
    core.clock.advance(1.0)

    assert placed(core.decide()) == ["other"]
    assert not core.cache.nominator.targets


def test_a_gang_that_may_not_preempt_evicts_nothing() -> None:
    core = grouping(node("node-a", cpu="1"), node("node-b", cpu="1"))
    core.add(low("a", "node-a"), low("b", "node-b"))
    urgent(core, 2, preemptionPolicy="Never")
    core.decide()
    assert victims(core) == []


def test_a_gang_that_fits_evicts_nothing() -> None:
    core = grouping(node("node-a", cpu="1"), node("node-b", cpu="2"))
    core.add(low("a", "node-a"))
    urgent(core, 2)
    assert len(placed(core.decide())) == 2
    assert victims(core) == []
