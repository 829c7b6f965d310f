"""The effect of failing measurements, which is never worse than the default profile."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean

import numpy as np
import pytest

from tidelock.simulation.engine import NOT_PLACED, Run, Simulation
from tidelock.simulation.measuring import FAULTS, MetricsFaults
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import figures
from tidelock.simulation.world import STEP
from tidelock.simulation.worlds import burst_world
from unit.simulation.small import HOUR, simulate, world

_TO_HERE = {
    **FAULTS,
    "down": MetricsFaults(down=(HOUR, 1.5 * HOUR)),
    "restart": MetricsFaults(restarts=(HOUR, 1.25 * HOUR, 2 * HOUR)),
}
"""The faults of a day, moved into the hours of a small world."""

# In one small world the ratio of two policies is anywhere between 0.7 and 1.2.
_SEEDS = range(1, 5)

_CASES = [("water-level", fault) for fault in FAULTS if fault != "none"]
_CASES += [("water-level-nodes", fault) for fault in ("down", "ahead")]
# Constant slopes are worse than the default in NodeWindows if half of the nodes are never measured.
_PACKING_NODES = "water-level-nodes-packing"
_CASES += [(_PACKING_NODES, "missing")]


@pytest.fixture(autouse=True)
def _packing_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = POLICIES["water-level-nodes"]
    args = {**nodes.args, "scoring": "TargetLoadPacking"}
    monkeypatch.setitem(POLICIES, _PACKING_NODES, replace(nodes, name=_PACKING_NODES, args=args))


@pytest.mark.parametrize(("policy", "fault"), _CASES)
def test_a_fault_is_never_worse_than_placement_by_requests_and_all_pods_are_placed(
    policy: str, fault: str
) -> None:
    faulty = [simulate(policy, seed, _TO_HERE[fault]) for seed in _SEEDS]
    default = [simulate("default", seed) for seed in _SEEDS]

    assert all((run.node != NOT_PLACED).all() and not run.pending.any() for run in faulty)
    assert _mean_spread(faulty) <= 1.05 * _mean_spread(default)


@pytest.mark.parametrize("policy", ["water-level", "water-level-nodes"])
def test_nodes_without_measurements_are_not_read_as_idle(policy: str) -> None:
    of, seed, faults = world(1), 1, FAULTS["missing"]
    run = simulate(policy, seed, faults)
    missing = np.random.default_rng(seed).random(len(of.machines)) < faults.missing
    assert 0 < missing.sum() < len(missing)

    late = of.arrives > HOUR
    got = np.bincount(run.node[late], minlength=len(of.machines))

    assert got[missing].mean() < 1.5 * got[~missing].mean()


@pytest.mark.parametrize("policy", ["water-level", "water-level-nodes"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_burst_with_frozen_metrics_is_spread_evenly(policy: str, *, apart: bool) -> None:
    assert _most_of_a_burst(policy, apart=apart) <= ceil(_REPLICAS / _NODES) + 1


def test_without_the_guard_a_burst_crowds_one_node() -> None:
    assert _most_of_a_burst("nodes-without-guard", apart=True) > ceil(_REPLICAS / _NODES) + 1


def _mean_spread(runs: Sequence[Run]) -> float:
    return fmean(figures(run, HOUR).spread for run in runs)


_NODES, _REPLICAS = 8, 60


def _most_of_a_burst(policy: str, *, apart: bool) -> int:
    """Let pods arrive just after the metrics have frozen, and return the most pods of one node."""
    at, steps = 6 * STEP, 7
    of = burst_world(_NODES, _REPLICAS, at=at, steps=steps, apart=apart)
    run = Simulation(of, POLICIES[policy], faults=MetricsFaults(down=(at, steps * STEP))).run()
    got = np.bincount(run.node[of.workload > 0], minlength=_NODES)
    assert got.sum() == _REPLICAS
    return int(got.max())
