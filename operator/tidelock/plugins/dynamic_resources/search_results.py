"""The results of the searches for devices, which pods with equal claims share.

A result depends on the claims' specs, their classes and the taint rules, which are the same for equal claims,
and on the devices of the node and their use. So only nodes where the latter have changed are searched again.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.index.devices import ResourceClaims
from tidelock.cluster.lister import Lister
from tidelock.devices.allocator import Solution
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.framework.api import Mask
from tidelock.framework.stale_rows import StaleRows
from tidelock.model.devices import DeviceClass, DeviceTaintRule

# Kinds of claims that are remembered. Each costs up to some hundred bytes a node.
_MOST_KINDS = 16


class SearchResults:
    """The result of each node for claims of one kind, by the rows of the columns.

    Attributes:
        fits: the nodes that are known to have devices for the claims.

    """

    def __init__(self, columns: Columns, pools: ResourcePools, claims: ResourceClaims) -> None:
        self._stale = StaleRows(columns, pools, claims)
        self._found: npt.NDArray[np.object_] = np.empty(0, np.object_)
        self.fits: Mask = np.zeros(0, np.bool_)

    def renew(self) -> None:
        """Note which results may have changed."""
        self._stale.renew()
        count = len(self._stale.mask)
        if count != len(self.fits):
            known = min(count, len(self.fits))
            found, fits = np.empty(count, np.object_), np.zeros(count, np.bool_)
            found[:known], fits[:known] = self._found[:known], self.fits[:known]
            self._found, self.fits = found, fits
        self.fits &= ~self._stale.mask

    def stale(self, rows: Rows) -> list[int]:
        """Return those of some rows that have to be searched."""
        found: list[int] = rows[self._stale.mask[rows]].tolist()
        return found

    def of(self, row: int) -> Solution | str | None:
        """Return the devices of a node or the reason for which it has none, or None if it is stale."""
        result: Solution | str = self._found[row]
        return None if self._stale.mask[row] else result

    def keep(self, row: int, result: Solution | str) -> None:
        """Keep a result until the devices of the node or their use change."""
        self._found[row] = result
        self.fits[row] = isinstance(result, Solution)
        self._stale.mask[row] = False


class ResultsByKind:
    """The results for the kinds of claims that came last."""

    def __init__(
        self, make: Callable[[], SearchResults], classes: Lister[DeviceClass], rules: Lister[DeviceTaintRule]
    ) -> None:
        """Take a way to begin results, and everything else that they depend on."""
        self._make = make
        self._classes = classes
        self._rules = rules
        self._kinds: OrderedDict[Hashable, SearchResults] = OrderedDict()

    def of(self, claims: Sequence[PreparedClaim]) -> SearchResults:
        """Return the results for claims, as far as they are known."""
        specs = tuple(msgspec.msgpack.encode(each.claim.spec) for each in claims)
        key = (self._classes.version, self._rules.version, specs)
        results = self._kinds.get(key)
        if results is None:
            results = self._kinds[key] = self._make()
            if len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(key)
        results.renew()
        return results
