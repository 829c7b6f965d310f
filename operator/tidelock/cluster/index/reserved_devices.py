"""The devices that reservations hold for their owners."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.devices import DeviceId
from tidelock.model.resource_claims import AllocatedDevices, AllocationResult


class ReservedDevices:
    """Held devices by the UIDs of reservations, counted beside the devices of claims.

    Args:
        count: counts an allocation as in use (1), or no longer (-1).

    """

    def __init__(
        self, count: Callable[[AllocationResult, int], None] = lambda _allocation, _sign: None
    ) -> None:
        self._count = count
        self._devices: dict[str, tuple[ReservedDevice, ...]] = {}
        self._holders: defaultdict[DeviceId, dict[str, bool]] = defaultdict(dict)  # whether each shares it
        self._contested: set[DeviceId] = set()

    def __bool__(self) -> bool:
        return bool(self._devices)

    def of(self, uid: str) -> tuple[ReservedDevice, ...]:
        """Return the devices that a reservation holds."""
        return self._devices.get(uid, ())

    def holders(self, device: DeviceId) -> Collection[str]:
        """Return the UIDs of the reservations that hold a device, or a share of it."""
        return self._holders[device].keys() if device in self._holders else ()

    @property
    def any_contested(self) -> bool:
        """Whether two reservations hold one device that can't be shared, by what their statuses say."""
        return bool(self._contested)

    def contested(self, uid: str) -> bool:
        """Return whether another reservation holds a device of this one that can't be shared."""
        return bool(self._contested) and any(each.id in self._contested for each in self.of(uid))

    def put(self, uid: str, devices: Sequence[ReservedDevice]) -> None:
        """Set the devices of a reservation, or forget them if there are none."""
        if (before := self._devices.pop(uid, ())) == devices:
            if devices:
                self._devices[uid] = tuple(devices)
            return
        for each in before:
            self._holders[each.id].pop(uid, None)
            self._contend(each.id)
        if before:
            self._count(allocation_of(before), -1)
        if devices:
            self._devices[uid] = tuple(devices)
            for each in devices:
                self._holders[each.id][uid] = each.share_id is not None
                self._contend(each.id)
            self._count(allocation_of(devices), 1)

    def _contend(self, device: DeviceId) -> None:
        """Note whether a device is held twice after a change of its holders."""
        holders = self._holders[device]
        if len(holders) > 1 and not all(holders.values()):
            self._contested.add(device)
        else:
            self._contested.discard(device)
        if not holders:
            del self._holders[device]


def allocation_of(devices: Sequence[ReservedDevice]) -> AllocationResult:
    """Return held devices as the allocation of a claim."""
    return AllocationResult(AllocatedDevices(tuple(each.allocated for each in devices)))
