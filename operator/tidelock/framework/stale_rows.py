"""The nodes about which a result may be out of date, as it depends on their devices and the use of these."""

from collections.abc import Collection

import numpy as np

from tidelock.cluster.columns import Columns, Part
from tidelock.cluster.index.devices import ResourceClaims
from tidelock.devices.pools import ResourcePools
from tidelock.framework.api import Mask


class StaleRows:
    """The rows of nodes that have changed since results about them were kept, with their devices.

    Attributes:
        mask: whether each row is stale. A result that is kept clears it.

    """

    def __init__(self, columns: Columns, pools: ResourcePools, claims: ResourceClaims) -> None:
        self._columns = columns
        self._pools = pools
        self._claims = claims
        self._version = -1
        self._clock = self._slices_clock = self._use_clock = 0
        self.mask: Mask = np.zeros(0, np.bool_)

    def renew(self) -> None:
        """Note the changes since the last call. There are as many rows as nodes then."""
        columns = self._columns
        if columns.version != self._version:
            known = min(len(columns), len(self.mask))
            self.mask = np.append(self.mask[:known], np.ones(len(columns) - known, np.bool_))
            self.mask[columns.changed(self._clock)] = True
        self._version, self._clock = columns.version, columns.clock
        self._note(self._pools.changes.since(self._slices_clock))
        self._slices_clock = self._pools.changes.clock
        used = self._claims.changes.since(self._use_clock)
        for pool in used if used is not None else [None]:
            self._note(None if pool is None else self._pools.nodes_of(pool))
        self._use_clock = self._claims.changes.clock

    def _note(self, names: Collection[str] | None) -> None:
        """Note changes of some nodes by their names, or of all."""
        stale: Part | list[int] = slice(None)
        if names is not None:
            stale = [row for name in names if (row := self._columns.row_of.get(name)) is not None]
        self.mask[stale] = True
