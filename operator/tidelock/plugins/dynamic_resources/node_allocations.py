"""The devices that a pod would get on each node, found when a node is asked about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.index.reserved_devices import allocation_of
from tidelock.cluster.node_selection import matching
from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.allocated import AllocatedToOthers
from tidelock.devices.allocator import MOST_STEPS, DeviceAllocator, Solution
from tidelock.devices.errors import SEARCH_TIMED_OUT, AllocationError, SearchLimitError
from tidelock.devices.pools import NodeDevices, ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.framework.api import Mask
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.printable import shortened
from tidelock.model.resource_claims import (
    MOST_ALTERNATIVES,
    AllocationResult,
    PodResourceClaim,
    ResourceClaim,
)
from tidelock.plugins.dynamic_resources.extended_resources import RequestMapping
from tidelock.plugins.dynamic_resources.search_results import SearchResults

# Steps of the searches for a pod on all nodes together, which delay all other decisions.
_MOST_STEPS_OF_POD = 10 * MOST_STEPS
# The feature of a kubelet that leaves out the calls in `skipNodeOperations`.
_OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"

_Found = tuple[Solution | str, bool]
"""The devices of a node or the reason for which it has none, and whether other pods can share the result.

They can't share a reason that names the claim, or that comes of the pod's limit of steps.
"""

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
LEFTOVER = "cannot schedule extended resource claim"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes on which a pod needs the same claims: all, unless some have its extended resources themselves.

    Attributes:
        to_allocate: the claims without devices. That for extended resources comes last.
        results: the results for such claims, as far as they are known.
        rows: the nodes by the rows of the columns, or None for all.
        mappings: the requests of the claim for extended resources, if there is one.

    """

    to_allocate: tuple[PreparedClaim, ...]
    results: SearchResults
    rows: Mask | None = None
    mappings: tuple[RequestMapping, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnDevices:
    """Devices of a node that own reservations hold for a pod.

    Attributes:
        taken: those of the reservations that end when the pod is bound there.
        reusable: those of reservations for reuse.

    """

    taken: tuple[ReservedDevice, ...] = ()
    reusable: tuple[ReservedDevice, ...] = ()

    def of_claim(self, in_spec: PodResourceClaim | None) -> frozenset[DeviceId]:
        """Return the devices for a claim in the pod's spec, or for that of its extended resources.

        Those that would be free otherwise come first.
        """
        name = None if in_spec is None else in_spec.name
        taken = frozenset(each.id for each in self.taken if each.claim == name)
        return taken or frozenset(each.id for each in self.reusable if each.claim == name)


@dataclass(slots=True)
class NodeAllocations:
    """The claims of a pod on the nodes.

    Args:
        claims: all claims that the pod names, with the devices in `shared`.
        stored: the same claims without these.
        groups: the claims to allocate, by group of nodes.
        allocator: the devices in use.
        pools: the devices of the nodes.
        columns: the nodes.
        stuck: indexes of allocated claims with devices that don't become ready.
        own: the devices that the pod's own reservations hold for it, by node.
        in_spec: the claims in the spec of the pod, by the names of the claims.
        leftover: the claim for extended resources of an earlier attempt, which must go first.
        shared: devices in flight for other pods of the group, by claim.

    Attributes:
        unavailable: indexes of allocated claims that are out of reach on some node that was asked about.

    """

    claims: tuple[ResourceClaim, ...]
    stored: tuple[ResourceClaim, ...]
    groups: tuple[NodeGroup, ...]
    allocator: DeviceAllocator
    pools: ResourcePools
    columns: Columns
    stuck: frozenset[int] = frozenset()
    own: dict[str, OwnDevices] = field(default_factory=dict)
    in_spec: Mapping[str, PodResourceClaim] = field(default_factory=dict)
    leftover: ResourceClaim | None = None
    shared: Mapping[Key, AllocationResult] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    _reasons: dict[int, str] = field(default_factory=dict)  # those that other pods can't share, by row
    _found: dict[str, Solution | str] = field(default_factory=dict)  # on the nodes with own devices
    _steps_left: int = _MOST_STEPS_OF_POD

    def __post_init__(self) -> None:
        self.unavailable |= self.stuck

    def reachable(self, snapshot: Snapshot) -> Iterator[tuple[int, Mask]]:
        """Yield the nodes where an allocated claim can be used, with its index. All nodes are left out."""
        for index, claim in enumerate(self.claims):
            if claim.allocation is None:
                continue
            if claim.allocation.node_selector is not None:
                yield index, matching(claim.allocation.node_selector, snapshot)
            if claim.allocation.skips_node_operations:
                able = (_OPTIONAL_NODE_OPERATIONS in node.declared_features for node in snapshot.nodes)
                yield index, np.fromiter(able, np.bool_, len(snapshot))

    @property
    def unfinished(self) -> bool:
        """Whether some nodes were left out, as the searches for the pod had taken long enough."""
        return SEARCH_TIMED_OUT in self._reasons.values()

    def group(self, node_name: str) -> NodeGroup:
        """Return the group of a node."""
        row = self.columns.row_of[node_name]
        return next(each for each in self.groups if each.rows is None or each.rows[row])

    def fitting(self, snapshot: Snapshot, mask: Mask) -> Mask:
        """Return the nodes of a mask on which the claims without devices can get some."""
        fits = mask.copy()
        for group in self.groups:
            here = mask if group.rows is None else mask & group.rows[snapshot.rows]
            if group.to_allocate:
                self._search(group, np.arange(len(self.columns))[snapshot.rows][here])
                fits &= ~here | group.results.fits[snapshot.rows]
        for name in self.own:
            position = snapshot.position(name)
            if position is not None and mask[position]:
                fits[position] = not isinstance(self._result(name), str)
        return fits

    def reason(self, node: Node) -> str:
        """Return why a node was rejected, in words that are the same for every such node."""
        if self.leftover is not None:
            return LEFTOVER
        if self.stuck or not all(_reachable(each.allocation, node) for each in self.claims):
            return NOT_AVAILABLE
        found = self._result(node.name)
        return found if isinstance(found, str) else ""

    def solution(self, node_name: str) -> Solution | None:
        """Return the devices on a node, or None if there are none. Changes of their use are seen."""
        self.group(node_name).results.renew()
        found = self._result(node_name)
        return found if isinstance(found, Solution) else None

    def preference(self, node_name: str) -> int:
        """Return the points of a node: more, the more preferred the chosen alternatives of requests are."""
        solution = self._result(node_name)
        chosen = iter(solution.alternatives if isinstance(solution, Solution) else ())
        return sum(
            _points_of_allocated(claim) if claim.allocation is not None else _points(claim, next(chosen, ()))
            for claim in self.claims
        )

    def set_own(self, node_name: str, own: OwnDevices) -> None:
        """Set the devices that the pod's own reservations hold for it on a node."""
        if self.own.get(node_name) != own:
            self.own[node_name] = own
            self._found.pop(node_name, None)

    def _result(self, node_name: str) -> Solution | str | None:
        group, row = self.group(node_name), self.columns.row_of[node_name]
        if not group.to_allocate:
            return None
        if node_name in self.own:
            if node_name not in self._found:
                devices = self.pools.of(self.columns.nodes[row])
                self._found[node_name], _ = self._own_or_free(group, devices, self.own[node_name])
            return self._found[node_name]
        self._search(group, np.array([row]))
        return group.results.of(row) or self._reasons[row]

    def _own_or_free(self, group: NodeGroup, devices: NodeDevices, own: OwnDevices) -> _Found:
        """Search for the held devices of each claim. If that fails, search for any free ones beside them."""
        known = self.allocator
        in_use = AllocatedToOthers(known.allocated, allocation_of((*own.taken, *own.reusable)))
        held = {
            index: own.of_claim(self.in_spec.get(claim.claim.meta.name))
            for index, claim in enumerate(group.to_allocate)
        }
        only = {index: ids for index, ids in held.items() if ids}
        exactly = DeviceAllocator(in_use, known.selection, known.rules, only)
        found = self._devices(group, devices, exactly)
        if isinstance(found[0], Solution):
            return found
        return self._devices(group, devices, DeviceAllocator(in_use, known.selection, known.rules))

    def _search(self, group: NodeGroup, rows: Rows) -> None:
        """Search for devices on all of some nodes with unknown results. Equal devices are searched once."""
        nodes = self.columns.nodes
        shared: dict[int, _Found] = {}
        texts: dict[str, str] = {}  # one for all nodes with an equal reason
        for row in group.results.stale(rows):
            if row in self._reasons:
                continue
            if self._steps_left <= 0 or self.allocator.selection.exhausted:
                self._reasons[row] = SEARCH_TIMED_OUT
                continue
            devices = self.pools.of(nodes[row])
            found = shared.get(id(devices))
            if found is None:
                found = shared[id(devices)] = self._devices(group, devices, self.allocator)
            result, sharable = found
            if isinstance(result, str) and not sharable:
                self._reasons[row] = texts.setdefault(result, result)
            else:
                group.results.keep(row, result)

    def _devices(self, group: NodeGroup, devices: NodeDevices, allocator: DeviceAllocator) -> _Found:
        most = min(MOST_STEPS, self._steps_left)
        try:
            solution, steps = allocator.allocate(group.to_allocate, devices, most)
        except SearchLimitError:
            self._steps_left -= most
            return SEARCH_TIMED_OUT, False
        except AllocationError as error:
            return shortened(str(error)), False
        self._steps_left -= steps
        if solution is None:
            return INVALID_POOLS if any(pool.invalid for pool in devices.pools) else CANNOT_ALLOCATE, True
        return solution, True


def _reachable(allocation: AllocationResult | None, node: Node) -> bool:
    """Return whether a claim with this allocation can be used on a node, as `reachable` says for many."""
    if allocation is None:
        return True
    selector, skips = allocation.node_selector, allocation.skips_node_operations
    return (selector is None or selector.matches(node.name, node.meta.labels)) and (
        not skips or _OPTIONAL_NODE_OPERATIONS in node.declared_features
    )


def _points(claim: ResourceClaim, chosen: Sequence[int]) -> int:
    requests = claim.spec.devices.requests
    return sum(
        MOST_ALTERNATIVES - index
        for request, index in zip(requests, chosen, strict=False)
        if request.first_available
    )


def _points_of_allocated(claim: ResourceClaim) -> int:
    if claim.allocation is None:
        return 0
    names = {result.request for result in claim.allocation.devices.results}
    return sum(
        MOST_ALTERNATIVES - index
        for request in claim.spec.devices.requests
        for index in range(len(request.first_available))
        if request.name_of(index) in names
    )
