"""VolumeRestrictions: only one pod uses a volume that allows no more.

A claim of access mode ReadWriteOncePod serves one pod in the cluster. A disk without a claim serves one pod
on each node, unless all only read it. Semantics of kube-scheduler 1.37, plugins/volumerestrictions, with one
difference: a claim of the same name in another namespace never counts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelock.cluster.placed import Placed
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
from tidelock.framework.pod_claims import claim_not_found, of_used_claims
from tidelock.model.meta import Key
from tidelock.model.pods import Pod

DISK_CONFLICT = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
_ONE_POD = "ReadWriteOncePod"

_Users = defaultdict[tuple[str, ...], dict[str, Placed]]


@dataclass(slots=True)
class _Conflicts:
    """The pod's claims that serve one pod, and the other users of its claims and disks, by UID."""

    claims: frozenset[Key]
    of_claims: set[str]
    of_disks: dict[str, str]

    def clone(self) -> "_Conflicts":
        return _Conflicts(self.claims, set(self.of_claims), dict(self.of_disks))


class VolumeRestrictions(PreFilter, Filter, EnqueueExtensions):
    """Rules out all nodes for a claim in use, and nodes that have the pod's disk mounted."""

    name = "VolumeRestrictions"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, args)
        self._claims: _Users = defaultdict(dict)  # placed pods by the claim, then by uid
        self._disks: _Users = defaultdict(dict)  # the same by the disk's identity
        handle.cache.on_move(self._move)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the users of the pod's disks and claims. Skip pods that share none."""
        if not pod.claims and not pod.template.disks:
            return SKIP_ALIKE
        single = set()
        for use in pod.claims:
            if use.ephemeral:
                continue
            claim = self.handle.objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
            if claim is None:
                text = claim_not_found(use.name)
                return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
            if _ONE_POD in claim.spec.access_modes:
                single.add(claim.key)
        of_claims = {
            uid
            for key in single
            for uid, user in self._claims.get(key, {}).items()
            if snapshot.row(user.node_name) is not None
        }
        if not pod.template.disks and not of_claims:
            return SKIP
        of_disks = {
            uid: user.node_name
            for disk in pod.template.disks
            for uid, user in self._disks.get(disk.identity, {}).items()
            if _clash(pod, user.pod)
        }
        state.write(_Conflicts(frozenset(single), of_claims, of_disks))
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count another pod as a user of its claims and disks."""
        conflicts = state.read(_Conflicts)
        if conflicts is None:
            return
        if conflicts.claims.intersection(_claims(other.pod)):
            conflicts.of_claims.add(other.pod.uid)
        if _clash(pod, other.pod):
            conflicts.of_disks[other.pod.uid] = other.node_name

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Stop counting another pod as a user of its claims and disks."""
        conflicts = state.read(_Conflicts)
        if conflicts is not None:
            conflicts.of_claims.discard(other.pod.uid)
            conflicts.of_disks.pop(other.pod.uid, None)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes without the disks, and none at all if a claim is in use."""
        conflicts = state.expect(_Conflicts)
        mask = np.full(len(self.handle.columns), not conflicts.of_claims)
        for name in conflicts.of_disks.values():
            if (row := snapshot.row(name)) is not None:
                mask[row] = False
        fits: Mask = mask[snapshot.rows]
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return the reason: the disk or the claim."""
        mounted = snapshot.nodes[row].name in state.expect(_Conflicts).of_disks.values()
        return (DISK_CONFLICT if mounted else CLAIM_IN_USE,)

    def _move(self, placed: Placed, sign: int) -> None:
        if not placed.pod.claims and not placed.pod.template.disks:
            return
        for users, key in (
            *((self._claims, key) for key in _claims(placed.pod)),
            *((self._disks, disk.identity) for disk in placed.pod.template.disks),
        ):
            if sign > 0:
                users[key][placed.pod.uid] = placed
                continue
            users[key].pop(placed.pod.uid, None)
            if not users[key]:
                del users[key]

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: pods that used a claim or disk of the pod, new nodes, and claims of the pod."""
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _shared),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            of_used_claims(Action.ADD),
        )


def _claims(pod: Pod) -> list[Key]:
    return [Key(pod.meta.namespace, use.name) for use in pod.claims if not use.ephemeral]


def _shared(pod: Pod, old: Pod, _: None) -> bool:
    """Return whether a pod that goes has used a claim of the pod, or a disk that the pod must not share.

    kube-scheduler compares only pods of one namespace. A disk can be that of pods in several ones.
    """
    disks = {disk.identity for disk in pod.template.disks}
    shares_disk = bool(disks) and not disks.isdisjoint(disk.identity for disk in old.template.disks)
    return (shares_disk and _clash(pod, old)) or not set(_claims(pod)).isdisjoint(_claims(old))


def _clash(pod: Pod, other: Pod) -> bool:
    return any(mine.conflicts(theirs) for mine in pod.template.disks for theirs in other.template.disks)
