"""Whether allocated devices are ready for a pod to be bound, by the reports of their drivers.

Semantics of Kubernetes 1.37, plugins/dynamicresources (isClaimReadyForBinding, isClaimTimeout).
"""

from enum import Enum, auto

from tidelock.model.instants import from_datetime
from tidelock.model.resource_claims import AllocatedDevice, ResourceClaim


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
    pending = False
    for device in claim.allocation.devices.results:
        if device.binding_conditions:
            held = _held(claim, device)
            if not held.isdisjoint(device.binding_failure_conditions):
                return Readiness.FAILED
            pending |= not held.issuperset(device.binding_conditions)
    if not pending:
        return Readiness.READY
    began = claim.allocation.allocation_timestamp
    late = began is not None and from_datetime(began) + timeout < now
    return Readiness.TIMED_OUT if late else Readiness.PENDING


def _held(claim: ResourceClaim, device: AllocatedDevice) -> set[str]:
    """Return the types of the conditions that a driver reports as true."""
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == device.id:
            return {each.type for each in status.conditions if each.status == "True"}
    return set()
