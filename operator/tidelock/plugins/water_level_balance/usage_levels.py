"""The levels of all nodes, kept between decisions: only changed nodes are computed again.

A node's level is its measured use plus the expected use of pods that its measurement does not cover yet, or
the sum of its pods' own measured use. W windows x R resources x N nodes, in percent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import isnan

import numpy as np

from tidelock.cluster.arrays import Mask
from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.expected_use import ExpectedUse
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, NEVER, WINDOWS, LevelArray, NodeLevels
from tidelock.cluster.usage.measurements import Measurements
from tidelock.cluster.usage.sums import Sums, own_use, uncovered
from tidelock.framework.measured_use import Level
from tidelock.framework.own_reservations import OwnReservations
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY
from tidelock.plugins.water_level_balance.usage_policies import Grouping, UsagePolicy

_FULL = 100.0


@dataclass(frozen=True, slots=True)
class UsageLevels:
    """The levels at the time of a decision. Only the next decision writes to its arrays.

    Attributes:
        grouping: the nodes' policies.
        use: W x R x N, in percent, without the pod, estimated if unknown.
        known: R x N, whether there is a fresh measurement.
        all_known: whether all are known.
        any_known: whether any is known.
        per_unit: R x N, the percentage of the node for one unit of a resource.

    """

    grouping: Grouping
    use: LevelArray
    known: Mask
    all_known: bool
    any_known: bool
    per_unit: LevelArray


@dataclass(slots=True)
class _Kept:
    """The same with its sources. From `since` to `until`, time alone does not change it."""

    grouping: Grouping
    of_pods: bool
    sums: Sums | None
    since: float
    until: float = np.inf
    at: LevelArray = field(init=False)
    use: LevelArray = field(init=False)
    known: Mask = field(init=False)
    per_unit: LevelArray = field(init=False)
    all_known: bool = True
    any_known: bool = True

    def __post_init__(self) -> None:
        count = len(self.grouping.policy_of)
        self.at = np.zeros(count)
        self.use = np.empty((len(WINDOWS), len(MEASURED_RESOURCES), count))
        self.known = np.ones((len(MEASURED_RESOURCES), count), np.bool_)
        self.per_unit = np.empty((len(MEASURED_RESOURCES), count))


class UsageLevelCache:
    """Keeps the levels for one plugin."""

    def __init__(
        self,
        levels: NodeLevels,
        measurements: Measurements,
        follow: Callable[[], ExpectedUse],
        *,
        of_pods: bool,
        guard: bool,
        mature: float,
    ) -> None:
        """Take the sources of the levels.

        Args:
            levels: the measured use of nodes, with changes for this plugin only.
            measurements: the newest reading of pods.
            follow: begins to keep the expected use of pods, at the first query.
            of_pods: whether levels are sums of pods' own use, as long as the reading is fresh.
            guard: whether the expected use of pods is added to the measured use of nodes.
            mature: age in seconds from which a pod's own use counts alone.

        """
        self._levels = levels
        self._measurements = measurements
        self._follow = follow
        self._of_pods = of_pods
        self._guard = guard
        self._rule = own_use(mature)
        self._kept: _Kept | None = None

    def expected(self, pod: Pod) -> LevelArray:
        """Return the expected use of a pod in units, R or W x R, or NaN if it is unknown."""
        return self._residents.expected(pod)

    def draw(
        self, now: float, grouping: Grouping, snapshot: Snapshot, own_reservations: OwnReservations | None
    ) -> UsageLevels:
        """Return the levels of all nodes of a whole snapshot, without the pod's own reservations."""
        kept = self._renewed(now, grouping)
        use = kept.use
        if kept.sums is not None and own_reservations is not None:
            use = use.copy()
            for entry in own_reservations.entries:
                if (found := self._residents.use_of(entry.uid, grouping.defaults)) is not None:
                    row, expected = found
                    use[:, :, row] -= expected * kept.per_unit[:, row]
        if not kept.all_known:
            use = _guessed(use, kept.known, requested(None, snapshot))
        return UsageLevels(grouping, use, kept.known, kept.all_known, kept.any_known, kept.per_unit)

    @cached_property
    def _residents(self) -> ExpectedUse:
        return self._follow()

    @cached_property
    def _own(self) -> Sums:
        """The sums of the pods' own use, which need no sample of the node."""
        return self._residents.summed(self._rule)

    @cached_property
    def _arrivals(self) -> Sums:
        """The use that the nodes' samples do not cover."""
        return self._residents.summed(uncovered)

    def _renewed(self, now: float, grouping: Grouping) -> _Kept:
        """Compute changed nodes again, or all nodes if the changes are unknown."""
        kept = self._kept
        of_pods = self._of_pods and self._reading_is_fresh(now, grouping)
        rows_read = self._levels.take_changed_rows()
        if (
            kept is None
            or rows_read is None
            or kept.grouping is not grouping
            or kept.of_pods is not of_pods
            or not kept.since <= now < kept.until
        ):
            sums = self._own if of_pods else self._arrivals if self._guard else None
            kept = self._kept = _Kept(grouping, of_pods, sums, now)
            rows_read = np.arange(len(kept.at))
        if len(rows_read):
            self._read(kept, rows_read, now)
        self._add(kept, rows_read)
        return kept

    def _read(self, kept: _Kept, rows: Rows, now: float) -> None:
        """Update the properties of nodes, apart from their use."""
        levels = self._levels
        capacity = levels.capacity[:, rows]
        kept.per_unit[:, rows] = _FULL / np.where(capacity > 0, capacity, np.inf)
        if kept.of_pods:
            return
        at, staleness = levels.at[rows], kept.grouping.staleness[rows]
        fresh = np.abs(at - now) <= staleness
        turns = np.where(fresh, at + staleness, np.where(at > now, at - staleness, np.inf))
        kept.until = min(kept.until, float(turns.min(initial=np.inf)))
        kept.at = kept.at.copy()  # the sums recognise changes by the array
        kept.at[rows] = np.where(np.isfinite(at), at, NEVER)
        kept.known[:, rows] = fresh & ~np.isnan(levels.use("mean")[0][:, rows])
        kept.all_known, kept.any_known = bool(kept.known.all()), bool(kept.known.any())

    def _add(self, kept: _Kept, rows_read: Rows) -> None:
        """Add up the use of nodes with a new measurement or changed pods."""
        rows, sums = rows_read, None
        if kept.sums is not None:
            sums = kept.sums.of(kept.at, kept.grouping.defaults)
            changed = kept.sums.take_changed_rows()
            rows = np.union1d(rows_read, changed) if len(rows_read) else changed
        if not len(rows):
            return
        part = rows.item() if len(rows) == 1 else rows  # a single node costs less by a number
        measured = None if kept.of_pods else self._levels.use("mean")[:, :, part]
        added = None if sums is None else sums[:, :, part] * kept.per_unit[:, part]
        if added is None:
            kept.use[:, :, part] = measured
        else:
            kept.use[:, :, part] = added if measured is None else measured + added

    def _reading_is_fresh(self, now: float, grouping: Grouping) -> bool:
        at = self._measurements.at
        return abs(now - at) <= max((policy.staleness for policy in grouping.policies), default=0)


LevelTerm = tuple[int, int, Level]
"""A window, a resource, and the weight of its score: N, or one number for all nodes."""


def mean_terms(grouping: Grouping, resource_shares: Sequence[float]) -> list[LevelTerm]:
    """Return the terms of the mean over windows and resources, by their shares: R."""
    resources = [(resource, share) for resource, share in enumerate(resource_shares) if share]
    return [
        (window, resource, part * share)
        for (window, part), (resource, share) in product(grouping.shares, resources)
    ]


def figures(
    levels: UsageLevels, expected: LevelArray, terms: Iterable[LevelTerm]
) -> Iterator[tuple[LevelArray, Level, Level]]:
    """Yield use with a pod, target and weight of some windows of resources.

    The array of use is the same each time. `expected` is the pod's use in units, R or W x R, or NaN if it is
    unknown.
    """
    grouping = levels.grouping
    defaults = grouping.defaults if grouping.sole is None else grouping.sole.defaults
    by_window = expected.tolist() if expected.ndim > 1 else [expected.tolist()] * len(WINDOWS)
    with_pod = np.empty(levels.use.shape[2])
    for window, resource, weight in terms:
        units = by_window[window][resource]
        np.multiply(levels.per_unit[resource], defaults[resource] if isnan(units) else units, out=with_pod)
        with_pod += levels.use[window, resource]
        yield with_pod, _targets(levels, window, resource), weight


def mean_levels(levels: UsageLevels, window: int, resource: int) -> Level:
    """Return the mean use of each node's group in percent: N, or one number if there is one group."""

    def mean(_: UsagePolicy, there: Mask | None) -> float:
        return max(_mean_and_least(levels, window, resource, there)[0], 0.0)

    return _by_group(levels.grouping, mean)


def requested(pod: Pod | None, snapshot: Snapshot) -> LevelArray:
    """Return requested and held amounts for scoring, with or without a pod: R x N, in percent."""
    columns = [snapshot.column(CPU), snapshot.column(MEMORY)]
    taken = (snapshot.nonzero + snapshot.reserved[:, columns]).T.astype(np.float64)
    if pod is not None:
        taken += np.array(pod.container_weights, np.float64)[:, np.newaxis]
    capacity = snapshot.allocatable[:, columns].T
    return np.where(capacity > 0, _FULL * taken / np.maximum(capacity, 1), _FULL)


def _targets(levels: UsageLevels, window: int, resource: int) -> Level:
    """Return the targets of one window and resource in percent: N, or one number if there is one group.

    The dynamic one is (mean + w * min) / (1 + w) over the measured nodes, or over all if none is measured.
    """

    def target(policy: UsagePolicy, there: Mask | None) -> float:
        if policy.percent is not None:
            return policy.percent
        mean, least = _mean_and_least(levels, window, resource, there)
        return min(max((mean + policy.min_weight * least) / (1 + policy.min_weight), 0.0), _FULL)

    return _by_group(levels.grouping, target)


def _by_group(grouping: Grouping, figure: Callable[[UsagePolicy, Mask | None], float]) -> Level:
    """Return a figure of each node's group: N, or one number if there is one group."""
    if grouping.sole is not None:
        return figure(grouping.sole, None)
    by_policy = [
        figure(policy, grouping.policy_of == index) for index, policy in enumerate(grouping.policies)
    ]
    by_node: LevelArray = np.array(by_policy)[grouping.policy_of]
    return by_node


def _mean_and_least(
    levels: UsageLevels, window: int, resource: int, there: Mask | None
) -> tuple[float, float]:
    """Return the mean and the lowest use of the measured nodes of a group, or of all its nodes if none is."""
    use, known = levels.use[window, resource], None if levels.all_known else levels.known[resource]
    if there is not None:
        use, known = use[there], None if known is None else known[there]
    if not len(use):
        return 0.0, 0.0
    if known is None or not known.any():
        return float(np.add.reduce(use)) / len(use), float(np.minimum.reduce(use))
    return float(np.where(known, use, 0.0).sum() / known.sum()), float(np.where(known, use, np.inf).min())


def _guessed(use: LevelArray, known: Mask, requested: LevelArray) -> LevelArray:
    """Fill in unknown use: the same part of the requests as the measured nodes use in the mean."""
    use = use.copy()
    for resource in range(len(MEASURED_RESOURCES)):
        there = known[resource]
        base = requested[resource, there].mean() if there.any() else 0.0
        for window in range(len(WINDOWS)):
            part = use[window, resource, there].mean() / base if base > 0 else 1.0
            use[window, resource, ~there] = part * requested[resource, ~there]
    return use
