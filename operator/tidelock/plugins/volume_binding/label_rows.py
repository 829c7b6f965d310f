"""Which nodes have which labels: selectors over all nodes at once, by the labels that they ask for."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns, Rows
from tidelock.model.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement

_NO_ROWS = np.empty(0, np.intp)


class LabelRows:
    """Rows of the nodes that a selector matches.

    Of each label that was ever asked for, the rows by value are kept until a node changes.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._version = -1
        self._by_key: dict[str, dict[str, Rows]] = {}

    @property
    def version(self) -> int:
        """Changes when rows may have."""
        return self._columns.version

    def reached(self, affinity: NodeSelector | None) -> Rows:
        """Return the rows of nodes from which a volume of this affinity can be reached."""
        return np.arange(len(self._columns)) if affinity is None else self.of_node_selector(affinity)

    def of_node_selector(self, selector: NodeSelector) -> Rows:
        """Return the rows of nodes that satisfy one of the terms by labels only, in any order."""
        terms = [self._of_term(term) for term in selector.node_selector_terms]
        if len(terms) == 1:
            return terms[0]
        return np.unique(np.concatenate([_NO_ROWS, *terms]))

    def of_label_selector(self, selector: LabelSelector) -> Rows:
        """Return the rows of nodes that a selector matches, or all rows if it is empty."""
        labels = [Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
        return self.of_all([*labels, *selector.match_expressions])

    def of_all(self, requirements: Sequence[Requirement]) -> Rows:
        """Return the rows of nodes that satisfy all of the requirements."""
        if len(requirements) == 1:
            return self._of(requirements[0])
        met = np.zeros(len(self._columns), np.intp)
        for requirement in requirements:
            met[self._of(requirement)] += 1
        return np.flatnonzero(met == len(requirements))

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Lay out rows as one truth value a node."""
        mask = np.zeros(len(self._columns), np.bool_)
        mask[rows] = True
        return mask

    def _of_term(self, term: NodeSelectorTerm) -> Rows:
        """Return the rows of a term by its labels: kube-scheduler ignores fields for volumes."""
        return self.of_all(term.match_expressions) if term.selective else _NO_ROWS

    def _of(self, requirement: Requirement) -> Rows:
        by_value = self._rows_by_value(requirement.key)
        if requirement.operator == "In":
            found = [by_value[value] for value in dict.fromkeys(requirement.values) if value in by_value]
        else:
            found = [
                rows for value, rows in by_value.items() if requirement.matches({requirement.key: value})
            ]
        if requirement.matches({}):
            lacking = np.ones(len(self._columns), np.bool_)
            for rows in by_value.values():
                lacking[rows] = False
            found.append(np.flatnonzero(lacking))
        return found[0] if len(found) == 1 else np.concatenate([_NO_ROWS, *found])

    def _rows_by_value(self, key: str) -> dict[str, Rows]:
        if self._version != self._columns.version:
            self._version = self._columns.version
            self._by_key.clear()
        if key not in self._by_key:
            rows: defaultdict[str, list[int]] = defaultdict(list)
            for row, node in enumerate(self._columns.nodes):
                if (value := node.meta.labels.get(key)) is not None:
                    rows[value].append(row)
            self._by_key[key] = {value: np.array(each, np.intp) for value, each in rows.items()}
        return self._by_key[key]
