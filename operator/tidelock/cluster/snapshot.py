"""The cluster as plugins see it: the columns, read-only, as they are at the start of a decision.

No copy is made. A decision awaits nothing, so nothing can change meanwhile, and plugins can't write to the
views. A snapshot of a few rows is a copy, for hypothetical changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import NO_ROW, Amounts, Columns, Rows, Traits
from tidelock.cluster.index.labels import Label
from tidelock.model.nodes import Node
from tidelock.model.quantities import CEILING, NOTHING, Resources

_ALL = slice(None)

Wanted = tuple[tuple[int, int], ...]
"""Columns of resources, with how much of each is wanted: more than nothing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes: N rows, R resources.

    `allocatable`, `requested` and `reserved` are N x R, `nonzero` is N x 2 (cpu, memory). `rows` are the
    rows of the columns: all, or those that were taken. They index data that a plugin keeps of all nodes.
    `indexes` are 0 to N - 1.
    """

    nodes: Sequence[Node]
    allocatable: Amounts
    requested: Amounts
    reserved: Amounts
    nonzero: Amounts
    traits: Traits
    indexes: Rows
    rows: slice | Rows
    _columns: Columns

    @classmethod
    def of(cls, columns: Columns) -> "Snapshot":
        """View the columns as they are now."""
        count = len(columns)
        return cls(
            nodes=columns.nodes,
            allocatable=_view(columns.allocatable, count),
            requested=_view(columns.requested, count),
            reserved=_view(columns.reserved, count),
            nonzero=_view(columns.nonzero, count),
            traits=columns.traits(),
            indexes=np.arange(count),
            rows=_ALL,
            _columns=columns,
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, rows: slice | Rows) -> "Snapshot":
        """Return a copy of some rows. Its `requested`, `reserved` and `nonzero` may be written.

        A slice is not copied, and must not be written.
        """
        nodes = self.nodes[rows] if isinstance(rows, slice) else [self.nodes[row] for row in rows]
        return Snapshot(
            nodes=nodes,
            allocatable=self.allocatable[rows],
            requested=self.requested[rows],
            reserved=self.reserved[rows],
            nonzero=self.nonzero[rows],
            traits=self.traits.take(rows),
            indexes=np.arange(len(nodes)),
            rows=rows,
            _columns=self._columns,
        )

    @property
    def resources(self) -> Sequence[str]:
        """Names of the R columns."""
        return self._columns.resources

    def row(self, node_name: str) -> int | None:
        """Row of a node in the columns, or None if there is no such node."""
        return self._columns.row_of.get(node_name)

    def position(self, node_name: str) -> int | None:
        """Index of a node in this snapshot's arrays, or None if it is not among its nodes."""
        row = self.row(node_name)
        if row is None or self.rows is _ALL:
            return row
        found = np.flatnonzero(np.arange(len(self._columns))[self.rows] == row)
        return int(found[0]) if len(found) else None

    def labels(self, key: str) -> Label:
        """Return a label of the nodes by its key."""
        label = self._columns.labels.of(key)
        return label if self.rows is _ALL else label.take(self.rows)

    def called(self, names: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return for each node whether it has one of these names."""
        chosen = np.zeros(len(self._columns), np.bool_)
        chosen[[row for name in names if (row := self.row(name)) is not None]] = True
        mask: npt.NDArray[np.bool_] = chosen[self.rows]
        return mask

    def column(self, resource: str) -> int:
        """Return the column of a resource, or NOWHERE if no node has any of it."""
        return self._columns.column_of.get(resource, NO_ROW)

    def wanted(self, resources: Resources) -> Wanted:
        """Return the columns and amounts of requests. NOWHERE stands for a resource of no node (`absent`)."""
        columns = self._columns
        pairs = [
            (columns.column_of.get(name, NO_ROW), min(units, CEILING))
            for name, units in resources.items()
            if units > 0 and (name in columns.column_of or name not in columns.backed)
        ]
        pairs.sort()
        return tuple(pairs)

    def absent(self, resources: Resources) -> Resources:
        """Return how much is wanted of resources that no node has, and no devices provide."""
        columns = self._columns
        if resources.keys() <= columns.column_of.keys():
            return NOTHING
        return {
            name: units
            for name, units in resources.items()
            if units > 0 and name not in columns.column_of and name not in columns.backed
        }

    def capacity(self, column: int, part: slice | Rows = _ALL) -> Amounts:
        """Return how much nodes have of a resource. It is CEILING where devices provide it."""
        amounts: Amounts = self.allocatable[part, column]
        if self._columns.backed and self.resources[column] in self._columns.backed:
            return np.where(amounts == 0, CEILING, amounts)
        return amounts

    def free(self, column: int, *, beside_reservations: bool = False) -> Amounts:
        """Return how much of a resource is free, with `beside_reservations` of held amounts, too."""
        free: Amounts = self.capacity(column) - self.requested[:, column]
        if beside_reservations:
            free -= self.reserved[:, column]
        return free

    def free_for(self, wanted: Wanted, *, beside_reservations: bool) -> npt.NDArray[np.bool_]:
        """Return for each node whether amounts are free."""
        fits = np.ones(len(self), np.bool_)
        for column, units in wanted:
            fits &= self.free(column, beside_reservations=beside_reservations) >= units
        return fits

    def multiples(self, wanted: Wanted, *, beside_reservations: bool) -> npt.NDArray[np.int64]:
        """Return for each node how many times the amounts are free, or CEILING without requests."""
        counts = np.full(len(self), CEILING, np.int64)
        for column, units in wanted:
            free = self.free(column, beside_reservations=beside_reservations)
            np.minimum(counts, free // units, out=counts)
        return np.maximum(counts, 0)

    def has_free(self, wanted: Wanted, row: int, *, beside_reservations: bool) -> bool:
        """Return for one node whether amounts are free."""
        for column, units in wanted:
            taken = self.requested.item(row, column)
            if beside_reservations:
                taken += self.reserved.item(row, column)
            if self.allocatable.item(row, column) - taken < units and not self.provided(column, row):
                return False
        return True

    def provided(self, column: int, row: int) -> bool:
        """Return whether devices provide a resource on a node."""
        return self._columns.provided(self.resources[column], self.nodes[row])

    def vector(self, resources: Resources) -> Amounts:
        """Lay out amounts as one row of R, without resources that no node has."""
        return self._columns.vector(resources)

    def named(self, row: Amounts) -> dict[str, int]:
        """Return the amounts of a row that are not zero, by resource."""
        return self._columns.named(row)


def _view(column: npt.NDArray[np.int64], count: int) -> Amounts:
    view = column[:count]
    view.flags.writeable = False
    return view
