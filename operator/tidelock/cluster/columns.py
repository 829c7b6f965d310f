"""The cluster's nodes as NumPy columns: one row a node, one column a resource.

Rows 0 to len(columns) - 1 are in use, in no particular order: a node that goes is replaced by the last one.
A resource has a column as long as some node has any of it. Pods and reservations may name any number of other
resources. Their amounts of these are kept aside, by node, until a node has some. All amounts are int64 in the
units of `tidelock.model.quantities`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidelock.cluster.index.labels import NodeLabels
from tidelock.model.nodes import Node
from tidelock.model.quantities import (
    CEILING,
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NOTHING,
    PODS,
    Resources,
)
from tidelock.model.selectors import Taint

Amounts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Part = slice | Rows | int
"""Some of the rows, or a single one with plain numbers as amounts."""

A = TypeVar("A", bound=npt.NDArray[np.generic])

NO_ROW = 4
"""The column of all resources that no node has: nothing but zeros, so that no amount of any of them fits."""
_SPARE = ""  # the name of NOWHERE, and of columns that are not in use

# How many sets of amounts are kept laid out, and how large each may be.
_VECTORS = 4096
_LONGEST_KEY = 64


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of the nodes apart from their amounts, as read-only arrays of N.

    `unreadable` nodes lack a part that decisions need.
    `name_rank` is a node's position among the sorted names. `taint_set_of` indexes the distinct `taint_sets`.
    `least` and `most` are the extremes of each resource over all nodes, R. `capacity` are the allocatable
    amounts as floats, which divide faster: N x R.
    """

    version: int
    cordoned: npt.NDArray[np.bool_]
    unreadable: npt.NDArray[np.bool_]
    name_rank: Rows
    taint_sets: tuple[tuple[Taint, ...], ...]
    taint_set_of: Rows
    least: tuple[int, ...]
    most: tuple[int, ...]
    capacity: npt.NDArray[np.float64]

    @classmethod
    def of(cls, nodes: Sequence[Node], allocatable: Amounts, version: int) -> "Traits":
        """Read the traits off the nodes."""
        name_rank = np.empty(len(nodes), np.intp)
        name_rank[sorted(range(len(nodes)), key=lambda row: nodes[row].name)] = np.arange(len(nodes))
        taint_sets: dict[tuple[Taint, ...], int] = {}
        set_of = [taint_sets.setdefault(node.taints, len(taint_sets)) for node in nodes]
        return cls(
            version=version,
            cordoned=_frozen(np.array([node.unschedulable for node in nodes], np.bool_)),
            unreadable=_frozen(np.array([bool(node.meta.unreadable) for node in nodes], np.bool_)),
            name_rank=_frozen(name_rank),
            taint_sets=tuple(taint_sets),
            taint_set_of=_frozen(np.array(set_of, np.intp)),
            least=tuple(allocatable.min(axis=0, initial=CEILING).tolist()),
            most=tuple(allocatable.max(axis=0, initial=0).tolist()),
            capacity=_frozen(allocatable.astype(np.float64)),
        )

    def take(self, rows: slice | Rows) -> "Traits":
        """Return the traits of some rows."""
        return Traits(
            version=self.version,
            cordoned=self.cordoned[rows],
            unreadable=self.unreadable[rows],
            name_rank=self.name_rank[rows],
            taint_sets=self.taint_sets,
            taint_set_of=self.taint_set_of[rows],
            least=self.least,
            most=self.most,
            capacity=self.capacity[rows],
        )


def amount(amounts: npt.NDArray[Any], part: Part, column: int) -> Any:
    """Return a column of some nodes, or a Python number for a single one, which is faster than NumPy's."""
    return amounts.item(part, column) if isinstance(part, int) else amounts[part, column]


class Columns:
    """Allocatable, requested and reserved amounts of every node.

    `nonzero` is the requested cpu and memory as scoring counts them. `version` changes whenever a node comes,
    goes or changes, apart from its requested and reserved amounts. `freed` counts all changes that may let
    something fit that did not fit before. `clock` ticks with every change, and `changed_at` is the last tick
    of each row. `layout` changes whenever a resource gets or loses a column, and only when `version` does.
    `backed` names the class of each resource that devices provide on nodes without any of it themselves.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.resources: list[str] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS, _SPARE]
        self.column_of = {name: column for column, name in enumerate(self.resources[:NO_ROW])}
        self.layout = 0
        self.nodes: list[Node] = []
        self.labels = NodeLabels(self.nodes)
        self.row_of: dict[str, int] = {}
        self.version = 0
        self.freed = 0
        self.clock = 0
        self.backed: dict[str, str] = {}
        self.changed_at = np.zeros(capacity, np.int64)
        self._changes: tuple[tuple[int, int], Rows] = (0, 0), _frozen(np.zeros(0, np.intp))
        self._traits: Traits | None = None
        self._vectors: dict[tuple[tuple[str, int], ...], Amounts] = {}
        self._nodes_with: Counter[str] = Counter()
        self._unused: list[int] = []
        # By node and resource: the requested and reserved amounts of resources that no node has.
        self._aside: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        shape = (capacity, len(self.resources))
        self.allocatable = _zeros(shape)
        self.requested = _zeros(shape)
        self.reserved = _zeros(shape)
        self.nonzero = _zeros((capacity, 2))

    def __len__(self) -> int:
        return len(self.nodes)

    def vector(self, resources: Resources) -> Amounts:
        """Return amounts as one read-only row, which equal pods share.

        Resources that no node has are left out. `Snapshot.wanted` has them, where they matter.
        """
        key = tuple(resources.items())
        row = self._vectors.get(key)
        if row is not None:
            return row
        row = np.zeros(len(self.resources), np.int64)
        for name, units in key:
            column = self.column_of.get(name)
            if column is not None:
                row[column] = min(units, CEILING)
        if len(self._vectors) >= _VECTORS:
            self._vectors.clear()
        if len(key) <= _LONGEST_KEY:
            self._vectors[key] = row
        return _frozen(row)

    def named(self, row: Amounts) -> dict[str, int]:
        """Return the amounts of a row that are not zero, by resource."""
        return {self.resources[column]: int(row[column]) for column in np.flatnonzero(row)}

    def put(self, node: Node) -> int:
        """Add or update a node. Return its row."""
        row = self.row_of.get(node.name)
        self._renew_columns(self.nodes[row].allocatable if row is not None else NOTHING, node.allocatable)
        allocatable = self.vector(node.allocatable)
        if row is None:
            row = len(self.nodes)
            if row == len(self.allocatable):
                self._grow()
            self.nodes.append(node)
            self.row_of[node.name] = row
            self.labels.put(row)
            for column in (self.requested, self.reserved, self.nonzero):
                column[row] = 0
            self._changed(row)
        else:
            earlier, self.nodes[row] = self.nodes[row], node
            if not node.hosts_alike(earlier):
                self.labels.put(row, earlier)
                self._changed(row)
        self.allocatable[row] = allocatable
        return row

    def back(self, classes: Mapping[str, str]) -> None:
        """Take over the class of each resource that devices provide. All nodes count as changed."""
        if self.backed != classes:
            self.backed = dict(classes)
            self.version += 1
            self.freed += 1
            self.clock += 1
            self.changed_at[: len(self)] = self.clock

    def drop(self, name: str) -> None:
        """Remove a node. The last row moves to its place."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        last = len(self.nodes) - 1
        self._aside.pop(name, None)
        gone = self.nodes[row]
        moved = self.nodes.pop()
        if row != last:
            self.nodes[row] = moved
            self.row_of[moved.name] = row
            for column in (self.allocatable, self.requested, self.reserved, self.nonzero):
                column[row] = column[last]
            self.labels.move(last, row)
        self.labels.drop(gone)
        self._renew_columns(gone.allocatable, NOTHING)
        self._changed(row)

    def request(self, node_name: str, resources: Resources, nonzero: tuple[int, int], sign: int) -> None:
        """Add the requests of a pod to a node (sign 1), or subtract them (-1). An unknown node is ignored."""
        row = self.row_of.get(node_name)
        if row is not None:
            for name, units in resources.items():  # a few numbers: cheaper than one array
                column = self.column_of.get(name)
                if column is None:
                    self._put_aside(node_name, name, sign * min(units, CEILING), 0)
                else:
                    self.requested[row, column] += sign * min(units, CEILING)
            self.nonzero[row, 0] += sign * nonzero[0]
            self.nonzero[row, 1] += sign * nonzero[1]
            self._tick(row)
            self.freed += sign < 0

    def reservation(self, node_name: str, resources: Resources, sign: int) -> None:
        """Add held amounts to a node (sign 1), or subtract them (-1). An unknown node is ignored."""
        if not resources:
            return
        amounts = self.vector(resources)
        row = self.row_of.get(node_name)
        if row is not None:
            self.reserved[row] += sign * amounts
            if not resources.keys() <= self.column_of.keys():
                for name in resources.keys() - self.column_of.keys():
                    self._put_aside(node_name, name, 0, sign * min(resources[name], CEILING))
            self._tick(row)
            self.freed += sign < 0

    def touch(self, node_name: str) -> None:
        """Note that something fits a node, if it is known, that did not fit before, with the same amounts."""
        if (row := self.row_of.get(node_name)) is not None:
            self._tick(row)
            self.freed += 1

    def shortfall(self, node_name: str) -> dict[str, int]:
        """Return by how much pods and reservations exceed a node's allocatable amounts, by resource.

        For an unreadable node that is unknown, so the result is empty.
        """
        row = self.row_of.get(node_name)
        if row is None or self.nodes[row].meta.unreadable:
            return {}
        excess = self.requested[row] + self.reserved[row] - self.allocatable[row]
        aside = {name: sum(amounts) for name, amounts in self._aside.get(node_name, {}).items()}
        if not aside and not (excess > 0).any():
            return {}
        beyond = {name: units for name, units in aside.items() if units > 0}
        short = self.named(np.maximum(excess, 0)) | beyond
        return {**self.not_provided(short, self.nodes[row])}

    def fits(self, node_name: str, resources: Resources) -> bool:
        """Return whether these amounts of a node are free of pods and reservations."""
        row = self.row_of.get(node_name)
        if row is None:
            return False
        resources = self.not_provided(resources, self.nodes[row])
        if any(units > 0 for name, units in resources.items() if name not in self.column_of):
            return False
        amounts = self.vector(resources)
        free = self.allocatable[row] - self.requested[row] - self.reserved[row]
        return bool(((amounts <= free) | (amounts == 0)).all())

    def provided(self, resource: str, node: Node) -> bool:
        """Return whether devices provide a resource on a node."""
        return resource in self.backed and not node.allocatable.get(resource)

    def not_provided(self, resources: Resources, node: Node) -> Resources:
        """Return amounts without those of resources that devices provide on a node."""
        if self.backed.keys().isdisjoint(resources):
            return resources
        return {name: units for name, units in resources.items() if not self.provided(name, node)}

    def changed(self, since: int) -> Rows:
        """Return the rows that have changed since a tick. Most calls come twice, for filters and scores."""
        span = since, self.clock
        if self._changes[0] != span:
            self._changes = span, _frozen((self.changed_at[: len(self)] > since).nonzero()[0])
        return self._changes[1]

    def traits(self) -> "Traits":
        """Return the traits, which are computed once for each `version`."""
        if self._traits is None or self._traits.version != self.version:
            self._traits = Traits.of(self.nodes, self.allocatable[: len(self.nodes)], self.version)
        return self._traits

    def _tick(self, row: int) -> None:
        self.clock += 1
        self.changed_at[row] = self.clock

    def _changed(self, row: int) -> None:
        """Note that a node has come, gone or changed."""
        self.version += 1
        self.freed += 1
        self._tick(row)

    def _renew_columns(self, before: Resources, after: Resources) -> None:
        """Count the resources of a node, or stop to: each resource that a node has gets a column."""
        if before == after:
            return
        for name, units in after.items():
            self._nodes_with[name] += units > 0
            if units > 0 and name not in self.column_of:
                self._add_column(name)
        for name, units in before.items():
            self._nodes_with[name] -= units > 0
            if not self._nodes_with[name]:
                del self._nodes_with[name]
                if self.column_of.get(name, 0) > NO_ROW:
                    self._drop_column(name)

    def _add_column(self, name: str) -> None:
        if not self._unused:
            width = len(self.resources)
            more = max(1, width // 2)
            self.resources += [_SPARE] * more
            self._unused = list(range(width + more - 1, width - 1, -1))
            self.allocatable = _enlarged(self.allocatable, columns=more)
            self.requested = _enlarged(self.requested, columns=more)
            self.reserved = _enlarged(self.reserved, columns=more)
        column = self._unused.pop()
        self.column_of[name], self.resources[column] = column, name
        for node_name, aside in tuple(self._aside.items()):
            row, amounts = self.row_of.get(node_name), aside.pop(name, None)
            if amounts is not None and row is not None:
                self.requested[row, column], self.reserved[row, column] = amounts
                self._tick(row)
            if not aside:
                del self._aside[node_name]
        self._relaid()

    def _drop_column(self, name: str) -> None:
        column = self.column_of.pop(name)
        self.resources[column] = _SPARE
        self._unused.append(column)
        taken = self.requested[: len(self), column] | self.reserved[: len(self), column]
        for row in np.flatnonzero(taken).tolist():
            amounts = int(self.requested[row, column]), int(self.reserved[row, column])
            self._put_aside(self.nodes[row].name, name, *amounts)
            self._tick(row)
        for amounts_of in (self.allocatable, self.requested, self.reserved):
            amounts_of[:, column] = 0
        self._relaid()

    def _relaid(self) -> None:
        self._vectors.clear()
        self._traits = None
        self.layout += 1

    def _put_aside(self, node_name: str, name: str, requested: int, reserved: int) -> None:
        amounts = self._aside[node_name].setdefault(name, [0, 0])
        amounts[0] += requested
        amounts[1] += reserved
        if amounts == [0, 0]:
            del self._aside[node_name][name]
        if not self._aside[node_name]:
            del self._aside[node_name]

    def _grow(self) -> None:
        more = len(self.allocatable)
        self.changed_at = np.concatenate([self.changed_at, np.zeros(more, np.int64)])
        self.allocatable = _enlarged(self.allocatable, rows=more)
        self.requested = _enlarged(self.requested, rows=more)
        self.reserved = _enlarged(self.reserved, rows=more)
        self.nonzero = _enlarged(self.nonzero, rows=more)


def _frozen(array: A) -> A:
    array.flags.writeable = False
    return array


def _zeros(shape: tuple[int, int]) -> Amounts:
    """Allocate amounts column by column: filters and scores read one resource of all nodes at a time."""
    return np.zeros(shape, np.int64, order="F")


def _enlarged(amounts: Amounts, *, rows: int = 0, columns: int = 0) -> Amounts:
    larger = _zeros((amounts.shape[0] + rows, amounts.shape[1] + columns))
    larger[: amounts.shape[0], : amounts.shape[1]] = amounts
    return larger
