"""A replay of the load of worlds, step by step, which records the results."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from random import Random

import numpy as np

from replay.exporter import Exporter
from replay.pool import Placement, Pool, loads, memory_use
from tidelock.kube.client import PODS
from tidelock.kube.watch import Reflector
from tidelock.model.pods import Pod, decode_pod
from tidelock.simulation.engine import NOT_PLACED
from tidelock.simulation.recording import RecordedWorld
from tidelock.simulation.world import Floats


@dataclass
class PodLifetime:
    """The lifetime of a bound pod, in seconds of the epoch. The end is infinite while the pod is there."""

    workload: int
    row: int
    created: float
    ended: float = inf


@dataclass
class PodLifetimes:
    """The lifetimes of a pool's pods by their names, as a watch reports them."""

    pool: Pool
    of: dict[str, PodLifetime] = field(default_factory=dict)
    _created: dict[str, float] = field(default_factory=dict)

    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Note when a pod was created, and its node."""
        del old
        name = new.meta.name
        created = self._created.setdefault(name, time.time())
        if new.node_name and name not in self.of:
            workload, row = self.pool.workload_of(new.meta.labels), self.pool.row_of(new.node_name)
            self.of[name] = PodLifetime(workload, row, created)

    def remove(self, last: Pod) -> None:
        """Note the time at which a pod was deleted, if it had been bound."""
        if last.meta.name in self.of:
            self.of[last.meta.name].ended = time.time()

    def synced(self) -> None:
        """Ignore the end of a list."""


@asynccontextmanager
async def watching(pool: Pool) -> AsyncIterator[PodLifetimes]:
    """Watch the pods of a pool while the context lasts."""
    lifetimes = PodLifetimes(pool)
    rng = Random()  # noqa: S311 -- it only spreads retries
    reflector = Reflector(pool.client, PODS, decode_pod, lifetimes, rng=rng, namespace=pool.name)
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced.wait()
        yield lifetimes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass
class PoolHistory:
    """The history of a pool over T steps.

    Attributes:
        lifetimes: that of each pod so far.
        cpu: percent of each node in each step so far, from the use of its pods. T x N.
        target: target of its WaterLevel beside each step in percent, or NaN if there was none.
        pending: number of pods without a node. T.
        placement: placement of the pods in the last step.
        began, ended: seconds of the epoch at which the first step and the last one were added.

    """

    lifetimes: PodLifetimes
    cpu: list[Floats] = field(default_factory=list)
    target: list[float] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    placement: Placement | None = None
    began: float = 0.0
    ended: float = 0.0

    @property
    def pool(self) -> Pool:
        """The pool of this history."""
        return self.lifetimes.pool

    def add(self, placement: Placement, cpu: Floats, target: float) -> None:
        """Add a step."""
        self.ended = time.time()
        self.began = self.began or self.ended
        self.cpu.append(cpu)
        self.target.append(target)
        self.pending.append(int((placement.node == NOT_PLACED).sum()))
        self.placement = placement

    @property
    def seconds(self) -> float:
        """The mean duration of a step, which is longer than planned on a busy machine."""
        return round((self.ended - self.began) / (len(self.cpu) - 1), 1)

    def recorded(self, lead: int = 0) -> RecordedWorld:
        """Return a world of the pods at the times at which they were created and deleted.

        A decision follows a creation within milliseconds. A binding is reported later, when the scheduler has
        already seen other deletions. The world begins some steps before the first step. Pods that were there
        still earlier come at its beginning, in their order. Nothing is used before the first step.
        """
        world, steps, seconds = self.pool.world, len(self.cpu), self.seconds
        start = self.began - lead * seconds
        lifetimes = sorted(self.lifetimes.of.values(), key=attrgetter("created"))
        workload, row = np.array([(lifetime.workload, lifetime.row) for lifetime in lifetimes], np.intp).T
        created, ended = np.array(
            [(max(lifetime.created - start, 0.0), lifetime.ended - start) for lifetime in lifetimes]
        ).T
        lived = replace(
            world,
            workload=workload,
            arrives=created,
            lives=ended - created,
            cpu=np.pad(loads(world)[workload, :steps], ((0, 0), (lead, 0))).astype(np.float32),
            memory=memory_use(world)[workload],
            step=seconds,
        )
        return RecordedWorld(lived, row, steady=True, remarks=[])


AtStep = Callable[[int, Sequence[PoolHistory]], None]
"""Called after each step with its number."""


async def replay(
    histories: Sequence[PoolHistory],
    exporter: Exporter,
    seconds: float,
    target: Callable[[Pool], Awaitable[float]],
    at_step: AtStep,
) -> None:
    """Replay the load of all pools once. A step lasts so many seconds.

    The exporter shows each step as it begins, with the pods of that time.
    """
    clock = asyncio.get_running_loop().time
    due = clock()
    for step in range(histories[0].pool.world.steps):
        for history in histories:
            pool, placement = history.pool, await history.pool.placement()
            use = pool.use(placement, step)
            pool.tell(exporter, placement, use)
            history.add(placement, use.cpu, await target(pool))
        at_step(step, histories)
        due = max(due + seconds, clock())
        await asyncio.sleep(due - clock())
