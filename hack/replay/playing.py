"""A replay of the load of worlds, step by step, which records the results."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.exporter import Exporter
from replay.pool import Placement, Pool
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Floats


@dataclass
class Course:
    """The history of a pool over T steps.

    Attributes:
        pool: pool of this history.
        cpu: percent of each node in each step so far, from the use of its pods. T x N.
        target: target of its WaterLevel beside each step in percent, or NaN if there was none.
        pending: number of pods without a node. T.
        placement: placement of the pods in the last step.

    """

    pool: Pool
    cpu: list[Floats] = field(default_factory=list)
    target: list[float] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    placement: Placement | None = None


AtStep = Callable[[int, Sequence[Course]], None]
"""Called after each step with its number."""


async def play(
    courses: Sequence[Course],
    exporter: Exporter,
    seconds: float,
    target: Callable[[Pool], float],
    at_step: AtStep,
) -> None:
    """Replay the load of all pools once. A step lasts so many seconds.

    The exporter shows each step as it begins, with the pods of that time.
    """
    clock = asyncio.get_running_loop().time
    due = clock()
    for step in range(courses[0].pool.world.steps):
        for timer in courses:
            pool, placement = timer.pool, await timer.pool.placement()
            use = pool.use(placement, step)
            pool.tell(exporter, placement, use)
            timer.cpu.append(use.cpu)
            timer.target.append(target(pool))
            timer.pending.append(int((placement.node == NOT_PLACED).sum()))
            timer.placement = placement
        at_step(step, courses)
        due = max(due + seconds, clock())
        await asyncio.sleep(due - clock())
