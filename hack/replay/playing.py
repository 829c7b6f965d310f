"""Plays the load of worlds step by step, and keeps what came of it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.exporter import Exporter
from replay.pool import Placement, Pool
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Floats


@dataclass
class Course:
    """What a pool went through; T steps.

    Attributes:
        pool: which one.
        cpu: percent of each node in each step so far, by what its pods use; T x N.
        target: water line of its WaterLevel beside each step, in percent; NaN where there was none.
        pending: how many pods had no node; T.
        placement: where the pods were in the last step.

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
    """Play the load of all pools once; a step lasts so many seconds.

    The exporter tells of each step as it begins, with the pods as they are then.
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
