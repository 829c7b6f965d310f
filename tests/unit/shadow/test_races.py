"""Races and waiting, beside counts that know nothing but the capacity of nodes and the trace's events."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from tidelock.shadow.results import RaceResults
from tidelock.shadow.waiting import PATIENCE
from unit.shadow.trace import Trace

SIZES = {"a": 4, "b": 5, "c": 3}
END = 160


@dataclass
class Oracle:
    """The cluster as sums of cpu, and the counts by definition."""

    free: dict[str, int] = field(default_factory=lambda: dict(SIZES))
    waiting: dict[str, tuple[int, str, int]] = field(default_factory=dict)  # cpu, manager, first seen
    placed: dict[str, tuple[int, str]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    bindings: int = 0
    contested: int = 0
    between: int = 0
    lost_nodes: int = 0
    lost_between: int = 0
    waited: dict[str, tuple[int, int]] = field(default_factory=dict)  # seconds, those in which it fits

    def bind(self, name: str, node: str) -> None:
        cpu, manager, _ = self.waiting.pop(name)
        before = self.free[node]
        self.free[node] -= cpu
        self.placed[name] = cpu, node
        self.bindings += 1
        losers = {
            other: (size, theirs)
            for other, (size, theirs, _) in self.waiting.items()
            if self.free[node] < size <= before
        }
        self.lost_nodes += len(losers)
        self.contested += bool(losers)
        self.between += any(theirs != manager for _, theirs in losers.values())
        for other, (size, theirs) in losers.items():
            if max(self.free.values()) < size and other not in self.lost:
                self.lost.add(other)
                self.lost_between += theirs != manager

    def look(self, now: int) -> None:
        for name, (cpu, _, since) in self.waiting.items():
            if now > since + PATIENCE:
                seconds, fitting = self.waited.get(name, (0, 0))
                fits = max(self.free.values()) >= cpu
                self.waited[name] = seconds + 1, fitting + fits


def events(rng: Random, oracle: Oracle) -> Iterator[tuple[str, str, str]]:
    """Draw the events of one second: a new pod, a binding that fits, an end."""
    kind = rng.random()
    if kind < 0.4:
        yield "create", f"pod-{rng.getrandbits(40)}", rng.choice(("red", "blue"))
    elif kind < 0.75:
        pairs = [
            (name, node)
            for name, (cpu, _, _) in oracle.waiting.items()
            for node, free in oracle.free.items()
            if cpu <= free
        ]
        if pairs:
            yield "bind", *rng.choice(pairs)
    elif oracle.placed:
        yield "delete", rng.choice(list(oracle.placed)), ""


def replay(seed: int) -> tuple[Trace, Oracle]:
    rng, oracle = Random(seed), Oracle()  # noqa: S311 -- to be repeated  # noqa: S311 -- a repeatable scene
    trace = Trace({name: {"cpu": str(size)} for name, size in SIZES.items()}, leads=(1.0,))
    for second in range(1, END):
        trace.at(second)
        oracle.look(second)
        for kind, name, other in events(rng, oracle):
            if kind == "create":
                cpu = rng.randint(1, 4)
                oracle.waiting[name] = cpu, other, second
                trace.create(name, str(cpu), controller=f"apps/v1/StatefulSet/{other}")
            elif kind == "bind":
                oracle.bind(name, other)
                trace.bind(name, other)
            else:
                cpu, node = oracle.placed.pop(name)
                oracle.free[node] += cpu
                trace.delete(name)
    return trace, oracle


@pytest.mark.parametrize("seed", range(6))
def test_the_counts_are_those_of_the_definitions(seed: int) -> None:
    trace, oracle = replay(seed)
    races, waiting = trace.results.races, trace.results.waiting

    assert races.bindings == oracle.bindings
    assert (races.contested, races.between_managers) == (oracle.contested, oracle.between)
    assert races.lost_nodes == oracle.lost_nodes
    assert (races.lost_last, races.lost_last_between_managers) == (len(oracle.lost), oracle.lost_between)
    assert races.overfilled == 0
    assert races.contested > 0

    assert waiting.waited == len(oracle.waited)
    assert waiting.waited_though_fitting == sum(bool(fits) for _, fits in oracle.waited.values())
    assert waiting.pod_seconds == sum(seconds for seconds, _ in oracle.waited.values())
    assert waiting.pod_seconds_fitting == sum(fits for _, fits in oracle.waited.values())
    assert waiting.still_waiting == len(oracle.waited.keys() & oracle.waiting.keys())


def races_of(trace: Trace) -> RaceResults:
    return trace.results.races


def test_a_loser_of_the_last_node_is_followed_until_its_binding() -> None:
    trace = Trace({"a": {"cpu": "4"}})
    for name in ("winner", "loser"):
        trace.create(name, "3", namespace=name)
    trace.bind("winner", "a")
    trace.at(30)
    trace.delete("winner")
    trace.bind("loser", "a")

    races = races_of(trace)
    assert (races.lost_last, races.bound_after_loss, races.wait_after_loss_p50) == (1, 1, 30.0)
    assert races.pairs == [("namespace winner", "namespace loser", 1)]
    (example,) = races.examples
    assert (example.winner, example.loser, example.last_capacity) == ("winner/winner", "loser/loser", True)


def test_two_bindings_to_the_same_capacity_overfill_the_node() -> None:
    trace = Trace({"a": {"cpu": "4"}})
    for name in ("one", "other"):
        trace.create(name, "3")
    trace.bind("one", "a")
    trace.bind("other", "a")

    assert races_of(trace).overfilled == 1
    assert trace.results.decisions.outcomes == {"same node": 1, "no node fits": 1}


def test_gated_pods_neither_race_nor_wait() -> None:
    trace = Trace({"a": {"cpu": "4"}})
    trace.create("gated", "3", schedulingGates=[{"name": "later"}])
    trace.create("winner", "3")
    trace.bind("winner", "a")
    trace.at(30)

    assert races_of(trace).contested == 0
    assert trace.results.waiting.pods == 1
    assert trace.results.waiting.waited == 0


def test_a_race_is_decided_by_all_filters() -> None:
    """The loser has anti-affinity to the winner, and much capacity is left."""
    trace = Trace({"a": {"cpu": "64"}})
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    trace.create("loser", "1", affinity=apart)
    trace.create("winner", "1", labels={"app": "db"})
    trace.bind("winner", "a")

    assert (races_of(trace).contested, races_of(trace).lost_last) == (1, 1)
