"""How many pods equal to one fit on each node: for quotes, and for estimates of several kinds of pods."""

import numpy as np

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Counts
from tidelock.framework.whatif import capacities, filter_rows_with_nominated_pods
from tidelock.model.api.reservation_quote import MOST_COUNTED
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.scheduler.core.pipeline import Evaluation


class EqualPods:
    """Pods equal to an evaluated one, which has been filtered. Nominated pods keep their capacity.

    Attributes:
        pod: the evaluated pod.

    """

    def __init__(self, evaluation: Evaluation) -> None:
        result = evaluation.result
        self.pod: Pod = evaluation.pod
        self._state, self._snapshot, self._filters = evaluation.state, evaluation.snapshot, result.filters
        self._fits = evaluation.fitting_in_the_end()
        rows = self._fits.nonzero()[0]
        crowd = filter_rows_with_nominated_pods(
            self._filters, self._state, self.pod, self._snapshot, rows, result.rivals
        )
        self._crowded = rows[:0]
        if crowd is not None:
            whatif, indexes = crowd
            self._crowded = rows[indexes]
            self._requested = whatif.snapshot.requested - self._snapshot.requested[self._crowded]
            self._reserved = whatif.snapshot.reserved - self._snapshot.reserved[self._crowded]

    def counts(self, nodes: Snapshot) -> Counts:
        """Return how many fit on each of all nodes, up to MOST_COUNTED, if they ignore each other.

        Args:
            nodes: the nodes as they are, or a copy with more amounts requested.

        """
        counts = capacities(self._filters, self._state, self.pod, nodes)
        if len(self._crowded):
            crowd = nodes.take(self._crowded)
            np.add(crowd.requested, self._requested, out=crowd.requested)
            np.add(crowd.reserved, self._reserved, out=crowd.reserved)
            counts[self._crowded] = capacities(self._filters, self._state, self.pod, crowd)
        return np.where(self._fits, np.minimum(counts, MOST_COUNTED), 0)

    def total(self, nodes: Snapshot, first: Node) -> int:
        """Return how many fit on all nodes together, up to MOST_COUNTED, with the first on this node."""
        counts = self.counts(nodes)
        for plugin in self._filters:
            counts = plugin.among_equals(self._state, self.pod, self._snapshot, counts, first)
        return int(min(counts.sum(), MOST_COUNTED))
