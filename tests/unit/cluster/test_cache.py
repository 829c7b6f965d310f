from typing import Any

import pytest

from builders import node, pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.model.meta import Key


@pytest.fixture
def cache() -> Cache:
    known = Cache(Columns())
    known.put_node(node("node-a"))
    known.put_node(node("node-b"))
    return known


def cpu(cache: Cache, name: str = "node-a") -> int:
    """Return the millicores requested of a node, and check that scoring sees the same."""
    row = cache.columns.row_of[name]
    requested = int(cache.columns.requested[row, cache.columns.column_of["cpu"]])
    assert cache.columns.nonzero[row, 0] == requested
    return requested


def bound(name: str = "web-0", node_name: str = "node-a", **fields: Any) -> Any:
    return pod(name, node_name=node_name, **fields)


def test_one_snapshot_serves_until_nodes_or_resources_come_or_go(cache: Cache) -> None:
    snapshot = cache.snapshot()
    cache.assume(pod(), "node-a")
    cache.put_node(node("node-a", version=2))
    assert cache.snapshot() is snapshot
    assert snapshot.requested[0, 0] == 1000, "amounts are shown as they are now"

    cache.put_node(node("node-a", cpu="2"))
    assert cache.snapshot().allocatable[0, 0] == 2000
    width = cache.snapshot().requested.shape[1]
    cache.put_node(node("node-c", **{"nvidia.com/gpu": "1"}))
    assert cache.snapshot().requested.shape[1] > width
    assert len(cache.snapshot().indexes) == 3
    cache.drop_node("node-a")
    assert [each.name for each in cache.snapshot().nodes] == ["node-c", "node-b"]


def test_an_assumed_pod_counts_at_once(cache: Cache) -> None:
    cache.assume(pod(), "node-a")

    assert cpu(cache) == 1000
    placed = cache.get("uid-web-0")
    assert placed is not None
    assert (placed.node_name, placed.assumed) == ("node-a", True)


def test_a_forgotten_pod_frees_its_capacity(cache: Cache) -> None:
    cache.assume(pod(), "node-a")

    assert cache.forget("uid-web-0")
    assert cpu(cache) == 0
    assert len(cache) == 0
    assert not cache.forget("uid-web-0")


def test_the_binding_confirms_an_assumed_pod(cache: Cache) -> None:
    cache.assume(pod(), "node-a")
    cache.upsert(bound())

    placed = cache.get("uid-web-0")
    assert placed is not None
    assert not placed.assumed
    assert cpu(cache) == 1000


def test_a_confirmed_pod_is_not_forgotten(cache: Cache) -> None:
    """Check that the watch event counts, because the answer to a successful binding may be lost."""
    cache.assume(pod(), "node-a")
    cache.upsert(bound())

    assert not cache.forget("uid-web-0")
    assert cpu(cache) == 1000


def test_an_assumed_pod_stays_while_the_api_server_shows_it_unbound(cache: Cache) -> None:
    cache.assume(pod(), "node-a")
    cache.upsert(pod(version=2))

    assert cpu(cache) == 1000
    assert cache.forget("uid-web-0")


def test_a_pod_bound_elsewhere_than_assumed_counts_where_it_is(cache: Cache) -> None:
    cache.assume(pod(), "node-a")
    cache.upsert(bound(node_name="node-b"))

    assert (cpu(cache, "node-a"), cpu(cache, "node-b")) == (0, 1000)


def test_an_event_that_comes_twice_counts_once(cache: Cache) -> None:
    for _ in range(2):
        cache.upsert(bound())
    assert cpu(cache) == 1000

    for _ in range(2):
        cache.remove("uid-web-0")
    assert cpu(cache) == 0


def test_a_pod_that_is_not_bound_takes_nothing(cache: Cache) -> None:
    cache.upsert(pod())

    assert len(cache) == 0
    assert cpu(cache) == 0


def test_a_resized_pod_counts_at_its_new_size(cache: Cache) -> None:
    cache.upsert(bound(requests={"cpu": "1"}))
    cache.upsert(bound(requests={"cpu": "3"}))
    assert cpu(cache) == 3000

    cache.upsert(bound(requests={"cpu": "2"}))
    assert cpu(cache) == 2000


def test_a_version_with_equal_requests_is_stored_without_a_recount(cache: Cache) -> None:
    cache.upsert(bound(annotations={"note": "old"}))
    freed = cache.columns.freed
    cache.upsert(bound(annotations={"note": "new"}))

    placed = cache.get("uid-web-0")
    assert placed is not None
    assert placed.pod.meta.annotations == {"note": "new"}
    assert cache.columns.freed == freed


def test_a_change_of_labels_counts_as_freed_capacity(cache: Cache) -> None:
    """Check that waiting pods are tried again. The new labels may satisfy their affinity or anti-affinity."""
    cache.upsert(bound(labels={"app": "web"}))
    freed = cache.columns.freed
    cache.upsert(bound(labels={"app": "db"}))

    assert cpu(cache) == 1000
    assert cache.columns.freed > freed


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_capacity_before_it_is_deleted(cache: Cache, phase: str) -> None:
    cache.upsert(bound(phase="Running"))
    cache.upsert(bound(phase=phase))

    assert cpu(cache) == 0
    assert cache.get("uid-web-0") is None


def test_an_assumed_pod_that_finishes_is_gone(cache: Cache) -> None:
    cache.assume(pod(), "node-a")
    cache.upsert(pod(phase="Failed"))

    assert cpu(cache) == 0


def test_a_finished_pod_that_was_never_seen_is_ignored(cache: Cache) -> None:
    cache.upsert(bound(phase="Succeeded"))

    assert len(cache) == 0
    assert cpu(cache) == 0


def test_a_terminating_pod_keeps_its_capacity_until_it_is_gone(cache: Cache) -> None:
    cache.upsert(bound(deleted=True))
    assert cpu(cache) == 1000


def test_pods_can_be_known_before_their_node(cache: Cache) -> None:
    cache.upsert(bound("web-0", "node-c"))
    cache.assume(pod("web-1"), "node-c")
    cache.put_node(node("node-c"))

    assert cpu(cache, "node-c") == 2000


def test_a_newer_version_of_a_node_does_not_count_its_pods_again(cache: Cache) -> None:
    cache.upsert(bound())
    cache.put_node(node("node-a", cpu="8"))

    assert cpu(cache) == 1000


def test_a_node_that_comes_back_has_the_pods_that_are_still_on_it(cache: Cache) -> None:
    cache.upsert(bound("web-0"))
    cache.upsert(bound("web-1"))
    cache.drop_node("node-a")
    cache.remove("uid-web-1")
    cache.put_node(node("node-a"))

    assert cpu(cache) == 1000


def test_a_pod_of_the_same_name_replaces_an_earlier_one(cache: Cache) -> None:
    cache.upsert(bound(uid="old", node_name="node-a"))
    cache.upsert(bound(uid="new", node_name="node-b"))
    cache.remove("old")

    named = cache.named(Key("shop", "web-0"))
    assert named is not None
    assert named.pod.uid == "new"
    assert (cpu(cache, "node-a"), cpu(cache, "node-b")) == (0, 1000)

    cache.remove("new")
    assert cache.named(Key("shop", "web-0")) is None


def test_pods_are_found_by_namespace(cache: Cache) -> None:
    cache.upsert(bound("web-0"))
    cache.upsert(bound("web-1", "node-b"))
    cache.upsert(bound("web-2", namespace="other"))

    assert {placed.pod.meta.name for placed in cache.pods_in("shop")} == {"web-0", "web-1"}
    assert not cache.pods_in("nowhere")
    assert len(cache) == 3
