"""Simulation engine: pods arrive, the real scheduler places them, they use resources, and end.

Time is a heap of events. The use of a node is the sum of the demands of its pods, up to its size. It is known
for every step of five minutes, as the average over the step.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

import numpy as np

from tidelock.model.usage_annotations import NODE_LEVEL, encode_node_level
from tidelock.simulation.cluster import EPOCH, SimulatedCluster
from tidelock.simulation.measuring import LAG, NO_FAULTS, MetricsFaults, SimulatedMetrics
from tidelock.simulation.policies import SimulatedPolicy
from tidelock.simulation.world import STEP, Floats, Indices, SimulatedWorld

Progress = Callable[[int], None]
"""Called with the number of steps that have been played."""

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
        pending: how many pods had no node at the end of each step (T).
        node: node of each pod, or NOWHERE (P).
        bound: second at which it was bound, or infinity (P).

    """

    policy: str
    title: str
    seed: int
    cpu: Floats
    pending: Indices
    node: Indices
    bound: Floats


class Simulation:
    """One world under one policy."""

    def __init__(
        self,
        world: SimulatedWorld,
        policy: SimulatedPolicy,
        seed: int = 0,
        *,
        lag: float = LAG,
        faults: MetricsFaults = NO_FAULTS,
    ) -> None:
        """Create the cluster and its scheduler; `lag` is the delay of measurements in seconds."""
        self._world = world
        self._policy = policy
        self._seed = seed
        self._lag = lag
        self._faults = faults
        self._measurements = SimulatedMetrics(world, faults, np.random.default_rng(seed))
        self._cluster = SimulatedCluster(world, policy.configuration(seed), policy.water_level)
        self._row_of = {machine.name: row for row, machine in enumerate(world.machines)}
        self._capacity = np.array([machine.cpu for machine in world.machines], np.float64)
        self._memory = np.array([machine.memory for machine in world.machines], np.float64)
        self._node = np.full(world.pods, NOT_PLACED, np.intp)
        self._bound = np.full(world.pods, np.inf)
        self._ended = np.full(world.pods, np.inf)
        self._waiting = 0
        self._cpu = np.zeros((world.steps, len(world.machines)))
        self._pending = np.zeros(world.steps, np.intp)
        self._events: list[tuple[float, _Kind, int, int]] = []
        self._sequence = count()
        self._wake_at = np.inf

    def run(self, progress: Progress | None = None) -> Run:
        """Simulate the world to its end."""
        world = self._world
        for pod, instant in enumerate(world.arrives.tolist()):
            self._at(instant, _Kind.ARRIVE, pod)
        for step in range(world.steps):
            self._at((step + 1) * STEP, _Kind.MEASURE, step)
            if self._policy.measures:
                self._at((step + 1) * STEP + self._lag, _Kind.SHOW, step)
        for instant in self._faults.restarts:
            self._at(instant, _Kind.RESTART, 0)
        end = world.steps * STEP
        while self._events and self._events[0][0] <= end:
            instant, kind, _, subject = heapq.heappop(self._events)
            self._cluster.clock.elapsed = instant
            self._happen(kind, subject, instant)
            if kind is _Kind.MEASURE and progress is not None:
                progress(subject + 1)
            self._decide(instant)
        return Run(
            policy=self._policy.name,
            title=world.title,
            seed=self._seed,
            cpu=self._cpu,
            pending=self._pending,
            node=self._node,
            bound=self._bound,
        )

    def _at(self, instant: float, kind: _Kind, subject: int) -> None:
        heapq.heappush(self._events, (instant, kind, next(self._sequence), subject))

    def _happen(self, kind: _Kind, subject: int, instant: float) -> None:
        match kind:
            case _Kind.ARRIVE:
                self._waiting += 1
                self._cluster.add_pod(subject)
            case _Kind.END:
                self._ended[subject] = instant
                self._cluster.end_pod(subject)
            case _Kind.MEASURE:
                self._measure(subject)
            case _Kind.SHOW:
                self._show(subject, instant)
            case _Kind.RESTART:
                self._cluster.restart()
            case _Kind.WAKE:
                self._wake_at = np.inf

    def _decide(self, instant: float) -> None:
        for pod, node_name in self._cluster.decide():
            self._waiting -= 1
            self._node[pod] = self._row_of[node_name]
            self._bound[pod] = instant
            self._at(instant + float(self._world.lives[pod]), _Kind.END, pod)
        due = self._cluster.next_due()
        if due is not None and due < self._wake_at:
            self._wake_at = due
            self._at(due, _Kind.WAKE, 0)

    def _measure(self, step: int) -> None:
        """Compute the use in a step that has just ended."""
        start, end = step * STEP, (step + 1) * STEP
        running = np.flatnonzero((self._bound < end) & (self._ended > start))
        share = (np.minimum(self._ended[running], end) - np.maximum(self._bound[running], start)) / STEP
        wanted, nodes = self._world.cpu[running, step].astype(np.float64), self._node[running]
        total = np.bincount(nodes, share * wanted, len(self._capacity))
        granted = np.minimum(self._capacity / np.maximum(total, 1), 1)  # a full node slows all its pods down
        memory = np.bincount(nodes, share * self._world.memory[running], len(self._memory))
        self._cpu[step] = 100 * total * granted / self._capacity
        self._pending[step] = self._waiting
        if self._policy.measures:
            self._measurements.sample(
                step,
                self._cpu[step],
                100 * np.minimum(memory / self._memory, 1),
                running,
                wanted * granted[nodes] / _CORE,
                share,
            )

    def _show(self, step: int, instant: float) -> None:
        """Show the readable measurements of a step to the scheduler, as the annotator would write them."""
        if not self._measurements.readable(instant):
            return
        for row, level in self._measurements.levels(step, EPOCH):
            self._cluster.replace_node(row, {NODE_LEVEL: encode_node_level(level)})
        running = np.flatnonzero((self._bound < instant) & (self._ended > instant))
        self._cluster.learn(self._measurements.uses(step, EPOCH, running))
