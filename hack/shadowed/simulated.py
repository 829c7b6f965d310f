"""A shadow run beside a simulated cluster, in which another policy decides and all use is known."""

from collections.abc import Iterator

import numpy as np

from tidelock.framework.config import Configuration
from tidelock.load.source import Use, UseReading
from tidelock.model.meta import Key
from tidelock.shadow.observer import Observer
from tidelock.shadow.results import ShadowOptions, ShadowResults
from tidelock.simulation.cluster import EPOCH, NAMESPACE, pod_name
from tidelock.simulation.engine import Run, Simulation, _Kind, whole_scheduler
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import STEP, SimulatedWorld

LOOK = 20.0
_CORE = 1000.0


class _Clock:
    """Seconds of the world that the observer has seen."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> float:
        return EPOCH + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed


class ShadowedSimulation(Simulation):
    """A world under one policy, with an observer that gets its events and its measured use."""

    def __init__(
        self, world: SimulatedWorld, policy: str, configuration: Configuration, seed: int = 0
    ) -> None:
        self._cluster = whole_scheduler(world, POLICIES[policy], seed)
        super().__init__(world, POLICIES[policy], seed, scheduler=self._cluster)
        self._seen = _Clock()
        self._next_look = LOOK
        options = ShadowOptions(leads=(60.0, 600.0), look_seconds=LOOK, source="the simulation")
        self.observer = Observer(configuration, self._seen, options)
        for node in self._cluster.nodes:
            self.observer.nodes.upsert(None, node)
        for each in self._cluster.controllers:
            self.observer.others["replica_sets"].upsert(None, each)
        for handler in self.observer.others.values():
            handler.synced()
        self.observer.nodes.synced()
        self.observer.pods.synced()
        decide = self._cluster.decide

        def shown() -> Iterator[tuple[int, int]]:
            for number, row in decide():
                self.observer.pods.upsert(None, self._cluster.pods[pod_name(number)])
                yield number, row

        self._cluster.decide = shown  # type: ignore[method-assign]

    def shadowed(self) -> tuple[Run, ShadowResults]:
        """Simulate the world to its end, and return both results."""
        run = self.run()
        self._look_until(self._world.steps * STEP)
        return run, self.observer.results(server="a simulation")

    def _look_until(self, instant: float) -> None:
        while self._next_look <= instant:
            self._seen.elapsed = self._next_look
            self.observer.look()
            self._next_look += LOOK
        self._seen.elapsed = instant

    def _happen(self, kind: _Kind, subject: int, instant: float) -> None:
        self._look_until(instant)
        pods = self._cluster.pods
        leaving = pods.get(pod_name(subject)) if kind is _Kind.END else None
        super()._happen(kind, subject, instant)
        if leaving is not None:
            self.observer.pods.remove(leaving)
        elif kind is _Kind.ARRIVE:
            self.observer.pods.upsert(None, pods[pod_name(subject)])
        elif kind is _Kind.MEASURE:
            self.observer.measured(self._reading(subject))

    def _reading(self, step: int) -> UseReading:
        """Return the use in a step, as the metrics of a cluster would have it."""
        reading, end, at = UseReading(), (step + 1) * STEP, EPOCH + (step + 1) * STEP
        for row, node in enumerate(self._cluster.nodes):
            reading.add_node(node.name, Use(at, float(self._cpu[step, row])))
        for number in np.flatnonzero((self._bound < end) & (self._ended > end)).tolist():
            cores = float(self._world.cpu[number, step]) / _CORE
            reading.add_pod(Key(NAMESPACE, pod_name(number)), Use(at, cores, 0.0))
        return reading
