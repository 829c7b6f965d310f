"""How many equal pods with claims get devices beside each other: for quotes and estimates."""

from collections.abc import Sequence

from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.allocated import AllocatedState, AllocatedTogether
from tidelock.devices.allocator import MOST_STEPS, DeviceAllocator
from tidelock.devices.errors import AllocationError
from tidelock.devices.pools import ResourcePools
from tidelock.devices.requests import PreparedClaim
from tidelock.devices.results import results
from tidelock.framework.api import Counts
from tidelock.model.nodes import Node

# Steps of all searches for one answer together, which delay all decisions.
_MOST_STEPS = 10 * MOST_STEPS


def beside_each_other(
    claims: Sequence[PreparedClaim],
    allocator: DeviceAllocator,
    pools: ResourcePools,
    snapshot: Snapshot,
    counts: Counts,
    first: Node,
    most_steps: int = _MOST_STEPS,
) -> Counts:
    """Return how many equal pods get devices on each node, one after the other, from the first node on.

    Args:
        claims: the claims of each pod.
        allocator: the devices in use.
        pools: the devices of the nodes.
        snapshot: all nodes.
        counts: how many fit on each node by everything else.
        first: the node of the first pod.
        most_steps: steps of all searches together. Nodes that are not reached get none.

    """
    taken, left = AllocatedState(), counts * 0
    beside = DeviceAllocator(
        AllocatedTogether(allocator.allocated, taken), allocator.selection, allocator.rules
    )
    rows = sorted(counts.nonzero()[0].tolist(), key=lambda row: snapshot.nodes[row].name != first.name)
    for row in rows:
        node = snapshot.nodes[row]
        while left[row] < counts[row] and most_steps > 0:
            try:
                solution, steps = beside.allocate(claims, pools.of(node), min(MOST_STEPS, most_steps))
            except AllocationError:
                break
            most_steps -= max(steps, 1)
            if solution is None:
                break
            for allocation in results(claims, solution, node.name):
                taken.count(allocation, 1)
            left[row] += 1
    return left
