"""Caches the answers of plugins that judge each node by itself. Equal pods share them.

A pod with a known `placement_key` gets the answers of the last equal pod, after changed nodes were judged
again. So a series of equal pods costs little more than the search for the best score.
"""

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.cached_column import CachedColumn
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, Score, Scores
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extension_point_timer import ExtensionPointTimer
from tidelock.framework.profile import Profile
from tidelock.model.pods import Pod
from tidelock.scheduler.core.active_plugins import ActivePlugins

Indices = npt.NDArray[np.int8]

# Kinds of pods that are remembered: each costs a few dozen bytes a node.
_MOST_KINDS = 64

_NO_PLUGIN = -1


class EquivalenceClass:
    """The answers of one profile's per-node plugins about one kind of pod, as arrays of N.

    Attributes:
        plan: the plugins that are active for such pods.

    """

    def __init__(self, columns: Columns, plan: ActivePlugins) -> None:
        self.plan = plan
        self._columns = columns
        self._kept: dict[object, CachedColumn] = {}

    def rejecters(
        self,
        filters: tuple[Filter, ...],
        state: CycleState,
        pod: Pod,
        snapshot: Snapshot,
        timer: ExtensionPointTimer,
    ) -> Indices:
        """Return for each node the index of the first of these filters that rejects it, or -1."""

        def judge(part: Snapshot) -> Indices:
            rejecters = np.full(len(part), _NO_PLUGIN, np.int8)
            for index, plugin in enumerate(filters):
                timer.ask(plugin)
                mask = plugin.filter(state, pod, part)
                if not mask.all():
                    rejecters[(rejecters == _NO_PLUGIN) & ~mask] = index
            return rejecters

        def judge_one(row: int) -> int:
            for index, plugin in enumerate(filters):
                timer.ask(plugin)
                if not plugin.filter_one(state, pod, snapshot, row):
                    return index
            return _NO_PLUGIN

        return self._of(filters).renewed(snapshot, judge, judge_one)

    def total(
        self,
        scorers: tuple[tuple[Score, int], ...],
        state: CycleState,
        pod: Pod,
        snapshot: Snapshot,
        timer: ExtensionPointTimer,
    ) -> Scores:
        """Return the sum of weighted scores of each node, not normalized. The array must not be written."""

        def judge(part: Snapshot) -> Scores:
            total = np.zeros(len(part))
            for plugin, weight in scorers:
                timer.ask(plugin)
                total += weight * plugin.score(state, pod, part, part.indexes)
            return total

        def judge_one(row: int) -> float:
            total = 0.0
            for plugin, weight in scorers:
                timer.ask(plugin)
                total += weight * plugin.score_one(state, pod, snapshot, row)
            return total

        return self._of(scorers).renewed(snapshot, judge, judge_one)

    def _of(self, plugins: object) -> CachedColumn:
        """Return the cached answers of these plugins."""
        kept = self._kept.get(plugins)
        if kept is None:
            kept = self._kept[plugins] = CachedColumn(self._columns)
        return kept


class EquivalenceCache:
    """The verdicts on the kinds of pods that came last."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._plans: dict[Profile, ActivePlugins] = {}
        self._kinds: OrderedDict[tuple[Profile, object], EquivalenceClass] = OrderedDict()

    def of(self, profile: Profile, pod: Pod) -> EquivalenceClass:
        """Return the cached answers about the pod's kind, which may be empty."""
        key = (profile, pod.placement_key)
        verdicts = self._kinds.get(key)
        if verdicts is not None:
            self._kinds.move_to_end(key)
            return verdicts
        plan = self._plans.get(profile)
        if plan is None:
            plan = self._plans[profile] = ActivePlugins(profile)
        verdicts = self._kinds[key] = EquivalenceClass(self._columns, plan)
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return verdicts
