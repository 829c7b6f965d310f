"""From readings to the levels of nodes, the use of pods, and the use of one pod of each workload."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from tidelock.load.cooperative import paced
from tidelock.load.history import History, Sample
from tidelock.load.source import Use, UseReading
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import (
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

_RESOURCES: tuple[Measured, ...] = ("cpu", "memory")

# Items that are processed between two turns of the event loop.
_A_SLICE = 100


class Subject(NamedTuple):
    """A pod that is measured by its name: its uid, its start and its workload."""

    uid: str
    since: float
    workload: WorkloadKey | None


Identify = Callable[[Key], Subject | None]
"""Finds the pod of a name, or None if it is not in the group."""

_T = TypeVar("_T", NodeLevel, PodUsage)
_K = TypeVar("_K", bound=Hashable)


class Estimate:
    """All measurements of one group of nodes.

    The use of one pod of a workload is the mean over its measured pods at each instant, with the mean and the
    95th percentile of that over time. Its maximum is the highest of any one pod. The workload keeps these
    values, so they outlive the pods that were measured.

    Attributes:
        levels: the level of each node, as of the last `judge`.
        uses: the use of pods and workloads, as of the last `judge`.

    """

    def __init__(self) -> None:
        self._nodes: History[str] = History(2)
        self._pods: History[str] = History(2)
        self._workloads: History[WorkloadKey] = History(4)
        self.levels: Mapping[str, NodeLevel] = {}
        self.uses = MeasuredUses({}, {})

    @property
    def _all(self) -> tuple[History[str], History[str], History[WorkloadKey]]:
        return self._nodes, self._pods, self._workloads

    def advance(self, now: float) -> None:
        """Drop values that are older than the windows."""
        for history in self._all:
            history.advance(now)

    def missed(self) -> Iterator[range]:
        """Return the instants that were not read, of each window."""
        return self._nodes.unread()

    def absorb(
        self, at: float, reading: UseReading, known: Callable[[str], bool], identify: Identify
    ) -> Iterator[None]:
        """Add a reading of this instant, a slice at a time; call `advance` before.

        Args:
            at: when it was requested.
            reading: the answer.
            known: returns whether a node is in the group.
            identify: finds the pods of the group.

        """
        nodes = ((name, *_sample(use)) for name, use in reading.nodes.items() if known(name))
        yield from _put(self._nodes, nodes)
        pods: list[tuple[str, Sample, Sample]] = []
        workloads: dict[WorkloadKey, list[Use]] = {}
        for item in paced(reading.pods.items()):
            if item is None:
                yield
                continue
            key, use = item
            subject = identify(key)
            if subject is None or use.at < subject.since:
                continue
            pods.append((subject.uid, *_sample(use)))
            if subject.workload is not None:
                workloads.setdefault(subject.workload, []).append(use)
        yield from _put(self._pods, pods)
        yield from _put(self._workloads, ((key, *_pooled(uses)) for key, uses in workloads.items()))
        for history in self._all:
            history.looked(at)

    def retain(self, known: Callable[[str], bool], pods: Callable[[str], bool]) -> Iterator[None]:
        """Forget nodes and pods that are gone."""
        yield from self._nodes.retain(known)
        yield from self._pods.retain(pods)

    def judge(self) -> Iterator[None]:
        """Compute all levels and uses, a slice at a time. A workload without any value is dropped."""
        for history in self._all:
            yield from history.judge()
        levels: dict[str, NodeLevel] = {}
        yield from _collect(self._nodes, NodeLevel, levels)
        pods: dict[str, PodMeans] = {}
        yield from _collect_means(self._pods, pods)
        workloads: dict[WorkloadKey, PodUsage] = {}
        yield from _collect(self._workloads, PodUsage, workloads)
        self.levels, self.uses = levels, MeasuredUses(pods, workloads)
        yield from self._workloads.retain(workloads.__contains__)


def _sample(use: Use) -> tuple[Sample, Sample]:
    return (_or_nan(use.cpu), _or_nan(use.memory)), (use.at, use.at)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _pooled(uses: Sequence[Use]) -> tuple[Sample, Sample]:
    """Combine the pods of a workload: mean and highest use of each resource, as of the newest of them."""
    at = max(use.at for use in uses)
    means, tops = [], []
    for values in ([use.cpu for use in uses], [use.memory for use in uses]):
        measured = [value for value in values if value is not None]
        means.append(sum(measured) / len(measured) if measured else math.nan)
        tops.append(max(measured, default=math.nan))
    return (*means, *tops), (at,) * 4


def _put(history: History[_K], samples: Iterable[tuple[_K, Sample, Sample]]) -> Iterator[None]:
    left = iter(samples)
    while some := tuple(islice(left, _A_SLICE)):
        history.put(some)
        yield


def _collect(
    history: History[_K], make: Callable[[float, Windows], _T], into: dict[_K, _T]
) -> Iterator[None]:
    """Compute a record of each measured object from its statistics."""
    left = iter(history.rows())
    while some := tuple(islice(left, _A_SLICE)):
        rows = [row.number for _, row in some]
        tables = {name: table[:, rows].swapaxes(0, 1).tolist() for name, table in history.stats().items()}
        for place, (key, row) in enumerate(some):
            known = {name: table[place] for name, table in tables.items()}
            windows, at = _windows(known, row.latest.tolist())
            if windows:
                into[key] = make(at, windows)
        yield


def _collect_means(history: History[str], into: dict[str, PodMeans]) -> Iterator[None]:
    """Do the same for pods, with their means alone."""
    left = iter(history.rows())
    while some := tuple(islice(left, _A_SLICE)):
        rows = [row.number for _, row in some]
        means = np.concatenate([table[0, rows] for table in history.stats().values()], axis=1)
        measured = ~np.isnan(means)
        latest = np.tile([row.latest for _, row in some], len(history.stats()))
        at = np.where(measured, latest, np.inf).min(axis=1).tolist()
        for place, (uid, _) in enumerate(some):
            if at[place] < math.inf:
                into[uid] = PodMeans(at[place], means[place].tolist())
        yield


def _windows(
    stats: Mapping[WindowName, Sequence[Sequence[float]]], latest: Sequence[float]
) -> tuple[Windows, float]:
    """Return all measurements of an object, and the time of the oldest of them."""
    windows: dict[WindowName, dict[Measured, Stat]] = {}
    at = math.inf
    for name, (mean, top, p95) in stats.items():
        uses: dict[Measured, Stat] = {}
        for column, resource in enumerate(_RESOURCES):
            if mean[column] == mean[column]:  # is not NaN
                # For a workload, the highest of any pod has a separate column.
                uses[resource] = Stat(mean[column], top[column - len(_RESOURCES)], p95[column])
                at = min(at, latest[column])
        if uses:
            windows[name] = uses
    return windows, at
