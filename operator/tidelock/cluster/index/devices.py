"""Devices by node, those that claims hold or will hold, and the classes that back extended resources."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from tidelock.cluster.assume_cache import AssumeCache
from tidelock.cluster.index.reserved_devices import ReservedDevices
from tidelock.cluster.lister import Lister
from tidelock.cluster.rollback import undone_on_failure
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.change_log import ChangeLog
from tidelock.devices.pools import ResourcePools
from tidelock.model.devices import DeviceClass, DeviceId, PoolId, ResourceSlice
from tidelock.model.meta import Key, ObjectMeta
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


class DeviceClasses(Lister[DeviceClass]):
    """All classes of devices.

    Attributes:
        by_resource: the class of each extended resource that devices can provide.

    """

    def __init__(self) -> None:
        super().__init__()
        self.by_resource: dict[str, DeviceClass] = {}
        self.on_change(self._index)

    def on_backing(self, listener: Callable[[Mapping[str, str]], None]) -> None:
        """Call a function after each change of a class with the class's name of each provided resource."""
        self.on_change(lambda _old, _new: listener(self._backing()))

    def _backing(self) -> dict[str, str]:
        return {resource: of_class.meta.name for resource, of_class in self.by_resource.items()}

    def _index(self, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        """Find the class of each resource. Of several the newest counts, and of those the first by name."""
        found: dict[str, DeviceClass] = {}
        for each in sorted(self.all(), key=lambda each: (-each.meta.created, each.meta.name)):
            for resource in each.extended_resources:
                found.setdefault(resource, each)
        self.by_resource = found


class ResourceClaims(Lister[ResourceClaim]):
    """All claims, with allocations that are decided and that the API server does not show yet.

    Attributes:
        in_flight: the latter, for pods, by claim. All profiles share them.
        reserved: the devices that reservations hold.
        allocated: the devices in use by any of these.
        changes: the pools with devices that have come into use, or out of it.
        of_extended_resources: the claims that a scheduler has made, by the uid of their pods.

    """

    def __init__(self) -> None:
        super().__init__()
        self.allocated = AllocatedState()
        self.changes: ChangeLog[PoolId] = ChangeLog()
        self.reserved = ReservedDevices(self._count)
        self.of_extended_resources: dict[str, ResourceClaim] = {}
        self._with_device: defaultdict[DeviceId, Counter[Key]] = defaultdict(Counter)
        self.on_change(self._changed_claim)
        self.in_flight: AssumeCache[ResourceClaim, AllocationResult] = AssumeCache(
            self, lambda claim: claim.allocation, self._use
        )

    def with_device(self, device: DeviceId) -> Collection[Key]:
        """Return the claims that have a device, or a share of it, or will have it."""
        return self._with_device.get(device, ())

    def upsert(self, old: ResourceClaim | None, new: ResourceClaim) -> ResourceClaim | None:
        """Take over a claim's newest version."""
        decided = self.in_flight.get(new.key)
        known = super().upsert(old, new)
        if decided is None or self.in_flight.get(new.key) is not None:
            return known
        return (known or _unseen(new.key)).with_allocation(decided)

    def remove(self, last: ResourceClaim) -> ResourceClaim:
        """Forget a claim."""
        known, decided = self.get(last.meta.name, last.meta.namespace), self.in_flight.get(last.key)
        if known is None:
            self.in_flight.drop(last.key, last.meta.uid)
        elif super().remove(last) is not known:
            return last  # another one has its name
        return last if decided is None else last.with_allocation(decided)

    def gone_by(self, version: int) -> Iterable[ResourceClaim]:
        """Return the claims that were created and written here and were deleted before any event."""
        written = self.in_flight.written_by(version)
        return [_unseen(key, uid) for key, uid in written if self.get(key.name, key.namespace) is None]

    def _changed_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and (uid := old.extended_resources_of):
            self.of_extended_resources.pop(uid, None)
        if new is not None and (uid := new.extended_resources_of):
            self.of_extended_resources[uid] = new
        before = None if old is None else old.allocation
        after = None if new is None else new.allocation
        if before == after:
            return
        with undone_on_failure() as undo:
            if new is not None and after is not None:
                self._use(new.key, after, 1)
                undo(partial(self._use, new.key, after, -1))
            if old is not None and before is not None:
                self._use(old.key, before, -1)

    def _use(self, claim: Key, allocation: AllocationResult, sign: int) -> None:
        """Count the devices of a claim: those that it has, and those that it will have."""
        self._count(allocation, sign)
        for result in allocation.devices.results:
            if not result.admin_access:
                claims = self._with_device[result.id]
                claims[claim] += sign
                if not claims[claim]:
                    del claims[claim]
                if not claims:
                    del self._with_device[result.id]

    def _count(self, allocation: AllocationResult, sign: int) -> None:
        self.allocated.count(allocation, sign)
        for result in allocation.devices.results:
            self.changes.note(result.pool_id)


def _unseen(key: Key, uid: str = "") -> ResourceClaim:
    """Return a claim that no event has shown."""
    return ResourceClaim(metadata=ObjectMeta(key.name, key.namespace, uid))
