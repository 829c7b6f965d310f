"""TargetLoadPacking: nodes are filled up to a target of measured cpu use (Trimaran, scheduler-plugins).

With u the cpu use with the pod and X the target, in percent: (100 - X) * u / X + X up to X, X * (100 - u) /
(100 - X) beyond it, 0 beyond 100, in whole points. A container is expected to use its limit, otherwise 1.5
times its request, otherwise one core. Pods bound later than 60 s before the node's sample are added to it.
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, NEVER, NodeLevels
from tidelock.cluster.usage.sums import since_sample
from tidelock.framework.api import SKIP, SUCCESS, Handle, PreScore, Score, Scores, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.measured_use import follow_expected_use, in_whole, packing_score
from tidelock.framework.plugin_args import quantity_of, read_args
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, Resources, parse_quantity
from tidelock.model.requests import ResourceRequirements, lasting_use

_CPU = MEASURED_RESOURCES.index("cpu")
_REPORTED_WITHIN = 60.0


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    target_utilization: Annotated[float, msgspec.Meta(gt=0, lt=100)] = 40
    default_requests: dict[str, str] = msgspec.field(default_factory=lambda: {CPU: "1"})
    default_requests_multiplier: Annotated[float, msgspec.Meta(ge=1)] = 1.5
    staleness_seconds: Annotated[float, msgspec.Meta(gt=0)] = 180


class TargetLoadPacking(PreScore, Score):
    """Packs nodes towards a target of cpu use."""

    name = "TargetLoadPacking"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take the target, and the expected use of containers without limits."""
        self._args = read_args(self.name, args, _Args)
        super().__init__(handle, {})
        unheard = sorted(self._args.default_requests.keys() - {CPU})
        if unheard:
            raise ValueError(f"pluginConfig of {self.name}: defaultRequests: only cpu counts, not {unheard}")
        field = "defaultRequests.cpu"
        self._default = quantity_of(self.name, field, CPU, self._args.default_requests.get(CPU, "1"))
        self._levels = NodeLevels()
        handle.cache.add_observer(self._levels)
        residents = follow_expected_use(handle, estimate=self._predicted, history=False)
        self._arrivals = residents.summed(since_sample(_REPORTED_WITHIN))

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip if no node was measured lately."""
        return SUCCESS if self._levels.fresh(state.expect(DecisionTime).now, self._staleness).any() else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by the mean of the last 15 minutes, or 0 for nodes without a fresh measurement."""
        rows, snapshot = in_whole(self.handle, snapshot, rows)
        levels = self._levels
        fresh = levels.fresh(state.expect(DecisionTime).now, self._staleness)
        at = np.where(np.isfinite(levels.at), levels.at, NEVER)
        arrivals = self._arrivals.of(at, np.zeros_like(levels.capacity))[0, _CPU]
        capacity = levels.capacity[_CPU]
        expected = arrivals + self._predicted(pod)[_CPU]
        use = levels.use("mean")[0, _CPU] + 100 * expected / np.where(capacity > 0, capacity, np.inf)
        known = fresh & ~np.isnan(use)
        points = packing_score(np.where(known, use, 0.0), self._args.target_utilization)
        scores: Scores = np.where(known, np.floor(points + 0.5), 0.0)[rows]
        return scores

    @property
    def _staleness(self) -> float:
        return self._args.staleness_seconds

    def _predicted(self, pod: Pod) -> tuple[float, float]:
        return float(lasting_use(pod.spec, self._of_container).get(CPU, 0)), 0.0

    def _of_container(self, amounts: ResourceRequirements) -> Resources:
        if (limit := amounts.limits.get(CPU)) is not None:
            return {CPU: parse_quantity(CPU, limit)}
        if (request := amounts.requests.get(CPU)) is not None:
            return {CPU: round(parse_quantity(CPU, request) * self._args.default_requests_multiplier)}
        return {CPU: self._default}
