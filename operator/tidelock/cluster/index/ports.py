"""Which ports of which nodes are taken by pods."""

from collections.abc import Iterator

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.index.row_index import RowIndex
from tidelock.model.requests import ALL_ADDRESSES, HostPort

_ANY_ADDRESS = ""


class Ports:
    """Nodes by the ports in use there: each use under its address, and once more under any address."""

    def __init__(self) -> None:
        self._rows: RowIndex[HostPort] = RowIndex()

    def add(self, ports: tuple[HostPort, ...], row: int) -> None:
        """Note that a pod takes ports of a node."""
        self._rows.add(_listed(ports), row)

    def remove(self, ports: tuple[HostPort, ...], row: int) -> None:
        """Note that a pod takes ports of a node no longer."""
        self._rows.remove(_listed(ports), row)

    def conflicts(self, wanted: HostPort) -> Rows:
        """Rows of the nodes where a port is not free, once for each use that is in its way."""
        if wanted.ip == ALL_ADDRESSES:
            return self._rows.rows(wanted._replace(ip=_ANY_ADDRESS))
        same, all_addresses = wanted, wanted._replace(ip=ALL_ADDRESSES)
        return np.concatenate((self._rows.rows(same), self._rows.rows(all_addresses)))


def _listed(ports: tuple[HostPort, ...]) -> Iterator[HostPort]:
    for port in ports:
        yield port
        yield port._replace(ip=_ANY_ADDRESS)
