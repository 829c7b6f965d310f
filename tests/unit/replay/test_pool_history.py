from math import inf

import numpy as np
import pytest

from replay.pool import Placement, Pool
from replay.pool_history import PodLifetimes, PoolHistory
from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import Pod, PodSpec
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Machine, SimulatedWorkload, SimulatedWorld
from unit.load.patches import PatchApi


def pod(name: str, workload: str, node: str = "") -> Pod:
    return Pod(ObjectMeta(name, labels={"app": workload}), PodSpec(node_name=node))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of the replay, which tests set."""
    at = [1000.0]
    monkeypatch.setattr("replay.pool_history.time.time", lambda: at[0])
    return at


@pytest.fixture
def history(now: list[float]) -> PoolHistory:
    """Return the history of two Deployments on two nodes.

    A pod is replaced after two steps and a half, and goes to the other node. Another one is never bound.
    """
    world = SimulatedWorld(
        title="small",
        machines=(Machine("a", 2000, 2**33), Machine("b", 2000, 2**33)),
        workloads=(SimulatedWorkload("web", 500, 2**30), SimulatedWorkload("db", 100, 2**30)),
        workload=np.array([0, 1]),
        arrives=np.zeros(2),
        lives=np.full(2, inf),
        cpu=np.array([[100, 200, 300, 400], [10, 20, 30, 40]], np.float32),
        memory=np.array([1e9, 2e9]),
    )
    lifetimes = PodLifetimes(Pool(PatchApi(), world, "pool"))
    made = PoolHistory(lifetimes)
    now[0] = 993.0
    lifetimes.upsert(None, pod("web-1", "web"))
    lifetimes.upsert(None, pod("web-0", "web"))
    now[0] = 994.0
    lifetimes.upsert(None, pod("db-1", "db"))
    lifetimes.upsert(pod("db-1", "db"), pod("db-1", "db", "pool-a"))
    now[0] = 995.0
    lifetimes.upsert(pod("web-1", "web"), pod("web-1", "web", "pool-a"))
    for step in range(4):
        now[0] = 1000.0 + 4.01 * step
        placement = Placement(("db-1", "web-1", "web-0"), np.array([1, 0, 0]), np.array([0, 0, NOT_PLACED]))
        made.add(placement, np.array([50.0, 0.0]), 40.0)
    now[0] = 1010.0
    lifetimes.remove(pod("web-1", "web", "pool-a"))
    lifetimes.remove(pod("web-0", "web"))
    lifetimes.upsert(pod("web-2", "web"), pod("web-2", "web", "pool-b"))
    lifetimes.upsert(pod("web-2", "web", "pool-b"), pod("web-2", "web", "pool-b"))
    return made


def test_a_history_is_a_world_of_the_pods_that_lived(history: PoolHistory) -> None:
    past = history.recorded()
    world = past.world

    assert (world.step, world.steps) == (4.0, 4)
    assert world.workload.tolist() == [0, 1, 0]
    assert past.rows.tolist() == [0, 0, 1]
    assert world.arrives.tolist() == [0.0, 0.0, 10.0]
    assert world.lives.tolist() == [10.0, inf, inf]
    assert world.cpu[:, 3].tolist() == [400.0, 40.0, 400.0]
    assert world.memory.tolist() == [1e9, 2e9, 1e9]


def test_a_history_has_the_use_of_the_nodes_as_it_was(history: PoolHistory) -> None:
    cpu = history.recorded().as_it_was().cpu

    assert cpu[:, 0].tolist() == pytest.approx([5.5, 11.0, 9.0, 2.0])
    assert cpu[:, 1].tolist() == pytest.approx([0.0, 0.0, 7.5, 20.0])


def test_pods_without_a_node_are_counted(history: PoolHistory) -> None:
    assert history.pending == [1, 1, 1, 1]


def test_a_world_can_begin_before_its_steps(history: PoolHistory) -> None:
    world = history.recorded(lead=2).world

    assert world.steps == 6
    assert world.arrives.tolist() == [1.0, 2.0, 18.0]
    assert world.lives.tolist() == [17.0, inf, inf]
    assert world.cpu[0].tolist() == [0.0, 0.0, 100.0, 200.0, 300.0, 400.0]
