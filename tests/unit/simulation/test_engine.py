"""Whole simulations, small and seeded."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest

from tidelock.plugins.registry import BUILTINS
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from tidelock.simulation.engine import NOT_PLACED, Simulation, whole_scheduler
from tidelock.simulation.measuring import DEFAULT_METRICS
from tidelock.simulation.policies import POLICIES, TELLING
from tidelock.simulation.results import figures
from tidelock.simulation.world import STEP, SimulatedWorld
from unit.simulation.small import HOUR, STEPS, simulate, world


@pytest.mark.parametrize("policy", ["random", "water-level"])
def test_one_seed_gives_one_result(policy: str) -> None:
    one, same = (Simulation(world(), POLICIES[policy], 5).run() for _ in range(2))

    assert np.array_equal(one.node, same.node)
    assert np.array_equal(one.cpu, same.cpu)


def test_a_random_policy_depends_on_the_seed() -> None:
    one, other = (Simulation(world(), POLICIES["random"], seed).run() for seed in (1, 2))

    assert not np.array_equal(one.node, other.node)


@pytest.mark.parametrize("policy", ["default", "water-level"])
def test_shorter_steps_of_the_same_load_change_nothing(policy: str) -> None:
    of = world()
    minutes = replace(of, cpu=np.repeat(of.cpu, 5, axis=1), step=STEP / 5)

    long, short = (Simulation(each, POLICIES[policy], timing=DEFAULT_METRICS).run() for each in (of, minutes))

    assert np.array_equal(long.node, short.node)
    assert np.array_equal(long.bound, short.bound)
    assert np.allclose(long.cpu, short.cpu.reshape(len(long.cpu), 5, -1).mean(axis=1))


def test_a_step_is_a_whole_number_of_intervals() -> None:
    with pytest.raises(ValueError, match=r"^interval: 300 should divide 60 seconds"):
        Simulation(replace(world(), step=60.0), POLICIES["default"])


def test_no_node_is_overcommitted() -> None:
    of = world()
    run = simulate("water-level")
    requests = np.array([each.cpu for each in of.workloads])[of.workload]
    assert (run.node != NOT_PLACED).all()

    for instant in np.arange(STEPS) * STEP:
        there = (run.bound <= instant) & (instant < run.bound + of.lives)
        taken = np.bincount(run.node[there], requests[there], len(of.machines))
        assert (taken <= [machine.cpu for machine in of.machines]).all()


def test_the_use_of_a_node_is_the_sum_of_its_pods() -> None:
    of = world()
    run = simulate("default")
    step = 20
    start, end = step * STEP, (step + 1) * STEP
    share = np.clip(np.minimum(run.bound + of.lives, end) - np.maximum(run.bound, start), 0, None) / STEP
    wanted = np.bincount(run.node, share * of.cpu[:, step], len(of.machines))

    assert run.cpu[step] == pytest.approx(np.minimum(wanted / 160, 100))


def test_the_omitted_plugins_do_not_change_decisions() -> None:
    of, policy = world(steps=12), POLICIES["default"]
    everything = frozenset(plugin.name for plugin in BUILTINS.defaults) - {WaterLevelBalance.name}
    assert everything > TELLING
    nodes = [np.zeros(0, np.intp), np.zeros(0, np.intp)]

    for place, telling in enumerate((TELLING, everything)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidelock.simulation.policies.TELLING", telling)
            nodes[place] = Simulation(of, policy, scheduler=whole_scheduler(of, policy)).run().node

    assert np.array_equal(nodes[0], nodes[1])


def test_measured_use_spreads_better_than_requests_and_requests_better_than_chance() -> None:
    spreads = [figures(simulate(policy, 1), HOUR).spread for policy in ("water-level", "default", "random")]

    assert all(better < worse for better, worse in pairwise(spreads))


def test_a_pod_waits_for_capacity_and_gets_it() -> None:
    of = full_world()
    run = Simulation(of, POLICIES["default"]).run()

    assert run.node.tolist() == [0, 0]
    assert run.bound.tolist() == [0.0, 700.0]
    assert run.pending.tolist() == [1, 1, 0, 0]


def test_a_pod_that_fits_nowhere_counts_as_pending() -> None:
    of = replace(full_world(), lives=np.array([inf, inf]))
    run = Simulation(of, POLICIES["default"]).run()

    assert run.node.tolist() == [0, NOT_PLACED]
    assert run.pending.tolist() == [1, 1, 1, 1]


def full_world() -> SimulatedWorld:
    """Return a node with capacity for one pod, and two pods. The first one lives for 700 seconds."""
    small = world()
    return SimulatedWorld(
        title="full",
        machines=(replace(small.machines[0], cpu=1500),),
        workloads=(replace(small.workloads[0], cpu=1000, memory=1),),
        workload=np.zeros(2, np.intp),
        arrives=np.array([0.0, 100.0]),
        lives=np.array([700.0, inf]),
        cpu=np.full((2, 4), 500, np.float32),
        memory=np.ones(2),
    )


def test_demand_beyond_the_size_of_a_node_is_unserved() -> None:
    of = full_world()
    run = Simulation(replace(of, cpu=np.full((2, 4), 2000, np.float32)), POLICIES["default"]).run()

    assert run.unserved == pytest.approx(0.25)  # of 2,000 millicores on a node with 1,500
    assert run.cpu[0].tolist() == [100.0]
    assert not Simulation(of, POLICIES["default"]).run().unserved.any()
