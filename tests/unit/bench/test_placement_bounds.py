"""Bounds of how evenly nodes can be used."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from bench.placement_bounds import annealed, instant_bound, use_of
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import SimulatedWorld
from unit.simulation.small import STEPS, world

_FIRST = 6


@lru_cache
def run() -> tuple[SimulatedWorld, Run]:
    of = world(1)
    return of, Simulation(of, POLICIES["default"], 1).run()


def tiny(wanted: list[float], nodes: int = 2) -> tuple[SimulatedWorld, Run]:
    """Return a world of nodes with 1,000 millicores and pods that last, all on the first node."""
    small = world()
    pods = len(wanted)
    of = SimulatedWorld(
        title="tiny",
        machines=(replace(small.machines[0], cpu=1000),) * nodes,
        workloads=(replace(small.workloads[0], cpu=1, memory=1),),
        workload=np.zeros(pods, np.intp),
        arrives=np.zeros(pods),
        lives=np.full(pods, np.inf),
        cpu=np.array([wanted], np.float32).T,
        memory=np.ones(pods),
    )
    zeros = np.zeros(pods)
    found = Run(
        "none", "tiny", 0, np.zeros((1, nodes)), zeros[:1], zeros[:1].astype(int), zeros.astype(int), zeros
    )
    return of, found


def test_the_use_by_the_own_nodes_is_that_of_the_run() -> None:
    of, found = run()

    assert use_of(of, found, found.node) == pytest.approx(found.cpu, abs=1e-3)


def test_no_policy_beats_the_bound() -> None:
    of, found = run()
    bound = instant_bound(of, found).std(axis=1)

    for policy in ("water-level", "least-pod-sums", "random"):
        cpu = Simulation(of, POLICIES[policy], 1).run().cpu
        assert (bound <= cpu.std(axis=1) + 1e-6).all()
    assert bound.shape == (STEPS,)


@pytest.mark.parametrize("seed", range(5))
def test_no_placement_of_a_few_pods_beats_the_bound(seed: int) -> None:
    wanted = np.random.default_rng(seed).pareto(1.0, 7).round(2) * 20
    of, found = tiny(wanted.tolist(), nodes=3)
    bound = instant_bound(of, found)

    demands = 100 * wanted / 1000
    least = min(
        np.bincount(nodes, demands, minlength=3).std() for nodes in product(range(3), repeat=len(wanted))
    )
    assert bound.std() <= least * (1 + 1e-6)
    assert bound.sum() == pytest.approx(demands.sum(), rel=1e-5)


def test_a_pod_that_wants_more_than_the_mean_has_a_node_of_its_own() -> None:
    of, found = tiny([600, 100, 100], nodes=3)

    assert instant_bound(of, found).tolist() == [pytest.approx([60, 10, 10])]


def test_nodes_of_several_sizes_have_no_such_bound() -> None:
    of, found = run()
    mixed = replace(of, machines=(replace(of.machines[0], cpu=8000), *of.machines[1:]))

    with pytest.raises(ValueError, match="the bound needs nodes of one size"):
        instant_bound(mixed, found)


def test_annealing_finds_the_even_placement() -> None:
    of, found = tiny([100, 100, 100, 300])

    node = annealed(of, found, first=0, sweeps=10)

    assert use_of(of, found, node)[0].tolist() == pytest.approx([30, 30])


def test_annealing_is_never_worse_than_its_start_and_keeps_requests() -> None:
    of, found = run()
    node = annealed(of, found, _FIRST, sweeps=5)

    before, after = (use_of(of, found, each)[_FIRST:].std(axis=1).mean() for each in (found.node, node))
    assert after < 0.9 * before
    requests = np.array([each.cpu for each in of.workloads])[of.workload]
    for instant in np.arange(STEPS) * 300.0:
        there = (found.bound <= instant) & (instant + 300 <= found.bound + of.lives)
        taken = np.bincount(node[there], requests[there], len(of.machines))
        assert (taken <= [machine.cpu for machine in of.machines]).all()
