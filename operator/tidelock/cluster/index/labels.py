"""The nodes' labels as integer codes, so that comparisons, counts and sums by label work on arrays.

A key of some node is coded at the first query, and kept up to date from then on. An array over the values of
a key has one element for each code and one more at its end, for nodes without the label: their code is -1, so
`array[codes]` spreads it over the nodes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tidelock.cluster.arrays import Counts, Mask
from tidelock.model.nodes import Node

Codes = npt.NDArray[np.intp]

A = TypeVar("A", bound=npt.NDArray[np.generic])

# How many keys are kept. The one without a query for the longest time goes first.
_KEYS = 256
# How many values that no node has any more a key may keep: that many, or half of them.
_SPARE_VALUES = 64


@dataclass(frozen=True, eq=False)
class Label:
    """One label of N nodes, with V values: `codes` of N, `values` by code, and `code_of` a value."""

    codes: Codes
    values: Sequence[str]
    code_of: Mapping[str, int]

    def take(self, rows: slice | Codes) -> "Label":
        """Return the label of some nodes."""
        return Label(self.codes[rows], self.values, self.code_of)

    @cached_property
    def borne(self) -> Mask | None:
        """The nodes with the label, or None if all have it."""
        has = _frozen(np.greater_equal(self.codes, 0))
        return None if has.all() else has

    @cached_property
    def in_use(self) -> Mask:
        """Which values some node has: V + 1, the last telling of nodes without the label."""
        return _frozen(self.found_at(slice(None)))

    def found_at(self, nodes: Mask | Codes | slice) -> Mask:
        """Return which values some of these nodes have: V + 1, the last for nodes without the label."""
        found = np.zeros(len(self.values) + 1, np.bool_)
        found[self.codes[nodes]] = True
        return found

    def among(self, values: Sequence[str]) -> Mask:
        """Return for each node whether it has one of these values."""
        codes = [code for value in values if (code := self.code_of.get(value)) is not None]
        if len(codes) == 1:
            return np.equal(self.codes, codes[0])
        chosen = np.zeros(len(self.values) + 1, np.bool_)
        chosen[codes] = True
        return chosen.take(self.codes)

    def totals(self, counts: Counts, where: Mask | None = None) -> Counts:
        """Return the sums of counts by value, over all nodes or those of a mask: V + 1, the last being 0."""
        counting = counts != 0 if where is None else (counts != 0) & where
        rows = np.flatnonzero(counting)
        # Shifted, so that nodes without the label come first and not last.
        sums = np.bincount(self.codes[rows] + 1, weights=counts[rows], minlength=len(self.values) + 1)
        totals = np.zeros(len(self.values) + 1, np.int64)
        totals[:-1] = sums[1:]
        return totals


class NodeLabels:
    """The labels of all nodes by key, which follow each change of the nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Follow a list of nodes. Each change must be reported after it was made."""
        self._nodes = nodes
        self._coded: dict[str, _Coded] = {}
        self._bearers: Counter[str] = Counter()
        self._unused = _unused_label(0)

    def borne(self, key: str) -> bool:
        """Return whether any node has a label."""
        return key in self._bearers

    def of(self, key: str) -> Label:
        """Return a label of all nodes. A label of no node costs nothing: pods may name any number."""
        if key not in self._bearers:
            if len(self._unused.codes) != len(self._nodes):
                self._unused = _unused_label(len(self._nodes))
            return self._unused
        coded = self._coded.pop(key, None)
        if coded is None or coded.wasteful(len(self._nodes)):
            coded = _Coded(key, self._nodes)
        self._coded[key] = coded
        if len(self._coded) > _KEYS:
            del self._coded[next(iter(self._coded))]
        return coded.label(len(self._nodes))

    def put(self, row: int, earlier: Node | None = None) -> None:
        """Add the labels of a new node, or update those of a changed one."""
        if earlier is not None:
            self.drop(earlier)
        self._bearers.update(self._nodes[row].meta.labels.keys())
        for coded in self._coded.values():
            coded.put(row, self._nodes[row])

    def drop(self, node: Node) -> None:
        """Forget the labels of a node."""
        for key in node.meta.labels:
            self._bearers[key] -= 1
            if not self._bearers[key]:
                del self._bearers[key]

    def move(self, source: int, target: int) -> None:
        """Follow a node to another row."""
        for coded in self._coded.values():
            coded.move(source, target)


class _Coded:
    """One key: codes of at least as many rows as there are nodes."""

    def __init__(self, key: str, nodes: Sequence[Node]) -> None:
        self._key = key
        self._values: list[str] = []
        self._code_of: dict[str, int] = {}
        self._codes = np.array([self._code(node) for node in nodes], np.intp)
        self._label: Label | None = None

    def label(self, count: int) -> Label:
        """Return a value that is kept until a node changes."""
        if self._label is None or len(self._label.codes) != count:
            self._label = Label(_frozen(self._codes[:count]), tuple(self._values), self._code_of)
        return self._label

    def put(self, row: int, node: Node) -> None:
        self._label = None
        if row >= len(self._codes):
            more = np.full(max(64, len(self._codes)), -1, np.intp)
            self._codes = np.concatenate((self._codes, more))
        self._codes[row] = self._code(node)

    def move(self, source: int, target: int) -> None:
        self._label = None
        self._codes[target] = self._codes[source]

    def wasteful(self, count: int) -> bool:
        return len(self._values) > 2 * count + _SPARE_VALUES

    def _code(self, node: Node) -> int:
        value = node.meta.labels.get(self._key)
        if value is None:
            return -1
        code = self._code_of.setdefault(value, len(self._values))
        if code == len(self._values):
            self._values.append(value)
        return code


def _unused_label(count: int) -> Label:
    """Make the label that none of so many nodes has."""
    return Label(_frozen(np.full(count, -1, np.intp)), (), {})


def _frozen(array: A) -> A:
    array.flags.writeable = False
    return array
