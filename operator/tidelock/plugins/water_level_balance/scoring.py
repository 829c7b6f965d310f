"""The score of a node by its levels with a pod: the rule for one level, and the combination of the resources.

Each window of each resource has a use, a target and so a score. The scores of the windows are averaged by
their shares. The resources are combined in one of three ways:

- Mean: the mean by the weights of the resources.
- Worst: the lowest score of the resources that have a weight.
- Scarcity: the mean by weight times the group's mean use. So a resource counts more the scarcer it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Literal

import numpy as np

from tidelock.cluster.usage.levels import LevelArray
from tidelock.framework.measured_use import Level, constant_slope_scores, packing_scores
from tidelock.plugins.water_level_balance.usage_levels import (
    LevelTerm,
    UsageLevels,
    figures,
    mean_levels,
    mean_terms,
)
from tidelock.plugins.water_level_balance.usage_policies import Grouping

Scoring = Literal["ConstantSlopes", "TargetLoadPacking"]
Combination = Literal["Mean", "Worst", "Scarcity"]

_RULES: Mapping[Scoring, Callable[[Iterable[tuple[LevelArray, Level, Level]], int], LevelArray]] = (
    MappingProxyType({"ConstantSlopes": constant_slope_scores, "TargetLoadPacking": packing_scores})
)


@dataclass(frozen=True, slots=True)
class LevelScoring:
    """How levels become scores.

    Attributes:
        scoring: the rule for one window of one resource.
        combination: how the resources are combined.
        shares: the weight of each resource: R, which add up to 1.

    """

    scoring: Scoring
    combination: Combination
    shares: Sequence[float]

    def scores(self, levels: UsageLevels, expected: LevelArray) -> LevelArray:
        """Return the score of each node with a pod: N, from 0 to 100.

        `expected` is the pod's use in units, R or W x R, or NaN if it is unknown.
        """
        rule, count = _RULES[self.scoring], levels.use.shape[2]
        return reduce(
            lambda lowest, scores: np.minimum(lowest, scores, out=lowest),
            (rule(figures(levels, expected, terms), count) for terms in self._sums(levels)),
        )

    def _sums(self, levels: UsageLevels) -> Iterator[list[LevelTerm]]:
        """Yield the terms of each weighted sum of scores. The lowest of these sums is the score."""
        windows = levels.grouping.shares
        resources = [(resource, share) for resource, share in enumerate(self.shares) if share]
        match self.combination:
            case "Mean":
                yield mean_terms(levels.grouping, self.shares)
            case "Worst":
                for resource, _ in resources:
                    yield [(window, resource, part) for window, part in windows]
            case "Scarcity":
                yield [
                    (window, resource, part * scarcity)
                    for window, part in windows
                    for resource, scarcity in self._scarcities(levels, window, resources)
                ]

    def _scarcities(
        self, levels: UsageLevels, window: int, resources: Sequence[tuple[int, float]]
    ) -> list[tuple[int, Level]]:
        """Return the part of each resource in a window's score, by its weight and its mean use."""
        uses = [share * mean_levels(levels, window, resource) for resource, share in resources]
        total = np.asarray(sum(uses))
        some = total > 0  # otherwise the group uses nothing, and the weights alone count
        return [
            (resource, np.where(some, use / np.where(some, total, 1.0), share))
            for (resource, share), use in zip(resources, uses, strict=True)
        ]


def weighed(scores: LevelArray, grouping: Grouping) -> LevelArray:
    """Shrink the differences between the scores of each group by its weight, in place.

    The mean of a group stays. So its nodes become neither better nor worse than those of other groups.
    """
    if grouping.weighted:
        for index, policy in enumerate(grouping.policies):
            there = grouping.policy_of == index
            if policy.weight < 1 and there.any():
                mean = scores[there].mean()
                scores[there] = mean + policy.weight * (scores[there] - mean)
    return scores
