"""The devices that a pod would get on each node, found when a node is asked about."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelock.cluster.columns import Columns, Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.allocator import MOST_STEPS, DeviceAllocator, Solution
from tidelock.devices.errors import AllocationError, SearchLimitError
from tidelock.devices.pools import NodeDevices, ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.framework.api import Mask
from tidelock.model.nodes import Node
from tidelock.model.resource_claims import MOST_ALTERNATIVES, ResourceClaim
from tidelock.model.selectors import NodeSelector
from tidelock.plugins.dynamic_resources.extended_resources import RequestMapping
from tidelock.plugins.dynamic_resources.search_results import SearchResults

# Steps of the searches for a pod on all nodes together, which delay all other decisions.
_MOST_STEPS_OF_POD = 10 * MOST_STEPS

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
TIMED_OUT = "timed out trying to allocate devices"
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
        refused: why the pod can't run on any of them, or empty.

    """

    to_allocate: tuple[PreparedClaim, ...]
    results: SearchResults
    rows: Mask | None = None
    mappings: tuple[RequestMapping, ...] = ()
    refused: str = ""


@dataclass(slots=True)
class NodeAllocations:
    """The claims of a pod on the nodes.

    Args:
        claims: all claims that the pod names.
        groups: the claims to allocate, by group of nodes.
        allocator: the devices in use.
        pools: the devices of the nodes.
        columns: the nodes.
        stuck: indexes of allocated claims with devices that don't become ready.
        leftover: the claim for extended resources of an earlier attempt, which must go first.

    Attributes:
        unavailable: indexes of allocated claims that are out of reach on some node that was asked about.

    """

    claims: tuple[ResourceClaim, ...]
    groups: tuple[NodeGroup, ...]
    allocator: DeviceAllocator
    pools: ResourcePools
    columns: Columns
    stuck: frozenset[int] = frozenset()
    leftover: ResourceClaim | None = None
    unavailable: set[int] = field(default_factory=set)
    _own: dict[int, str] = field(default_factory=dict)  # reasons that other pods can't share, by row
    _steps_left: int = _MOST_STEPS_OF_POD

    def __post_init__(self) -> None:
        self.unavailable |= self.stuck

    @property
    def selectors(self) -> list[tuple[int, NodeSelector]]:
        """The nodes of allocated claims, by the index of the claim. A claim for all nodes is left out."""
        return [
            (index, claim.allocation.node_selector)
            for index, claim in enumerate(self.claims)
            if claim.allocation is not None and claim.allocation.node_selector is not None
        ]

    @property
    def unfinished(self) -> bool:
        """Whether some nodes were left out, as the searches for the pod had taken long enough."""
        return TIMED_OUT in self._own.values()

    def group(self, node_name: str) -> NodeGroup:
        """Return the group of a node."""
        row = self.columns.row_of[node_name]
        return next(each for each in self.groups if each.rows is None or each.rows[row])

    def fitting(self, snapshot: Snapshot, mask: Mask) -> Mask:
        """Return the nodes of a mask on which the claims without devices can get some."""
        fits = mask.copy()
        for group in self.groups:
            here = mask if group.rows is None else mask & group.rows[snapshot.rows]
            if group.refused:
                fits &= ~here
            elif group.to_allocate:
                self._search(group, np.arange(len(self.columns))[snapshot.rows][here])
                fits &= ~here | group.results.fits[snapshot.rows]
        return fits

    def reason(self, node: Node) -> str:
        """Return why a node was rejected, in words that are the same for every such node."""
        if self.leftover is not None:
            return LEFTOVER
        reachable = (each.matches(node.name, node.meta.labels) for _, each in self.selectors)
        if self.stuck or not all(reachable):
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

    def _result(self, node_name: str) -> Solution | str | None:
        group, row = self.group(node_name), self.columns.row_of[node_name]
        if group.refused or not group.to_allocate:
            return group.refused or None
        self._search(group, np.array([row]))
        return group.results.of(row) or self._own[row]

    def _search(self, group: NodeGroup, rows: Rows) -> None:
        """Search for devices on all of some nodes with unknown results. Equal devices are searched once."""
        nodes = self.columns.nodes
        shared: dict[int, Solution | str] = {}
        for row in group.results.stale(rows):
            if row in self._own:
                continue
            if self._steps_left <= 0 or self.allocator.selection.exhausted:
                self._own[row] = TIMED_OUT
                continue
            devices = self.pools.of(nodes[row])
            found = shared.get(id(devices))
            if found is None:
                found = shared[id(devices)] = self._devices(group, devices)
            if isinstance(found, _OwnReason):
                self._own[row] = found
            else:
                group.results.keep(row, found)

    def _devices(self, group: NodeGroup, devices: NodeDevices) -> Solution | str:
        most = min(MOST_STEPS, self._steps_left)
        try:
            solution, steps = self.allocator.allocate(group.to_allocate, devices, most)
        except SearchLimitError:
            self._steps_left -= most
            return _OwnReason(TIMED_OUT)
        except AllocationError as error:
            return _OwnReason(error)
        self._steps_left -= steps
        if solution is None:
            return INVALID_POOLS if any(pool.invalid for pool in devices.pools) else CANNOT_ALLOCATE
        return solution


class _OwnReason(str):
    """A reason that names the claim, or that comes of the pod's limit of steps: other pods can't share it."""

    __slots__ = ()


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
