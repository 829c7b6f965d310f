"""Volumes and claims as decisions see them: those of the API server, with assumed values.

Claims that wait for a pod have assumed values: the volume, or the node for which one is provisioned.
"""

from collections import defaultdict
from collections.abc import Sequence

from tidelock.cluster.assume_cache import AssumeCache
from tidelock.cluster.objects import Objects
from tidelock.model.meta import Key
from tidelock.model.storage import (
    CsiStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tidelock.plugins.volume_binding.unbound_volumes import UnboundVolumes


class Volumes:
    """The volumes that claims may get, and the assumed values."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.owners: AssumeCache[PersistentVolume, ObjectReference] = AssumeCache(
            objects.persistent_volumes, lambda volume: volume.spec.claim_ref
        )
        """Claims that volumes will belong to."""
        self.nodes: AssumeCache[PersistentVolumeClaim, str] = AssumeCache(
            objects.persistent_volume_claims, lambda claim: claim.selected_node
        )
        """Names of nodes for which volumes will be made, by claim."""
        self._free: defaultdict[str, UnboundVolumes] = defaultdict(UnboundVolumes)  # by class
        self._given: defaultdict[Key, dict[str, PersistentVolume]] = defaultdict(dict)  # by claim
        self._capacities: defaultdict[str, dict[Key, CsiStorageCapacity]] = defaultdict(dict)  # by class
        for volume in objects.persistent_volumes.all():
            self._put_volume(None, volume)
        for capacity in objects.csi_storage_capacities.all():
            self._put_capacity(None, capacity)
        objects.persistent_volumes.on_change(self._put_volume)
        objects.csi_storage_capacities.on_change(self._put_capacity)

    def selected_node(self, claim: PersistentVolumeClaim) -> str:
        """Return the node for which a claim's volume is provisioned, or an empty text."""
        return claim.selected_node or self.nodes.get(claim.key) or ""

    def group_committed(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return a large enough volume that is reserved for a claim, or assumed for it."""
        found = [
            volume
            for volume in self._given.get(claim.key, {}).values()
            if volume.spec.claim_ref is not None and volume.spec.claim_ref.names(claim.meta)
        ]
        for key, owner in self.owners.items():
            if owner.names(claim.meta):
                volume = self._objects.persistent_volumes.get(key.name)
                if volume is not None and volume.spec.claim_ref is None:
                    found.append(volume)
        fitting = (volume for volume in found if volume.holds(claim))
        return min(fitting, key=lambda volume: (volume.capacity, volume.meta.name), default=None)

    def free(self, class_name: str) -> UnboundVolumes:
        """Return the unbound volumes of a class, including assumed ones."""
        return self._free[class_name]

    def capacities(self, class_name: str) -> Sequence[CsiStorageCapacity]:
        """Return the known capacities for new volumes of a class."""
        return tuple(self._capacities.get(class_name, {}).values())

    def _put_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            if (owner := old.spec.claim_ref) is not None:
                key = Key(owner.namespace, owner.name)
                self._given[key].pop(old.meta.name, None)
                if not self._given[key]:
                    del self._given[key]
            else:
                self._free[old.class_name].drop(old.meta.name)
        if new is not None:
            if (owner := new.spec.claim_ref) is not None:
                self._given[Key(owner.namespace, owner.name)][new.meta.name] = new
            else:
                self._free[new.class_name].put(new)

    def _put_capacity(self, old: CsiStorageCapacity | None, new: CsiStorageCapacity | None) -> None:
        if old is not None:
            self._capacities[old.storage_class_name].pop(old.key, None)
        if new is not None:
            self._capacities[new.storage_class_name][new.key] = new
