"""The nodes of a world, which an autoscaler adds and removes."""

from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import NODES

_MINUTES = 180.0


def node_names(world: World) -> set[str]:
    """Return the names of the world's nodes."""
    label, value = next(iter(world.selector.items()))
    found = world.admin.get(f"{NODES.collection()}?labelSelector={label}={value}")["items"]
    return {each["metadata"]["name"] for each in found}


def until_nodes(world: World, expected: set[str]) -> None:
    """Wait until the world has exactly these nodes."""
    wait_for(
        lambda: node_names(world),
        until=lambda found: found == expected,
        what=f"{expected}",
        timeout=_MINUTES,
    )
