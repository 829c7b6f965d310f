from math import inf

import numpy as np
import pytest

from replay.playing import Course
from replay.pool import Placement, Pool
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Machine, SimulatedWorkload, SimulatedWorld
from unit.load.patches import PatchApi


@pytest.fixture
def course() -> Course:
    """Return the course of two Deployments, of which one has a pod that is replaced after two steps."""
    world = SimulatedWorld(
        title="small",
        machines=(Machine("a", 2000, 2**33),),
        workloads=(SimulatedWorkload("web", 500, 2**30), SimulatedWorkload("db", 100, 2**30)),
        workload=np.array([0, 1]),
        arrives=np.zeros(2),
        lives=np.full(2, inf),
        cpu=np.array([[100, 200, 300, 400], [10, 20, 30, 40]], np.float32),
        memory=np.array([1e9, 2e9]),
    )
    made = Course(Pool(PatchApi(), world, "pool"))
    for names in (("db-1", "web-1"), ("db-1", "web-1"), ("db-1", "web-2"), ("db-1", "web-2")):
        placement = Placement((*names, "web-0"), np.array([1, 0, 0]), np.array([0, 0, NOT_PLACED]))
        made.add(placement, np.array([50.0]), 40.0)
    made.began, made.ended = 1000.0, 1012.04
    return made


def test_a_course_is_a_world_of_the_pods_that_lived(course: Course) -> None:
    world = course.lived()

    assert (world.step, world.steps) == (4.0, 4)
    assert world.workload.tolist() == [1, 0, 0]
    assert world.arrives.tolist() == [0.0, 0.0, 8.0]
    assert world.lives.tolist() == [inf, 8.0, inf]
    assert world.cpu[:, 3].tolist() == [40.0, 400.0, 400.0]
    assert world.memory.tolist() == [2e9, 1e9, 1e9]


def test_pods_without_a_node_are_counted(course: Course) -> None:
    assert course.pending == [1, 1, 1, 1]


def test_a_world_can_begin_before_its_pods(course: Course) -> None:
    world = course.lived(lead=2)

    assert world.steps == 6
    assert world.arrives.tolist() == [8.0, 8.0, 16.0]
    assert world.cpu[1].tolist() == [0.0, 0.0, 100.0, 200.0, 300.0, 400.0]
