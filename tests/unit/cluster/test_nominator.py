"""Nominations of pods for nodes, and their effects on other pods."""

from typing import Any

from builders import node, pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.nominator import Nominator
from tidelock.model.pods import Pod


def nominator() -> tuple[Nominator, Columns]:
    columns = Columns()
    return Nominator(columns), columns


def pod_nominated_to(node_name: str, **fields: Any) -> Pod:
    """Build a pod with a nomination in its status."""
    return pod(status={"nominatedNodeName": node_name}, **fields)


def names(pods: Any) -> list[str]:
    return [each.meta.name for each in pods]


def test_a_nomination_in_a_watch_event_counts() -> None:
    nominated, _ = nominator()
    nominated.upsert(pod_nominated_to("node-a"))

    assert nominated.node_of("uid-web-0") == "node-a"
    assert names(nominated.on("node-a")) == ["web-0"]
    assert list(nominated.nodes) == ["node-a"]


def test_a_nomination_that_is_not_yet_written_survives_other_updates_of_its_pod() -> None:
    nominated, _ = nominator()
    nominated.nominate(pod(), "node-a")
    nominated.upsert(pod(labels={"new": "yes"}))

    assert nominated.node_of("uid-web-0") == "node-a"
    (stored,) = nominated.on("node-a")
    assert stored.meta.labels == {"new": "yes"}


def test_a_newer_nomination_is_not_undone_by_a_late_update() -> None:
    nominated, _ = nominator()
    nominated.upsert(pod_nominated_to("node-a"))
    nominated.nominate(pod_nominated_to("node-a"), "node-b")
    nominated.upsert(pod_nominated_to("node-a", labels={"new": "yes"}))

    assert nominated.node_of("uid-web-0") == "node-b"


def test_a_removed_nomination_is_not_restored_by_a_late_update() -> None:
    nominated, columns = nominator()
    nominated.upsert(pod_nominated_to("node-a"))
    freed = columns.freed
    nominated.nominate(pod_nominated_to("node-a"), "")
    nominated.upsert(pod_nominated_to("node-a", labels={"new": "yes"}))

    assert (nominated.node_of("uid-web-0"), list(nominated.nodes)) == ("", [])
    assert columns.freed == freed + 1


def test_a_change_of_the_labels_of_a_nominated_pod_frees_its_capacity() -> None:
    nominated, columns = nominator()
    before = pod_nominated_to("node-a", labels={"app": "db"})
    nominated.upsert(before)
    freed = columns.freed
    nominated.upsert(pod_nominated_to("node-a", labels={"app": "db"}, annotations={"seen": "yes"}))
    assert (nominated.ended.take(), columns.freed) == ([], freed)

    nominated.upsert(pod_nominated_to("node-a", labels={"app": "web"}))
    (ended,) = nominated.ended.take()
    assert (ended.node_name, ended.meta.labels, columns.freed) == ("node-a", {"app": "db"}, freed + 1)
    assert names(nominated.on("node-a")) == ["web-0"]


def test_another_process_can_change_and_end_a_nomination() -> None:
    nominated, _ = nominator()
    nominated.upsert(pod_nominated_to("node-a"))
    nominated.upsert(pod_nominated_to("node-b"))
    assert list(nominated.nodes) == ["node-b"]

    nominated.upsert(pod())
    assert list(nominated.nodes) == []


def test_rivals_are_other_pods_with_at_least_the_priority_of_a_pod() -> None:
    nominated, _ = nominator()
    for name, priority in (("low", 1), ("equal", 2), ("high", 3)):
        nominated.nominate(pod(name, priority=priority), "node-a")

    def rivals(of: Pod) -> dict[str, list[str]]:
        return {node_name: names(pods) for node_name, pods in nominated.rivals(of).items()}

    assert rivals(pod("web-0", priority=2)) == {"node-a": ["equal", "high"]}
    assert rivals(pod("high", priority=3)) == {}


def test_nominations_below_a_priority_are_removed() -> None:
    nominated, _ = nominator()
    for name, priority in (("low", 1), ("equal", 2)):
        nominated.nominate(pod(name, priority=priority), "node-a")
    nominated.nominate(pod("elsewhere", priority=1), "node-b")

    assert names(nominated.clear_below(2, "node-a")) == ["low"]
    assert names(nominated.on("node-a")) == ["equal"]
    assert names(nominated.on("node-b")) == ["elsewhere"]


def test_only_a_nomination_without_a_placement_counts_as_freed_capacity() -> None:
    nominated, columns = nominator()
    nominated.nominate(pod("web-0"), "node-a")
    nominated.nominate(pod("web-1"), "node-a")
    freed = columns.freed

    nominated.remove("uid-web-0", placed_on="node-a")
    assert columns.freed == freed
    nominated.remove("uid-web-1", placed_on="node-b")
    assert columns.freed == freed + 1
    nominated.remove("uid-web-1")
    assert columns.freed == freed + 1


def test_a_nomination_ends_with_its_pods_binding_or_end() -> None:
    cache = Cache(Columns())
    cache.put_node(node())
    for name in ("assumed", "bound", "leaving", "gone", "waiting"):
        cache.nominator.nominate(pod(name), "node-a")

    cache.assume(pod("assumed"), "node-a")
    cache.upsert(pod("bound", node_name="node-a"))
    cache.upsert(pod("leaving", deleted=True))
    cache.remove("uid-gone")
    cache.upsert(pod("waiting"))

    assert names(cache.nominator.on("node-a")) == ["waiting"]


def test_an_eviction_is_remembered_until_the_pod_is_gone() -> None:
    cache = Cache(Columns())
    cache.put_node(node())
    cache.upsert(pod(node_name="node-a"))
    cache.evicting.add("uid-web-0")

    cache.upsert(pod(node_name="node-a", deleted=True, requests={"cpu": "2"}))
    assert cache.evicting == {"uid-web-0"}
    cache.remove("uid-web-0")
    assert cache.evicting == set()
    assert list(cache.pods_on("node-a")) == []
