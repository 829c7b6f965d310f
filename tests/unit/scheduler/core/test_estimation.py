"""Estimates of several kinds of pods, beside reservations, nominated pods and assumed pods."""

import pytest

from builders import NOW, node, pod
from tidelock.model.pods import Pod
from tidelock.scheduler.core.estimation import PodSet
from unit.scheduler.machinery import Core


def of(cpu: str, count: int = 1) -> PodSet:
    return PodSet(ask(cpu), count)


def ask(cpu: str) -> Pod:
    return pod("ask", requests={"cpu": cpu})


def sets(core: Core, *members: PodSet, assumed: tuple[PodSet, ...] = ()) -> int:
    return core.decider.estimator.sets(core.decider.profile, members, assumed, NOW)


def replicas(core: Core, cpu: str, *assumed: PodSet) -> int:
    return core.decider.estimator.replicas(core.decider.profile, ask(cpu), assumed, NOW)


def test_large_pods_are_placed_before_small_ones() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    assert sets(core, of("1", 4), of("4")) == 1
    assert sets(core, of("1", 4), of("4"), of("1")) == 0


def test_a_pod_goes_to_the_node_with_the_least_capacity_for_it() -> None:
    core = Core(node("node-a", cpu="4", gpu="1"), node("node-b", cpu="2"))
    with_gpu = PodSet(pod("ask", requests={"cpu": "4", "gpu": "1"}), 1)
    assert sets(core, of("2"), with_gpu) == 1


def test_capacity_that_is_reserved_counts_as_taken() -> None:
    core = Core(node("node-a", cpu="4"))
    assert replicas(core, "1") == 4
    core.reservation(resources={"cpu": "3"})
    core.step()
    assert (replicas(core, "1"), sets(core, of("1"))) == (1, 1)


def test_capacity_that_is_being_freed_for_another_pod_counts_as_taken() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    core.add(pod("low", node_name="node-a", requests={"cpu": "2"}))
    core.cache.nominator.nominate(pod("high", requests={"cpu": "3"}, priority=7), "node-a")
    assert replicas(core, "1") == sets(core, of("1")) == 4
    assert sets(core, of("1", 2), of("2")) == 1


@pytest.mark.parametrize(("assumed", "left"), [((), 4), ((of("1"),), 3), ((of("3"),), 1), ((of("1", 9),), 0)])
def test_assumed_pods_are_taken_off_as_far_as_they_fit(assumed: tuple[PodSet, ...], left: int) -> None:
    core = Core(node("node-a", cpu="4"))
    assert replicas(core, "1", *assumed) == left
    assert sets(core, of("1"), assumed=assumed) == left


def test_an_assumed_pod_that_fits_nowhere_takes_nothing() -> None:
    assert replicas(Core(node("node-a", cpu="4")), "1", of("8")) == 4


def test_a_set_without_pods_fits_as_often_as_is_counted() -> None:
    core = Core(node("node-a", cpu="4"))
    assert sets(core) == sets(core, of("1", 0)) == 1_000_000


def test_nothing_fits_in_an_empty_cluster_or_beside_what_it_lacks() -> None:
    assert (replicas(Core(), "1"), sets(Core(), of("1")), sets(Core(), of("1"), of("2"))) == (0, 0, 0)
    core = Core(node("node-a", cpu="4"))
    lacking = PodSet(pod("ask", requests={"gpu": "1"}), 1)
    assert sets(core, of("1"), lacking) == 0


def test_a_large_number_of_sets_is_found_to_within_a_hundredth() -> None:
    core = Core(*(node(f"node-{number}", cpu="6") for number in range(400)))
    assert 339 <= sets(core, of("1"), of("4"), of("500m", 4)) <= 400 * 6 // 7
