"""A replay of the load of worlds, step by step, which records the results."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from replay.exporter import Exporter
from replay.pool import Placement, Pool, loads, memory_use
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.world import Floats, SimulatedWorld


class Stay(NamedTuple):
    """The life of a pod in a replay: its workload, and the first and the last step that had it on a node."""

    workload: int
    first: int
    last: int


@dataclass
class Course:
    """The history of a pool over T steps.

    Attributes:
        pool: pool of this history.
        cpu: percent of each node in each step so far, from the use of its pods. T x N.
        target: target of its WaterLevel beside each step in percent, or NaN if there was none.
        pending: number of pods without a node. T.
        placement: placement of the pods in the last step.
        stays: the life of each pod so far, by its name.
        began, ended: seconds of the epoch at which the first step and the last one were added.

    """

    pool: Pool
    cpu: list[Floats] = field(default_factory=list)
    target: list[float] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    placement: Placement | None = None
    stays: dict[str, Stay] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0

    def add(self, placement: Placement, cpu: Floats, target: float) -> None:
        """Add a step."""
        step = len(self.cpu)
        self.ended = time.time()
        self.began = self.began or self.ended
        for name, workload, node in zip(*map(list, placement), strict=True):
            if node != NOT_PLACED:
                first = self.stays[name].first if name in self.stays else step
                self.stays[name] = Stay(int(workload), first, step)
        self.cpu.append(cpu)
        self.target.append(target)
        self.pending.append(int((placement.node == NOT_PLACED).sum()))
        self.placement = placement

    @property
    def seconds(self) -> float:
        """The mean duration of a step, which is longer than planned on a busy machine."""
        return round((self.ended - self.began) / (len(self.cpu) - 1), 1)

    def lived(self, lead: int = 0) -> SimulatedWorld:
        """Return a world of the pods as they came and went, in the time of the replay.

        The world begins some steps before the first pods, and those of the last step stay.
        """
        world, steps, seconds = self.pool.world, len(self.cpu), self.seconds
        workload, first, last = np.array(list(self.stays.values()), np.intp).T
        return replace(
            world,
            workload=workload,
            arrives=(lead + first) * seconds,
            lives=np.where(last == steps - 1, np.inf, (last + 1 - first) * seconds),
            cpu=np.pad(loads(world)[workload, :steps], ((0, 0), (lead, 0))).astype(np.float32),
            memory=memory_use(world)[workload],
            step=seconds,
        )


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
            timer.add(placement, use.cpu, target(pool))
        at_step(step, courses)
        due = max(due + seconds, clock())
        await asyncio.sleep(due - clock())
