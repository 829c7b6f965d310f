"""Everything that a pod adds to the row of its node."""

from tidelock.cluster.columns import Columns
from tidelock.cluster.index.affinity_terms import AffinityTerms
from tidelock.cluster.index.pod_counts import PodCounts
from tidelock.cluster.index.ports import Ports
from tidelock.cluster.placed import Placed, PodMove


class NodeTotals:
    """Requests, pod counts, affinity terms and host ports by the rows of the columns.

    Attributes:
        parts: the functions that add a pod (1) or subtract it (-1), one for each total.

    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.ports = Ports()
        self.pod_counts = PodCounts(columns)
        self.affinity_terms = AffinityTerms(columns)
        self.parts: tuple[PodMove, ...] = (
            self._add_requests,
            self._add_pod,
            self._add_terms,
            self._add_ports,
        )

    def _add_requests(self, placed: Placed, sign: int) -> None:
        self.columns.request(placed.node_name, placed.pod.requests, placed.pod.nonzero, sign)

    def _add_pod(self, placed: Placed, sign: int) -> None:
        row = self.columns.row_of.get(placed.node_name)
        if row is not None:
            self.pod_counts.count(placed.pod, row, sign)

    def _add_terms(self, placed: Placed, sign: int) -> None:
        row = self.columns.row_of.get(placed.node_name)
        if row is not None:
            self.affinity_terms.count(placed.pod, row, sign)

    def _add_ports(self, placed: Placed, sign: int) -> None:
        row, ports = self.columns.row_of.get(placed.node_name), placed.pod.host_ports
        if row is not None and ports:
            (self.ports.add if sign > 0 else self.ports.remove)(ports, row)
