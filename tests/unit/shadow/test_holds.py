"""Reservations some time before each arrival, beside a count that looks at the whole trace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from tidelock.shadow.results import HoldResults
from unit.shadow.trace import Trace

NODES = {"a": 4000, "b": 6000}
LEADS = (3.0, 10.0)
END = 120


@dataclass
class PodLifetime:
    """A pod of the trace: its request in millicores, and its time on a node."""

    name: str
    cpu: int
    node: str
    bound: int
    ended: int


@dataclass
class Oracle:
    """The sums for one lead time, by definition."""

    pods: int = 0
    uncovered: int = 0
    given: int = 0
    clear: int = 0
    refused: int = 0
    nowhere: int = 0
    held: float = 0.0


def lives(seed: int) -> list[PodLifetime]:
    """Draw pods that fit their node, at most one event a second and node."""
    rng, made = Random(seed), list[PodLifetime]()  # noqa: S311 -- to be repeated  # noqa: S311 -- a repeatable scene
    for second in range(1, END, 2):
        node, cpu = rng.choice(list(NODES)), rng.choice((500, 1000, 2000, 3000))
        if used(made, node, second) + cpu <= NODES[node]:
            made.append(PodLifetime(f"pod-{second}", cpu, node, second, second + 2 * rng.randint(1, 15) + 1))
    return made


def used(pods: Sequence[PodLifetime], node: str, second: float) -> int:
    return sum(each.cpu for each in pods if each.node == node and each.bound <= second < each.ended)


def expected(pods: Sequence[PodLifetime], lead: float) -> Oracle:
    found = Oracle()
    for pod in pods:
        others = [each for each in pods if each is not pod]
        then = pod.bound - lead
        if then < 0:
            found.uncovered += 1
            continue
        found.pods += 1
        if used(others, pod.node, then) + pod.cpu > NODES[pod.node]:
            found.refused += 1
            found.nowhere += all(used(others, node, then) + pod.cpu > size for node, size in NODES.items())
            continue
        found.given += 1
        seconds = range(int(then), pod.bound)
        found.clear += all(used(others, pod.node, at) + pod.cpu <= NODES[pod.node] for at in seconds)
        found.held += pod.cpu * lead
    return found


def replayed(pods: Sequence[PodLifetime]) -> Trace:
    trace = Trace({name: {"cpu": f"{size}m"} for name, size in NODES.items()}, leads=LEADS)
    for second in range(1, END + 1):
        trace.at(second)
        for pod in pods:
            if pod.ended == second:
                trace.delete(pod.name)
            if pod.bound == second:
                trace.create(pod.name, f"{pod.cpu}m")
                trace.bind(pod.name, pod.node)
    return trace


@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_those_of_the_whole_trace(seed: int) -> None:
    pods = lives(seed)
    results = replayed(pods).results.holds

    total = Counter[str]()
    for lead, each in zip(LEADS, results, strict=True):
        oracle = expected(pods, lead)
        assert (each.lead_seconds, each.pods, each.uncovered) == (lead, oracle.pods, oracle.uncovered)
        assert (each.given, each.given_beside_all) == (oracle.given, oracle.clear)
        assert (each.refused_on_node, each.refused_everywhere) == (oracle.refused, oracle.nowhere)
        capacity = sum(NODES.values()) * (END - lead)
        assert each.idle_share["cpu"] == pytest.approx(oracle.held / capacity)
        total.update(refused=oracle.refused, displacing=oracle.given - oracle.clear)
    assert total["refused"] > 0


def lead_of(trace: Trace) -> HoldResults:
    (lead,) = trace.results.holds
    return lead


def test_a_reservation_that_another_pod_would_have_needed_is_not_beside_all() -> None:
    trace = Trace({"a": {"cpu": "4"}}, leads=(10.0,))
    trace.at(11)
    trace.create("short", "3")
    trace.bind("short", "a")
    trace.at(15)
    trace.delete("short")
    trace.at(20)
    trace.create("late", "2")
    trace.bind("late", "a")

    assert lead_of(trace).pods == 2
    assert lead_of(trace).given == 2
    assert lead_of(trace).given_beside_all == 1


def test_a_node_that_came_later_gives_no_reservation_before() -> None:
    trace = Trace({"a": {"cpu": "1"}}, leads=(10.0,))
    trace.at(15)
    trace.put_node("b", cpu="4")
    trace.at(20)
    trace.create("big", "4")
    trace.bind("big", "b")

    assert (lead_of(trace).refused_on_node, lead_of(trace).refused_everywhere) == (1, 1)


def test_nodes_that_are_gone_for_long_are_forgotten() -> None:
    trace = Trace({"a": {"cpu": "1"}}, leads=(10.0,))
    for number in range(5):
        trace.put_node(f"short-{number}", cpu="4")
        trace.at(20 * number + 5)
        trace.drop_node(f"short-{number}")
    trace.at(200)
    assert set(trace.observer._holds._history._changes) == {"a"}


def test_an_arrival_before_a_full_lead_time_after_a_gap_is_left_out() -> None:
    trace = Trace({"a": {"cpu": "8"}}, leads=(10.0,))
    trace.at(20)
    trace.clock.seconds = 25
    trace.observer.look(lost_since=trace.clock.now(), reason="Unreachable")
    trace.at(30)
    trace.create("early", "1")
    trace.bind("early", "a")
    trace.at(45)
    trace.create("late", "1")
    trace.bind("late", "a")

    assert (lead_of(trace).uncovered, lead_of(trace).given) == (1, 1)
    # From 10 s on until the gap, and from 10 s after its end on.
    assert lead_of(trace).idle_share["cpu"] == pytest.approx(10 * 1 / (8 * (10 + 5)))
