"""The devices that a pod would get on each node, found when a node is asked about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelock.cluster.index.reserved_devices import allocation_of
from tidelock.devices.allocated import AllocatedToOthers
from tidelock.devices.allocator import MOST_STEPS, DeviceAllocator, Solution
from tidelock.devices.errors import AllocationError, SearchLimitError
from tidelock.devices.pools import NodeDevices, ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.nodes import Node
from tidelock.model.resource_claims import MOST_ALTERNATIVES, ResourceClaim
from tidelock.model.selectors import NodeSelector

# Steps of the searches for a pod on all nodes together, which delay all other decisions.
_MOST_STEPS_OF_POD = 10 * MOST_STEPS

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
TIMED_OUT = "timed out trying to allocate devices"
NOT_AVAILABLE = "resourceclaim not available on the node"


@dataclass(slots=True)
class NodeAllocations:
    """The claims of a pod on the nodes.

    Args:
        claims: all claims of the pod.
        to_allocate: those without devices.
        allocator: the devices in use.
        pools: the devices of the nodes.
        stuck: indexes of allocated claims with devices that don't become ready.
        own: the devices that the pod's own reservations hold for it, by node.
        names: the names of claims in the pod, by the names of the claims.

    Attributes:
        unavailable: indexes of allocated claims that are out of reach on some node that was asked about.

    """

    claims: tuple[ResourceClaim, ...]
    to_allocate: tuple[PreparedClaim, ...]
    allocator: DeviceAllocator
    pools: ResourcePools
    stuck: frozenset[int] = frozenset()
    own: dict[str, tuple[ReservedDevice, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    _found: dict[str, Solution | str] = field(default_factory=dict)  # by node
    _shared: dict[int, Solution | str] = field(default_factory=dict)  # by the identity of equal devices
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

    def fits(self, node: Node) -> bool:
        """Return whether the claims without devices can get some on a node."""
        return not self.to_allocate or isinstance(self._look(node), Solution)

    def reason(self, node: Node) -> str:
        """Return why a node was rejected, in words that are the same for every such node."""
        reachable = (each.matches(node.name, node.meta.labels) for _, each in self.selectors)
        if self.stuck or not all(reachable):
            return NOT_AVAILABLE
        found = self._look(node)
        return found if isinstance(found, str) else ""

    def solution(self, node_name: str) -> Solution | None:
        """Return the devices on a node that was asked about and fits."""
        found = self._found.get(node_name)
        return found if isinstance(found, Solution) else None

    def preference(self, node_name: str) -> int:
        """Return the points of a node: more, the more preferred the chosen alternatives of requests are."""
        solution = self.solution(node_name)
        chosen = iter(() if solution is None else solution.alternatives)
        return sum(
            _points_of_allocated(claim) if claim.allocation is not None else _points(claim, next(chosen, ()))
            for claim in self.claims
        )

    def _look(self, node: Node) -> Solution | str:
        found = self._found.get(node.name)
        if found is None:
            devices = self.pools.of(node)
            own = self.own.get(node.name)
            found = self._search_own(devices, own) if own else self._shared.get(id(devices))
            if found is None:
                found = self._shared[id(devices)] = self._search(devices, self.allocator)
            self._found[node.name] = found
        return found

    def renew_own(self, node: Node, own: tuple[ReservedDevice, ...]) -> None:
        """Set the devices that are held for the pod on a node, and search again if they have changed."""
        if self.own.get(node.name, ()) != own:
            self.own[node.name] = own
            self._found.pop(node.name, None)
            self._look(node)

    def _search_own(self, devices: NodeDevices, own: tuple[ReservedDevice, ...]) -> Solution | str:
        """Look for the held devices of each claim, and then for any others beside them."""
        known = self.allocator
        free = DeviceAllocator(
            AllocatedToOthers(known.allocated, allocation_of(own)), known.selection, known.rules
        )
        held = {
            index: frozenset(each.id for each in own if each.claim == self.names.get(claim.claim.meta.name))
            for index, claim in enumerate(self.to_allocate)
        }
        only = {index: ids for index, ids in held.items() if ids}
        exactly = DeviceAllocator(free.allocated, known.selection, known.rules, only)
        found = self._search(devices, exactly)
        return found if isinstance(found, Solution) else self._search(devices, free)

    def _search(self, devices: NodeDevices, allocator: DeviceAllocator) -> Solution | str:
        most = min(MOST_STEPS, self._steps_left)
        try:
            solution, steps = allocator.allocate(self.to_allocate, devices, most)
        except SearchLimitError:
            self._steps_left -= most
            return TIMED_OUT
        except AllocationError as error:
            return str(error)
        self._steps_left -= steps
        if solution is None:
            return INVALID_POOLS if any(pool.invalid for pool in devices.pools) else CANNOT_ALLOCATE
        return solution


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
