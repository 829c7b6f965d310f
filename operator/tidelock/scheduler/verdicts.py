"""What the plugins that judge each node by itself say of all nodes: shared by equal pods, kept by deltas.

A pod whose `placement_key` is known gets what its last equal got, after the nodes that changed meanwhile have
been judged again. So a row of equal pods costs little more than the search for the best score.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, Score, Scores
from tidelock.framework.course import Course
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.profile import Profile
from tidelock.model.pods import Pod

Indices = npt.NDArray[np.int8]
Values = npt.NDArray[Any]

# Kinds of pods that are remembered: each costs a few dozen bytes a node.
_MOST_KINDS = 64
# Beyond this share of changed nodes, judging all nodes at once is cheaper than picking them out.
_MANY = 0.25
# Up to so many, judging one after the other is cheaper than calls with arrays.
_FEW = 4

# So many are judged at once: for larger arrays the C library takes memory from the kernel and gives it back
# many times a decision.
_BLOCK = 8192

_NOBODY = -1


class Verdicts:
    """The verdict of one profile's per-node plugins on one kind of pod; arrays of N."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._kept: dict[object, tuple[Values, int]] = {}
        self._changes: tuple[tuple[int, int], Rows] | None = None

    def rejecters(
        self, filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot
    ) -> Indices:
        """Give for each node the index of the first of these filters that rules it out, or -1."""
        course = state.expect(Course)

        def judge(part: Snapshot) -> Indices:
            rejecters = np.full(len(part), _NOBODY, np.int8)
            for index, plugin in enumerate(filters):
                course.ask(plugin)
                mask = plugin.filter(state, pod, part)
                if not mask.all():
                    rejecters[(rejecters == _NOBODY) & ~mask] = index
            return rejecters

        def judge_one(row: int) -> int:
            for index, plugin in enumerate(filters):
                course.ask(plugin)
                if not plugin.fits(state, pod, snapshot, row):
                    return index
            return _NOBODY

        return self._renew("rejecters", snapshot, judge, judge_one)

    def total(
        self, scorers: tuple[tuple[Score, int], ...], state: CycleState, pod: Pod, snapshot: Snapshot
    ) -> Scores:
        """Sum the weighted scores that plugins give to each node, not normalized; not to be written."""
        course = state.expect(Course)

        def judge(part: Snapshot) -> Scores:
            total = np.zeros(len(part))
            for plugin, weight in scorers:
                course.ask(plugin)
                total += weight * plugin.score(state, pod, part, part.indexes)
            return total

        def judge_one(row: int) -> float:
            total = 0.0
            for plugin, weight in scorers:
                course.ask(plugin)
                total += weight * plugin.rate(state, pod, snapshot, row)
            return total

        scores = self._renew(scorers, snapshot, judge, judge_one).view()
        scores.flags.writeable = False
        return scores

    def _renew(
        self,
        name: object,
        snapshot: Snapshot,
        judge: Callable[[Snapshot], Values],
        judge_one: Callable[[int], float],
    ) -> Values:
        """Give what is kept under a name, after the nodes that changed since have been judged again."""
        now = self._columns.clock
        kept = self._kept.get(name)
        if kept is None:
            values = _in_blocks(judge, snapshot)
        elif kept[1] == now:
            return kept[0]
        else:
            values = _fitted(kept[0], len(snapshot))
            rows = self._changed(kept[1], now, len(snapshot))
            if len(rows) >= _MANY * len(snapshot):
                values[:] = _in_blocks(judge, snapshot)
            elif len(rows) > _FEW:
                values[rows] = judge(snapshot.take(rows))
            else:
                for row in rows.tolist():
                    values[row] = judge_one(row)
        self._kept[name] = (values, now)
        return values

    def _changed(self, since: int, now: int, count: int) -> Rows:
        """Give the rows that changed; they are mostly asked for twice, for filters and for scores."""
        if self._changes is None or self._changes[0] != (since, now):
            rows = (self._columns.changed_at[:count] > since).nonzero()[0]
            self._changes = (since, now), rows
        return self._changes[1]


class SharedVerdicts:
    """The verdicts on the kinds of pods that came last."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._kinds: OrderedDict[tuple[str, object], Verdicts] = OrderedDict()

    def of(self, profile: Profile, pod: Pod) -> Verdicts:
        """Give the verdict on the pod's kind, which may be yet to come."""
        key = (profile.scheduler_name, pod.placement_key)
        verdicts = self._kinds.get(key)
        if verdicts is None:
            verdicts = self._kinds[key] = Verdicts(self._columns)
            if len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(key)
        return verdicts


def _in_blocks(judge: Callable[[Snapshot], Values], snapshot: Snapshot) -> Values:
    """Judge all nodes."""
    count = len(snapshot)
    if count <= _BLOCK:
        return judge(snapshot)
    starts = range(0, count, _BLOCK)
    return np.concatenate([judge(snapshot.take(slice(start, start + _BLOCK))) for start in starts])


def _fitted(values: Values, count: int) -> Values:
    """Give an array of this length with the values kept; new ones belong to rows that have changed."""
    if len(values) == count:
        return values
    fitted = np.zeros(count, values.dtype)
    fitted[: len(values)] = values[:count]
    return fitted
