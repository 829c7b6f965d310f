"""A simulated metrics server: samples of the true use every five minutes, delayed, over windows.

Statistics are those of PromQL over the samples of a range: avg_over_time, max_over_time and
quantile_over_time(0.95).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from types import MappingProxyType

import numpy as np

from tidelock.model.usage_annotations import (
    WINDOW_SECONDS,
    Measured,
    MeasuredUses,
    NodeLevel,
    PodMeans,
    PodUsage,
    Stat,
    WindowName,
    Windows,
    WorkloadKey,
)
from tidelock.simulation.cluster import NAMESPACE, pod_name
from tidelock.simulation.world import STEP, Floats, Indices, SimulatedWorld

LAG = 300.0
"""Seconds between a sample and the moment at which it can be read."""

_P95 = 0.95
_SHORTEST = 60.0 / STEP  # share of a step that a pod must have run for its rate to be known


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


class SimulatedMetrics:
    """The samples of a world: K samples so far, N nodes, P pods, W workloads.

    Missing samples are NaN. The use of a workload's pod is the mean of its running pods, so it is known as
    long as the workload has had any.
    """

    def __init__(self, world: SimulatedWorld, faults: MetricsFaults, rng: np.random.Generator) -> None:
        self._workload = world.workload
        self._workloads = [WorkloadKey("Deployment", NAMESPACE, each.name) for each in world.workloads]
        self._faults = faults
        self._rng = rng
        nodes, steps = len(world.machines), world.steps
        self._missing = rng.random(nodes) < faults.missing
        self._node_cpu = np.full((nodes, steps), np.nan)
        self._node_memory = np.full((nodes, steps), np.nan)
        self._pod_cpu = np.full((world.pods, steps), np.nan)
        self._pod_memory = world.memory
        self._pod_names = tuple(map(pod_name, range(world.pods)))
        self._first = np.full(world.pods, steps, np.intp)  # step with the first sample of each pod
        self._scraped = np.zeros(steps, np.bool_)
        self._workload_cpu = np.full((len(self._workloads), steps), np.nan)
        self._workload_memory = np.full((len(self._workloads), steps), np.nan)

    def sample(
        self, step: int, cpu: Floats, memory: Floats, pods: Indices, pod_cpu: Floats, share: Floats
    ) -> None:
        """Add the use in a step.

        Args:
            step: the number of the step.
            cpu: percent of each node (N).
            memory: the same for memory (N).
            pods: the pods that ran.
            pod_cpu: use of each of them while it ran, in cores.
            share: share of the step for which it ran.

        """
        if self._is_down((step + 1) * STEP):
            return
        seen = share >= _SHORTEST
        pods, pod_cpu = pods[seen], pod_cpu[seen]
        self._node_cpu[:, step] = np.where(self._missing, np.nan, cpu)
        self._node_memory[:, step] = np.where(self._missing, np.nan, memory)
        self._pod_cpu[pods, step] = pod_cpu
        self._first[pods] = np.minimum(self._first[pods], step)
        self._scraped[step] = True
        count = np.bincount(self._workload[pods], minlength=len(self._workloads))
        alive = count > 0
        for series, values in (
            (self._workload_cpu, pod_cpu),
            (self._workload_memory, self._pod_memory[pods]),
        ):
            total = np.bincount(self._workload[pods], values, len(count))
            series[alive, step] = total[alive] / count[alive]

    def readable(self, now: float) -> bool:
        """Return whether the metrics server answers at a second of the world."""
        return not self._is_down(now)

    def levels(self, step: int, epoch: float) -> Iterator[tuple[int, NodeLevel]]:
        """Yield the level of each node that can be read after a step, by its row.

        Args:
            step: the last visible step.
            epoch: the instant at which the world began.

        """
        windows = _over_windows(self._node_cpu, self._node_memory, step)
        readable = ~np.isnan(self._node_cpu[:, step])
        readable &= self._rng.random(len(readable)) >= self._faults.nan
        at = self._at(step, epoch)
        for row in np.flatnonzero(readable).tolist():
            yield row, NodeLevel(at, windows[row])

    def uses(self, step: int, epoch: float, pods: Indices) -> MeasuredUses:
        """Return the use of these running pods, and of one pod of each workload.

        For workloads all statistics except the mean are NaN, as they are not needed.
        """
        at = self._at(step, epoch)
        pods = pods[~np.isnan(self._pod_cpu[pods, step])]
        first = int(self._first[pods].min(initial=step))  # most live for a small part of the world
        cpu = self._pod_cpu[pods, first : step + 1]
        if not self._scraped[first : step + 1].all():
            cpu = cpu[:, self._scraped[first : step + 1]]
        of_pods = _means(cpu, cpu.shape[1] - 1)
        of_workloads = _means(self._workload_cpu, step)
        known = np.flatnonzero(~np.isnan(of_workloads).all(axis=1))
        workloads = [self._workloads[workload] for workload in known.tolist()]
        memory = _means(self._workload_memory[known], step)
        means = np.repeat(of_pods[:, :, np.newaxis], 2, axis=2)
        means[:, :, 1] = self._pod_memory[pods, np.newaxis]
        names = map(self._pod_names.__getitem__, pods.tolist())
        figures = means.reshape(len(pods), 2 * len(WINDOW_SECONDS)).tolist()
        return MeasuredUses(
            {name: PodMeans(at, of_pod) for name, of_pod in zip(names, figures, strict=True)},
            {
                key: PodUsage(at, _known(_windows(*means)))
                for key, *means in zip(workloads, of_workloads[known].tolist(), memory.tolist(), strict=True)
            },
        )

    def _is_down(self, now: float) -> bool:
        start, end = self._faults.down
        return start <= now < end

    def _at(self, step: int, epoch: float) -> float:
        return epoch + (step + 1) * STEP + self._faults.skew


def _over_windows(cpu: Floats, memory: Floats, step: int) -> list[Windows]:
    """Return the statistics of each row over the windows that end with a step, without empty ones."""
    series: tuple[tuple[Measured, Floats], ...] = (("cpu", cpu), ("memory", memory))
    uses: list[tuple[WindowName, Measured, list[Stat | None]]] = [
        (window, resource, _statistics(_within(samples, window, step)))
        for window in WINDOW_SECONDS
        for resource, samples in series
    ]
    rows: list[dict[WindowName, dict[Measured, Stat]]] = [{} for _ in range(len(cpu))]
    for window, resource, stats in uses:
        for row, stat in zip(rows, stats, strict=True):
            if stat is not None:
                row.setdefault(window, {})[resource] = stat
    return list(rows)


def _means(samples: Floats, step: int) -> Floats:
    """Return the means of each row over the windows that end with a step, or NaN for an empty window."""
    return np.stack([_mean(_within(samples, window, step)) for window in WINDOW_SECONDS], axis=1)


def _windows(cpu: Sequence[float], memory: Sequence[float]) -> Windows:
    """Arrange means by window."""
    return {
        window: {"cpu": Stat(of_cpu, nan, nan), "memory": Stat(of_memory, nan, nan)}
        for window, of_cpu, of_memory in zip(WINDOW_SECONDS, cpu, memory, strict=True)
    }


def _known(windows: Windows) -> Windows:
    """Leave out windows without samples."""
    return {window: uses for window, uses in windows.items() if not isnan(uses["cpu"].mean)}


def _within(samples: Floats, window: WindowName, step: int) -> Floats:
    """Return the samples of a window that ends with a step."""
    return samples[:, max(0, step + 1 - round(WINDOW_SECONDS[window] / STEP)) : step + 1]


def _mean(samples: Floats) -> Floats:
    """Return the mean of each row, or NaN for a row without samples."""
    count = (~np.isnan(samples)).sum(axis=1)
    mean: Floats = np.nansum(samples, axis=1) / np.where(count, count, np.nan)
    return mean


def _statistics(samples: Floats) -> list[Stat | None]:
    """Return mean, maximum and 95th percentile of each row, or None for a row without samples."""
    count = (~np.isnan(samples)).sum(axis=1)
    if not samples.size:
        return [None] * len(samples)
    if samples.shape[1] == count.min():
        highest, p95 = samples.max(axis=1), np.quantile(samples, _P95, axis=1)
    else:
        ordered, rows, last = np.sort(samples, axis=1), np.arange(len(samples)), np.maximum(count - 1, 0)
        highest = ordered[rows, last]  # NaN sorts last
        place = _P95 * last
        below = place.astype(np.intp)
        above = np.minimum(below + 1, last)
        p95 = ordered[rows, below] + (place - below) * (ordered[rows, above] - ordered[rows, below])
    return [
        Stat(*of_row) if number else None
        for number, *of_row in zip(
            count.tolist(), _mean(samples).tolist(), highest.tolist(), p95.tolist(), strict=True
        )
    ]
