"""VolumeZone: a pod goes to the zones and regions that the labels of its volumes name.

Semantics of kube-scheduler 1.37, plugins/volumezone. Claims that wait for their first consumer have no volume
yet and are left to VolumeBinding. A node without any label of zone or region takes all volumes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP,
    SKIP_ALIKE,
    SUCCESS,
    Code,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.pod_claims import claim_not_found, known_claims, of_used_claims
from tidelock.model.pod_volumes import ClaimUse
from tidelock.model.pods import Pod
from tidelock.model.storage import PersistentVolume, StorageClass

ZONE_CONFLICT = "node(s) had no available volume zone"
NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
NO_CLASS_NAME = "PersistentVolumeClaim had no pv name and storageClass name"
NO_VOLUME_NAME = "PersistentVolume had no name"
_BETA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_BETA, *_BETA.values())
_DELIMITER = "__"  # between the zones of a volume that several have

_Place = tuple[str | None, ...]
"""A node's values of _LABELS."""


@dataclass(frozen=True, slots=True)
class _Zones:
    """The nodes' zones: the distinct ones, and the one of each row, for one `version`."""

    version: int
    places: tuple[_Place, ...]
    of_row: Rows


@dataclass(frozen=True, slots=True)
class _Demands:
    """The requirements of the volumes' labels: a label of the node, and its allowed values."""

    demands: tuple[tuple[str, frozenset[str]], ...]


class VolumeZone(PreFilter, Filter, EnqueueExtensions):
    """Rules out nodes outside of the zones and regions of the pod's volumes."""

    name = "VolumeZone"
    depends_on_placement = False

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, args)
        self._zones = _Zones(-1, (), np.empty(0, np.intp))

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Read the labels of the volumes. Skip pods with volumes without labels."""
        if not pod.claims:
            return SKIP_ALIKE
        demands: list[tuple[str, frozenset[str]]] = []
        for use in pod.claims:
            if use.ephemeral:
                continue
            found = self._volume(pod, use)
            if isinstance(found, str):
                return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (found,))
            if found is not None:
                demands += _demands(found.meta.labels)
        if not demands:
            return SKIP
        state.write(_Demands(tuple(demands)))
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that meet all demands, and nodes that say nothing of where they are."""
        demands = state.expect(_Demands).demands
        zones = self._current_zones()
        admitted = np.array([_admits(place, demands) for place in zones.places], np.bool_)
        fits: Mask = admitted[zones.of_row[snapshot.rows]]
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return that the node is in another zone."""
        return (ZONE_CONFLICT,)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction moves a volume."""
        return False

    def _volume(self, pod: Pod, use: ClaimUse) -> PersistentVolume | str | None:
        """Return the volume of a claim, None if it waits for the pod's node, or the problem."""
        objects = self.handle.objects
        if not use.name:
            return NO_CLAIM_NAME
        claim = objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
        if claim is None:
            return claim_not_found(use.name)
        if name := claim.spec.volume_name:
            return objects.persistent_volumes.get(name) or f'persistentvolume "{name}" not found'
        if not claim.class_name:
            return NO_CLASS_NAME
        storage_class = objects.storage_classes.get(claim.class_name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return None if storage_class.waits else NO_VOLUME_NAME

    def _current_zones(self) -> _Zones:
        columns = self.handle.columns
        if self._zones.version != columns.version:
            places: dict[_Place, int] = {}
            of_row = [
                places.setdefault(tuple(map(node.meta.labels.get, _LABELS)), len(places))
                for node in columns.nodes
            ]
            self._zones = _Zones(columns.version, tuple(places), np.array(of_row, np.intp))
        return self._zones

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: nodes of other zones, and the pod's claims with their volumes and classes."""
        changes = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), self._class_waits),
            of_used_claims(changes),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changes), self._volume_moved),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        )

    def _class_waits(self, pod: Pod, _: None, new: StorageClass) -> bool:
        """Return whether a new class of a claim leaves the claim to VolumeBinding."""
        claims = known_claims(pod, self.handle.objects)
        return new.waits and any(claim.class_name == new.meta.name for claim in claims)

    def _volume_moved(self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> bool:
        """Return whether the volume of a claim is new, or its labels name other zones."""
        if old is not None and [*_demands(old.meta.labels)] == [*_demands(new.meta.labels)]:
            return False
        claims = known_claims(pod, self.handle.objects)
        return any(claim.spec.volume_name == new.meta.name for claim in claims)


def _demands(labels: Mapping[str, str]) -> Iterator[tuple[str, frozenset[str]]]:
    for label in _LABELS:
        if label in labels:
            values = frozenset(value.strip() for value in labels[label].split(_DELIMITER))
            if "" not in values:  # a label that can't be read demands nothing
                yield label, values


def _admits(place: _Place, demands: tuple[tuple[str, frozenset[str]], ...]) -> bool:
    node = {label: value for label, value in zip(_LABELS, place, strict=True) if value is not None}
    if not node:
        return True
    return all(node.get(label, node.get(_BETA.get(label, label))) in values for label, values in demands)
