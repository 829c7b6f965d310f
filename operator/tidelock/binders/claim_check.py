"""Admission check for the devices that other programs allocate to claims.

The API server does not compare claims, so it stores a device in two of them. Here an allocation is refused if
it has a device that a reservation holds, or that Tidelock has just given to a pod. An admitted allocation is
in flight at once, like one of Tidelock's own:

    asked --admit--> in flight --seen--> allocated
                         |
                         +--lapse--> free

The API server itself refuses to change an allocation, so only the first one of a claim is checked.

Pure: time is a parameter.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidelock.cluster.index.devices import ResourceClaims
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.resource_claims import AllocationResult, ResourceClaim


@dataclass(frozen=True, slots=True)
class _Admitted:
    claim: ResourceClaim
    until: float


class ClaimCheck:
    """Keeps reserved devices, and devices that Tidelock has given to pods, from other allocators.

    Args:
        claims: all claims, with the allocations in flight.
        reserved: returns the devices of a claim that reservations of others hold, with the reservations.
        unseen_seconds: seconds after which an admitted allocation is forgotten that no watch has shown.

    """

    def __init__(
        self,
        claims: ResourceClaims,
        reserved: Callable[[ResourceClaim], Iterable[tuple[DeviceId, Key]]],
        unseen_seconds: float,
    ) -> None:
        self._claims = claims
        self._reserved = reserved
        self._unseen_seconds = unseen_seconds
        self._steady = SteadyClock()
        self._admitted: dict[Key, _Admitted] = {}

    def admit(self, claim: ResourceClaim, now: float, *, dry_run: bool = False) -> str:
        """Admit the first allocation of a claim, and count its devices, or return why not.

        A dry run counts nothing.
        """
        allocation = claim.allocation
        if allocation is None:
            return ""
        self._forget(claim.key)  # an earlier attempt, which the API server has not stored
        in_flight = self._claims.in_flight
        if in_flight.get(claim.key) is not None:
            return f"claim {claim.key} is being allocated by Tidelock"
        refusal = "; ".join(self._problems(claim, allocation))
        if not refusal and not dry_run:
            in_flight.make(claim.key, allocation, claim.meta.uid, claim.meta.uid)
            self._admitted[claim.key] = _Admitted(claim, self._steady.at(now) + self._unseen_seconds)
        return refusal

    def lapse(self, now: float) -> list[ResourceClaim]:
        """Forget admitted allocations after their time. Return the claims of those that never appeared."""
        at = self._steady.at(now)
        late = [each.claim for each in self._admitted.values() if each.until <= at]
        return [claim for claim in late if self._forget(claim.key)]

    def _forget(self, key: Key) -> bool:
        """Forget an admitted allocation, and return whether its devices were still in flight."""
        admitted = self._admitted.pop(key, None)
        if admitted is None or self._claims.in_flight.get(key) is not admitted.claim.allocation:
            return False
        self._claims.in_flight.release(key, admitted.claim.meta.uid)
        return True

    def _problems(self, claim: ResourceClaim, allocation: AllocationResult) -> Iterator[str]:
        """Yield why devices can't be allocated. Admin access leaves a device to its user."""
        for device, holder in self._reserved(claim):
            yield reserved_text(device, holder)
        given = {
            each.id: key
            for key, other in self._claims.in_flight.items()
            for each in other.devices.results
            if not each.admin_access
        }
        for each in allocation.devices.results:
            if each.id in given and each.share_id is None and not each.admin_access:
                yield allocating_text(each.id, given[each.id])


def reserved_text(device: object, holder: object) -> str:
    """Say that a reservation holds a device."""
    return f"device {device} is reserved by {holder}"


def allocating_text(device: object, claim: object) -> str:
    """Say that another claim gets a device."""
    return f"device {device} is being allocated to claim {claim}"
