"""The part of a device's capacity that a request consumes, by the device's request policy.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating, consumable_capacity.go).
Amounts are whole numbers of billionths of a unit. Ranges are those with the gate DRAFractionalCapacityRange
off: it is on from a minimum compatibility version of 1.37, which is 1.36 by default.
"""

from collections.abc import Callable

from tidelock.devices.errors import AllocationError
from tidelock.model.devices import CapacityRange, Device, DeviceCapacity
from tidelock.model.quantities import NANOS, parse_nanos
from tidelock.model.resource_claims import CapacityRequirements

_LARGEST = 2**63 - 1

Consumed = dict[str, int]
"""Amounts in billionths, by the name of the capacity."""


def consumed_by(wanted: CapacityRequirements | None, device: Device) -> Consumed | None:
    """Return the amounts of a device that a request consumes, or None if the device does not suit it.

    Raises:
        AllocationError: an amount is negative, or can't be rounded up within 64 bits.

    """
    requests = {} if wanted is None else wanted.requests
    if not requests.keys() <= device.capacity.keys():
        return None
    consumed = {name: _consumed(name, requests.get(name), each) for name, each in device.capacity.items()}
    if all(_valid(consumed[name], each) for name, each in device.capacity.items()):
        return consumed
    return None


def fits(consumed: Consumed, device: Device, taken: Callable[[str], int]) -> bool:
    """Return whether amounts fit beside those that are `taken` of each capacity."""
    return all(
        consumed[name] + taken(name) <= parse_nanos(each.value) for name, each in device.capacity.items()
    )


def _consumed(name: str, wanted: str | int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    if wanted is None:
        default = None if policy is None else policy.default
        nanos = parse_nanos(capacity.value if default is None else default)
    else:
        nanos = parse_nanos(wanted)
        if policy is not None and policy.valid_range is not None and policy.valid_range.min is not None:
            nanos = _rounded_up(name, nanos, policy.valid_range)
        elif policy is not None and policy.valid_values:
            larger = (value for value in map(parse_nanos, policy.valid_values) if value >= nanos)
            nanos = next(larger, nanos)
    if nanos < 0:
        raise AllocationError(f'capacity "{name}": capacity value is negative')
    return nanos


def _rounded_up(name: str, nanos: int, valid: CapacityRange) -> int:
    """Round up to the next step from the minimum. Steps are counted in whole units."""
    least = parse_nanos(valid.min or 0)
    step = _step(valid)
    if nanos < least or not step:
        return max(nanos, least)
    start = _whole(least)
    rounded = start - (start - _whole(nanos)) // step * step
    if rounded > _LARGEST:
        problem = "capacity request cannot be represented in the device's range arithmetic"
        raise AllocationError(f'capacity "{name}": {problem}: {nanos / NANOS:g}')
    return rounded * NANOS


def _valid(nanos: int, capacity: DeviceCapacity) -> bool:
    """Return whether the policy admits an amount that has been rounded up."""
    policy = capacity.request_policy
    if policy is None or (policy.default is not None and nanos == parse_nanos(policy.default)):
        return True
    if (valid := policy.valid_range) is not None:
        if valid.max is not None and nanos > parse_nanos(valid.max):
            return False
        step = _step(valid)
        return not step or (_whole(nanos) - _whole(parse_nanos(valid.min or 0))) % step == 0
    return not policy.valid_values or nanos in map(parse_nanos, policy.valid_values)


def _step(valid: CapacityRange) -> int:
    """Return the step of a range in whole units, or 0 if it has none."""
    return max(_whole(parse_nanos(valid.step or 0)), 0)


def _whole(nanos: int) -> int:
    """Return an amount in whole units, rounded up."""
    return -(-nanos // NANOS)
