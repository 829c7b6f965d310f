"""A simulated metrics server: samples of the true use, delayed, with their statistics over windows.

A window keeps one sample in each of its slots, which are those of `tidelock.load.history`: of several samples
in a slot the first one counts. Statistics leave out slots without a sample, as PromQL does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tidelock.cluster.usage.levels import MEASURED_RESOURCES, STATISTICS, WINDOWS, bridged
from tidelock.load.history import STEPS, statistics
from tidelock.load.prometheus import SETTLING
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.usage_annotations import WINDOW_SECONDS, WindowName
from tidelock.simulation.world import STEP, Floats, Indices, SimulatedWorld

Mask = npt.NDArray[np.bool_]

SCRAPE = 30.0
"""Seconds between two scrapes of nodes and pods by Prometheus, as kube-prometheus configures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTiming:
    """The times of the measurements, in seconds.

    A span and a step of the world have a whole number of intervals.

    Attributes:
        interval: time between two samples.
        lag: time between a sample and the moment at which it can be read.
        settling: time for which a pod must have run before a sample counts it.
        span: time of which a sample is the mean, as the range of a rate in PromQL.

    """

    interval: float = STEP
    lag: float = STEP
    settling: float = 60.0
    span: float = STEP

    def __post_init__(self) -> None:
        """Raise ValueError for impossible times."""
        self.intervals(self.span)
        if not 0 <= self.lag < np.inf:
            raise ValueError(f"lag: {self.lag:g} should be a number of seconds, and not negative")

    def intervals(self, seconds: float) -> int:
        """Return the number of intervals in some seconds, or raise ValueError if it is not whole."""
        count = round(seconds / self.interval) if self.interval > 0 else 0
        if not (count and isclose(count * self.interval, seconds)):
            raise ValueError(f"interval: {self.interval:g} should divide {seconds:g} seconds")
        return count


SLOW_METRICS = MetricsTiming()
"""A sample every five minutes, five minutes late."""

DEFAULT_METRICS = MetricsTiming(
    interval=float(STEPS["15m"]),
    lag=SCRAPE + WaterLevelSpec.model_fields["refresh_seconds"].default,
    settling=SETTLING,
)
"""The measurements of a WaterLevel at its defaults, with the longest time from a scrape to its reading.

The shortest window takes a sample each minute, so readings between these change nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFaults:
    """Faults of the measurements and the scheduler. Times are seconds of the world.

    Attributes:
        down: from when to when the metrics server neither scrapes nor answers.
        nan: share of readings of nodes, drawn each time, that are NaN.
        missing: share of the nodes that are never measured.
        skew: how far the metrics server's clock is ahead.
        restarts: when the scheduler is replaced by a new process.

    """

    down: tuple[float, float] = (0.0, 0.0)
    nan: float = 0.0
    missing: float = 0.0
    skew: float = 0.0
    restarts: tuple[float, ...] = ()


NO_FAULTS = MetricsFaults()

_NOON = 43_200.0

FAULTS: Mapping[str, MetricsFaults] = MappingProxyType(
    {
        "none": NO_FAULTS,
        "down": MetricsFaults(down=(_NOON, _NOON + 1800)),
        "nan": MetricsFaults(nan=0.2),
        "missing": MetricsFaults(missing=0.5),
        "ahead": MetricsFaults(skew=1800),
        "behind": MetricsFaults(skew=-1800),
        "restart": MetricsFaults(restarts=(_NOON / 2, _NOON, _NOON * 3 / 2)),
    }
)
"""Faults by name."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of the metrics server about one sample, with W windows, R resources and S statistics.

    Attributes:
        at: second of the world at which the sample was taken, by the metrics server's clock.
        nodes: rows of the measured nodes.
        use: their use in percent (S x W x R x nodes). Statistics other than the mean are only there if the
            metrics were asked to keep them.
        pods: the measured pods.
        of_pods: their mean use in cores and bytes (pods x W x R).
        workloads: mean use of a pod of each workload in the same units, or NaN (workloads x W x R). The
            values of a workload stay after its pods have ended.

    """

    at: float
    nodes: Indices
    use: Floats
    pods: Indices
    of_pods: Floats
    workloads: Floats


class _Window:
    """The last samples of some series in one window, with their running sums."""

    def __init__(self, name: WindowName, series: int) -> None:
        self._step = STEPS[name]
        self._slots = WINDOW_SECONDS[name] // self._step
        self._newest = -1
        self._filled = np.zeros(self._slots, np.bool_)
        self._values = np.full((self._slots, series), np.nan)
        self._total = np.zeros(series)
        self._count = np.zeros(series)

    def put(self, at: float, which: Indices, values: Floats) -> None:
        """Add a sample of some series, none of which is NaN."""
        slot = int(at // self._step)
        for passed in range(max(self._newest + 1, slot + 1 - self._slots), slot + 1):
            if self._filled[passed % self._slots]:
                self._clear(passed % self._slots)
        self._newest = slot
        self._filled[slot % self._slots] = True
        row = self._values[slot % self._slots]
        first = np.isnan(row[which])
        if not first.all():
            which, values = which[first], values[first]
        row[which] = values
        self._total[which] += values
        self._count[which] += 1

    def means(self, which: Indices) -> Floats:
        """Return the mean of some series, or NaN for those without a sample."""
        count = self._count[which]
        mean: Floats = self._total[which] / np.where(count > 0, count, np.nan)
        return mean

    def statistics(self, which: Indices) -> Floats:
        """Return mean, maximum and 95th percentile of some series: S x series."""
        return statistics(self._values[:, which].T)

    def _clear(self, slot: int) -> None:
        old = self._values[slot]
        gone = np.flatnonzero(~np.isnan(old))
        self._total[gone] -= old[gone]
        self._count[gone] -= 1
        self._total[self._count == 0] = 0.0  # without a remainder of rounding
        old[gone] = np.nan
        self._filled[slot] = False


class _Windows:
    """The last samples of some series in all windows."""

    def __init__(self, series: int) -> None:
        self._windows = [_Window(name, series) for name in WINDOWS]

    def put(self, at: float, which: Indices, values: Floats) -> None:
        """Add a sample of some series, none of which is NaN."""
        for window in self._windows:
            window.put(at, which, values)

    def means(self, which: Indices) -> Floats:
        """Return the means of some series: W x series."""
        return np.stack([window.means(which) for window in self._windows])

    def statistics(self, which: Indices) -> Floats:
        """Return all statistics of some series: S x W x series."""
        return np.stack([window.statistics(which) for window in self._windows], axis=1)


class SimulatedMetrics:
    """The samples of a world with N nodes, P pods and W workloads.

    The use of a workload's pod is the mean of its running pods. So it stays known after they have ended.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        faults: MetricsFaults,
        rng: np.random.Generator,
        timing: MetricsTiming = SLOW_METRICS,
        *,
        means_only: bool = False,
    ) -> None:
        """Begin without samples. `means_only` leaves out the other statistics of nodes."""
        self._workload = world.workload
        self._faults = faults
        self._rng = rng
        self._timing = timing
        self._means_only = means_only
        self._workloads = len(world.workloads)
        self._pod_memory = world.memory
        self._measured = np.flatnonzero(rng.random(len(world.machines)) >= faults.missing)
        # The series are cpu and memory of each node, the same of each workload, and cpu of each pod.
        ends = np.cumsum([len(world.machines)] * 2 + [self._workloads] * 2)
        self._memory_of_nodes, self._of_workloads, self._memory_of_workloads, self._of_pods = ends.tolist()
        self._every_workload = np.arange(self._of_workloads, self._of_pods)
        self._samples = _Windows(self._of_pods + world.pods)

    def sample(
        self, at: float, cpu: Floats, memory: Floats, pods: Indices, pod_cpu: Floats, ran: Floats
    ) -> Reading | None:
        """Add a sample, and return its later reading.

        Args:
            at: second of the world at which it is taken.
            cpu: percent of each node (N), as the mean over the span of a sample.
            memory: the same for memory (N).
            pods: the pods that ran.
            pod_cpu: use of each of them while it ran, in cores.
            ran: seconds for which it ran in that span.

        Returns:
            the reading, or None if nothing was sampled.

        """
        if self._is_down(at):
            return None
        seen = ran >= self._timing.settling
        pods, pod_cpu = pods[seen], pod_cpu[seen]
        measured = self._measured
        alive, of_workloads = self._mean_of_pods(pods, pod_cpu)
        which = (
            measured,
            self._memory_of_nodes + measured,
            self._of_workloads + alive,
            self._memory_of_workloads + alive,
            self._of_pods + pods,
        )
        values = (cpu[measured], memory[measured], *of_workloads, pod_cpu)
        self._samples.put(at, np.concatenate(which), np.concatenate(values))
        return self._reading(at, pods)

    def readable(self, now: float) -> bool:
        """Return whether the metrics server answers at a second of the world."""
        return not self._is_down(now)

    def _mean_of_pods(self, pods: Indices, pod_cpu: Floats) -> tuple[Indices, Sequence[Floats]]:
        """Return the workloads that have pods, and the mean cpu and memory of a pod of each."""
        of = self._workload[pods]
        count = np.bincount(of, minlength=self._workloads)
        alive = np.flatnonzero(count)
        totals = (np.bincount(of, each, len(count)) for each in (pod_cpu, self._pod_memory[pods]))
        return alive, [total[alive] / count[alive] for total in totals]

    def _reading(self, at: float, pods: Indices) -> Reading:
        nodes = self._measured
        if self._faults.nan:
            nodes = nodes[self._rng.random(len(nodes)) >= self._faults.nan]
        of_nodes = np.concatenate((nodes, self._memory_of_nodes + nodes))
        means = self._samples.means(np.concatenate((of_nodes, self._every_workload, self._of_pods + pods)))
        shape = (len(WINDOWS), len(MEASURED_RESOURCES), -1)
        use = np.full((len(STATISTICS), len(WINDOWS), len(MEASURED_RESOURCES), len(nodes)), np.nan)
        if self._means_only:
            use[0] = means[:, : len(of_nodes)].reshape(use.shape[1:])
        else:
            use[:] = self._samples.statistics(of_nodes).reshape(use.shape)
        end = len(of_nodes) + len(self._every_workload)
        workloads = means[:, len(of_nodes) : end].reshape(shape).transpose(2, 0, 1)
        of_pods = np.empty((len(pods), len(WINDOWS), len(MEASURED_RESOURCES)))
        of_pods[:, :, 0] = means[:, end:].T
        of_pods[:, :, 1] = self._pod_memory[pods, np.newaxis]
        return Reading(at + self._faults.skew, nodes, use, pods, of_pods, bridged(workloads.copy()))

    def _is_down(self, now: float) -> bool:
        start, end = self._faults.down
        return start <= now < end
