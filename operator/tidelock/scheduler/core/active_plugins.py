"""The plugins of a profile that are active for pods of one kind: those that did not skip it.

Pods of many kinds share few sets of active plugins. Each set is computed once.
"""

from dataclasses import dataclass, replace

from tidelock.framework.api import Filter, Score
from tidelock.framework.profile import Profile
from tidelock.plugins.extender import ExtenderAdvice

Names = tuple[str, ...]
"""Plugins, in the order in which they were asked."""


@dataclass(frozen=True, slots=True)
class ActiveFilters:
    """The filters that did not skip a pod.

    Attributes:
        asked: all of them, in the order of the profile.
        sharing: the filters with an answer that equal pods share.
        others: the rest.
        judging: the filters that judge hypothetical nodes: not extenders, as in kube-scheduler.

    """

    asked: tuple[Filter, ...]
    sharing: tuple[Filter, ...]
    others: tuple[Filter, ...]
    judging: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class ActiveScores:
    """The scorers that did not skip a pod, with their weights.

    Attributes:
        summed: the scorers with points that equal pods share and that need no other node.
        others: the rest.

    """

    summed: tuple[tuple[Score, int], ...]
    others: tuple[tuple[Score, int], ...]


class ActivePlugins:
    """The plugins that are asked about pods of a kind.

    Attributes:
        pre_filter: those asked before the filters.
        pre_score: those asked before the scorers.

    """

    def __init__(self, profile: Profile) -> None:
        """Begin with all plugins of a profile."""
        self.pre_filter = profile.pre_filter
        self.pre_score = profile.pre_score
        self._profile = profile
        self._narrower: dict[tuple[Names, Names], ActivePlugins] = {}
        self._filters: dict[tuple[Names, Names], ActiveFilters] = {}
        self._scorers: dict[Names, ActiveScores] = {}

    def without(self, filters: Names = (), scorers: Names = ()) -> "ActivePlugins":
        """Return the active plugins for pods that these filters and scorers skip."""
        narrower = self._narrower.get((filters, scorers))
        if narrower is None:
            profile = self._profile
            narrower = self._narrower[filters, scorers] = ActivePlugins(
                replace(
                    profile,
                    pre_filter=tuple(each for each in profile.pre_filter if each.name not in filters),
                    filter=tuple(each for each in profile.filter if each.name not in filters),
                    pre_score=tuple(each for each in profile.pre_score if each.name not in scorers),
                    score=tuple(each for each in profile.score if each[0].name not in scorers),
                )
            )
        return narrower

    def filters(self, skipped: Names, sharing: Names) -> ActiveFilters:
        """Return the filters without those that skipped a pod. Some share their answer among equal pods."""
        found = self._filters.get((skipped, sharing))
        if found is None:
            asked = [each for each in self._profile.filter if each.name not in skipped]
            found = self._filters[skipped, sharing] = ActiveFilters(
                asked=tuple(asked),
                sharing=tuple(each for each in asked if each.per_node or each.name in sharing),
                others=tuple(each for each in asked if not each.per_node and each.name not in sharing),
                judging=tuple(each for each in asked if not isinstance(each, ExtenderAdvice)),
            )
        return found

    def scorers(self, skipped: Names) -> ActiveScores:
        """Return the scorers without those that skipped a pod."""
        found = self._scorers.get(skipped)
        if found is None:
            asked = [each for each in self._profile.score if each[0].name not in skipped]
            found = self._scorers[skipped] = ActiveScores(
                summed=tuple(each for each in asked if each[0].scores_per_node and not each[0].relative),
                others=tuple(each for each in asked if not each[0].scores_per_node or each[0].relative),
            )
        return found
