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
# Beyond this share of changed nodes, judging all of them at once is cheaper than picking them out.
_MANY = 0.25

_NOBODY = -1


class Verdicts:
    """The verdict of one profile's per-node plugins on one kind of pod; arrays of N."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._kept: dict[object, tuple[Values, int]] = {}
        self._part: tuple[tuple[int, int], Snapshot] | None = None

    def rejecters(
        self, filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot, *, heeds_room: bool
    ) -> Indices:
        """Give for each node the index of the first of these filters that rules it out, or -1."""
        return self._renew(
            heeds_room,
            lambda part: _first_rejecter(filters, state, pod, part),
            snapshot,
            np.int8,
            heeds_room=heeds_room,
        )

    def total(
        self, scorers: tuple[tuple[Score, int], ...], state: CycleState, pod: Pod, snapshot: Snapshot
    ) -> Scores:
        """Sum the weighted scores that plugins give to each node, not normalized; not to be written."""

        def judge(part: Snapshot) -> Scores:
            rows, total = np.arange(len(part)), np.zeros(len(part))
            course = state.expect(Course)
            for plugin, weight in scorers:
                course.ask(plugin)
                total += weight * plugin.score(state, pod, part, rows)
            return total

        heeds_room = any(plugin.heeds_room for plugin, _ in scorers)
        scores = self._renew(scorers, judge, snapshot, np.float64, heeds_room=heeds_room).view()
        scores.flags.writeable = False
        return scores

    def _renew(
        self,
        name: object,
        judge: Callable[[Snapshot], Values],
        snapshot: Snapshot,
        kind: type[np.generic],
        *,
        heeds_room: bool,
    ) -> Values:
        """Give what is kept under a name, after the nodes that changed since have been judged again."""
        columns, count = self._columns, len(snapshot)
        if heeds_room:
            ticks, now = columns.changed_at, columns.clock
        else:
            ticks, now = columns.node_changed_at, columns.node_clock
        kept = self._kept.get(name)
        if kept is not None and kept[1] == now:
            return kept[0]
        values, since = kept or (np.zeros(0, kind), -1)
        if len(values) != count:
            values = _fitted(values, count)
        rows = (ticks[:count] > since).nonzero()[0]
        if len(rows) >= _MANY * count:
            values[:] = judge(snapshot)
        elif len(rows):
            values[rows] = judge(self._take(snapshot, rows, (since, now)))
        self._kept[name] = (values, now)
        return values

    def _take(self, snapshot: Snapshot, rows: Rows, span: tuple[int, int]) -> Snapshot:
        """Take rows of the snapshot; plugins that were last asked at the same time share them."""
        if self._part is None or self._part[0] != span:
            self._part = (span, snapshot.take(rows))
        return self._part[1]


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


def _first_rejecter(filters: Sequence[Filter], state: CycleState, pod: Pod, snapshot: Snapshot) -> Indices:
    rejecter = np.full(len(snapshot), _NOBODY, np.int8)
    course = state.expect(Course)
    for index, plugin in enumerate(filters):
        course.ask(plugin)
        mask = plugin.filter(state, pod, snapshot)
        if not mask.all():
            rejecter[(rejecter == _NOBODY) & ~mask] = index
    return rejecter


def _fitted(values: Values, count: int) -> Values:
    """Give an array of this length with the values kept; new ones belong to rows that have changed."""
    fitted = np.zeros(count, values.dtype)
    fitted[: len(values)] = values[:count]
    return fitted
