"""The events that may help a pod which VolumeBinding has refused.

The events are those of kube-scheduler 1.37, plugins/volumebinding, with three exceptions. CSINodes are not
read here, because volumes of in-tree drivers are not migrated. A pod that goes can give back volumes that
were assumed for it. A driver that goes no longer limits volumes. The hints are narrower than those of
kube-scheduler: an object concerns a pod only by one of the pod's claims.
"""

from collections.abc import Iterator, Sequence

from tidelock.cluster.objects import Objects
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.pod_claims import known_claims, of_used_claims
from tidelock.model.pods import Pod
from tidelock.model.storage import (
    CsiDriver,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


class VolumeHints:
    """Queueing hints by the claims of a pod as they are when the event is judged."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def registrations(self) -> Sequence[Registration]:
        """Return the events with their hints. Any new or relabelled node may help."""
        changes = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.STORAGE_CLASS, changes), self.class_helps),
            of_used_claims(changes),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changes), self.volume_helps),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE | Action.DELETE), self.driver_helps),
            Registration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, changes), self.capacity_helps),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.pod_gives_back),
        )

    def class_helps(self, pod: Pod, old: StorageClass | None, new: StorageClass) -> bool:
        """Return whether the class of a claim is new, or allows other nodes. Its mode can't change."""
        if old is not None and old.allowed_topologies == new.allowed_topologies:
            return False
        return any(claim.class_name == new.meta.name for claim in known_claims(pod, self._objects))

    def volume_helps(self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> bool:
        """Return whether a claim of the pod has a volume, can get it, or need not take it any more."""
        before = old.spec.claim_ref if old is not None else None
        return any(
            _may_become(new, claim) or (before is not None and before.names(claim.meta))
            for claim in known_claims(pod, self._objects)
        )

    def driver_helps(self, pod: Pod, old: CsiDriver, new: CsiDriver | None) -> bool:
        """Return whether the driver of a claim no longer limits volumes to the storage that it reports.

        kube-scheduler compares the driver with the inline volumes of the pod, which no such limit concerns.
        """
        if not old.spec.storage_capacity or (new is not None and new.spec.storage_capacity):
            return False
        return any(each.provisioner == old.meta.name for each in self._classes(pod))

    def capacity_helps(self, pod: Pod, old: CsiStorageCapacity | None, new: CsiStorageCapacity) -> bool:
        """Return whether there is a report about the class of a claim, with a larger limit than before."""
        if old is not None and new.limit <= old.limit:
            return False
        return any(claim.class_name == new.storage_class_name for claim in known_claims(pod, self._objects))

    def pod_gives_back(self, pod: Pod, old: Pod, _: None) -> bool:
        """Return whether volumes may have been assumed for a pod that goes, and a claim waits for one.

        A binding ends when all claims are bound, so nothing is assumed for a pod with bound claims only.
        """
        bound = sum(claim.bound for claim in known_claims(old, self._objects))
        return bound < len(old.claims) and not all(claim.bound for claim in known_claims(pod, self._objects))

    def _classes(self, pod: Pod) -> Iterator[StorageClass]:
        for claim in known_claims(pod, self._objects):
            storage_class = self._objects.storage_classes.get(claim.class_name)
            if storage_class is not None:
                yield storage_class


def _may_become(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is that of a claim, is reserved for it, or suits it."""
    if claim.spec.volume_name:
        return claim.spec.volume_name == volume.meta.name
    owner = volume.spec.claim_ref
    return volume.suits(claim) if owner is None else owner.names(claim.meta)
