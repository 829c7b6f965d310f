"""Devices by node, and the devices that claims hold or will hold."""

from tidelock.cluster.assume_cache import AssumeCache
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.lister import Lister
from tidelock.devices.allocated import AllocatedState, AllocatedTogether
from tidelock.devices.pools import ResourcePools
from tidelock.model.devices import ResourceSlice
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
        reserved: the devices that reservations hold, which count as allocated.

    """

    def __init__(self) -> None:
        super().__init__()
        self._stored = AllocatedState()
        self.on_change(self._count)
        self.reserved = ReservedDevices(self._stored.count)
        self.in_flight: AssumeCache[ResourceClaim, AllocationResult] = AssumeCache(
            self, lambda claim: claim.allocation
        )

    def upsert(self, old: ResourceClaim | None, new: ResourceClaim) -> None:
        """Take over a claim's newest version. The known version counts as the old one."""
        del old
        super().upsert(self.get(new.meta.name, new.meta.namespace), new)

    def remove(self, last: ResourceClaim) -> None:
        """Forget a claim."""
        if (known := self.get(last.meta.name, last.meta.namespace)) is not None:
            super().remove(known)

    def allocated(self) -> AllocatedTogether:
        """Return the devices in use, as they are now."""
        in_flight = AllocatedState(allocation for _, allocation in self.in_flight.items())
        return AllocatedTogether(self._stored, in_flight)

    def _count(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and old.allocation is not None:
            self._stored.count(old.allocation, -1)
        if new is not None and new.allocation is not None:
            self._stored.count(new.allocation, 1)
