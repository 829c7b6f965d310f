"""How evenly nodes are used, in the cluster and in the played world: the spread of their levels over time.

The level of a node is its used share of a resource, in percent. By requests it is the sum of the requests of
its pods over its allocatable amount. By measured use it is the use that a source has measured over its
capacity. In the played world, the measured use of each pod that is on another node moves there with it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Cache
from tidelock.load.source import UseReading
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import Measured, MeasuredUses, NodeLevel, PodMeans, Quality, Stat
from tidelock.shadow.results import SpreadResults
from tidelock.shadow.statistics import TimeMean

RESOURCES: tuple[Measured, ...] = ("cpu", "memory")
WINDOW = 900.0
"""Seconds over which measured levels are averaged for decisions, and after which a measurement is stale."""

_UNITS: Mapping[str, float] = {CPU: 1000.0, MEMORY: 1.0}
_FULL = 100.0
# Readings of a node that are kept for WINDOW: one every five seconds.
_MOST_READINGS = 180

Levels = npt.NDArray[np.float64]


class Spread:
    """The means over time of the mean, the standard deviation and the range of levels, in points."""

    def __init__(self) -> None:
        self._mean, self._deviation, self._range = TimeMean(), TimeMean(), TimeMean()

    def add(self, levels: Levels, seconds: float) -> float | None:
        """Take into account the levels of all nodes, and return their standard deviation."""
        if not len(levels):
            return None
        deviation = float(levels.std())
        self._mean.add(float(levels.mean()), seconds)
        self._deviation.add(deviation, seconds)
        self._range.add(float(levels.max() - levels.min()), seconds)
        return deviation

    def results(self) -> SpreadResults | None:
        """Return the means, or None if there never were levels."""
        mean, deviation, extent = self._mean.mean, self._deviation.mean, self._range.mean
        if mean is None or deviation is None or extent is None:
            return None
        return SpreadResults(mean=mean, deviation=deviation, range=extent)


def requested_levels(cache: Cache, resource: str) -> Levels:
    """Return the requested share of each node that has any of a resource, in percent."""
    columns = cache.columns
    column = columns.column_of[resource]
    allocatable = columns.allocatable[: len(columns), column].astype(np.float64)
    requested = columns.requested[: len(columns), column]
    has = allocatable > 0
    levels: Levels = _FULL * requested[has] / allocatable[has]
    return levels


class Moved(NamedTuple):
    """A pod that is on another node in the played world. An empty node stands for none."""

    key: Key
    node: str
    played: str


class MeasuredLevels:
    """The newest measured levels of both worlds, and their windows for decisions by water level."""

    def __init__(self) -> None:
        self.observed: dict[str, dict[Measured, float]] = {}
        self.played: dict[str, dict[Measured, float]] = {}
        self._windows: dict[tuple[bool, str], deque[tuple[float, dict[Measured, float]]]] = {}

    def take(self, reading: UseReading, nodes: Iterable[Node], moved: Iterable[Moved], now: float) -> None:
        """Take a reading, and compute the played levels from the pods that are on other nodes there.

        A pod without a measurement does not move any use.
        """
        capacity = {node.name: node.capacity for node in nodes}
        self.observed = {
            name: level
            for name, use in reading.nodes.items()
            if name in capacity and _is_fresh(reading, name, now) and (level := _level(use.cpu, use.memory))
        }
        self.played = {name: dict(level) for name, level in self.observed.items()}
        for pod in moved:
            use = reading.pods.get(pod.key)
            if use is None:
                continue
            for resource, value in (("cpu", use.cpu), ("memory", use.memory)):
                for name, sign in ((pod.node, -1.0), (pod.played, 1.0)):
                    self._shift(capacity, name, resource, sign * (value or 0.0))
        for played, levels in ((False, self.observed), (True, self.played)):
            for name, level in levels.items():
                self._remember(played, name, level, now)
        self._windows = {key: each for key, each in self._windows.items() if key[1] in capacity}

    def levels(self, resource: Measured, *, played: bool) -> Levels:
        """Return the levels of all nodes that are measured, in percent of their capacity."""
        known = self.played if played else self.observed
        return np.array([level[resource] for level in known.values() if resource in level], np.float64)

    def annotations(self, *, played: bool) -> Iterator[tuple[str, NodeLevel]]:
        """Yield the level of each measured node over the last readings, as an annotation has it."""
        for (of_played, name), readings in self._windows.items():
            if of_played is played:
                stats = {
                    resource: _stat(values)
                    for resource in RESOURCES
                    if (values := [level[resource] for _, level in readings if resource in level])
                }
                if stats:
                    yield name, NodeLevel(readings[-1][0], {"15m": stats})

    def _shift(
        self, capacity: Mapping[str, Mapping[str, int]], name: str, resource: str, value: float
    ) -> None:
        """Add a use in cores or bytes to a node of the played world, as far as the node is measured."""
        level, total = self.played.get(name), capacity.get(name, {}).get(resource, 0)
        for known in RESOURCES:
            if known == resource and level is not None and known in level and total:
                level[known] = max(level[known] + _FULL * value * _UNITS[resource] / total, 0.0)

    def _remember(self, played: bool, name: str, level: dict[Measured, float], now: float) -> None:
        readings = self._windows.setdefault((played, name), deque(maxlen=_MOST_READINGS))
        readings.append((now, level))
        while readings[0][0] < now - WINDOW:
            readings.popleft()


def pod_uses(reading: UseReading, cache: Cache) -> MeasuredUses:
    """Return the use of each measured pod by its uid, the same for all windows."""
    pods = {}
    for key, use in reading.pods.items():
        placed = cache.named(key)
        if placed is not None and use.cpu is not None and use.memory is not None:
            pods[placed.pod.uid] = PodMeans(use.at, (use.cpu, use.memory) * 3)
    return MeasuredUses(pods, {})


def _is_fresh(reading: UseReading, node_name: str, now: float) -> bool:
    return reading.quality(node_name, now, WINDOW) is Quality.FRESH


def _level(cpu: float | None, memory: float | None) -> dict[Measured, float]:
    level: dict[Measured, float] = {}
    if cpu is not None:
        level["cpu"] = cpu
    if memory is not None:
        level["memory"] = memory
    return level


def _stat(values: list[float]) -> Stat:
    capped = np.minimum(values, _FULL)
    return Stat(float(capped.mean()), float(capped.max()), float(np.quantile(capped, 0.95)))
