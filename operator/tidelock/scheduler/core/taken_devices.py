"""Finds the claims that have devices of reservations.

The decisions here give such a device only to an owner, and admission refuses it to other programs where it is
installed. All the same the claim of a stranger can have one, because the API server does not compare the
allocations of claims. So can the claim of a pod that was an owner when it got the device. In both cases the
reservation loses its capacity.

An owner that could not be bound keeps the devices that are written to its claims. Its reservation is for that
owner alone then, as it has no devices for any other one.
"""

from collections.abc import Iterator

from tidelock.cluster.objects import Objects
from tidelock.ledger.capacity.overcommitment import last_in_rank
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.resource_claims import AllocatedDevice, ResourceClaim
from tidelock.model.work_queue import WorkQueue
from tidelock.scheduler.core.device_owners import DeviceOwners, owns_entry

UNKNOWN_SECONDS = 10.0
"""Time for which a claim with a reserved device may have a pod that is not known.

Claims of pods that are gone are freed within seconds.
"""


class TakenDevices:
    """Compares allocations with the devices that reservations hold.

    Args:
        ledger: the reservations.
        owners: finds the pods of claims.
        objects: all claims and slices, and the devices that reservations hold. New allocations are compared
            at the next step.

    Attributes:
        pending: claims with new allocations.

    """

    def __init__(self, ledger: Ledger, owners: DeviceOwners, objects: Objects) -> None:
        self._ledger = ledger
        self._holdings = ledger.holdings
        self._owners = owners
        self._claims = objects.resource_claims
        self.pending = WorkQueue[Key]()
        self._unclear: dict[Key, float] = {}  # since when claims of unknown pods wait
        self._claims.on_change(self._allocated)

    @property
    def unsettled(self) -> bool:
        """Whether the next step must compare anything."""
        return bool(self.pending or self._holdings.former_owners or self._holdings.kept)

    def settle(self, now: float) -> None:
        """Take the capacity of reservations whose devices others have, and open those that no owner keeps."""
        for entry in self._holdings.former_owners.take():
            self._leave_to_former_owners(entry, now)
        for key in self.pending.take():
            self._lose_to_stranger(key, now)
        for entry in self._holdings.kept.take():
            if entry.reserved and not self._ledger.ownership.owner_with_devices(entry):
                self._holdings.announce(entry)  # it is for all of its owners again
                self._leave_to_former_owners(entry, now)

    def next_due(self) -> float | None:
        """Return the instant at which the first claim of an unknown pod counts as that of a stranger."""
        return min(self._unclear.values()) + UNKNOWN_SECONDS if self._unclear else None

    def _leave_to_former_owners(self, entry: ReservationInfo, now: float) -> None:
        """Let a reservation wait for capacity again if the claim of a former owner has one of its devices.

        The claims count once all pods with its devices are bound or have failed to.
        """
        keys = [key for held in entry.devices for key in self._claims.with_device(held.id)]
        in_flight = (self._claims.in_flight.get(key) is not None for key in keys)
        if entry.devices and (entry.phase is Phase.BOUND or any(in_flight)):
            self._holdings.former_owners.add(entry)
            return
        for claim in self._owners.known(keys):
            losers = {} if self._waits_for_pod(claim) else self._losers(claim)
            if entry in losers:
                text = f"device {losers[entry]} is allocated to claim {claim.key}, which is no owner's"
                self._ledger.placement.displace(entry, reasons.WAITING, text, now)
                return

    def _lose_to_stranger(self, key: Key, now: float) -> None:
        """Take the capacity of reservations whose devices are allocated to a claim of others by now.

        Of several with shares of a device, the lowest priority comes first, then the newest.
        """
        claim = self._claims.get(key.name, key.namespace)
        waits = claim is not None and self._waits_for_pod(claim)
        if waits and now < self._unclear.setdefault(key, now) + UNKNOWN_SECONDS:
            self.pending.add(key)
            return
        self._unclear.pop(key, None)
        while claim is not None and (losers := self._losers(claim)):
            entry = last_in_rank(losers)
            self._ledger.placement.lose_device(entry, losers[entry], key, now)
        if claim is not None and any(entry.phase is Phase.BOUND for _, entry in self.by(claim)):
            self.pending.add(key)  # the reservation gets its devices back if the binding fails

    def _waits_for_pod(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has a reserved device for a pod that is not known.

        The pod is gone, and the claim will be freed or deleted. Or another scheduler will bind the pod soon.
        """
        if claim.meta.controller is None or claim.allocation is None or any(self._owners.users(claim)):
            return False
        return any(self._claims.reserved.holders(each.id) for each in claim.allocation.devices.results)

    def _losers(self, claim: ResourceClaim) -> dict[ReservationInfo, DeviceId]:
        """Return the reservations with a device that a claim has got, unless their owner has come.

        A claim that is being deleted gives its devices back.
        """
        if claim.meta.deletion_timestamp is not None:
            return {}
        taken = self.by(claim)
        return {entry: device for device, entry in taken if entry.phase is not Phase.BOUND}

    def by(self, claim: ResourceClaim) -> list[tuple[DeviceId, ReservationInfo]]:
        """Return the devices of a claim that reservations hold for pods that do not use the claim.

        Shares of one device are no conflict as long as its capacity suffices for all of them.
        """
        if claim.allocation is None or not self._claims.reserved:
            return []
        users = list(self._owners.users(claim))
        stored = self._claims.get(claim.meta.name, claim.meta.namespace)
        counted = stored is not None and stored.allocation is not None
        return [
            (device.id, entry)
            for device in claim.allocation.devices.results
            if not device.admin_access
            for entry in self._holders(device, counted=counted)
            if not any(owns_entry(pod, entry) for pod in users)
        ]

    def _holders(self, device: AllocatedDevice, *, counted: bool) -> Iterator[ReservationInfo]:
        """Yield the reservations that hold a device, or a share of it if there is not enough for both.

        `counted` says whether the device counts as allocated already.
        """
        holders = self._claims.reserved.holders(device.id)
        if not holders:
            return
        fits = device.share_id is not None and not self._owners.exceeds(device, counted=counted)
        for entry in self._ledger.entries.values():
            held = (each for each in entry.devices if each.id == device.id)
            if entry.uid in holders and not (fits and all(each.share_id is not None for each in held)):
                yield entry

    def _allocated(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and new.allocation is not None and (old is None or old.allocation is None):
            self.pending.add(new.key)
