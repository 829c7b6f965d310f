"""The weighted dominant share that each namespace has of the cluster.

The dominant share of a namespace is the largest part that its reservations hold of any resource: the maximum
over resources r of held_r / allocatable_r, with allocatable_r summed over all nodes. It is divided by the
weight of the namespace, the largest of its ReservationQuotas. Serving the smallest share first raises the
smallest as high as possible, which is dominant resource fairness (Ghodsi et al., NSDI 2011).
"""

from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import Order, ReservationInfo
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
        queues: defaultdict[str, list[tuple[Order, ReservationInfo]]] = defaultdict(list)
        for entry in entries:
            queues[entry.key.namespace].append((entry.order, entry))
        ranked, totals = [], self._cluster_row()
        for namespace, queue in queues.items():
            queue.sort(key=itemgetter(0))
            shares = self._shares_before(namespace, [entry for _, entry in queue], totals)
            ranked += [
                ((order[0], share, order), entry) for (order, entry), share in zip(queue, shares, strict=True)
            ]
        ranked.sort(key=itemgetter(0))
        return [entry for _, entry in ranked]

    def _shares_before(self, namespace: str, queue: list[ReservationInfo], totals: _Totals) -> list[float]:
        """Return the share that a namespace has at the turn of each of its reservations."""
        columns = self._columns
        asked = np.array([columns.vector(entry.reservation.requests) for entry in queue])
        before = asked.cumsum(axis=0) - asked + columns.vector(self._quotas.used(namespace).reserved)
        shares: list[float] = ((before / totals).max(axis=1) / self._quotas.weight(namespace)).tolist()
        return shares

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
