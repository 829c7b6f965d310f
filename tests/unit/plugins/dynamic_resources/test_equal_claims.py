"""How many pods with equal claims get devices beside each other."""

import numpy as np
import pytest

from builders import Json, pod
from devices import allocated, claiming, device_slice, put, request, wanting
from tidelock.plugins.dynamic_resources.equal_claims import beside_each_other
from tidelock.plugins.dynamic_resources.node_allocations import NodeAllocations
from unit.plugins.dynamic_resources.cluster import Cluster

WANTING = pod(**claiming("gpu"))


def counted(cluster: Cluster, by_amounts: tuple[int, int] = (9, 9), *, first: str = "node-a") -> list[int]:
    """Return how many fit on node-a and node-b, given how many do by their amounts."""
    judged = cluster.judge(WANTING)
    snapshot = cluster.scene.cache.snapshot()
    node = next(each for each in snapshot.nodes if each.name == first)
    counts = np.array(by_amounts)
    return cluster.plugin.among_equals(judged.state, WANTING, snapshot, counts, node).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("wanted", "expected"), [(wanting(), [3, 1]), (wanting(count=2), [1, 0])])
def test_each_node_counts_with_its_devices(wanted: Json, expected: list[int]) -> None:
    cluster = Cluster()
    put(cluster.objects, device_slice("a", "gpu-0", "gpu-1", "gpu-2", node_name="node-a"))
    put(cluster.objects, device_slice("b", "gpu-0", node_name="node-b"))
    cluster.claim("gpu", request("gpu", wanted))
    assert counted(cluster) == expected


def test_amounts_may_be_fewer_than_devices() -> None:
    cluster = Cluster()
    put(cluster.objects, device_slice("a", "gpu-0", "gpu-1", node_name="node-a"))
    cluster.claim()
    assert counted(cluster, (1, 0)) == [1, 0]


@pytest.mark.parametrize(("first", "expected"), [("node-a", [2, 0]), ("node-b", [0, 2])])
def test_a_device_within_reach_of_two_nodes_counts_once(first: str, expected: list[int]) -> None:
    cluster = Cluster()
    put(cluster.objects, device_slice("fabric", "nic-0", "nic-1", allNodes=True))
    cluster.claim()
    assert counted(cluster, first=first) == expected


def test_a_claim_that_has_devices_limits_nothing() -> None:
    cluster = Cluster()
    put(cluster.objects, device_slice("a", "gpu-0", node_name="node-a"))
    cluster.claim("gpu", status=allocated("gpu-0", node_name="node-a"))
    assert counted(cluster) == [9, 9]


def test_a_search_that_takes_too_long_counts_the_nodes_that_it_has_reached() -> None:
    cluster = Cluster()
    put(cluster.objects, *(device_slice(each, "gpu-0", node_name=f"node-{each}") for each in "ab"))
    cluster.claim()
    found, claims = cluster.judge(WANTING).state.expect(NodeAllocations), cluster.objects.resource_claims
    snapshot, counts = cluster.scene.cache.snapshot(), np.array((1, 1))
    for most_steps, expected in ((1, [1, 0]), (2, [1, 1])):
        counted = beside_each_other(
            *(found.groups[0].to_allocate, found.allocator, claims.allocated, found.pools),
            *(snapshot, counts, snapshot.nodes[0], most_steps),
        )
        assert counted.tolist() == expected


def test_a_count_leaves_the_devices_as_they_were() -> None:
    cluster = Cluster()
    put(cluster.objects, device_slice("a", "gpu-0", "gpu-1", node_name="node-a"))
    cluster.claim()
    assert counted(cluster) == counted(cluster) == [2, 0]
    cluster.reserve(WANTING)
    assert cluster.device_of() == "gpu-0"
