from math import inf

import numpy as np
import pytest

from bench.water import Lives
from replay.exporter import Exporter
from replay.pool import Placement, Pool
from tidelock.simulation.engine import NOT_PLACED, Simulation
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import Machine, SimulatedWorkload, SimulatedWorld
from unit.load.patches import PatchApi

GIBI = 2**30


@pytest.fixture
def pool() -> Pool:
    """Return two nodes and four pods of two Deployments, with more use than capacity on one node."""
    world = SimulatedWorld(
        title="small",
        machines=(Machine("a", 2000, 8 * GIBI), Machine("b", 4000, 8 * GIBI)),
        workloads=tuple(SimulatedWorkload(name, 500, GIBI, 4000, GIBI) for name in ("web", "db")),
        workload=np.array([0, 1, 0, 1]),
        arrives=np.zeros(4),
        lives=np.full(4, inf),
        cpu=np.array([[600, 900], [1800, 1200]] * 2, np.float32),
        memory=np.array([GIBI, 2 * GIBI] * 2, np.float64),
    )
    return Pool(PatchApi(), world, "pool")


def test_use_is_the_same_as_in_the_simulator_for_the_same_placement(pool: Pool) -> None:
    run = Simulation(pool.world, POLICIES["default"]).run()
    use = pool.use(Placement(("p0", "p1", "p2", "p3"), pool.world.workload, run.node), 1)

    assert use.cpu.tolist() == pytest.approx(run.cpu[1].tolist())


def test_pods_of_a_full_node_share_its_capacity_and_unplaced_pods_use_none(pool: Pool) -> None:
    placement = Placement(("p0", "p1", "p2", "p3"), np.array([0, 1, 1, 0]), np.array([0, 0, 1, NOT_PLACED]))
    use = pool.use(placement, 0)

    assert use.cpu.tolist() == pytest.approx([100, 45])
    assert use.memory.tolist() == pytest.approx([37.5, 25])
    assert use.cores.tolist() == pytest.approx([0.5, 1.5, 1.8, 0])


def test_the_exporter_replaces_only_the_values_of_its_pool(pool: Pool) -> None:
    exporter = Exporter("nowhere", nodes={"other-a": (0.1, 0.1)}, pods={("other", "p"): (1.0, 1.0)})
    placement = Placement(("p0", "p1"), np.array([0, 1]), np.array([0, NOT_PLACED]))
    for step in (0, 1):
        pool.tell(exporter, placement, pool.use(placement, step))

    assert exporter.nodes == {"other-a": (0.1, 0.1), "pool-a": (0.45, 0.125), "pool-b": (0, 0)}
    assert exporter.pods == {("other", "p"): (1.0, 1.0), ("pool", "p0"): (0.9, GIBI)}


def test_pods_end_after_their_lifetime(pool: Pool) -> None:
    lives = Lives(pool, 100.0, np.random.default_rng(0))

    assert lives.due(["p0", "p1"], 0.0) == []
    assert lives.due(["p0", "p1", "p2"], 100.0) == ["p0", "p1"]
    assert lives.due(["p2"], 149.0) == []
    assert lives.due(["p2"], 250.0) == ["p2"]
