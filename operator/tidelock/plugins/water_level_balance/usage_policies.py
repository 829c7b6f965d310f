"""Groups of nodes that are levelled alike: those that a WaterLevel selects, and the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.lister import Lister
from tidelock.cluster.node_selection import matching_term
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, WINDOWS, LevelArray
from tidelock.framework.measured_use import Level
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.quantities import CPU, MEMORY, parse_quantity
from tidelock.model.water_level import LevelInForce, WaterLevel, level_in_force, weight_of

UNLIMITED = np.inf


@dataclass(frozen=True, slots=True)
class UsagePolicy:
    """The policy of a group.

    Attributes:
        windows: shares of the windows in the score: W, which add up to 1.
        percent: the static target, or None for the dynamic one.
        min_weight: w of the dynamic target (mean + w * min) / (1 + w).
        limits: percent of use beyond which a node takes no pod: R.
        staleness: seconds after which a measurement is stale.
        defaults: the expected use of a pod without any data: R, in units.
        weight: part of the differences between scores that counts, from 0 to 1.

    """

    windows: tuple[float, ...]
    percent: float | None
    min_weight: float
    limits: tuple[float, ...]
    staleness: float
    defaults: tuple[float, ...]
    weight: float = 1.0

    @classmethod
    def of(cls, spec: WaterLevelSpec, unexplained: float = 1.0) -> "UsagePolicy":
        """Read a WaterLevel's spec, with the part of the variance of use that requests do not explain."""
        limits = spec.overload_limits
        estimation = spec.pod_estimation
        return cls(
            windows=window_shares({window.duration: window.weight for window in spec.windows}),
            percent=spec.target.percent if spec.target.mode == "Static" else None,
            min_weight=spec.target.min_weight or 0.0,
            limits=(
                (limits.cpu_percent if limits else None) or UNLIMITED,
                (limits.memory_percent if limits else None) or UNLIMITED,
            ),
            staleness=spec.staleness_seconds,
            defaults=(
                parse_quantity(CPU, estimation.default_cpu),
                parse_quantity(MEMORY, estimation.default_memory),
            ),
            weight=weight_of(spec, unexplained),
        )


def window_shares(weights: dict[str, float]) -> tuple[float, ...]:
    """Return the share of each window."""
    total = sum(weights.values())
    return tuple(weights.get(window, 0.0) / total for window in WINDOWS)


@dataclass(frozen=True, slots=True)
class Grouping:
    """The policies by row.

    Attributes:
        policies: those of the WaterLevels, the oldest first, and at the end that of all other nodes.
        policy_of: index of each node's policy: N.
        sole: the policy of all nodes, if they have the same one.
        windows: W x N.
        shares: each window that counts for any node, with its share: N, or one number if all are equal.
        limits: R x N.
        staleness: N.
        defaults: R x N.
        limited: whether any policy limits anything.
        weighted: whether any policy has less than its whole weight.

    """

    policies: Sequence[UsagePolicy]
    policy_of: npt.NDArray[np.intp]
    sole: UsagePolicy | None
    windows: LevelArray
    shares: Sequence[tuple[int, Level]]
    limits: LevelArray
    staleness: LevelArray
    defaults: LevelArray
    limited: bool
    weighted: bool

    @classmethod
    def of(cls, policies: Sequence[UsagePolicy], policy_of: npt.NDArray[np.intp]) -> "Grouping":
        """Spread the policies over the rows."""

        def spread(values: list[Sequence[float]]) -> LevelArray:
            return np.ascontiguousarray(np.array(values, np.float64)[policy_of].T)

        first = policy_of[0] if len(policy_of) else 0
        sole = policies[first] if (policy_of == first).all() else None
        windows = spread([policy.windows for policy in policies]).reshape(len(WINDOWS), -1)
        shares: Sequence[Level] = tuple(windows) if sole is None else sole.windows
        return cls(
            policies,
            policy_of,
            sole=sole,
            windows=windows,
            shares=[(window, share) for window, share in enumerate(shares) if np.any(share)],
            limits=spread([policy.limits for policy in policies]).reshape(len(MEASURED_RESOURCES), -1),
            staleness=spread([(policy.staleness,) for policy in policies]).reshape(-1),
            defaults=spread([policy.defaults for policy in policies]).reshape(len(MEASURED_RESOURCES), -1),
            limited=any(limit < UNLIMITED for policy in policies for limit in policy.limits),
            weighted=any(policy.weight < 1 for policy in policies),
        )


class UsagePolicies:
    """The present grouping, computed again after a change of a WaterLevel, of a node, or of the tide."""

    def __init__(self, water_levels: Lister[WaterLevel], rest: UsagePolicy) -> None:
        """Begin with the policy of nodes that no WaterLevel selects."""
        self._water_levels = water_levels
        self._rest = rest
        self._version: tuple[int, int] | None = None
        self._in_force: list[LevelInForce] = []
        self._grouping = Grouping.of((rest,), np.zeros(0, np.intp))

    @property
    def any(self) -> bool:
        """Whether there is a readable WaterLevel."""
        return any(each.spec is not None for each in self._water_levels.of())

    @property
    def highest_limits(self) -> tuple[float, ...]:
        """The limits beyond which no node takes a pod, as they were last looked at: R."""
        limits = (policy.limits for policy in self._grouping.policies)
        return tuple(max(each) for each in zip(*limits, strict=True))

    def of(self, snapshot: Snapshot, now: float) -> Grouping:
        """Group the nodes of a whole snapshot. Of WaterLevels with the same node, the oldest has it."""
        version = (self._water_levels.version, snapshot.traits.version)
        if self._version != version or not all(each.holds(now) for each in self._in_force):
            self._version = version
            self._grouping = self._made(snapshot, now)
        return self._grouping

    def _made(self, snapshot: Snapshot, now: float) -> Grouping:
        groups = sorted(
            (each for each in self._water_levels.of() if each.spec is not None),
            key=lambda each: (each.meta.created, each.meta.name),
        )
        in_force = [level_in_force(each.spec, now) for each in groups if each.spec is not None]
        self._in_force = [each for each in in_force if each.until < UNLIMITED]
        policies = [
            UsagePolicy.of(level.spec, each.unexplained) for level, each in zip(in_force, groups, strict=True)
        ]
        policy_of = np.full(len(snapshot), len(groups), np.intp)
        for index, group in reversed(tuple(enumerate(groups))):
            nodes = group.nodes
            policy_of[slice(None) if nodes is None else matching_term(nodes, snapshot)] = index
        return Grouping.of((*policies, self._rest), policy_of)
