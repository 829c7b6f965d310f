"""The owners of reservations that have devices in their claims."""

from collections.abc import Iterable, Iterator

from tidelock.cluster.cache import Cache
from tidelock.cluster.objects import Objects
from tidelock.framework.events import Resource
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_nanos
from tidelock.model.resource_claims import AllocatedDevice, ResourceClaim
from tidelock.scheduler.core.queued_pods import QueuedPods


class DeviceOwners:
    """Finds the pods of claims, and which of them own a reservation.

    Args:
        cache: the bound pods.
        queued: the pods that wait.
        objects: all claims and slices.

    """

    def __init__(self, cache: Cache, queued: QueuedPods, objects: Objects) -> None:
        self._cache = cache
        self._queued = queued
        self._claims = objects.resource_claims
        self._slices = objects.resource_slices

    def waiting(self, entry: ReservationInfo, uid: str = "") -> str:
        """Return the uid of a waiting owner with devices of a reservation in its claims, or an empty text.

        Of several it is the pod with the given uid. A claim that is being deleted gives its devices back.
        """
        found: list[str] = []
        for held in entry.devices:
            users = [
                pod.uid
                for claim in self.known(self._claims.with_device(held.id))
                if claim.meta.deletion_timestamp is None
                for pod in self.users(claim)
                if self._queued.get(pod.uid) is not None and owns_entry(pod, entry)
            ]
            if users and (held.share_id is None or self.exceeds(held.allocated, counted=True)):
                found += users
        return uid if uid in found else next(iter(found), "")

    def known(self, keys: Iterable[Key]) -> Iterator[ResourceClaim]:
        """Yield stored claims. That of a pod with extended resources has devices before it is created."""
        for key in keys:
            claim = self._claims.get(key.name, key.namespace)
            if claim is not None:
                yield claim

    def users(self, claim: ResourceClaim) -> Iterator[Pod]:
        """Yield the known pods that use a claim or wait with it, and the pod for which it was created."""
        uids = dict.fromkeys(each.uid for each in claim.status.reserved_for)
        if claim.meta.controller is not None:
            uids[claim.meta.controller.uid] = None
        uids |= dict.fromkeys(self._queued.users((Resource.RESOURCE_CLAIM, claim.key)))
        for uid in uids:
            placed, waiting = self._cache.get(uid), self._queued.get(uid)
            if placed is not None:
                yield placed.pod
            elif waiting is not None:
                yield waiting.pod

    def exceeds(self, device: AllocatedDevice, *, counted: bool) -> bool:
        """Return whether all shares of a device together exceed its capacity.

        `counted` says whether this one counts as allocated already.
        """
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


def owns_entry(pod: Pod, entry: ReservationInfo) -> bool:
    """Return whether a pod is an owner of a reservation."""
    return is_owner(pod, entry.key, entry.reservation.spec)
