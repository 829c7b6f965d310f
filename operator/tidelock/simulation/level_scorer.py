"""WaterLevelBalance over arrays: the levels of nodes from readings and pods, and their scores.

The formulas are those of the plugin. Only the bookkeeping is simpler: all nodes have one WaterLevel, and are
measured at the same time.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tidelock.cluster.usage.levels import MEASURED_RESOURCES, NEVER, WINDOWS, LevelArray
from tidelock.cluster.usage.sums import own_use, uncovered
from tidelock.framework.api import MAX_NODE_SCORE
from tidelock.framework.plugin_args import read_args
from tidelock.load.unexplained_use import UnexplainedUse, largest_unexplained_part
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.water_level import level_in_force
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalanceArgs
from tidelock.plugins.water_level_balance.scoring import LevelScoring, weighed
from tidelock.plugins.water_level_balance.usage_levels import UsageLevels, figures, mean_terms
from tidelock.plugins.water_level_balance.usage_policies import Grouping, UsagePolicy
from tidelock.simulation.cluster import EPOCH, water_level_of
from tidelock.simulation.level_rules import Figure, gains_of_moves
from tidelock.simulation.measuring import Reading
from tidelock.simulation.node_amounts import Mask, NodeAmounts
from tidelock.simulation.pod_use import ForeseenUse, PodUse
from tidelock.simulation.policies import SimulatedPolicy
from tidelock.simulation.world import Floats, Indices, SimulatedWorld

_HOUR, _CPU = WINDOWS.index("1h"), MEASURED_RESOURCES.index(CPU)
_DIGITS_OF_ANNOTATION = 2
_DIGITS_OF_SCORE = 6


class LevelScorer:
    """Scores nodes by their levels, as one plugin with one WaterLevel does."""

    def __init__(
        self, world: SimulatedWorld, policy: SimulatedPolicy, nodes: list[Node], pods: list[Pod]
    ) -> None:
        """Read the policy.

        Raises:
            ValueError: its WaterLevel is invalid.

        """
        args = read_args(policy.plugin, dict(policy.args), WaterLevelBalanceArgs)
        spec = water_level_of(policy.water_level or {}).spec
        if spec is None:
            raise ValueError(f"{policy.name}: has an invalid WaterLevel")
        weights = {each.name: each.weight for each in args.resources}
        self._shares = [weights.get(name, 0.0) / sum(weights.values()) for name in MEASURED_RESOURCES]
        self._scoring = LevelScoring(args.scoring, args.combination, self._shares)
        self._rule = policy.rule
        self._level = level_in_force(spec, EPOCH)
        self._spec, self._count = spec, len(nodes)
        self._unexplained = UnexplainedUse()
        self._workload = world.workload
        self._requests = np.array([[pod.requests.get(name, 0) for name in (CPU, MEMORY)] for pod in pods])
        usage_policy = UsagePolicy.of(self._level.spec)
        self._staleness = usage_policy.staleness
        capacity = np.array(
            [[node.capacity.get(name, 0) for node in nodes] for name in (CPU, MEMORY)], np.float64
        )
        self._per_unit = MAX_NODE_SCORE / np.where(capacity > 0, capacity, np.inf)
        self._sums_pods = args.mode == "PodSums"
        self._of_pods = False  # until a reading has pods
        self._guard = args.guard
        self._own_use = own_use(args.mature_seconds)
        defaults = np.array(usage_policy.defaults)
        made = partial(ForeseenUse, horizon=policy.foresight) if policy.foresight else PodUse
        self._pods = made(world, pods, len(nodes), defaults, history=args.history)
        self._at = NEVER
        shape = (len(WINDOWS), len(MEASURED_RESOURCES), len(nodes))
        self._measured = np.zeros(shape)
        self._levels = UsageLevels(
            grouping=self._grouping(usage_policy),
            use=np.zeros(shape),
            known=np.ones(shape[1:], np.bool_),
            all_known=True,
            any_known=True,
            per_unit=self._per_unit,
        )

    def place(self, pod: int, row: int, now: float) -> None:
        """Count a pod on a node."""
        self._pods.place(pod, row, now)
        self._renew(row)

    def remove(self, pod: int, row: int) -> None:
        """Count a pod no longer."""
        self._pods.remove(pod, row)
        self._renew(row)

    def show(self, reading: Reading) -> None:
        """Take over a reading: the annotations of nodes, and the use of pods."""
        self._at = EPOCH + reading.at
        if self._spec.learn_weight:
            self._learn(reading)
        self._of_pods = self._sums_pods and (self._of_pods or len(reading.pods) > 0)
        if not self._of_pods:
            np.round(reading.use[0], _DIGITS_OF_ANNOTATION, out=self._measured)
        self._pods.show(reading, self._own_use if self._of_pods else uncovered)
        self._renew(slice(None))

    def fits(self, now: float) -> Mask | None:
        """Return the nodes within the overload limits by the shortest window, or None for all."""
        self._follow_tide(now)
        grouping = self._levels.grouping
        if not grouping.limited or not self._fresh(now):
            return None
        shortest = self._levels.use[grouping.shares[0][0]]
        within: Mask = np.less_equal(shortest, grouping.limits).all(axis=0)
        return within

    def scores(self, workload: int, now: float, amounts: NodeAmounts, rows: Indices) -> Floats:
        """Score by the levels with the pod, or by requests if no measurement is fresh."""
        self._follow_tide(now)
        if not self._fresh(now):
            taken = MAX_NODE_SCORE * (amounts.nonzero + np.array([amounts.weights[workload]]).T)
            left = MAX_NODE_SCORE - np.minimum(taken / amounts.capacity, MAX_NODE_SCORE)
            by_requests: Floats = weighed(np.dot(self._shares, left), self._levels.grouping)
            return by_requests.round(_DIGITS_OF_SCORE)[rows]
        expected = self._pods.expected[workload]
        if self._rule is None:
            scores = self._scoring.scores(self._levels, expected)
        else:
            scores = self._rule(self._figures(expected), len(self._per_unit[0]))
        return weighed(scores, self._levels.grouping).round(_DIGITS_OF_SCORE)[rows]

    def gains_of_moves(self, pods: Indices, rows: Indices) -> Floats:
        """Return the gain of each move of some pods, which are on these nodes (pods x N).

        It goes by the mean cpu of the last hour, see `level_rules.gains_of_moves`.
        """
        use = self._pods.counted[pods, _HOUR, _CPU]
        return gains_of_moves(self._levels.use[_HOUR, _CPU], self._per_unit[_CPU], use, rows)

    def _figures(self, expected: LevelArray) -> Iterator[Figure]:
        """Yield the use with a pod and without it, and the weight, of each window and resource."""
        terms = mean_terms(self._levels.grouping, self._shares)
        found = figures(self._levels, expected, terms)
        for (window, resource, weight), (with_pod, _, _) in zip(terms, found, strict=True):
            yield with_pod, self._levels.use[window, resource], weight

    def _fresh(self, now: float) -> bool:
        return abs(now - self._at) <= self._staleness

    def _follow_tide(self, now: float) -> None:
        """Take over the target, the limits and the weight if a tide began or ended."""
        if not self._level.holds(now):
            self._level = level_in_force(self._spec, now)
            self._renew_policy()

    def _learn(self, reading: Reading) -> None:
        """Learn how much of the pods' use their requests do not explain, as `tidelock.load.loop` does."""
        requested = self._requests[self._workload[reading.pods]]
        self._unexplained.learn(largest_unexplained_part(reading.of_pods[:, 0], requested), self._at)
        self._renew_policy()

    def _renew_policy(self) -> None:
        part = self._unexplained.part
        policy = UsagePolicy.of(self._level.spec, 1.0 if part is None else part)
        self._levels = replace(self._levels, grouping=self._grouping(policy))

    def _grouping(self, usage_policy: UsagePolicy) -> Grouping:
        """Return the group of all nodes."""
        return Grouping.of((usage_policy,), np.zeros(self._count, np.intp))

    def _renew(self, part: int | slice) -> None:
        """Add up the use of a node, or of all."""
        summed = self._of_pods or self._guard
        measured = 0.0 if self._of_pods else self._measured[:, :, part]
        added = self._pods.sums[:, :, part] * self._per_unit[:, part] if summed else 0.0
        self._levels.use[:, :, part] = measured + added
