"""Devices by node, and the devices that claims hold or will hold."""

from tidelock.cluster.assume_cache import AssumeCache
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.lister import Lister
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.change_log import ChangeLog
from tidelock.devices.pools import ResourcePools
from tidelock.model.devices import PoolId, ResourceSlice
from tidelock.model.resource_claims import AllocationResult, ResourceClaim


class ResourceSlices(Lister[ResourceSlice]):
    """All slices.

    Attributes:
        pools: the devices of each node.

    """

    def __init__(self) -> None:
        super().__init__()
        self.pools = ResourcePools()
        self.on_change(self.pools.put)

    def upsert(self, old: ResourceSlice | None, new: ResourceSlice) -> None:
        """Take over a slice's newest version. The known version counts as the old one."""
        del old
        super().upsert(self.get(new.meta.name), new)

    def remove(self, last: ResourceSlice) -> None:
        """Forget a slice."""
        if (known := self.get(last.meta.name)) is not None:
            super().remove(known)


class ResourceClaims(Lister[ResourceClaim]):
    """All claims, with allocations that are decided and that the API server does not show yet.

    Attributes:
        in_flight: the latter, for pods, by claim. All profiles share them.
        reserved: the devices that reservations hold.
        allocated: the devices in use by any of these.
        changes: the pools with devices that have come into use, or out of it.

    """

    def __init__(self) -> None:
        super().__init__()
        self.allocated = AllocatedState()
        self.changes: ChangeLog[PoolId] = ChangeLog()
        self.reserved = ReservedDevices(self._count)
        self.on_change(self._changed_claim)
        self.in_flight: AssumeCache[ResourceClaim, AllocationResult] = AssumeCache(
            self, lambda claim: claim.allocation, self._count
        )

    def upsert(self, old: ResourceClaim | None, new: ResourceClaim) -> None:
        """Take over a claim's newest version. The known version counts as the old one."""
        del old
        super().upsert(self.get(new.meta.name, new.meta.namespace), new)

    def remove(self, last: ResourceClaim) -> None:
        """Forget a claim."""
        if (known := self.get(last.meta.name, last.meta.namespace)) is not None:
            super().remove(known)

    def _changed_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = None if old is None else old.allocation
        after = None if new is None else new.allocation
        if before == after:
            return
        if before is not None:
            self._count(before, -1)
        if after is not None:
            self._count(after, 1)

    def _count(self, allocation: AllocationResult, sign: int) -> None:
        self.allocated.count(allocation, sign)
        for result in allocation.devices.results:
            self.changes.note(result.pool_id)
