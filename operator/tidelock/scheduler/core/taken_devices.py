"""Finds the claims that have devices of reservations of others.

The decisions here never do that, and admission refuses it to other programs where it is installed. All the
same a claim can have such a device, because the API server does not compare the allocations of claims. So can
the claim of a pod that was an owner when it got the device.
"""

from collections.abc import Iterator

from tidelock.cluster.cache import Cache
from tidelock.cluster.objects import Objects
from tidelock.ledger.capacity.overcommitment import last_in_rank
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_nanos
from tidelock.model.resource_claims import AllocatedDevice, ResourceClaim
from tidelock.model.work_queue import WorkQueue
from tidelock.scheduler.core.pod_queue import SchedulingQueue

UNKNOWN_SECONDS = 10.0
"""Time for which a claim with a reserved device may have a pod that is not known.

Claims of pods that are gone are freed within seconds.
"""


class TakenDevices:
    """Compares allocations with the devices that reservations hold.

    Args:
        ledger: the reservations.
        cache: the bound pods.
        queue: the pods that wait.
        objects: all claims and slices, and the devices that reservations hold. New allocations are compared
            at the next step.

    """

    def __init__(self, ledger: Ledger, cache: Cache, queue: SchedulingQueue, objects: Objects) -> None:
        self._ledger = ledger
        self._cache = cache
        self._queue = queue
        self._claims = objects.resource_claims
        self._slices = objects.resource_slices
        self.pending = WorkQueue[Key]()
        self._unclear: dict[Key, float] = {}  # since when claims of unknown pods wait
        self._claims.on_change(self._allocated)

    def settle(self, now: float) -> None:
        """Take the capacity of reservations whose devices are allocated to claims of others by now.

        Of several with shares of a device, the lowest priority comes first, then the newest.
        """
        self._settle_former_owners(now)
        for key in self.pending.take():
            claim = self._claims.get(key.name, key.namespace)
            waits = claim is not None and self._waits_for_pod(claim)
            if waits and now < self._unclear.setdefault(key, now) + UNKNOWN_SECONDS:
                self.pending.add(key)
                continue
            self._unclear.pop(key, None)
            while claim is not None and (losers := self._losers(claim)):
                entry = last_in_rank(losers)
                self._ledger.placement.lose_device(entry, losers[entry], key, now)
            if claim is not None and any(entry.phase is Phase.BOUND for _, entry in self.by(claim)):
                self.pending.add(key)  # the reservation gets its devices back if the binding fails

    def next_due(self) -> float | None:
        """Return the instant at which the first claim of an unknown pod counts as that of a stranger."""
        return min(self._unclear.values()) + UNKNOWN_SECONDS if self._unclear else None

    def _settle_former_owners(self, now: float) -> None:
        """Leave devices to the claims of former owners, once these are bound or have failed to."""
        former_owners = self._ledger.holdings.former_owners
        for entry in former_owners.take():
            if entry.devices and (entry.phase is Phase.BOUND or self._is_in_flight(entry)):
                former_owners.add(entry)
            elif any(self._is_beside_claims(each.id) for each in entry.devices):
                self._leave_to_former_owners(entry, now)

    def _is_in_flight(self, entry: ReservationInfo) -> bool:
        """Return whether a pod that is being bound gets a device of a reservation."""
        held = {each.id for each in entry.devices}
        allocations = (allocation for _, allocation in self._claims.in_flight.items())
        return any(each.id in held for allocation in allocations for each in allocation.devices.results)

    def _is_beside_claims(self, device: DeviceId) -> bool:
        """Return whether claims have a device that reservations hold."""
        return sum(self._claims.allocated.users(device)) > len(self._claims.reserved.holders(device))

    def _leave_to_former_owners(self, entry: ReservationInfo, now: float) -> None:
        """Let a reservation wait for capacity again if the claim of a former owner has one of its devices."""
        for claim in self._claims.all():
            losers = {} if self._waits_for_pod(claim) else self._losers(claim)
            if entry in losers:
                text = f"device {losers[entry]} is allocated to claim {claim.key}, which is no owner's"
                self._ledger.placement.displace(entry, reasons.WAITING, text, now)
                return

    def _waits_for_pod(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has a reserved device for a pod that is not known.

        The pod is gone, and the claim will be freed or deleted. Or another scheduler will bind the pod soon.
        """
        if claim.meta.controller is None or claim.allocation is None or any(self._users(claim)):
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
        users = list(self._users(claim))
        stored = self._claims.get(claim.meta.name, claim.meta.namespace)
        counted = stored is not None and stored.allocation is not None
        return [
            (device.id, entry)
            for device in claim.allocation.devices.results
            if not device.admin_access
            for entry in self._holders(device, counted=counted)
            if not any(is_owner(pod, entry.key, entry.reservation.spec) for pod in users)
        ]

    def _holders(self, device: AllocatedDevice, *, counted: bool) -> Iterator[ReservationInfo]:
        """Yield the reservations that hold a device, or a share of it if there is not enough for both.

        `counted` says whether the device counts as allocated already.
        """
        holders = self._claims.reserved.holders(device.id)
        if not holders:
            return
        fits = device.share_id is not None and not self._exceeds(device, counted=counted)
        for entry in self._ledger.entries.values():
            held = (each for each in entry.devices if each.id == device.id)
            if entry.uid in holders and not (fits and all(each.share_id is not None for each in held)):
                yield entry

    def _exceeds(self, device: AllocatedDevice, *, counted: bool) -> bool:
        """Return whether all shares of a device together exceed its capacity."""
        allocated, capacity = self._claims.allocated, self._capacity(device.id)
        return any(
            allocated.consumed(device.id, name) + (0 if counted else nanos) > capacity.get(name, 0)
            for name, nanos in device.consumed.items()
        )

    def _capacity(self, device: DeviceId) -> dict[str, int]:
        """Return the capacity of a device in billionths, as its driver publishes it."""
        for each in self._slices.all():
            if (each.spec.driver, each.spec.pool.name) == (device.driver, device.pool):
                for found in each.spec.devices:
                    if found.name == device.device:
                        return {name: parse_nanos(amount.value) for name, amount in found.capacity.items()}
        return {}

    def _users(self, claim: ResourceClaim) -> Iterator[Pod]:
        """Yield the known pods that use a claim, and the pod for which it was created."""
        uids = {each.uid for each in claim.status.reserved_for}
        if claim.meta.controller is not None:
            uids.add(claim.meta.controller.uid)
        for uid in uids:
            placed, waiting = self._cache.get(uid), self._queue.get(uid)
            if placed is not None:
                yield placed.pod
            elif waiting is not None:
                yield waiting.pod

    def _allocated(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and new.allocation is not None and (old is None or old.allocation is None):
            self.pending.add(new.key)
