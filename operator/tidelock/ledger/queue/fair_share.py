"""The weighted dominant share that each namespace has of the cluster.

The dominant share of a namespace is the largest part that its reservations hold of any resource: the maximum
over resources r of held_r / allocatable_r, with allocatable_r summed over all nodes. It is divided by the
weight of the namespace, the largest of its ReservationQuotas. Serving the smallest share first raises the
smallest as high as possible, which is dominant resource fairness (Ghodsi et al., NSDI 2011).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.quantities import Resources

_Totals = npt.NDArray[np.float64]


class FairShares:
    """The shares of all namespaces, by the present charges of reservations and the present nodes."""

    def __init__(self, columns: Columns, quotas: Quotas) -> None:
        self._columns = columns
        self._quotas = quotas
        self._totals: tuple[int, Resources] = (-1, {})

    def of(self, namespace: str) -> float:
        """Return the weighted dominant share of a namespace, or 0 without reserved capacity."""
        return self.share(self._quotas.used(namespace).reserved, namespace)

    def share(self, held: Resources, namespace: str) -> float:
        """Return the share of a namespace with these amounts. A resource that no node has does not count."""
        if not held:
            return 0.0
        totals = self._cluster()
        parts = (units / totals[name] for name, units in held.items() if totals.get(name))
        return max(parts, default=0.0) / self._quotas.weight(namespace)

    def in_order(self, entries: Iterable[ReservationInfo]) -> list[ReservationInfo]:
        """Return reservations in the order in which they get capacity if each of them fits.

        The next reservation of a namespace comes when the namespace has the smallest share, with all its
        reservations before that one. So they are sorted by priority, then by that share, then by age.
        """
        queue = list(entries)
        for _ in self.sort(queue):
            pass
        return queue

    def sort(self, queue: list[ReservationInfo]) -> Iterator[None]:
        """Sort reservations as `in_order` does, in two slices. Each takes up to 10 ms with 10,000."""
        queue.sort(key=attrgetter("order"))
        yield
        vector, used = self._columns.vector, self._quotas.used
        asked = np.array([vector(entry.reservation.requests) for entry in queue])
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, entry in enumerate(queue):
            places[entry.key.namespace].append(place)
        totals, shares = self._cluster_row(), np.zeros(len(queue))
        for namespace, rows in places.items():
            theirs = asked[rows]
            before = theirs.cumsum(axis=0) - theirs + vector(used(namespace).reserved)
            shares[rows] = (before / totals).max(axis=1) / self._quotas.weight(namespace)
        # A stable sort, so what remains equal stays sorted by age.
        ranked = np.lexsort((shares, np.array([-entry.priority for entry in queue])))
        queue[:] = [queue[place] for place in ranked.tolist()]
        yield

    def first(self, entries: Iterable[ReservationInfo]) -> ReservationInfo | None:
        """Return the first reservation of the order, or None without any.

        It is also the first of its namespace, so the present shares decide.
        """
        firsts: dict[str, ReservationInfo] = {}
        for entry in entries:
            known = firsts.get(entry.key.namespace)
            if known is None or entry.order < known.order:
                firsts[entry.key.namespace] = entry
        return min(
            firsts.values(),
            key=lambda entry: (-entry.priority, self.of(entry.key.namespace), entry.order),
            default=None,
        )

    def _cluster_row(self) -> _Totals:
        """Return the sums over all nodes by column, infinite for a resource that no node has."""
        cluster = self._cluster()
        return np.array([cluster.get(name) or np.inf for name in self._columns.resources])

    def _cluster(self) -> Resources:
        """Return the sums over all nodes."""
        columns = self._columns
        if self._totals[0] != columns.version:
            sums = columns.allocatable[: len(columns)].sum(axis=0).tolist()
            self._totals = columns.version, dict(zip(columns.resources, sums, strict=True))
        return self._totals[1]
