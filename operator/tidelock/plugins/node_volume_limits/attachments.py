"""Which CSI volumes are on which nodes, counted against the limits of the nodes' drivers.

A volume is on a node while a pod there uses a claim to it, or a VolumeAttachment names both. Everything is
kept by deltas, so a decision looks at one number a node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Cache
from tidelock.cluster.objects import Objects
from tidelock.cluster.placed import Placed
from tidelock.model.meta import Key
from tidelock.model.storage import (
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

_UNLIMITED = 2**31


class Attachable(NamedTuple):
    """The unit of a limit on each node: a volume by its handle, or a claim without a volume."""

    driver: str
    handle: str


Moves = Mapping[tuple[Attachable, str], int]
"""How many more (or fewer) pods would use a volume on a node than do."""


class Attachments:
    """Volumes by node, which follow pods, claims, volumes, classes, attachments and limits."""

    def __init__(self, cache: Cache, objects: Objects) -> None:
        self._columns = cache.columns
        self._objects = objects
        self._users: defaultdict[Key, Counter[str]] = defaultdict(Counter)  # pods by claim and node
        self._volume_of: dict[Key, Attachable | None] = {}  # of claims in use
        self._named: dict[Key, str] = {}  # volumes that claims in use name
        self._naming: defaultdict[str, set[Key]] = defaultdict(set)  # the same the other way round
        self._attached: defaultdict[str, dict[str, VolumeAttachment]] = defaultdict(dict)  # by volume
        self._by_pods: defaultdict[Attachable, Counter[str]] = defaultdict(Counter)
        self._by_attachments: defaultdict[Attachable, Counter[str]] = defaultdict(Counter)
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by driver and node
        self._limits: defaultdict[str, dict[str, int]] = defaultdict(dict)  # by driver and node
        self._free_slots: dict[str, npt.NDArray[np.int64]] = {}  # by driver: limit - count of each row
        self._nodes_with: defaultdict[str, set[str]] = defaultdict(set)  # by driver
        self._installed: dict[str, npt.NDArray[np.bool_]] = {}  # by driver, of each row
        self._version = -1
        for csi_node in objects.csi_nodes.all():
            self._put_csi_node(None, csi_node)
        for attachment in objects.volume_attachments.all():
            self._put_attachment(None, attachment)
        objects.csi_nodes.on_change(self._put_csi_node)
        objects.volume_attachments.on_change(self._put_attachment)
        objects.persistent_volume_claims.on_change(self._put_claim)
        objects.persistent_volumes.on_change(self._put_volume)
        objects.storage_classes.on_change(self._put_class)
        cache.on_move(self._move_pod)

    def limited(self, driver: str) -> bool:
        """Return whether any node has a limit for a driver."""
        return bool(self._limits.get(driver))

    def volume(self, claim: PersistentVolumeClaim) -> Attachable | None:
        """Return the unit of a claim, or None if no CSI driver provides it."""
        volume = self._objects.persistent_volumes.get(claim.spec.volume_name)
        if volume is None:
            storage_class = self._objects.storage_classes.get(claim.class_name)
            if storage_class is None or not storage_class.provisioner:
                return None
            return Attachable(storage_class.provisioner, f"claim {claim.key}")
        source = volume.spec.csi
        return Attachable(source.driver, source.volume_handle) if source and source.volume_handle else None

    def free_slots(self, driver: str) -> npt.NDArray[np.int64]:
        """Return how many more volumes of a driver each row takes. The array must not be written."""
        self._follow_rows()
        if driver not in self._free_slots:
            limits, counts = self._limits[driver], self._counts[driver]
            slots = [limits.get(node.name, _UNLIMITED) - counts[node.name] for node in self._columns.nodes]
            self._free_slots[driver] = np.array(slots, np.int64)
        return self._free_slots[driver]

    def installed(self, driver: str) -> npt.NDArray[np.bool_]:
        """Return the rows where a driver is installed. The array must not be written."""
        self._follow_rows()
        if driver not in self._installed:
            names = self._nodes_with[driver]
            self._installed[driver] = np.array([node.name in names for node in self._columns.nodes], np.bool_)
        return self._installed[driver]

    def _follow_rows(self) -> None:
        """Drop the arrays if the rows have changed."""
        if self._version != self._columns.version:
            self._version = self._columns.version
            self._free_slots.clear()
            self._installed.clear()

    def nodes_using(self, volume: Attachable) -> Iterable[str]:
        """Names of the nodes where pods use a volume."""
        return self._by_pods.get(volume, ())

    def fits(self, node_name: str, wanted: Iterable[Attachable], moves: Moves) -> bool:
        """Return whether a node can have these volumes, too, if pods moved.

        As in kube-scheduler, volumes that pods use there are not wanted again, and only attached ones are.
        """
        change: Counter[str] = Counter()
        for volume in {volume for volume, name in moves if name == node_name}:
            users = self._users_of(volume, node_name)
            after = users + moves[volume, node_name]
            if node_name not in self._by_attachments.get(volume, ()):
                change[volume.driver] += (after > 0) - (users > 0)
        added = Counter(
            volume.driver
            for volume in wanted
            if self._users_of(volume, node_name) + moves.get((volume, node_name), 0) <= 0
        )
        return all(
            self._counts[driver][node_name] + change[driver] + number
            <= self._limits[driver].get(node_name, _UNLIMITED)
            for driver, number in added.items()
        )

    def _move_pod(self, placed: Placed, sign: int) -> None:
        for use in placed.pod.claims:
            key = Key(placed.pod.meta.namespace, use.name)
            if key not in self._users:
                self._resolve(key)
            self._shift(self._by_pods, self._volume_of[key], placed.node_name, sign)
            _add(self._users[key], placed.node_name, sign)
            if not self._users[key]:
                del self._users[key], self._volume_of[key]
                self._unname(key)

    def _put_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        if claim is not None and claim.key in self._users:
            self._recount(claim.key)

    def _put_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if volume is None:
            return
        for key in tuple(self._naming.get(volume.meta.name, ())):
            self._recount(key)
        for attachment in self._attached.get(volume.meta.name, {}).values():
            self._count_attachment(attachment, old, -1)
            self._count_attachment(attachment, new, 1)

    def _put_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        changed = new or old
        for key in tuple(self._users):
            claim = self._objects.persistent_volume_claims.get(key.name, key.namespace)
            if claim is not None and changed is not None and claim.class_name == changed.meta.name:
                self._recount(key)

    def _put_attachment(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        for attachment, sign in ((old, -1), (new, 1)):
            if attachment is None or attachment.spec.source.persistent_volume_name is None:
                continue
            name = attachment.spec.source.persistent_volume_name
            if sign > 0:
                self._attached[name][attachment.meta.name] = attachment
            elif self._attached[name].pop(attachment.meta.name, None) is None:
                continue
            self._count_attachment(attachment, self._objects.persistent_volumes.get(name), sign)
            if not self._attached[name]:
                del self._attached[name]

    def _put_csi_node(self, old: CsiNode | None, new: CsiNode | None) -> None:
        if old is not None:
            for driver in old.drivers:
                self._nodes_with[driver].discard(old.meta.name)
                self._limits[driver].pop(old.meta.name, None)
        if new is not None:
            for driver in new.drivers:
                self._nodes_with[driver].add(new.meta.name)
            for driver, limit in new.limits.items():
                self._limits[driver][new.meta.name] = limit
        self._free_slots.clear()
        self._installed.clear()

    def _resolve(self, key: Key) -> None:
        """Note the unit of a claim, and its volume."""
        self._unname(key)
        claim = self._objects.persistent_volume_claims.get(key.name, key.namespace)
        self._volume_of[key] = None if claim is None else self.volume(claim)
        if claim is not None and claim.spec.volume_name:
            self._named[key] = claim.spec.volume_name
            self._naming[claim.spec.volume_name].add(key)

    def _unname(self, key: Key) -> None:
        name = self._named.pop(key, None)
        if name is not None:
            self._naming[name].discard(key)
            if not self._naming[name]:
                del self._naming[name]

    def _recount(self, key: Key) -> None:
        """Count a claim's pods under its present unit."""
        earlier = self._volume_of[key]
        self._resolve(key)
        if earlier == self._volume_of[key]:
            return
        for node_name, pods in self._users[key].items():
            self._shift(self._by_pods, earlier, node_name, -pods)
            self._shift(self._by_pods, self._volume_of[key], node_name, pods)

    def _count_attachment(
        self, attachment: VolumeAttachment, volume: PersistentVolume | None, sign: int
    ) -> None:
        spec = attachment.spec
        if volume is not None and volume.spec.csi is not None and spec.attacher:
            handle = Attachable(spec.attacher, volume.spec.csi.volume_handle)
            self._shift(self._by_attachments, handle, spec.node_name, sign)

    def _shift(
        self,
        uses: defaultdict[Attachable, Counter[str]],
        volume: Attachable | None,
        node_name: str,
        change: int,
    ) -> None:
        """Change by how many a volume is used on a node."""
        if volume is None:
            return
        before = self._is_on(volume, node_name)
        _add(uses[volume], node_name, change)
        if not uses[volume]:
            del uses[volume]
        change = self._is_on(volume, node_name) - before
        if not change:
            return
        _add(self._counts[volume.driver], node_name, change)
        free_slots = self._free_slots.get(volume.driver)
        row = self._columns.row_of.get(node_name)
        if free_slots is not None and row is not None and self._version == self._columns.version:
            free_slots[row] -= change

    def _users_of(self, volume: Attachable, node_name: str) -> int:
        return self._by_pods[volume][node_name] if volume in self._by_pods else 0

    def _is_on(self, volume: Attachable, node_name: str) -> bool:
        return any(node_name in uses.get(volume, ()) for uses in (self._by_pods, self._by_attachments))


def _add(counter: Counter[str], name: str, change: int) -> None:
    """Add to a counter, in which nothing is zero."""
    counter[name] += change
    if not counter[name]:
        del counter[name]
