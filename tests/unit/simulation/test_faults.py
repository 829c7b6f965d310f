"""What is left of the effect when measurements fail: never less than the default profile gives."""

from math import ceil

import numpy as np
import pytest

from tidelock.simulation.engine import NOWHERE, Simulation
from tidelock.simulation.measuring import FAULTS, Faults
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import figures
from tidelock.simulation.world import STEP
from tidelock.simulation.worlds import burst_world
from unit.simulation.small import STEPS, play, world

_HOUR = 3600.0

_TO_HERE = {
    **FAULTS,
    "down": Faults(down=(1.5 * _HOUR, 2 * _HOUR)),
    "restart": Faults(restarts=(_HOUR, 1.5 * _HOUR, 2.5 * _HOUR)),
}
"""The faults of a day, brought into the four hours of a small world."""


@pytest.mark.parametrize("policy", ["water-level", "water-level-nodes"])
@pytest.mark.parametrize("fault", sorted(_TO_HERE))
def test_a_fault_never_makes_it_worse_than_requests_and_all_pods_are_placed(policy: str, fault: str) -> None:
    faulty = [play(policy, world(seed), faults=_TO_HERE[fault]) for seed in range(2)]
    default = [play("default", world(seed)) for seed in range(2)]

    assert all((run.node != NOWHERE).all() for run in faulty)
    assert all(not run.pending.any() for run in faulty)
    spread, limit = (np.mean([figures(run, _HOUR).spread for run in runs]) for runs in (faulty, default))
    assert spread <= 1.05 * limit


@pytest.mark.parametrize("policy", ["water-level", "water-level-nodes"])
def test_nodes_without_measurements_are_not_read_as_idle(policy: str) -> None:
    of = world()
    faults = Faults(missing=0.5)
    run = play(policy, of, faults=faults)
    missing = np.random.default_rng(0).random(len(of.machines)) < faults.missing
    assert 0 < missing.sum() < len(missing)

    late = of.arrives > _HOUR
    got = np.bincount(run.node[late], minlength=len(of.machines))

    assert got[missing].mean() < 1.5 * got[~missing].mean()


@pytest.mark.parametrize("policy", ["water-level", "water-level-nodes"])
def test_a_burst_with_frozen_metrics_is_shared_out_evenly(policy: str) -> None:
    nodes, replicas, at, steps = 8, 100, 6 * STEP, 8
    of = burst_world(nodes, replicas, at=at, steps=steps)
    run = Simulation(of, POLICIES[policy], faults=Faults(down=(at, steps * STEP))).run()

    got = np.bincount(run.node[of.workload == 1], minlength=nodes)

    assert got.sum() == replicas
    assert got.max() <= ceil(replicas / nodes) + 1


def test_a_burst_herds_without_the_guard() -> None:
    nodes, replicas, at, steps = 8, 40, 6 * STEP, 8
    of = burst_world(nodes, replicas, at=at, steps=steps)
    run = Simulation(of, POLICIES["plain-formula"], faults=Faults(down=(at, steps * STEP))).run()

    got = np.bincount(run.node[of.workload == 1], minlength=nodes)

    assert got.max() > ceil(replicas / nodes) + 1


def test_the_small_world_lasts_long_enough_for_its_faults() -> None:
    assert STEPS * STEP == 4 * _HOUR
