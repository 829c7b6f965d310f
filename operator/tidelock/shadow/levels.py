"""How evenly nodes are used, in the cluster and in the replayed world: the spread of their levels over time.

The level of a node is its used share of a resource, in percent. By requests it is the sum of the requests of
its pods over its allocatable amount. By measured use it is the use that a source has measured over its
capacity. In the replayed world, the measured use of each pod that is on another node moves there with it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Cache
from tidelock.cluster.usage.measurements import at_once
from tidelock.cluster.workloads import workload_of
from tidelock.load.estimate import Estimate, Subject
from tidelock.load.source import Use, UseReading
from tidelock.model.meta import Key
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import FULL, Measured, MeasuredUses, NodeLevel, Quality
from tidelock.shadow.results import SpreadResults
from tidelock.shadow.statistics import TimeMean
from tidelock.shadow.world import ShadowWorld

RESOURCES: tuple[Measured, ...] = ("cpu", "memory")

# Age in seconds above which a measurement is no level, as by default in a WaterLevel.
_STALENESS = 900.0
_UNITS: Mapping[str, float] = {CPU: 1000.0, MEMORY: 1.0}

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
    levels: Levels = FULL * requested[has] / allocatable[has]
    return levels


class MovedPod(NamedTuple):
    """A pod that is on another node in the replayed world. An empty node stands for none."""

    key: Key
    node: str
    replayed: str


class MeasuredLevels:
    """The measured levels of both worlds: the newest ones, and those over the windows of a WaterLevel."""

    def __init__(self, world: ShadowWorld) -> None:
        self._world = world
        self._newest = {False: UseReading(), True: UseReading()}  # of the cluster and of the replayed world
        self._estimates = {False: Estimate(), True: Estimate()}

    def take(self, reading: UseReading, moved: Iterable[MovedPod], now: float, settling: float) -> None:
        """Take a reading. A pod without a measurement moves no use.

        `settling` is the age in seconds from which the readings of a pod are correct.
        """
        cache, columns = self._world.cache, self._world.cache.columns

        def identify(key: Key) -> Subject | None:
            placed = cache.named(key)
            if placed is None:
                return None
            pod = placed.pod
            return Subject(pod.uid, pod.meta.created + settling, workload_of(pod, self._world.replica_sets))

        self._newest = {False: reading, True: self._replayed(reading, moved)}
        for replayed, estimate in self._estimates.items():
            estimate.advance(now)
            at_once(estimate.absorb(now, self._newest[replayed], columns.row_of.__contains__, identify))
            at_once(estimate.retain(columns.row_of.__contains__, lambda uid: cache.get(uid) is not None))
            at_once(estimate.judge())

    def newest(self, resource: Measured, now: float, *, replayed: bool) -> Levels:
        """Return the last level of each node with a fresh measurement, in percent of its capacity."""
        reading = self._newest[replayed]
        values = (
            getattr(use, resource)
            for name, use in reading.nodes.items()
            if reading.quality(name, now, _STALENESS) is Quality.FRESH
        )
        return np.array([value for value in values if value is not None], np.float64)

    def over_windows(self, *, replayed: bool) -> Mapping[str, NodeLevel]:
        """Return the level of each measured node over the windows."""
        return self._estimates[replayed].levels

    @property
    def uses(self) -> MeasuredUses:
        """The use of pods and workloads, which is the same in both worlds."""
        return self._estimates[False].uses

    def _replayed(self, reading: UseReading, moved: Iterable[MovedPod]) -> UseReading:
        """Return the use of the nodes in the replayed world. A node's use is at most 100 percent."""
        levels = {name: {"cpu": use.cpu, "memory": use.memory} for name, use in reading.nodes.items()}
        for pod in moved:
            use = reading.pods.get(pod.key)
            if use is not None:
                self._shift(levels.get(pod.node), pod.node, use, -1.0)
                self._shift(levels.get(pod.replayed), pod.replayed, use, 1.0)
        replayed = UseReading(invalid=reading.invalid)
        for name, level in levels.items():
            capped = {resource: value and min(max(value, 0.0), FULL) for resource, value in level.items()}
            replayed.add_node(name, Use(reading.nodes[name].at, **capped))
        return replayed

    def _shift(self, level: dict[str, float | None] | None, node_name: str, use: Use, sign: float) -> None:
        """Add the use of a pod to a node, or subtract it, as far as the node is known and measured."""
        columns = self._world.cache.columns
        row = columns.row_of.get(node_name)
        if level is None or row is None:
            return
        capacity = columns.nodes[row].capacity
        for resource, value in (("cpu", use.cpu), ("memory", use.memory)):
            known, total = level[resource], capacity.get(resource, 0)
            if known is not None and value is not None and total:
                level[resource] = known + sign * FULL * value * _UNITS[resource] / total
