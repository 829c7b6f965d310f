"""What each namespace has of the cluster, as a weighted dominant share.

The dominant share of a namespace is the largest part that its locks hold of any resource: the maximum over
resources r of held_r / allocatable_r, with allocatable_r summed over all nodes. It is divided by the weight
of the namespace, the largest of its ReservationQuotas'. Whoever gives room to the smallest share first raises
the smallest as high as it goes, which is dominant resource fairness (Ghodsi et al., NSDI 2011).
"""

from tidelock.cluster.columns import Columns
from tidelock.ledger.quotas import Quotas
from tidelock.model.quantities import Resources


class Shares:
    """The shares of all namespaces, as the ledger's charges and the nodes are now."""

    def __init__(self, columns: Columns, quotas: Quotas) -> None:
        self._columns = columns
        self._quotas = quotas
        self._totals: tuple[tuple[int, int], Resources] = ((-1, 0), {})

    def of(self, namespace: str) -> float:
        """Give the weighted dominant share of a namespace; 0 if none of its locks has room."""
        return self.share(self._quotas.used(namespace).room, namespace)

    def share(self, held: Resources, namespace: str) -> float:
        """Give the share that a namespace would have with this room; what no node has counts as nothing."""
        if not held:
            return 0.0
        totals = self._cluster()
        parts = (units / totals[name] for name, units in held.items() if totals.get(name))
        return max(parts, default=0.0) / self._quotas.weight(namespace)

    def _cluster(self) -> Resources:
        """Sum what all nodes have."""
        columns = self._columns
        state = columns.version, len(columns.resources)
        if self._totals[0] != state:
            sums = columns.allocatable[: len(columns)].sum(axis=0).tolist()
            self._totals = state, dict(zip(columns.resources, sums, strict=True))
        return self._totals[1]
