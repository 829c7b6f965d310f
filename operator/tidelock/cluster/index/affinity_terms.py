"""The affinity terms of placed pods by node, which count for a pod that comes.

Pods of one workload have the same terms. So the cost of a check depends on the number of different terms that
may select the pod, and not on the number of pods. All terms of placed pods count, however many a pod has, so
each must cost little.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tidelock.cluster.arrays import Counts
from tidelock.cluster.columns import Columns
from tidelock.cluster.index.row_counts import RowCounts
from tidelock.cluster.index.selection import Index, Term
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labels

_FEW = 32  # weights of a term that are kept one by one


class AffinityTerms:
    """The terms of placed pods by kind.

    Attributes:
        shunned: required anti-affinity. Each pod with it counts 1.
        sought: required affinity. Each pod with it counts 1.
        wished: preferred affinity with its weight, preferred anti-affinity with its negative weight.

    """

    def __init__(self, columns: Columns) -> None:
        self.shunned = AffinityTerm(columns)
        self.sought = AffinityTerm(columns)
        self.wished = AffinityTerm(columns)

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
        """Follow the node of the last row to a row that is free."""
        for carried in (self.shunned, self.sought, self.wished):
            carried.move(source, target)


class AffinityTerm:
    """Terms of one kind, with the sum of their carriers' weights on each node.

    Attributes:
        keys: the number of terms by topology key.

    """

    def __init__(self, columns: Columns) -> None:
        self.keys: Counter[str] = Counter()
        self._columns = columns
        self._terms: dict[Term, _Term] = {}
        self._index: Index[_Term] = Index()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def meaning(self, pod: Pod, namespace_labels: Labels) -> dict[str, Counts]:
        """Return the sums of weights of all terms that select a pod, on each node by topology key.

        The arrays must not be kept.

        A key that no node has makes no domain, so its terms are left out.

        Args:
            pod: the pod that comes.
            namespace_labels: the labels of its namespace.

        """
        sums: dict[str, Counts] = {}
        borne, size = self._columns.labels.borne, len(self._columns)
        for carried in self._index.near(pod):
            key = carried.term.topology_key
            if borne(key) and carried.term.selects(pod, namespace_labels):
                sums[key] = carried.weights.added_to(sums.get(key), size)
        return sums

    def count(self, term: Term, row: int, weight: int, sign: int) -> None:
        """Add a carrier of a term on a node (sign 1), or take it away (-1)."""
        carried = self._terms.get(term)
        if carried is None:
            carried = self._terms[term] = _Term(term, _Weights())
            self._index.add(term.scope, carried)
            self.keys[term.topology_key] += 1
        carried.weights.add(row, sign * weight)
        carried.affinity_terms += sign
        if not carried.affinity_terms:
            self._index.discard(carried)
            del self._terms[term]
            self.keys[term.topology_key] -= 1
            if not self.keys[term.topology_key]:
                del self.keys[term.topology_key]

    def move(self, source: int, target: int) -> None:
        """Follow the node of the last row to a row that is free."""
        for carried in self._terms.values():
            carried.weights.move(source, target)


class _Weights:
    """Weights by row: a few one by one, as a pod may have thousands of terms, and many as an array."""

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._many: RowCounts | None = None

    def add(self, row: int, weight: int) -> None:
        if self._many is not None:
            self._many.add(row, weight)
            return
        sum_there = self._few.get(row, 0) + weight
        if not sum_there:
            self._few.pop(row, None)  # the node of the row may go
            return
        self._few[row] = sum_there
        if len(self._few) > _FEW:
            self._many = RowCounts(np.zeros(max(self._few) + 1, np.int64))
            for each, known in self._few.items():
                self._many.add(each, known)
            self._few.clear()

    def move(self, source: int, target: int) -> None:
        """Follow the node of the last row to a row that is free, and leave nothing behind."""
        if self._many is not None:
            self._many.move(source, target)
            return
        self._few.pop(target, None)
        if source in self._few:
            self._few[target] = self._few.pop(source)

    def added_to(self, sums: Counts | None, size: int) -> Counts:
        """Return sums to which these are added: others, unless they are arrays of the caller's own."""
        if self._many is not None and sums is None:
            return self._many.view(size)
        own = np.zeros(size, np.int64) if sums is None else sums if sums.flags.writeable else sums.copy()
        if self._many is not None:
            own += self._many.view(size)
        for row, weight in self._few.items():
            own[row] += weight
        return own


@dataclass(slots=True, eq=False)
class _Term:
    term: Term
    weights: _Weights
    affinity_terms: int = 0
