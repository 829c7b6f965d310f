"""How many equal pods with claims get devices beside each other: for quotes and estimates."""

from collections.abc import Sequence

from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.allocated import AllocatedState
from tidelock.devices.allocator import MOST_STEPS, DeviceAllocator, Solution
from tidelock.devices.errors import AllocationError, SearchLimitError
from tidelock.devices.pools import NodeDevices, ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.devices.results import results
from tidelock.framework.api import Counts
from tidelock.model.nodes import Node
from tidelock.model.resource_claims import AllocationResult

# Steps of all searches for one answer together, which delay all decisions.
_MOST_STEPS = 10 * MOST_STEPS


def beside_each_other(
    claims: Sequence[PreparedClaim],
    allocator: DeviceAllocator,
    allocated: AllocatedState,
    pools: ResourcePools,
    snapshot: Snapshot,
    counts: Counts,
    first: Node,
    most_steps: int = _MOST_STEPS,
) -> Counts:
    """Return how many equal pods get devices on each node, one after the other, from the first node on.

    Args:
        claims: the claims of each pod.
        allocator: searches devices.
        allocated: the devices in use, which the allocator reads. It is the same afterwards.
        pools: the devices of the nodes.
        snapshot: all nodes.
        counts: how many fit on each node by everything else.
        first: the node of the first pod.
        most_steps: steps of all searches together. Nodes that are not reached get none.

    """
    left, taken = counts * 0, list[AllocationResult]()
    rows = sorted(counts.nonzero()[0].tolist(), key=lambda row: snapshot.nodes[row].name != first.name)
    try:
        for row in rows:
            node = snapshot.nodes[row]
            while left[row] < counts[row] and most_steps > 0:
                solution, steps = _search(allocator, claims, pools.of(node), most_steps)
                most_steps -= steps
                if solution is None:
                    break
                for allocation in results(claims, solution, node.name):
                    allocated.count(allocation, 1)
                    taken.append(allocation)
                left[row] += 1
    finally:
        for allocation in taken:
            allocated.count(allocation, -1)
    return left


def _search(
    allocator: DeviceAllocator, claims: Sequence[PreparedClaim], devices: NodeDevices, most_steps: int
) -> tuple[Solution | None, int]:
    """Return devices for claims, or None, and the number of steps."""
    most = min(MOST_STEPS, most_steps)
    try:
        solution, steps = allocator.allocate(claims, devices, most)
    except SearchLimitError:
        return None, most
    except AllocationError:
        return None, 1
    return solution, max(steps, 1)
