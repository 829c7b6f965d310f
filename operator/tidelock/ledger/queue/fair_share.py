"""What each namespace has of the cluster, as a weighted dominant share.

The dominant share of a namespace is the largest part that its locks hold of any resource: the maximum over
resources r of held_r / allocatable_r, with allocatable_r summed over all nodes. It is divided by the weight
of the namespace, the largest of its ReservationQuotas'. Whoever gives room to the smallest share first raises
the smallest as high as it goes, which is dominant resource fairness (Ghodsi et al., NSDI 2011).
"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.quantities import Resources

_Totals = npt.NDArray[np.float64]


class FairShares:
    """The shares of all namespaces, as the ledger's charges and the nodes are now."""

    def __init__(self, columns: Columns, quotas: Quotas) -> None:
        self._columns = columns
        self._quotas = quotas
        self._totals: tuple[int, Resources] = (-1, {})

    def of(self, namespace: str) -> float:
        """Give the weighted dominant share of a namespace; 0 if none of its locks has room."""
        return self.share(self._quotas.used(namespace).reserved, namespace)

    def share(self, held: Resources, namespace: str) -> float:
        """Give the share that a namespace would have with this room; what no node has counts as nothing."""
        if not held:
            return 0.0
        totals = self._cluster()
        parts = (units / totals[name] for name, units in held.items() if totals.get(name))
        return max(parts, default=0.0) / self._quotas.weight(namespace)

    def in_order(self, entries: Iterable[ReservationInfo]) -> list[ReservationInfo]:
        """Order locks as they would be given room if there were enough for one after the other.

        The next lock of a namespace comes when that has the smallest share, all its locks before that one
        included: so they are sorted by priority, then by that share, then by age.
        """
        queues: defaultdict[str, list[ReservationInfo]] = defaultdict(list)
        for entry in entries:
            queues[entry.key.namespace].append(entry)
        ranked, totals = [], self._cluster_row()
        for namespace, queue in queues.items():
            queue.sort(key=lambda entry: entry.order)
            shares = self._shares_before(namespace, queue, totals)
            ranked += [
                (entry.order[0], share, entry.order, entry)
                for entry, share in zip(queue, shares, strict=True)
            ]
        ranked.sort(key=lambda each: each[:3])
        return [entry for *_, entry in ranked]

    def _shares_before(self, namespace: str, queue: list[ReservationInfo], totals: _Totals) -> list[float]:
        """Give the share that a namespace will have when it is the turn of each of its locks."""
        columns = self._columns
        asked = np.array([columns.vector(entry.reservation.requests) for entry in queue])
        before = asked.cumsum(axis=0) - asked + columns.vector(self._quotas.used(namespace).reserved)
        shares: list[float] = ((before / totals).max(axis=1) / self._quotas.weight(namespace)).tolist()
        return shares

    def _cluster_row(self) -> _Totals:
        """Sum what all nodes have, in the order of the columns; infinite for what no node has."""
        cluster = self._cluster()
        return np.array([cluster.get(name) or np.inf for name in self._columns.resources])

    def _cluster(self) -> Resources:
        """Sum what all nodes have."""
        columns = self._columns
        if self._totals[0] != columns.version:
            sums = columns.allocatable[: len(columns)].sum(axis=0).tolist()
            self._totals = columns.version, dict(zip(columns.resources, sums, strict=True))
        return self._totals[1]
