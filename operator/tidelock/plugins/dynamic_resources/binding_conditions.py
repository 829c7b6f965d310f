"""Whether allocated devices are ready for a pod to be bound, by the reports of their drivers.

Semantics of Kubernetes 1.37, plugins/dynamicresources (isClaimReadyForBinding, isClaimTimeout).
"""

from enum import Enum, auto

from tidelock.model.instants import from_datetime
from tidelock.model.resource_claims import AllocatedDevice, DeviceCondition, ResourceClaim


class Readiness(Enum):
    """The state of a claim's devices."""

    READY = auto()
    PENDING = auto()
    FAILED = auto()
    TIMED_OUT = auto()


def readiness(claim: ResourceClaim, now: float, timeout: float) -> Readiness:
    """Return whether all binding conditions hold, and none has failed.

    Args:
        claim: an allocated claim.
        now: the current time, in seconds since the epoch.
        timeout: seconds after the allocation within which they must hold.

    """
    if claim.allocation is None:
        return Readiness.PENDING
    if failure_of(claim) is not None:
        return Readiness.FAILED
    if all(
        _held(claim, each).keys() >= {*each.binding_conditions} for each in claim.allocation.devices.results
    ):
        return Readiness.READY
    began = claim.allocation.allocation_timestamp
    late = began is not None and from_datetime(began) + timeout < now
    return Readiness.TIMED_OUT if late else Readiness.PENDING


def failure_of(claim: ResourceClaim) -> DeviceCondition | None:
    """Return the first condition by which a driver reports that a device has failed, or None."""
    devices = () if claim.allocation is None else claim.allocation.devices.results
    for device in devices:
        held = _held(claim, device)
        for each in device.binding_failure_conditions:
            if each in held:
                return held[each]
    return None


def _held(claim: ResourceClaim, device: AllocatedDevice) -> dict[str, DeviceCondition]:
    """Return the conditions that a driver reports as true, by their types, if bindings wait for any."""
    for status in claim.status.devices if device.binding_conditions else ():
        if (status.driver, status.pool, status.device) == device.id:
            return {each.type: each for each in status.conditions if each.status == "True"}
    return {}
