"""LoadVariationRiskBalancing: nodes with low and steady use come first (Trimaran, scheduler-plugins).

The risk of a resource is (mu + margin * sigma^(1/sensitivity)) / 2, as parts of the node: mu is the mean use
with the pod's requests, sigma the deviation of the use. A node scores the smaller 100 * (1 - risk) of its
resources. Annotations have no deviation: it follows from the 95th percentile of a normal distribution.
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, LevelArray, NodeLevels
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
from tidelock.framework.measured_use import deviation, in_whole
from tidelock.framework.plugin_args import read_args
from tidelock.model.pods import Pod

_FULL = 100.0


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    safe_variance_margin: Annotated[float, msgspec.Meta(ge=0)] = 1
    safe_variance_sensitivity: Annotated[float, msgspec.Meta(ge=0)] = 1
    staleness_seconds: Annotated[float, msgspec.Meta(gt=0)] = 180


def balance(mu: LevelArray, sigma: LevelArray, margin: float, sensitivity: float) -> LevelArray:
    """Score a resource by mean and deviation of its use, both as parts of a node and cut off at 0 and 1."""
    root = np.inf if sensitivity == 0 else 1 / sensitivity
    risky = np.clip(margin * np.clip(sigma, 0, 1) ** root, 0, 1)
    points: LevelArray = MAX_NODE_SCORE * (1 - (np.clip(mu, 0, 1) + risky) / 2)
    return points


class LoadVariationRiskBalancing(PreScore, Score):
    """Prefers nodes with a low and steady use."""

    name = "LoadVariationRiskBalancing"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take how much the deviation weighs."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        self._levels = NodeLevels()
        handle.cache.add_observer(self._levels)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if no node was measured lately."""
        fresh = self._levels.fresh(state.expect(DecisionTime).now, self._args.staleness_seconds)
        return SUCCESS if fresh.any() else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by the last 15 minutes, or 0 for nodes without a fresh measurement."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        levels, args = self._levels, self._args
        mean, sigma = levels.use("mean")[0], deviation(levels)
        columns = [snapshot.column(name) for name in MEASURED_RESOURCES]
        capacity = snapshot.allocatable[:, columns].T.astype(np.float64)
        wanted = np.array([pod.requests.get(name, 0) for name in MEASURED_RESOURCES], np.float64)[
            :, np.newaxis
        ]
        mu = np.clip(mean / _FULL, 0, 1) + wanted / np.where(capacity > 0, capacity, np.inf)
        points = balance(mu, sigma, args.safe_variance_margin, args.safe_variance_sensitivity)
        points = np.where(capacity > 0, points, 0.0)
        # A resource that was not measured has no say.
        unknown = np.isnan(points)
        lower = np.where(unknown, np.inf, points).min(axis=0)
        fresh = levels.fresh(state.expect(DecisionTime).now, args.staleness_seconds) & ~unknown.all(axis=0)
        scores: Scores = np.where(fresh, np.floor(lower + 0.5), 0.0)[rows]
        return scores
