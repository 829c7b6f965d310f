"""LowRiskOverCommitment: pods with limits go where limits exceed the capacity least (Trimaran).

A node scores 100 * (1 - risk), risk being the higher one of cpu and memory: w * limit risk + (1 - w) * load
risk. The limit risk is (limits - allocatable) / (limits - requests) if limits exceed the allocatable, with
the pod. The load risk is the probability that the measured use is above the requests without the pod, given
that it is not above the limits, if those are below the allocatable. Use is beta distributed with the mean and
deviation of the last 15 minutes, the latter widened by the root of the smoothing window.
"""

from math import sqrt
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, LevelArray, NodeLevels
from tidelock.cluster.usage.sums import Slots
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Handle,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.measured_use import deviation, follow_expected_use, in_whole
from tidelock.framework.plugin_args import read_args
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_resources
from tidelock.model.requests import lasting_use
from tidelock.plugins.low_risk_over_commitment.beta import probability_below

_FULL = 100.0
# How close the variance may come to the largest that a beta distribution of a mean can have.
_MOST_VARIANCE = 0.99

_Weight = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    smoothing_window_size: Annotated[int, msgspec.Meta(ge=1)] = 5
    risk_limit_weights: dict[Literal["cpu", "memory"], _Weight] = {}
    staleness_seconds: Annotated[float, msgspec.Meta(gt=0)] = 180


_DEFAULT_WEIGHT = 0.5


class RequestsAndLimits(NamedTuple):
    """The requests and limits of pods, as parts of the allocatable: R x N each."""

    requests: LevelArray
    limits: LevelArray


def limit_risk(parts: RequestsAndLimits) -> LevelArray:
    """Return the part of the limits beyond requests that exceeds the capacity."""
    requests, limits = np.minimum(parts.requests, 1.0), parts.limits
    over = limits > 1
    risk: LevelArray = np.where(over, (limits - 1) / np.where(over, limits - requests, 1.0), 0.0)
    return risk


def load_risk(parts: RequestsAndLimits, mean: LevelArray, sigma: LevelArray) -> LevelArray:
    """Return the probability that the use is above the requests.

    Args:
        parts: requests and limits without the pod, cut off at the allocatable.
        mean: measured use, as parts, all known.
        sigma: its deviation.

    """
    requests = np.clip(parts.requests, 0, 1)
    sigma = np.minimum(sigma, np.sqrt(mean * (1 - mean) * _MOST_VARIANCE))
    fitted = (sigma > 0) & (mean > 0)
    below = np.where((mean == 0) | (mean <= requests), 1.0, 0.0)
    below[fitted] = probability_below(requests[fitted], mean[fitted], sigma[fitted])
    limited = (parts.limits < 1) & (requests <= parts.limits)
    conditional = limited & fitted & (parts.limits > 0)
    within = probability_below(parts.limits[conditional], mean[conditional], sigma[conditional])
    below[conditional] = np.clip(
        np.where(within > 0, below[conditional] / np.where(within > 0, within, 1.0), below[conditional]), 0, 1
    )
    below[limited & (parts.limits == 0)] = 1.0
    return 1 - below


class LowRiskOverCommitment(PreScore, Score):
    """Avoids nodes that are, or may come to be, overcommitted."""

    name = "LowRiskOverCommitment"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the weights of the two risks, and over how many samples the use was smoothed."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        weights = self._args.risk_limit_weights
        self._weights = np.array([[weights.get(name, _DEFAULT_WEIGHT)] for name in MEASURED_RESOURCES])
        self._levels = NodeLevels()
        handle.cache.add_observer(self._levels)
        self._limits = follow_expected_use(handle, estimate=_limits, history=False).summed(_all)
        # The load risk does not depend on the pod: only nodes that have changed are looked at again.
        self._seen: npt.NDArray[np.float64] = np.zeros((4, len(MEASURED_RESOURCES), 0))
        self._risk: LevelArray = np.zeros((len(MEASURED_RESOURCES), 0))

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if no node was measured lately, and pods that neither request nor limit anything."""
        fresh = self._levels.fresh(state.expect(DecisionTime).now, self._args.staleness_seconds)
        return SUCCESS if fresh.any() and any(_limits(pod)) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by both risks, or 0 for nodes without a fresh measurement and pods without requests."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        if not any(_limits(pod)):
            return np.zeros(len(rows))
        levels = self._levels
        columns = [snapshot.column(name) for name in MEASURED_RESOURCES]
        capacity = snapshot.allocatable[:, columns].T.astype(np.float64)
        capacity = np.where(capacity > 0, capacity, np.inf)
        requested = (snapshot.requested + snapshot.reserved)[:, columns].T
        limits = self._limits.of(np.zeros(len(snapshot)), np.zeros_like(capacity))[0]
        before = RequestsAndLimits(requested / capacity, limits / capacity)
        wanted = np.array([pod.requests.get(name, 0) for name in MEASURED_RESOURCES], np.float64)[
            :, np.newaxis
        ]
        after = RequestsAndLimits(
            (requested + wanted) / capacity, (limits + np.array(_limits(pod))[:, np.newaxis]) / capacity
        )
        known, load = self._load_risk(before)
        risk = self._weights * limit_risk(after) + (1 - self._weights) * load
        points = np.floor(MAX_NODE_SCORE * (1 - np.clip(risk, 0, 1).max(axis=0)) + 0.5)
        fresh = levels.fresh(state.expect(DecisionTime).now, self._args.staleness_seconds) & known.any(axis=0)
        scores: Scores = np.where(fresh, points, 0.0)[rows]
        return scores

    def _load_risk(self, parts: RequestsAndLimits) -> tuple[npt.NDArray[np.bool_], LevelArray]:
        """Return which resources are measured, and their load risk, 0 if they are not."""
        mean = np.clip(self._levels.use("mean")[0] / _FULL, 0, 1)
        sigma = np.clip(deviation(self._levels), 0, 1) * sqrt(self._args.smoothing_window_size)
        known = ~np.isnan(mean)
        seen = np.nan_to_num(np.stack((mean, sigma, *parts)), nan=-1.0, posinf=-1.0)
        if seen.shape != self._seen.shape:
            self._seen, self._risk = np.full_like(seen, np.nan), np.zeros_like(mean)
        changed = (seen != self._seen).any(axis=0) & known
        if changed.any():
            some = RequestsAndLimits(parts.requests[changed], parts.limits[changed])
            self._risk[changed] = load_risk(some, mean[changed], sigma[changed])
        self._seen = seen
        return known, np.where(known, self._risk, 0.0)


def _all(slots: Slots) -> LevelArray:
    return slots.expected


def _limits(pod: Pod) -> tuple[float, ...]:
    """Return the limits of a pod, which are never less than its requests."""
    limits = lasting_use(pod.spec, lambda amounts: parse_resources(amounts.limits))
    return tuple(float(max(limits.get(name, 0), pod.requests.get(name, 0))) for name in MEASURED_RESOURCES)
