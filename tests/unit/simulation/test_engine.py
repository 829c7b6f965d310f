"""Whole simulations, small and seeded."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest

from tidelock.plugins.registry import BUILTINS
from tidelock.simulation.engine import NOWHERE, Simulation
from tidelock.simulation.policies import POLICIES, Policy
from tidelock.simulation.results import figures
from tidelock.simulation.world import STEP, World
from unit.simulation.small import STEPS, play, world


@pytest.mark.parametrize("policy", ["default", "random", "water-level"])
def test_one_seed_gives_one_result(policy: str) -> None:
    one, same = (play(policy, seed=5) for _ in range(2))

    assert np.array_equal(one.node, same.node)
    assert np.array_equal(one.cpu, same.cpu)


def test_the_seed_matters_to_what_is_random() -> None:
    assert not np.array_equal(play("random", seed=1).node, play("random", seed=2).node)


def test_no_node_is_given_more_than_it_has() -> None:
    of = world()
    run = play("water-level", of)
    requests = np.array([each.cpu for each in of.workloads])[of.workload]
    assert (run.node != NOWHERE).all()

    for instant in np.arange(STEPS) * STEP:
        there = (run.bound <= instant) & (instant < run.bound + of.lives)
        taken = np.bincount(run.node[there], requests[there], len(of.machines))
        assert (taken <= [machine.cpu for machine in of.machines]).all()


def test_use_is_what_the_pods_of_a_node_use() -> None:
    of = world()
    run = play("default", of)
    step = 30
    start, end = step * STEP, (step + 1) * STEP
    share = np.clip(np.minimum(run.bound + of.lives, end) - np.maximum(run.bound, start), 0, None) / STEP
    wanted = np.bincount(run.node, share * of.cpu[:, step], len(of.machines))

    assert run.cpu[step] == pytest.approx(np.minimum(wanted / 160, 100))


def test_the_plugins_that_are_left_out_have_nothing_to_say() -> None:
    class Whole(Policy):
        """A policy with all plugins of the default profile."""

        def configuration(self, seed: int, telling: frozenset[str] = frozenset()) -> object:  # type: ignore[override]
            names = frozenset(plugin.name for plugin in BUILTINS.defaults) - {"WaterLevelBalance"}
            return Policy.configuration(self, seed, telling=names)

    of = world(steps=24)
    few, all_of_them = (
        Simulation(of, kind("default", "", by_requests=True, measures=False)).run()
        for kind in (Policy, Whole)
    )

    assert np.array_equal(few.node, all_of_them.node)


def test_measured_use_spreads_better_than_requests_and_requests_better_than_chance() -> None:
    spreads = [
        np.mean([figures(play(policy, world(seed)), 3600.0).spread for seed in range(3)])
        for policy in ("water-level", "default", "random")
    ]

    assert all(better < worse for better, worse in pairwise(spreads))


def test_a_pod_waits_for_room_and_gets_it() -> None:
    of = full_world()
    run = Simulation(of, POLICIES["default"]).run()

    assert run.node.tolist() == [0, 0]
    assert run.bound.tolist() == [0.0, 700.0]
    assert run.pending.tolist() == [1, 1, 0, 0]


def test_a_pod_that_fits_nowhere_is_told_as_pending() -> None:
    of = replace(full_world(), lives=np.array([inf, inf]))
    run = Simulation(of, POLICIES["default"]).run()

    assert run.node.tolist() == [0, NOWHERE]
    assert run.pending.tolist() == [1, 1, 1, 1]


def full_world() -> World:
    """Give a node with room for one pod, and two pods; the first lives for 700 seconds."""
    small = world()
    return World(
        title="full",
        machines=(replace(small.machines[0], cpu=1500),),
        workloads=(replace(small.workloads[0], cpu=1000, memory=1),),
        workload=np.zeros(2, np.intp),
        arrives=np.array([0.0, 100.0]),
        lives=np.array([700.0, inf]),
        cpu=np.full((2, 4), 500, np.float32),
        memory=np.ones(2),
    )
