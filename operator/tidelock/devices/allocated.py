"""The devices that claims hold, or will hold.

kube-scheduler keeps a set, from which a device is gone when one of two claims with it goes. Here the claims
are counted, so a device is free once the last of them is gone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from tidelock.model.devices import DeviceId
from tidelock.model.resource_claims import AllocatedDevice, AllocationResult


class AllocatedState:
    """Devices in use, and the consumed capacity of shared devices, with counts of their claims.

    Devices that are used with admin access are not in use for others.
    """

    def __init__(self, allocations: Iterable[AllocationResult] = ()) -> None:
        self._dedicated: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._consumed: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        for allocation in allocations:
            self.count(allocation, 1)

    def count(self, allocation: AllocationResult, sign: int) -> None:
        """Count an allocation (1), or stop to count it (-1)."""
        for result in allocation.devices.results:
            if not result.admin_access:
                self._count_device(result, sign)

    def users(self, device: DeviceId) -> tuple[int, int]:
        """Return how many claims use a device alone, and how many share it."""
        return self._dedicated[device], self._shares[device]

    def dedicated(self, device: DeviceId) -> bool:
        """Return whether a device is in use by one claim alone."""
        return device in self._dedicated

    def shared(self, device: DeviceId) -> bool:
        """Return whether claims share a device."""
        return device in self._shares

    def consumed(self, device: DeviceId, capacity: str) -> int:
        """Return the consumed amount of a capacity in billionths."""
        return self._consumed[device][capacity] if device in self._consumed else 0

    def _count_device(self, result: AllocatedDevice, sign: int) -> None:
        device = result.id
        users = self._dedicated if result.share_id is None else self._shares
        users[device] += sign
        if not users[device]:
            del users[device]
        if result.share_id is not None and result.consumed_capacity:
            consumed = self._consumed[device]
            for name, nanos in result.consumed.items():
                consumed[name] += sign * nanos
            if device not in self._shares:
                del self._consumed[device]


class AllocatedToOthers:
    """The devices in use, without those that reservations hold for one owner.

    Args:
        allocated: all devices in use.
        own: the allocation that does not count.

    """

    def __init__(self, allocated: "DevicesInUse", own: AllocationResult) -> None:
        self._allocated = allocated
        self._own = AllocatedState((own,))

    def users(self, device: DeviceId) -> tuple[int, int]:
        """Return how many claims use a device alone, and how many share it."""
        every, own = self._allocated.users(device), self._own.users(device)
        return every[0] - own[0], every[1] - own[1]

    def dedicated(self, device: DeviceId) -> bool:
        """Return whether a device is in use by one claim alone."""
        return self.users(device)[0] > 0

    def shared(self, device: DeviceId) -> bool:
        """Return whether claims share a device."""
        return self.users(device)[1] > 0

    def consumed(self, device: DeviceId, capacity: str) -> int:
        """Return the consumed amount of a capacity in billionths."""
        return self._allocated.consumed(device, capacity) - self._own.consumed(device, capacity)


DevicesInUse = AllocatedState | AllocatedToOthers
