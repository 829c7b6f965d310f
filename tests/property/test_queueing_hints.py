"""No queueing hint denies a change after which a plugin accepts a node that it has refused before.

A pod that a hint keeps asleep by mistake would wait for five minutes.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import node
from property import disks
from property.disks import HOST, NODES
from property.neighbours import DICE, Dice
from property.test_pod_topology_spread import spreading_pod
from storage import DRIVER, csi_driver, csi_node, drop, put, storage_capacity, storage_class
from tidelock.cluster.lister import Lister
from tidelock.framework.api import Code, Plugin
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, assigned_to
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_volume_limits.plugin import NodeVolumeLimits
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from tidelock.plugins.volume_restrictions import VolumeRestrictions
from tidelock.plugins.volume_zone import VolumeZone
from unit.plugins.hinting import changes, woken_by
from unit.plugins.scene import Scene

CHANGES = 8

Change = tuple[Any, Any]
"""An object before and after it came, changed or went. Both are None if nothing can change."""

PROVISIONED = disks.Flavour(claims=({"storage_class": "fast"}, {"storage_class": "fast", "size": "2Gi"}) * 40)
WANTING = disks.pods("web-0", disks.CLAIM_SOURCES)
MOUNTING = disks.pods("web-0")
NODE_NAMES, NODE_LABELS = st.sampled_from(NODES), st.sampled_from(disks.LABELS)
CLAIM_NAMES, VOLUME_NAMES = st.sampled_from(disks.CLAIMS), st.sampled_from(disks.VOLUMES)
LIMITS: st.SearchStrategy[dict[str, int | None]] = st.sampled_from(
    [{}, *({"csi_example_com": limit} for limit in (None, 0, 0, 1, 1, 2))]
)


class Watched:
    """A pod in a cluster that changes, with the nodes that plugins accept for it."""

    def __init__(self, scene: Scene, wanting: Pod, *kinds: type[Plugin]) -> None:
        self.scene = scene
        self.wanting = wanting
        self._accepted: list[tuple[Plugin, set[str]]] = []
        for kind in kinds:
            plugin = kind(scene.handle, {})
            self._accepted.append((plugin, self._fitting(plugin)))

    def check(self, change: Change) -> None:
        """Check that each plugin wakes the pod if it accepts another node after a change."""
        old, new = change
        for plugin, before in self._accepted:
            after = self._fitting(plugin)
            if after - before:
                assert woken_by(plugin, self.wanting, changes(old, new), old, new)
            before.clear()
            before.update(after)

    def _fitting(self, plugin: Plugin) -> set[str]:
        judged = self.scene.judging(plugin, self.wanting)
        return judged.fitting if judged.status.code in (Code.SUCCESS, Code.SKIP) else set()


class Storage:
    """Changes of the objects that volume plugins read, as far as they are events and can happen."""

    def __init__(self, watched: Watched, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._watched = watched
        self._scene = watched.scene
        self._draw = draw

    def change(self, *kinds: Callable[["Storage"], Change]) -> None:
        """Make some changes of these kinds, and check the hints about each one."""
        kinds_of_all = st.sampled_from(kinds)
        for _ in range(CHANGES):
            change = self._draw(kinds_of_all)(self)
            if change != (None, None):
                self._watched.check(change)

    def claim(self) -> Change:
        """Add a claim, or change its binding."""
        new = self._draw(disks.claims(self._draw(CLAIM_NAMES), disks.ANY))
        old = self._scene.objects.persistent_volume_claims.get(new.meta.name, new.meta.namespace)
        if old is not None:
            marks = replace(old.metadata, annotations=new.meta.annotations)
            spec = replace(old.spec, volume_name=old.spec.volume_name or new.spec.volume_name)
            new = replace(old, metadata=marks, spec=spec)
        return self._put(old, new)

    def volume(self) -> Change:
        new = self._draw(disks.volumes(self._draw(VOLUME_NAMES)))
        return self._put(self._scene.objects.persistent_volumes.get(new.meta.name), new)

    def storage_class(self) -> Change:
        new = storage_class("fast", provisioner=DRIVER, topologies=self._draw(disks.TOPOLOGIES))
        return self._put(self._scene.objects.storage_classes.get("fast"), new)

    def csi_node(self) -> Change:
        new = csi_node(self._draw(NODE_NAMES), **self._draw(LIMITS))
        return self._put(self._scene.objects.csi_nodes.get(new.meta.name), new)

    def csi_driver(self) -> Change:
        new = csi_driver(storage_capacity=self._draw(st.booleans()), required=self._draw(st.booleans()))
        return self._put(self._scene.objects.csi_drivers.get(DRIVER), new)

    def capacity(self) -> Change:
        """Add a report, or change only its amount."""
        new = storage_capacity("some", self._draw(disks.ALL_SIZES), topology={})
        old = self._scene.objects.csi_storage_capacities.get("some", "kube-system")
        return self._put(old, new if old is None else replace(old, capacity=new.capacity))

    def attachment(self) -> Change:
        there = [*self._scene.objects.volume_attachments.all()]
        if not there:
            return None, None
        old = self._draw(st.sampled_from(there))
        drop(self._scene.objects, old)
        return old, None

    def pod(self) -> Change:
        there = [*self._scene.cache.pods_in("shop")]
        if not there:
            return None, None
        old = self._draw(st.sampled_from(there))
        self._scene.cache.remove(old.pod.uid)
        return assigned_to(old.pod, old.node_name), None

    def node(self) -> Change:
        names = [each.name for each in self._scene.columns.nodes]
        name = self._draw(st.sampled_from([*names, *names, "node-e"]))
        new = node(name, labels={HOST: name} | self._draw(NODE_LABELS))
        return put_node(self._scene, new)

    def _put(self, old: Any, new: Any) -> Change:
        put(self._scene.objects, new)
        return old, new


def put_node(scene: Scene, new: Node) -> Change:
    """Add a node, or change it."""
    row = scene.columns.row_of.get(new.name)
    old = None if row is None else scene.columns.nodes[row]
    scene.cache.put_node(new)
    return old, new


def worlds(flavour: disks.Flavour) -> st.SearchStrategy[disks.World]:
    return disks.worlds(disks.CLAIM_SOURCES, flavour)


@given(st.one_of(worlds(disks.ANY), worlds(PROVISIONED)), WANTING, st.data())
def test_hints_of_volume_binding_miss_no_change(
    world: disks.World, wanting: Pod, data: st.DataObject
) -> None:
    storage = Storage(Watched(world.scene(), wanting, VolumeBinding), data.draw)
    storage.change(
        Storage.claim,
        Storage.volume,
        Storage.volume,
        Storage.storage_class,
        Storage.csi_driver,
        Storage.capacity,
        Storage.node,
    )


@given(st.one_of(worlds(PROVISIONED), worlds(disks.OF_A_DRIVER)), WANTING, st.data())
def test_hints_of_volume_limits_miss_no_change(world: disks.World, wanting: Pod, data: st.DataObject) -> None:
    """Check all but changes of claims and volumes of other pods. A bound claim keeps its volume."""
    scene = world.scene()
    for name in NODES:
        put(scene.objects, csi_node(name, csi_example_com=1))
    storage = Storage(Watched(scene, wanting, NodeVolumeLimits), data.draw)
    kinds = Storage.csi_node, Storage.csi_driver, Storage.attachment, Storage.pod, Storage.pod, Storage.pod
    storage.change(*kinds)


@given(st.one_of(disks.worlds(), worlds(disks.OF_ONE_POD)), st.one_of(WANTING, MOUNTING), st.data())
def test_hints_of_restrictions_and_zones_miss_no_change(
    world: disks.World, wanting: Pod, data: st.DataObject
) -> None:
    storage = Storage(Watched(world.scene(), wanting, VolumeRestrictions, VolumeZone), data.draw)
    storage.change(Storage.claim, Storage.claim, Storage.volume, Storage.pod, Storage.node)


class Neighbours:
    """Changes of nodes and of bound pods. A pod that has gone does not come back."""

    def __init__(self, scene: Scene, dice: Dice) -> None:
        self._scene = scene
        self._dice = dice
        self._comers = 0

    def change(self) -> Change:
        """Make one change."""
        cache, dice, columns = self._scene.cache, self._dice, self._scene.columns
        if dice.one(True, False, False, False):
            return put_node(
                self._scene, dice.node(dice.one(*(each.name for each in columns.nodes), "node-z"))
            )
        there = [each for namespace in ("shop", "bank", "lab") for each in cache.pods_in(namespace)]
        if not there or dice.one(True, False):
            self._comers += 1
            new = assigned_to(dice.demanding_pod(f"comer-{self._comers}"), dice.one(*columns.nodes).name)
            cache.upsert(new)
            return None, new
        placed = dice.one(*there)
        old = assigned_to(placed.pod, placed.node_name)
        if dice.one(True, False):
            cache.remove(old.uid)
            return old, None
        edited = dice.pod(old.meta.name).meta
        deleted_at = old.meta.deletion_timestamp or edited.deletion_timestamp
        new = replace(
            old, metadata=replace(old.metadata, labels=edited.labels, deletion_timestamp=deleted_at)
        )
        cache.upsert(new)
        return old, new


@given(DICE)
def test_hints_of_affinity_miss_no_change(dice: Dice) -> None:
    world = dice.world(dice.demanding_pod, most=5)
    watched = Watched(world.scene(), dice.demanding_pod("web-0"), InterPodAffinity)
    neighbours = Neighbours(watched.scene, dice)
    for _ in range(CHANGES):
        watched.check(neighbours.change())


@given(DICE)
def test_hints_of_spread_constraints_miss_no_change(dice: Dice) -> None:
    world = dice.world(dice.pod, most=5)
    watched = Watched(world.scene(), spreading_pod(dice, "DoNotSchedule"), PodTopologySpread)
    neighbours = Neighbours(watched.scene, dice)
    for _ in range(CHANGES):
        watched.check(neighbours.change())


@given(DICE)
def test_hints_of_affinity_miss_no_change_of_a_namespace(dice: Dice) -> None:
    world = dice.world(dice.demanding_pod)
    watched = Watched(world.scene(), dice.demanding_pod("web-0"), InterPodAffinity)
    namespaces: Lister[Namespace] = watched.scene.objects.namespaces
    for _ in range(CHANGES):
        name, labels = dice.namespace(), dice.one({}, {"team": "x"}, {"a": "b"})
        new = msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)
        old = namespaces.get(name)
        namespaces.upsert(old, new)
        watched.check((old, new))


@given(DICE)
def test_hints_miss_no_change_of_the_pod_itself(dice: Dice) -> None:
    scene = dice.world(dice.demanding_pod).scene()
    demanding = dice.demanding_pod("web-0"), spreading_pod(dice, "DoNotSchedule")
    for old, kind in zip(demanding, (InterPodAffinity, PodTopologySpread), strict=True):
        tolerations = dice.one(old.spec.tolerations, spreading_pod(dice, "DoNotSchedule").spec.tolerations)
        labels, spec = dice.labels(), replace(old.spec, tolerations=tolerations)
        new = replace(old, metadata=replace(old.metadata, labels=labels), spec=spec)
        watched = Watched(scene, old, kind)
        watched.wanting = new
        watched.check((old, new))
