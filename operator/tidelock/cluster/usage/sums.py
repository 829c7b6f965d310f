"""Sums by node of the expected use of its pods, by a rule that says how much of each pod counts.

A rule may count the use that a node's last sample does not cover, or a pod's own measured use.
Use is W x R (windows, resources) in the units of `tidelock.model.quantities`.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, WINDOWS, LevelArray
from tidelock.model.usage_annotations import WINDOW_SECONDS

SHAPE = (len(WINDOWS), len(MEASURED_RESOURCES))
_CELLS = len(WINDOWS) * len(MEASURED_RESOURCES)
_SPANS = np.array([WINDOW_SECONDS[window] for window in WINDOWS], np.float64)


class Slots:
    """Some pods as rows of one array, S x WIDTH, so that picking them costs one call. Attributes view it.

    Attributes:
        figures: the array.
        sampled_at: when each pod's node was last measured.
        bound_at: when each was bound, infinite if it is about to be.
        own_at: when its own use was measured.
        by_history: 1 if the expected use is the workload's history, otherwise 0.
        expected: S x W x R, by the workload's history or an estimate.
        own: S x W x R, the measured use of the pod itself, or NaN.

    """

    WIDTH = 3 + 2 * _CELLS

    __slots__ = ("bound_at", "by_history", "expected", "figures", "own", "own_at", "sampled_at")

    def __init__(self, figures: LevelArray, sampled_at: LevelArray) -> None:
        self.figures = figures
        self.sampled_at = sampled_at
        self.bound_at, self.own_at, self.by_history = figures[:, 0], figures[:, 1], figures[:, 2]
        self.expected = figures[:, 3 : 3 + _CELLS].reshape(-1, *SHAPE)
        self.own = figures[:, 3 + _CELLS :].reshape(-1, *SHAPE)


UseRule = Callable[[Slots], LevelArray]
"""Gives how much of each pod counts: S x W x R.

A pod that is about to be bound and has no use of its own yet counts as expected, by every rule.
"""


def since_sample(margin: float) -> UseRule:
    """Count the expected use of pods bound later than `margin` seconds before their node's sample."""

    def rule(slots: Slots) -> LevelArray:
        counts = np.greater(slots.bound_at, slots.sampled_at - margin)
        return np.where(counts[:, np.newaxis, np.newaxis], slots.expected, 0.0)

    return rule


def uncovered(slots: Slots) -> LevelArray:
    """Count the part of each window before the pod was bound.

    A mean over 15 minutes that was taken 5 minutes after the binding contains a third of the pod's use.
    """
    age = (slots.sampled_at - slots.bound_at)[:, np.newaxis]
    share = np.clip(1.0 - age / _SPANS, 0.0, 1.0)
    counted: LevelArray = slots.expected * share[:, :, np.newaxis]
    return counted


def own_use(mature: float) -> UseRule:
    """Count a pod's own use, mixed with the workload's history for the first `mature` seconds."""

    def rule(slots: Slots) -> LevelArray:
        age = np.minimum(np.maximum((slots.own_at - slots.bound_at) / mature, 0.0), 1.0)
        age = np.maximum(age, 1.0 - slots.by_history)[:, np.newaxis, np.newaxis]
        blended = age * slots.own + (1.0 - age) * slots.expected
        return np.where(np.isnan(slots.own), slots.expected, blended)

    return rule


class PodsOnNodes(Protocol):
    """The owner of the pods that are summed."""

    def slots_on(self, rows: Rows) -> Rows:
        """Return the slots of all pods of some nodes."""

    def lay_out(self, slots: Rows, sampled_at: LevelArray, defaults: LevelArray) -> tuple[Slots, Rows]:
        """Return the data of some pods, and the rows of their nodes."""


class Sums:
    """The sums by one rule, kept: a node is summed again when its pods or its sample have changed."""

    def __init__(self, columns: Columns, residents: PodsOnNodes, rule: UseRule) -> None:
        """Begin with nothing summed."""
        self._columns = columns
        self._residents = residents
        self._rule = rule
        self._asked = self._wanted = False  # since the last reading, and before it
        self._stale = np.zeros(0, np.bool_)
        self._changed_rows = np.zeros(0, np.bool_)
        self._sums = np.zeros((*SHAPE, 0))
        self._sampled_at = np.zeros(0)
        self._defaults = np.zeros((len(MEASURED_RESOURCES), 0))
        self._given: tuple[LevelArray, LevelArray] | None = None

    def of(self, sampled_at: LevelArray, defaults: LevelArray) -> LevelArray:
        """Return the sums of each node: W x R x N, a view that must not be kept or written.

        Another call with the same arrays is faster. These must not be written meanwhile.

        Args:
            sampled_at: when each node was last measured: N.
            defaults: the expected use of a pod without any data: R x N.

        """
        self._asked = True
        count = len(self._columns)
        self._reach(count)
        given = self._given
        if given is None or given[0] is not sampled_at or given[1] is not defaults:
            self._give(sampled_at, defaults)
        rows = self._stale[:count].nonzero()[0]
        if len(rows):
            self._renew(rows)
        view = self._sums[:, :, :count]
        view.flags.writeable = False
        return view

    def take_changed_rows(self) -> Rows:
        """Return the rows of nodes with sums that may have changed since the last call."""
        rows = self._changed_rows[: len(self._columns)].nonzero()[0]
        self._changed_rows[rows] = False
        return rows

    def add(self, row: int, expected: LevelArray) -> None:
        """Count a pod that is about to be bound, and has no use of its own: W x R, or R for all windows.

        The sum is the same as if the node was summed again, and costs less.
        """
        self._reach(row + 1)
        if not self._stale[row]:
            self._sums[:, :, row] += expected
            self._stale[row] = bool(np.isnan(expected).any())  # the default is not known here
            self._changed_rows[row] = True

    def touch(self, row: int) -> None:
        """Sum a node again at the next query."""
        self._reach(row + 1)
        self._stale[row] = True

    def begin_reading(self) -> None:
        """Schedule `look_again` for all nodes, at once if these sums are in use."""
        self._wanted, self._asked = self._asked, False

    def look_again(self, rows: Rows) -> None:
        """Sum the nodes of some pods again after a new reading."""
        if self._wanted:
            self._renew(rows)
        else:
            self._stale[rows] = True

    def _give(self, sampled_at: LevelArray, defaults: LevelArray) -> None:
        count = len(self._columns)
        stale = self._stale[:count]
        stale |= sampled_at != self._sampled_at[:count]
        if not np.array_equal(self._defaults[:, :count], defaults):
            stale[:] = True
            self._defaults[:, :count] = defaults
        self._sampled_at[:count] = sampled_at
        self._given = sampled_at, defaults

    def _renew(self, rows: Rows) -> None:
        """Sum the pods of these nodes, which are in order."""
        slots = self._residents.slots_on(rows)
        laid_out, at = self._residents.lay_out(slots, self._sampled_at, self._defaults)
        counted = self._rule(laid_out).reshape(len(slots), _CELLS)
        cells = self._sums.reshape(_CELLS, -1)
        if len(rows) == 1:  # the common case: a pod was placed
            cells[:, rows.item()] = np.add.reduce(counted, axis=0)
        else:
            places = np.searchsorted(rows, at)
            for cell, each in zip(cells, counted.T, strict=True):
                cell[rows] = np.bincount(places, each, minlength=len(rows))
        self._stale[rows] = False
        self._changed_rows[rows] = True

    def _reach(self, count: int) -> None:
        """Grow to a number of rows."""
        missing = count - len(self._stale)
        if missing > 0:
            more = max(64, len(self._stale), missing)
            self._stale = np.concatenate((self._stale, np.ones(more, np.bool_)))
            self._changed_rows = np.concatenate((self._changed_rows, np.zeros(more, np.bool_)))
            self._sampled_at = np.concatenate((self._sampled_at, np.zeros(more)))
            self._sums = np.concatenate((self._sums, np.zeros((*SHAPE, more))), axis=2)
            self._defaults = np.concatenate(
                (self._defaults, np.zeros((len(MEASURED_RESOURCES), more))), axis=1
            )
