"""The arithmetic over arrays, which decides as the whole scheduler does."""

from dataclasses import replace

import numpy as np
import pytest

from tidelock.simulation.array_scheduler import ArrayScheduler
from tidelock.simulation.cluster import EPOCH, node_of, pod_of
from tidelock.simulation.engine import Run, Simulation, whole_scheduler
from tidelock.simulation.level_scorer import LevelScorer
from tidelock.simulation.measuring import (
    DEFAULT_METRICS,
    FAULTS,
    NO_FAULTS,
    SLOW_METRICS,
    MetricsFaults,
    MetricsTiming,
    Reading,
)
from tidelock.simulation.node_amounts import NodeAmounts
from tidelock.simulation.policies import POLICIES, SimulatedPolicy
from tidelock.simulation.world import Floats, SimulatedWorkload, SimulatedWorld
from tidelock.simulation.worlds import Setting, machine, synthetic_load, world_of
from unit.simulation.small import HOUR, world

_COVERED = [
    name
    for name, policy in POLICIES.items()
    if ArrayScheduler.covers(policy, NO_FAULTS) and not policy.for_arrays_only
]


def both(
    of: SimulatedWorld,
    policy: SimulatedPolicy,
    *,
    timing: MetricsTiming = SLOW_METRICS,
    faults: MetricsFaults = NO_FAULTS,
) -> tuple[Run, Run]:
    """Return the runs of both schedulers in one world, by arrays first."""
    assert ArrayScheduler.covers(policy, faults)
    schedulers = (ArrayScheduler(of, policy, 1), whole_scheduler(of, policy, 1))
    quick, whole = (
        Simulation(of, policy, 1, timing=timing, faults=faults, scheduler=each).run() for each in schedulers
    )
    return quick, whole


def mixed(steps: int = 24, nodes: int = 6) -> SimulatedWorld:
    """Return nodes of three sizes, with roll-outs and noise between replicas."""
    setting = Setting(
        nodes=nodes, cores=(8, 16, 32), workloads=2 * nodes, life=HOUR, noise=0.5, rollouts=3, steps=steps
    )
    return world_of("mixed", synthetic_load(100, steps, 3), setting, 3)


@pytest.mark.parametrize("policy", _COVERED)
def test_both_decide_alike(policy: str) -> None:
    quick, whole = both(world(), POLICIES[policy])

    assert np.array_equal(quick.node, whole.node)
    assert np.array_equal(quick.cpu, whole.cpu)


@pytest.mark.parametrize("policy", ["default", "shipped", "water-level", "water-level-nodes"])
def test_both_decide_alike_among_nodes_of_several_sizes(policy: str) -> None:
    quick, whole = both(mixed(), POLICIES[policy])

    assert np.array_equal(quick.node, whole.node)


def test_both_decide_alike_by_frequent_measurements() -> None:
    quick, whole = both(mixed(16), POLICIES["shipped"], timing=DEFAULT_METRICS)

    assert np.array_equal(quick.node, whole.node)


def test_both_decide_alike_by_stale_measurements() -> None:
    quick, whole = both(mixed(16), POLICIES["shipped"], timing=replace(SLOW_METRICS, lag=1800))

    assert np.array_equal(quick.node, whole.node)


@pytest.mark.parametrize("fault", ["down", "ahead", "behind"])
def test_both_decide_alike_while_measurements_fail(fault: str) -> None:
    faults = MetricsFaults(down=(HOUR, 1.5 * HOUR)) if fault == "down" else FAULTS[fault]
    quick, whole = both(world(), POLICIES["water-level-nodes"], faults=faults)

    assert np.array_equal(quick.node, whole.node)


def test_both_decide_alike_within_limits_of_use() -> None:
    policy = POLICIES["water-level"]
    limits = {"overloadLimits": {"cpuPercent": 35}}
    limited = replace(policy, water_level={**(policy.water_level or {}), **limits})
    quick, whole = both(mixed(), limited)

    assert np.array_equal(quick.node, whole.node)
    assert not np.array_equal(quick.node, both(mixed(), policy)[0].node)


def test_both_decide_alike_while_tides_come_and_go() -> None:
    policy = POLICIES["shipped"]
    tide = {
        "name": "ebb",
        "start": "20 8 * * *",
        "end": "40 9 * * *",
        "target": {"mode": "Static", "percent": 70},
        "overloadLimits": {"cpuPercent": 35},
        "weightPercent": 50,
    }
    tidal = replace(policy, water_level={"tides": [tide]})
    quick, whole = both(mixed(), tidal)

    assert np.array_equal(quick.node, whole.node)
    assert not np.array_equal(quick.node, both(mixed(), policy)[0].node)


def test_pods_wait_alike_for_capacity() -> None:
    setting = Setting(nodes=12, cores=(3, 5), workloads=12, fill=0.97, life=HOUR, steps=24)
    of = world_of("tight", synthetic_load(100, 24, 3), setting, 3)
    quick, whole = both(of, POLICIES["default"])

    assert whole.pending.any()
    assert np.array_equal(quick.node, whole.node)
    assert np.array_equal(quick.bound, whole.bound)


@pytest.mark.parametrize("fault", ["nan", "missing", "restart"])
def test_other_faults_need_the_whole_scheduler(fault: str) -> None:
    assert not ArrayScheduler.covers(POLICIES["water-level"], FAULTS[fault])
    assert not ArrayScheduler.covers(POLICIES["load-aware"], NO_FAULTS)


def test_a_policy_with_foresight_goes_by_the_use_that_is_to_come() -> None:
    """Two pods swap their loads after an hour, and a third pod arrives shortly before."""
    hour, size = 12, 8_000
    calm, busy = np.full(hour, 500.0), np.full(hour, 4_000.0)
    of = SimulatedWorld(
        title="swap",
        machines=(machine("node-0", 16), machine("node-1", 16)),
        workloads=tuple(SimulatedWorkload(f"app-{each}", 1_000, size, size) for each in range(3)),
        workload=np.arange(3),
        arrives=np.array([0.0, 0.0, HOUR - 10]),
        lives=np.full(3, np.inf),
        cpu=np.stack([np.concatenate(parts) for parts in ((calm, busy), (busy, calm), (busy, busy))]).astype(
            np.float32
        ),
        memory=np.zeros(3),
    )

    def beside(policy: str) -> int:
        """Return which of the two the third one joins."""
        nodes = Simulation(of, POLICIES[policy], timing=DEFAULT_METRICS).run().node.tolist()
        return int(nodes[:2].index(nodes[2]))

    assert [beside("water-level"), beside("least-pod-sums")] == [0, 0]
    assert [beside("water-level-foreseen"), beside("least-pod-sums-foreseen")] == [1, 1]


@pytest.mark.parametrize(("noise", "least", "most"), [(0.0, 0.0, 0.0), (1.0, 0.3, 0.7), (100.0, 0.9, 1.0)])
def test_a_learned_weight_is_the_part_of_use_that_requests_do_not_explain(
    noise: float, least: float, most: float
) -> None:
    """The use of a pod is its request, with noise as a multiple of the requests' deviation."""
    of = mixed(nodes=12)
    nodes, pods = [node_of(each) for each in of.machines], [pod_of(each) for each in of.workloads]
    rng, running = np.random.default_rng(1), np.arange(60)
    requested = np.array([[pod.requests[name] for name in ("cpu", "memory")] for pod in pods])[
        of.workload[running]
    ]
    use = requested + noise * rng.normal(0, 1, (60, 2)) * requested.std(axis=0)
    reading = Reading(
        at=60.0,
        nodes=np.arange(12),
        use=np.broadcast_to(rng.uniform(20, 60, 12), (3, 3, 2, 12)),
        pods=running,
        of_pods=np.repeat(use[:, np.newaxis], 3, axis=1),
        workloads=np.full((len(pods), 3, 2), np.nan),
    )

    def scores_of(policy: str) -> Floats:
        scorer = LevelScorer(of, POLICIES[policy], nodes, pods)
        for pod in range(30):
            scorer.place(pod, pod % 7, EPOCH)
        scorer.show(reading)
        scores = scorer.scores(0, EPOCH + 90, NodeAmounts(nodes, pods), np.arange(12))
        differences: Floats = scores - scores.mean()
        return differences

    learned, whole = scores_of("learned-weight"), scores_of("shipped")
    part = float(learned @ whole / (whole @ whole))
    assert learned == pytest.approx(part * whole, abs=1e-5)
    assert least - 1e-6 <= part <= most + 1e-6
