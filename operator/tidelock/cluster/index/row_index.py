"""Which rows of the columns have a value, such as an image or a port in use."""

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from tidelock.cluster.columns import Rows

V = TypeVar("V", bound=Hashable)


class RowIndex(Generic[V]):
    """Rows by value, kept by deltas. A row is listed as often as it has the value."""

    def __init__(self) -> None:
        self._rows: defaultdict[V, array[int]] = defaultdict(lambda: array("q"))

    def __contains__(self, value: V) -> bool:
        return value in self._rows

    def rows(self, value: V) -> Rows:
        """Return the rows with a value, in no particular order."""
        return np.array(self._rows.get(value, ()), np.intp)

    def add(self, values: Iterable[V], row: int) -> None:
        """Note that a row has these values, once more each."""
        for value in values:
            self._rows[value].append(row)

    def remove(self, values: Iterable[V], row: int) -> None:
        """Remove a row once from each of these values. Raises ValueError if it does not have one of them."""
        for value in values:
            rows = self._rows[value]
            rows.remove(row)
            if not rows:
                del self._rows[value]
