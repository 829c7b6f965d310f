"""Finds the claims that have devices of reservations: those of others, and those of owners that still wait.

The decisions here never do that, and admission refuses it to other programs where it is installed. All the
same a claim can have such a device, because the API server does not compare the allocations of claims.

An owner that could not be bound keeps the devices that are written to its claims. Its reservation is for that
owner alone then, as it has no devices for any other one.
"""

from collections.abc import Collection, Iterator

from tidelock.cluster.cache import Cache
from tidelock.cluster.objects import Objects
from tidelock.framework.events import Resource
from tidelock.ledger.capacity.overcommitment import last_in_rank
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_nanos
from tidelock.model.resource_claims import AllocatedDevice, ResourceClaim
from tidelock.model.work_queue import WorkQueue
from tidelock.scheduler.core.pod_queue import SchedulingQueue


class TakenDevices:
    """Compares allocations with the devices that reservations hold.

    Args:
        ledger: the reservations.
        cache: the bound pods.
        queue: the pods that wait.
        objects: all claims and slices, and the devices that reservations hold. New allocations are compared
            at the next step.

    Attributes:
        pending: claims with new allocations.
        kept: reservations that were found to be for a waiting owner with their devices alone.

    """

    def __init__(self, ledger: Ledger, cache: Cache, queue: SchedulingQueue, objects: Objects) -> None:
        self._ledger = ledger
        self._cache = cache
        self._queue = queue
        self._claims = objects.resource_claims
        self._slices = objects.resource_slices
        self.pending = WorkQueue[Key]()
        self.kept = WorkQueue[ReservationInfo](lambda entry: entry.key)
        self._claims.on_change(self._allocated)
        ledger.ownership.owner_with_devices = self.waiting_owner

    def settle(self, now: float) -> None:
        """Take the capacity of reservations whose devices are allocated to claims of others by now.

        Of several with shares of a device, the lowest priority comes first, then the newest.
        """
        for key in self.pending.take():
            claim = self._claims.get(key.name, key.namespace)
            while claim is not None and (losers := self._losers(claim)):
                entry = last_in_rank(losers)
                self._ledger.placement.lose_device(entry, losers[entry], key, now)
        for entry in self.kept.take():
            there = self._ledger.entries.get(entry.key) is entry and bool(entry.reserved)
            if there and not self.waiting_owner(entry):
                self._ledger.holdings.announce(entry)  # it is for all of its owners again

    def waiting_owner(self, entry: ReservationInfo, uid: str = "") -> str:
        """Return the uid of a waiting owner with devices of a reservation in its claims, or an empty text.

        Of several it is the pod with the given uid. A claim that is being deleted gives its devices back.
        """
        found = ""
        for held in entry.devices:
            for key in self._claims.with_device(held.id):
                claim = self._claims.get(key.name, key.namespace)
                if claim is None or claim.meta.deletion_timestamp is not None:
                    continue
                users = self._queue.rejected.users((Resource.RESOURCE_CLAIM, key))
                user = uid if uid in users else next(self._waiting_owners(entry, users), "")
                if user and (held.share_id is None or self._exceeds(held.allocated, counted=True)):
                    found = user if user == uid else found or user
        if found:
            self.kept.add(entry)
        return found

    def _waiting_owners(self, entry: ReservationInfo, uids: Collection[str]) -> Iterator[str]:
        """Yield the owners of a reservation among pods of the queue."""
        for uid in uids:
            waiting = self._queue.get(uid)
            if waiting is not None and is_owner(waiting.pod, entry.key, entry.reservation.spec):
                yield uid

    def _losers(self, claim: ResourceClaim) -> dict[ReservationInfo, DeviceId]:
        """Return the reservations with a device that a claim has got, unless their owner has come.

        A claim that is being deleted gives its devices back. Its pod, which may be an owner, can be gone.
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
