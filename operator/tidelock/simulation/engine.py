"""Simulation engine: pods arrive, a scheduler places them, they use resources, and end.

Time is a heap of events. The use of a node is the sum of the demands of its pods, up to its size. It is known
for every step of the world, as the average over the step.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Protocol

import numpy as np

from tidelock.simulation.array_scheduler import ArrayScheduler
from tidelock.simulation.cluster import SimulatedCluster, VirtualClock
from tidelock.simulation.measuring import (
    NO_FAULTS,
    SLOW_METRICS,
    MetricsFaults,
    MetricsTiming,
    Reading,
    SimulatedMetrics,
)
from tidelock.simulation.policies import SimulatedPolicy
from tidelock.simulation.recent_use import RecentUse
from tidelock.simulation.world import STEP, Floats, Indices, SimulatedWorld

Progress = Callable[[int], None]
"""Called with the number of steps that have been simulated."""

NOT_PLACED = -1

_CORE = 1000.0


class _Kind(IntEnum):
    """Kinds of events, where smaller ones come first at the same instant."""

    END = 0
    MEASURE = 1
    SHOW = 2
    RESTART = 3
    ARRIVE = 4
    WAKE = 5


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a world with N nodes, T steps and P pods.

    Attributes:
        policy: name of the policy.
        title: name of the world.
        seed: seed of the policy.
        cpu: use of each node in each step, in percent of its size (T x N).
        unserved: part of the cpu that the pods on nodes wanted in each step and did not get (T).
        pending: how many pods had no node at the end of each step (T).
        node: node of each pod, the last one if it moved, or NOT_PLACED (P).
        bound: second at which it was bound, or infinity (P).
        step: seconds of a step.

    """

    policy: str
    title: str
    seed: int
    cpu: Floats
    unserved: Floats
    pending: Indices
    node: Indices
    bound: Floats
    step: float = STEP


class Scheduler(Protocol):
    """A scheduler for a world.

    Attributes:
        clock: the time of the world, which the simulation sets.
        means_only: whether it needs only the means of nodes, and no other statistics.

    """

    clock: VirtualClock
    means_only: bool

    def restart(self) -> None:
        """Forget all that a new process would not know."""

    def show(self, reading: Reading) -> None:
        """Take over a reading of the metrics."""

    def add_pod(self, number: int) -> None:
        """Create a pod of the world."""

    def end_pod(self, number: int) -> None:
        """Delete a pod."""

    def decide(self) -> Iterator[tuple[int, int]]:
        """Decide all that is due now, and yield each pod that was bound or moved, with its node's row."""

    def next_due(self) -> float | None:
        """Second of the world at which a decision is due without any event, or None for never."""


def whole_scheduler(world: SimulatedWorld, policy: SimulatedPolicy, seed: int = 0) -> SimulatedCluster:
    """Return the scheduler that serves a real cluster, with the API objects of a world."""
    return SimulatedCluster(world, policy.configuration(seed), policy.water_level)


def quickest_scheduler(
    world: SimulatedWorld, policy: SimulatedPolicy, seed: int = 0, faults: MetricsFaults = NO_FAULTS
) -> Scheduler:
    """Return the arithmetic of the scheduler over arrays if that covers the policy, or else the whole one."""
    if ArrayScheduler.covers(policy, faults):
        return ArrayScheduler(world, policy, seed)
    return whole_scheduler(world, policy, seed)


class Simulation:
    """One world under one policy."""

    def __init__(
        self,
        world: SimulatedWorld,
        policy: SimulatedPolicy,
        seed: int = 0,
        *,
        timing: MetricsTiming = SLOW_METRICS,
        faults: MetricsFaults = NO_FAULTS,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Take the parts of a simulation. By default the quickest scheduler decides.

        Raises:
            ValueError: a step of the world has no whole number of intervals.

        """
        self._world = world
        self._policy = policy
        self._seed = seed
        self._timing = timing
        self._faults = faults
        self._scheduler = scheduler or quickest_scheduler(world, policy, seed, faults)
        self._metrics = SimulatedMetrics(
            world, faults, np.random.default_rng(seed), timing, means_only=self._scheduler.means_only
        )
        self._capacity = np.array([machine.cpu for machine in world.machines], np.float64)
        self._memory = np.array([machine.memory for machine in world.machines], np.float64)
        self._node = np.full(world.pods, NOT_PLACED, np.intp)
        self._bound = np.full(world.pods, np.inf)
        self._ended = np.full(world.pods, np.inf)
        self._waiting = 0
        self._cpu = np.zeros((world.steps, len(world.machines)))
        self._wanted, self._lost = np.zeros(world.steps), np.zeros(world.steps)
        self._pending = np.zeros(world.steps, np.intp)
        self._intervals = timing.intervals(world.step)
        self._recent = RecentUse(timing.intervals(timing.span), world.pods, len(world.machines))
        self._readings: deque[Reading] = deque()
        self._events: list[tuple[float, _Kind, int, int]] = []
        self._sequence = count()
        self._wake_at = np.inf

    def run(self, progress: Progress | None = None) -> Run:
        """Simulate the world to its end."""
        world, interval = self._world, self._timing.interval
        for pod, instant in enumerate(world.arrives.tolist()):
            self._at(instant, _Kind.ARRIVE, pod)
        for number in range(world.steps * self._intervals):
            self._at((number + 1) * interval, _Kind.MEASURE, number)
        for instant in self._faults.restarts:
            self._at(instant, _Kind.RESTART, 0)
        end = world.steps * world.step
        while self._events and self._events[0][0] <= end:
            instant, kind, _, subject = heapq.heappop(self._events)
            self._scheduler.clock.elapsed = instant
            self._happen(kind, subject, instant)
            if kind is _Kind.MEASURE and progress is not None and (subject + 1) % self._intervals == 0:
                progress((subject + 1) // self._intervals)
            self._decide(instant)
        return Run(
            policy=self._policy.name,
            title=world.title,
            seed=self._seed,
            cpu=self._cpu,
            unserved=self._lost / np.maximum(self._wanted, 1),
            pending=self._pending,
            node=self._node,
            bound=self._bound,
            step=world.step,
        )

    def _at(self, instant: float, kind: _Kind, subject: int) -> None:
        heapq.heappush(self._events, (instant, kind, next(self._sequence), subject))

    def _happen(self, kind: _Kind, subject: int, instant: float) -> None:
        match kind:
            case _Kind.ARRIVE:
                self._waiting += 1
                self._scheduler.add_pod(subject)
            case _Kind.END:
                self._ended[subject] = instant
                self._scheduler.end_pod(subject)
            case _Kind.MEASURE:
                self._measure(subject)
            case _Kind.SHOW:
                reading = self._readings.popleft()
                if self._metrics.readable(instant):
                    self._scheduler.show(reading)
            case _Kind.RESTART:
                self._scheduler.restart()
            case _Kind.WAKE:
                self._wake_at = np.inf

    def _decide(self, instant: float) -> None:
        for pod, row in self._scheduler.decide():
            if self._node[pod] != NOT_PLACED:  # it moves, with the rest of its life
                self._node[pod] = row
                continue
            self._waiting -= 1
            self._node[pod] = row
            self._bound[pod] = instant
            self._at(instant + float(self._world.lives[pod]), _Kind.END, pod)
        due = self._scheduler.next_due()
        if due is not None and due < self._wake_at:
            self._wake_at = due
            self._at(due, _Kind.WAKE, 0)

    def _measure(self, number: int) -> None:
        """Compute the use in an interval that has just ended, and take a sample of the last intervals."""
        interval = self._timing.interval
        start, end, step = number * interval, (number + 1) * interval, number // self._intervals
        running = np.flatnonzero((self._bound < end) & (self._ended > start))
        ran = np.minimum(self._ended[running], end) - np.maximum(self._bound[running], start)
        share, wanted = ran / interval, self._world.cpu[running, step].astype(np.float64)
        nodes = self._node[running]
        total = np.bincount(nodes, share * wanted, len(self._capacity))
        granted = np.minimum(self._capacity / np.maximum(total, 1), 1)  # a full node slows all its pods down
        cpu = 100 * total * granted / self._capacity
        self._cpu[step] += cpu / self._intervals
        self._wanted[step] += total.sum()
        self._lost[step] += (total * (1 - granted)).sum()
        self._pending[step] = self._waiting
        if not self._policy.measures:
            return
        used = np.bincount(nodes, share * self._world.memory[running], len(self._memory))
        memory = 100 * np.minimum(used / self._memory, 1)
        cores = wanted * granted[nodes] / _CORE
        recent = self._recent.added(number, cpu, memory, running, cores, ran)
        reading = self._metrics.sample(end, recent.cpu, recent.memory, running, recent.of_pods, recent.ran)
        if reading is not None:
            self._readings.append(reading)
            self._at(end + self._timing.lag, _Kind.SHOW, number)
