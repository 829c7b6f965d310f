"""The affinity terms that placed pods carry, by node: what those pods have to say of one that comes.

Pods of one workload carry the same terms, so a check costs as much as there are different terms that may
mean the pod, whatever the number of pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelock.cluster.columns import Columns
from tidelock.cluster.rowcounts import Counts, RowCounts
from tidelock.cluster.selection import Index, Term
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labels


class Carriers:
    """The terms of placed pods by kind.

    Attributes:
        shunned: required anti-affinity; a carrier counts 1.
        sought: required affinity; a carrier counts 1.
        wished: preferred affinity by its weight, preferred anti-affinity by its weight below zero.

    """

    def __init__(self, columns: Columns) -> None:
        self.shunned = Carried(columns)
        self.sought = Carried(columns)
        self.wished = Carried(columns)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """Count the terms of a pod on a node (sign 1), or no longer (-1)."""
        affinity = pod.spec.affinity
        if affinity is None:
            return
        namespace = pod.meta.namespace
        for terms, required, direction in (
            (affinity.pod_affinity, self.sought, 1),
            (affinity.pod_anti_affinity, self.shunned, -1),
        ):
            if terms is None:
                continue
            for term in terms.required:
                required.count(Term.of(namespace, term), row, 1, sign)
            for wish in terms.preferred:
                self.wished.count(
                    Term.of(namespace, wish.pod_affinity_term), row, direction * wish.weight, sign
                )

    def move(self, source: int, target: int) -> None:
        """Follow a node from the last row to one whose node has gone."""
        for carried in (self.shunned, self.sought, self.wished):
            carried.move(source, target)


class Carried:
    """Terms of one kind, with the sum of their carriers' weights on each node."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._terms: dict[Term, _Term] = {}
        self._index: Index[_Term] = Index()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def meaning(self, pod: Pod, namespace_labels: Labels) -> Iterator[tuple[str, Counts]]:
        """Give topology key and weight on each node of all terms that mean a pod.

        Args:
            pod: the pod that comes.
            namespace_labels: the labels of its namespace.

        """
        size = len(self._columns)
        for carried in self._index.near(pod):
            if carried.term.selects(pod, namespace_labels):
                yield carried.term.topology_key, carried.weights.view(size)

    def count(self, term: Term, row: int, weight: int, sign: int) -> None:
        """Add a carrier of a term on a node (sign 1), or take it away (-1)."""
        carried = self._terms.get(term)
        if carried is None:
            carried = self._terms[term] = _Term(term, RowCounts(np.zeros(len(self._columns), np.int64)))
            self._index.add(term.scope, carried)
        carried.weights.add(row, sign * weight)
        carried.carriers += sign
        if not carried.carriers:
            self._index.discard(carried)
            del self._terms[term]

    def move(self, source: int, target: int) -> None:
        """Follow a node from the last row to one whose node has gone."""
        for carried in self._terms.values():
            carried.weights.move(source, target)


@dataclass(slots=True, eq=False)
class _Term:
    term: Term
    weights: RowCounts
    carriers: int = 0
