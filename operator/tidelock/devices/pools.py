"""The pools of devices, and the part of them that each node has access to.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating, GatherPools). A pool
consists of the slices of its newest generation. It is incomplete as long as some of them are missing, and
invalid if they contradict each other. No device of such a pool is allocated.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tidelock.devices.change_log import ChangeLog
from tidelock.model.devices import (
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceId,
    PoolId,
    ResourceSlice,
)
from tidelock.model.nodes import Node
from tidelock.model.quantities import parse_nanos
from tidelock.model.selectors import NodeSelector

_K = TypeVar("_K", str, PoolId)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device to which a node has access."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    index: int
    """Its place among the devices of the slice."""
    pool: "NodePool"
    plain: bool
    """Whether no other device or request of a claim matters for it: nothing of it is shared or consumed."""

    @property
    def node_name(self) -> str:
        """The only node with access to it, or empty."""
        spec = self.slice.spec
        return self.device.node_name if spec.per_device_node_selection else spec.node_name

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes with access to it, or None."""
        spec = self.slice.spec
        return self.device.node_selector if spec.per_device_node_selection else spec.node_selector


CounterSets = dict[str, dict[str, int]]
"""Amounts in billionths, by counter set and counter."""


@dataclass(frozen=True, slots=True, eq=False)
class NodePool:
    """A pool as a node sees it.

    Attributes:
        id: the name of the pool.
        complete: whether all slices are known.
        invalid: why the pool contradicts itself, or empty.
        conditional: whether pods with some of its devices are bound only once conditions hold.
        devices: all devices of the pool, those out of the node's reach, too, which consume its counters.
        counters: the shared counters of the pool.

    """

    id: PoolId
    complete: bool = True
    invalid: str = ""
    conditional: bool = False
    devices: tuple[tuple[DeviceId, Device], ...] = ()
    counters: CounterSets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The pools that a node has access to, in the order of allocation, and their usable devices.

    Pools with binding conditions come last, then the names of the driver, the pool and the slice decide. So
    driver authors can set an order by names.
    """

    pools: tuple[NodePool, ...] = ()
    candidates: tuple[Candidate, ...] = ()


_Stamp = tuple["ResourcePools", int]

_KEPT = "devices"


class ResourcePools:
    """All slices. The result for a node is kept with the node until a slice that concerns it changes.

    Attributes:
        changes: the nodes whose slices have changed, by name.

    """

    def __init__(self) -> None:
        self._slices: defaultdict[PoolId, dict[str, ResourceSlice]] = defaultdict(dict)
        self._local: dict[str, dict[str, ResourceSlice]] = {}  # by node
        self._shared: dict[str, ResourceSlice] = {}
        self.changes: ChangeLog[str] = ChangeLog()
        self._common: dict[tuple[str, ...], NodeDevices] = {}  # by the names of shared slices

    def put(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Take over a slice's newest version, or forget it."""
        if old is not None:
            self._touch(old)
            _take_out(self._slices, old.pool, old)
            if old.spec.node_name:
                _take_out(self._local, old.spec.node_name, old)
            else:
                self._shared.pop(old.meta.name, None)
        if new is not None:
            self._slices[new.pool][new.meta.name] = new
            home = self._local.setdefault(new.spec.node_name, {}) if new.spec.node_name else self._shared
            home[new.meta.name] = new
            self._touch(new)

    def of(self, node: Node) -> NodeDevices:
        """Return the devices that a node has access to."""
        local = self._local.get(node.name)
        if local is None and not self._shared:
            return _NOTHING
        stamp: _Stamp = (self, self.changes.changed_at(node.name))
        kept: tuple[_Stamp, NodeDevices] | None = node.__dict__.get(_KEPT)
        if kept is None or kept[0] != stamp:
            kept = node.__dict__[_KEPT] = (stamp, self._gather(node, local or {}))
        return kept[1]

    def nodes_of(self, pool: PoolId) -> Collection[str] | None:
        """Return the names of the nodes with access to a pool, or None if it is shared by selected nodes."""
        names = {each.spec.node_name for each in self._slices.get(pool, {}).values()}
        return None if "" in names else names

    def _touch(self, changed: ResourceSlice) -> None:
        """Note which results a change of a slice concerns: those of its pool's nodes, or of all."""
        nodes = self.nodes_of(changed.pool)
        if nodes is None:
            self.changes.note_all()
            self._common.clear()
        else:
            for name in nodes:
                self.changes.note(name)

    def _gather(self, node: Node, local: Mapping[str, ResourceSlice]) -> NodeDevices:
        """Return the devices of a node. Nodes without slices of their own that see the same ones share it."""
        shared = [each for each in self._shared.values() if each.usable and _reaches(each, node)]
        names = tuple(each.meta.name for each in shared)
        if not local and (common := self._common.get(names)) is not None:
            return common
        pools = self._pools(node, (*(each for each in local.values() if each.usable), *shared))
        usable = (candidate for _, candidates in pools for candidate in candidates)
        found = NodeDevices(tuple(pool for pool, _ in pools), tuple(usable))
        if not local and not any(each.spec.per_device_node_selection for each in shared):
            self._common[names] = found
        return found

    def _pools(self, node: Node, slices: Iterable[ResourceSlice]) -> list[tuple[NodePool, list[Candidate]]]:
        """Return the pools with slices that concern a node, in the order of allocation."""
        newest: dict[PoolId, list[ResourceSlice]] = {}
        for each in slices:
            found = newest.setdefault(each.pool, [])
            if found and each.spec.pool.generation > found[0].spec.pool.generation:
                found.clear()
            if not found or each.spec.pool.generation == found[0].spec.pool.generation:
                found.append(each)
        built = (self._build(pool_id, near, node) for pool_id, near in newest.items())
        return sorted(
            (each for each in built if each is not None), key=lambda each: (each[0].conditional, each[0].id)
        )

    def _build(
        self, pool_id: PoolId, near: list[ResourceSlice], node: Node
    ) -> tuple[NodePool, list[Candidate]] | None:
        """Return a pool from the slices that concern a node, or None if a newer generation has replaced them.

        Slices for other nodes are looked at only if some are missing.
        """
        expected = near[0].spec.pool
        every = near
        if len(near) != expected.resource_slice_count:
            known = self._slices[pool_id].values()
            if any(each.spec.pool.generation > expected.generation for each in known):
                return None
            every = [
                each for each in known if each.spec.pool.generation == expected.generation and each.usable
            ]
            if len(every) != expected.resource_slice_count:
                return NodePool(pool_id, complete=False), []
        near = sorted(
            (each for each in near if not each.spec.shared_counters), key=lambda each: each.meta.name
        )
        sets = [group for each in every for group in each.spec.shared_counters]
        devices = [each for each in every if not each.spec.shared_counters]
        if problem := _contradiction(near, sets, devices):
            return NodePool(pool_id, invalid=problem), []
        pool = NodePool(
            pool_id,
            conditional=any(device.binding_conditions for each in near for device in each.spec.devices),
            devices=tuple((each.id_of(device), device) for each in devices for device in each.spec.devices),
            counters={
                group.name: {name: counter.nanos for name, counter in group.counters.items()}
                for group in sets
            },
        )
        return pool, [
            Candidate(each.id_of(device), device, each, index, pool, _plain(device))
            for each in near
            for index, device in enumerate(each.spec.devices)
            if not each.spec.per_device_node_selection or _device_reaches(device, node)
        ]


_NOTHING = NodeDevices()


def _reaches(slice_: ResourceSlice, node: Node) -> bool:
    """Return whether a node has access to some devices of a slice."""
    spec = slice_.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _admits(node, spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)
    return spec.per_device_node_selection and any(_device_reaches(each, node) for each in spec.devices)


def _device_reaches(device: Device, node: Node) -> bool:
    return _admits(node, device.node_name, all_nodes=device.all_nodes, selector=device.node_selector)


def _admits(node: Node, name: str, *, all_nodes: bool, selector: NodeSelector | None) -> bool:
    if name:
        return node.name == name
    return all_nodes or (selector is not None and selector.matches(node.name, node.meta.labels))


def _plain(device: Device) -> bool:
    return not (
        device.allow_multiple_allocations
        or device.consumes_counters
        or (device.capacity and any(map(_special, device.capacity.values())))
    )


def _special(capacity: DeviceCapacity) -> bool:
    return capacity.request_policy is not None or parse_nanos(capacity.value) < 0


def _contradiction(
    near: Sequence[ResourceSlice], sets: Sequence[CounterSet], devices: Sequence[ResourceSlice]
) -> str:
    """Return why a pool is invalid, or an empty text.

    Args:
        near: the slices with devices for the node.
        sets: the shared counters.
        devices: all slices with devices.

    """
    if twice := _repeated(device.name for each in near for device in each.spec.devices):
        return f"duplicate device name {twice}"
    if twice := _repeated(group.name for group in sets):
        return f"duplicate counter set name {twice}"
    known = {group.name: group.counters for group in sets}
    every = (device for each in devices for device in each.spec.devices)
    for consumed in (consumed for device in every for consumed in device.consumes_counters):
        if consumed.counter_set not in known:
            return f"counter set {consumed.counter_set} not found"
        for name in consumed.counters:
            if name not in known[consumed.counter_set]:
                return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""


def _take_out(homes: dict[_K, dict[str, ResourceSlice]], key: _K, slice_: ResourceSlice) -> None:
    homes[key].pop(slice_.meta.name, None)
    if not homes[key]:
        del homes[key]


def _repeated(names: Iterable[str]) -> str:
    """Return the first name that comes a second time, or an empty text."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
