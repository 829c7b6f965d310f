"""The devices of nodes as amounts of the extended resource that they provide, for scores.

Semantics of kube-scheduler 1.37, plugins/noderesources (calculateDRAExtendedResourceAllocatableRequest): on a
node that has nothing of a resource itself, the devices that its class selects count, and those of them that
are in use. Other than there, devices of incomplete pools do not count, as no claim can get them.
"""

import numpy as np

from tidelock.cluster.columns import Amounts, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.errors import AllocationError
from tidelock.devices.selection import DeviceSelection
from tidelock.framework.api import Handle, Scores
from tidelock.framework.selector_compiler import compile_device_selector
from tidelock.framework.stale_rows import StaleRows
from tidelock.model.devices import DeviceClass
from tidelock.model.nodes import Node

_IN_USE, _ALL = 0, 1


class DeviceAmounts:
    """Counts the devices of each node by the extended resource that they provide."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._classes = handle.objects.device_classes
        self._selection = DeviceSelection(compile_device_selector)
        self._counts: dict[str, _Counts] = {}

    def provide(self, resource: str) -> bool:
        """Return whether devices provide a resource on nodes that have nothing of it themselves."""
        return resource in self._classes.by_resource

    def added(
        self, resource: str, snapshot: Snapshot, part: slice | Rows, used: Scores, capacity: Scores
    ) -> tuple[Scores, Scores]:
        """Return the used amounts and the capacity of some nodes, with devices where nodes have none."""
        of_class = self._classes.by_resource[resource]
        counts = self._counts.get(resource)
        if counts is None or counts.of_class is not of_class:
            counts = self._counts[resource] = _Counts(self._handle, of_class, self._selection)
        self._selection.begin()
        found = counts.of(np.arange(len(self._handle.columns))[snapshot.rows][part])
        by_devices = (capacity == 0) & (found[_ALL] > 0)
        return np.where(by_devices, found[_IN_USE], used), np.where(by_devices, found[_ALL], capacity)


class _Counts:
    """The numbers of devices that a class selects, by row: those in use, and all. A change ends them.

    Attributes:
        of_class: the class.

    """

    def __init__(self, handle: Handle, of_class: DeviceClass, selection: DeviceSelection) -> None:
        objects = handle.objects
        self.of_class = of_class
        selectors = of_class.spec.selectors
        self._expressions = [each.cel.expression for each in selectors if each.cel is not None]
        self._columns = handle.columns
        self._pools = objects.resource_slices.pools
        self._allocated = objects.resource_claims.allocated
        self._selection = selection
        self._stale = StaleRows(handle.columns, self._pools, objects.resource_claims)
        self._known: Amounts = np.zeros((2, 0), np.int64)

    def of(self, rows: Rows) -> Amounts:
        """Return the counts of some rows: an array of 2 x N."""
        self._stale.renew()
        stale = self._stale.mask
        if len(stale) != self._known.shape[1]:
            known = self._known[:, : len(stale)]
            self._known = np.append(known, np.zeros((2, len(stale) - known.shape[1]), np.int64), axis=1)
        for row in rows[stale[rows]].tolist():
            try:
                self._known[:, row] = self._count(self._columns.nodes[row])
                stale[row] = False
            except AllocationError:  # an expression fails for a device, or is to be asked another time
                self._known[:, row] = 0
        counts: Amounts = self._known[:, rows]
        return counts

    def _count(self, node: Node) -> tuple[int, int]:
        in_use = every = 0
        for each in self._pools.of(node).candidates:
            if self._selection.selects(self._expressions, each, "class", self.of_class.meta.name):
                every += 1
                in_use += self._allocated.dedicated(each.id) or self._allocated.shared(each.id)
        return in_use, every
