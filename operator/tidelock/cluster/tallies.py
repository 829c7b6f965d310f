"""How many placed pods a query selects, by node.

A tally is made by looking at the pods the first time that somebody asks for it; from then on it follows the
pods that come, go and change. Those that nobody has asked for the longest are given up.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from tidelock.cluster.columns import Columns
from tidelock.cluster.rowcounts import Counts, RowCounts
from tidelock.cluster.selection import Choice, Index
from tidelock.model.pods import Pod

_ByValue = defaultdict[str, dict[str, "Occupant"]]

_TALLIES = 1024


class Occupant(Protocol):
    """A pod on a node."""

    @property
    def pod(self) -> Pod:
        """The pod."""

    @property
    def node_name(self) -> str:
        """The node."""


@dataclass(frozen=True)
class Query:
    """Pods that every one of these choices selects, with or without those that are being deleted."""

    choices: tuple[Choice, ...]
    deleted: bool = True

    def selects(self, pod: Pod) -> bool:
        """Whether a pod is counted."""
        if not self.deleted and pod.metadata.deletion_timestamp is not None:
            return False
        return all(choice.selects(pod) for choice in self.choices)


class Tallies:
    """Tallies of queries, one count a row of the columns."""

    def __init__(self, columns: Columns, in_namespace: Mapping[str, Mapping[str, Occupant]]) -> None:
        """Count pods on the nodes of the columns; `in_namespace` are all placed pods, by their uid."""
        self._columns = columns
        self._pods = _ByLabel(in_namespace)
        self._tallies: dict[Query, _Tally] = {}
        self._index: Index[_Tally] = Index()

    def of(self, query: Query) -> Counts:
        """Count the pods of a query on each node; the array is a view that is not to be kept."""
        tally = self._tallies.pop(query, None)
        if tally is None:
            tally = self._made(query)
        self._tallies[query] = tally
        return tally.counts.view(len(self._columns))

    def place(self, occupant: Occupant) -> None:
        """Know a pod that has been placed, on whatever node."""
        self._pods.add(occupant)

    def displace(self, occupant: Occupant) -> None:
        """Forget a pod."""
        self._pods.remove(occupant)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod on a node (sign 1), or no longer (-1)."""
        for tally in self._index.near(pod):
            if tally.query.selects(pod):
                tally.counts.add(row, sign)

    def move(self, source: int, target: int) -> None:
        """Follow a node from the last row to one whose node has gone."""
        for tally in self._tallies.values():
            tally.counts.move(source, target)

    def _made(self, query: Query) -> "_Tally":
        narrowest = min(query.choices, key=_breadth)
        row_of = self._columns.row_of
        rows = [
            row_of[occupant.node_name]
            for occupant in self._pods.near(narrowest)
            if query.selects(occupant.pod) and occupant.node_name in row_of
        ]
        counts = np.bincount(np.array(rows, np.intp), minlength=len(self._columns))
        tally = _Tally(query, RowCounts(counts.astype(np.int64, copy=False)))
        self._index.add(narrowest, tally)
        if len(self._tallies) >= _TALLIES:
            self._index.discard(self._tallies.pop(next(iter(self._tallies))))
        return tally


def _breadth(choice: Choice) -> tuple[bool, bool]:
    """Rank a choice by how many pods it may take to look at."""
    return choice.namespaces is None, not choice.selection.pairs


@dataclass(slots=True, eq=False)
class _Tally:
    query: Query
    counts: RowCounts


class _ByLabel:
    """The placed pods by label, for the namespaces and keys that were asked for; "" is all namespaces."""

    def __init__(self, in_namespace: Mapping[str, Mapping[str, Occupant]]) -> None:
        self._in_namespace = in_namespace
        self._found: defaultdict[str, dict[str, _ByValue]] = defaultdict(dict)

    def add(self, occupant: Occupant) -> None:
        for found, value in self._known(occupant.pod):
            found[value][occupant.pod.uid] = occupant

    def remove(self, occupant: Occupant) -> None:
        for found, value in self._known(occupant.pod):
            pods = found[value]
            del pods[occupant.pod.uid]
            if not pods:
                del found[value]
        if occupant.pod.meta.namespace not in self._in_namespace:
            self._found.pop(occupant.pod.meta.namespace, None)

    def near(self, choice: Choice) -> Iterator[Occupant]:
        """Give all pods that a choice selects, and some that it does not."""
        for namespace in ("",) if choice.namespaces is None else choice.namespaces:
            candidates = [self._with(namespace, key).get(value, {}) for key, value in choice.selection.pairs]
            if candidates:
                yield from min(candidates, key=len).values()
            else:
                yield from self._all(namespace)

    def _with(self, namespace: str, key: str) -> Mapping[str, Mapping[str, Occupant]]:
        if namespace and namespace not in self._in_namespace:
            return {}
        found = self._found[namespace].get(key)
        if found is None:
            found = self._found[namespace][key] = defaultdict(dict)
            for occupant in self._all(namespace):
                value = occupant.pod.meta.labels.get(key)
                if value is not None:
                    found[value][occupant.pod.uid] = occupant
        return found

    def _all(self, namespace: str) -> Iterable[Occupant]:
        if not namespace:
            return chain.from_iterable(pods.values() for pods in self._in_namespace.values())
        return self._in_namespace[namespace].values() if namespace in self._in_namespace else ()

    def _known(self, pod: Pod) -> Iterator[tuple[_ByValue, str]]:
        for namespace in (pod.meta.namespace, ""):
            by_key = self._found.get(namespace)
            if by_key:
                for key, value in pod.meta.labels.items():
                    if key in by_key:
                        yield by_key[key], value
