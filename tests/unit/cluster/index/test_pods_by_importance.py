"""The pods of nodes by importance, as preemption needs them, which are laid out again after a change."""

from math import inf
from typing import Any

import numpy as np

from builders import NOW, node, pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.index import pods_by_importance as module
from tidelock.cluster.index.pods_by_importance import PodsByImportance, PodsOfNodes
from tidelock.model.instants import format_instant


def cluster(*names: str) -> tuple[Cache, PodsByImportance]:
    cache = Cache(Columns())
    for name in names:
        cache.put_node(node(name))
    return cache, PodsByImportance(cache)


def put(cache: Cache, name: str, node_name: str = "node-a", **fields: Any) -> None:
    cache.upsert(pod(name, node_name=node_name, **fields))


def names(crew: PodsOfNodes, index: int = 0) -> list[str]:
    return [placed.pod.meta.name for placed in crew.pods[index]]


def test_the_more_important_pod_is_first_and_then_the_older() -> None:
    cache, residents = cluster("node-a", "node-b")
    put(cache, "young", priority=1, requests={"cpu": "2"}, status={"startTime": format_instant(NOW)})
    put(cache, "old", priority=1, status={"startTime": format_instant(NOW - 5)})
    put(cache, "high", priority=2, status={})

    crew = residents.of(np.array([1, 0]))

    assert [names(crew, 0), names(crew, 1)] == [[], ["high", "old", "young"]]
    assert crew.there.tolist() == [[False] * 3, [True] * 3]
    assert crew.priority[1].tolist() == [2, 1, 1]
    assert crew.started[1].tolist() == [inf, NOW - 5, NOW]
    cpu = cache.columns.column_of["cpu"]
    assert crew.amounts[1, :, cpu].tolist()[2] == 2000
    assert crew.amounts[1, 2, -2] == 2000


def test_no_nodes_have_no_pods() -> None:
    _, residents = cluster("node-a")
    assert residents.of(np.zeros(0, np.intp)).there.shape == (0, 0)


def test_the_pods_of_a_node_are_found_wherever_its_row_is() -> None:
    cache, residents = cluster("node-a", "node-b")
    put(cache, "one")
    put(cache, "two", "node-b")
    both = np.arange(2)
    assert [names(residents.of(both), row) for row in range(2)] == [["one"], ["two"]]

    cache.drop_node("node-a")
    assert names(residents.of(both[:1])) == ["two"]
    cache.put_node(node("node-a"))
    assert [names(residents.of(both), row) for row in range(2)] == [["two"], ["one"]]

    for index in range(5):
        put(cache, f"more-{index}")
    cache.remove("uid-two")
    crew = residents.of(both)
    assert [len(pods) for pods in crew.pods] == [0, 6]
    assert crew.there.sum(axis=1).tolist() == [0, 6]

    put(cache, "one", status={"startTime": format_instant(NOW - 5)})
    assert residents.of(both).started[1, 0] == NOW - 5, "the pod has changed on the same node"


def test_new_resources_and_many_kinds_of_pods_are_laid_out_again(monkeypatch: Any) -> None:
    cache, residents = cluster("node-a")
    rows = np.arange(1)
    put(cache, "one", requests={"cpu": "1"})
    before = residents.of(rows).amounts
    put(cache, "two", requests={"cpu": "1", "example.com/gpu": "3"}, priority=5)
    assert residents.of(rows).amounts.shape[2] == before.shape[2], "no node has the resource"
    cache.put_node(node("node-a", **{"example.com/gpu": "4"}))
    after = residents.of(rows).amounts
    assert after.shape[2] > before.shape[2]
    assert after[0, 0, cache.columns.column_of["example.com/gpu"]] == 3

    monkeypatch.setattr(module, "_MOST_KINDS", 1)
    assert np.array_equal(residents.of(rows).amounts, after)


def test_the_lowest_priority_is_that_of_the_pods_that_are_placed() -> None:
    cache, residents = cluster("node-a")
    assert residents.lowest == inf
    put(cache, "high", priority=2)
    put(cache, "low", priority=-1)
    put(cache, "also-low", priority=-1)
    assert residents.lowest == -1
    cache.remove("uid-low")
    assert residents.lowest == -1
    cache.remove("uid-also-low")
    assert residents.lowest == 2
    cache.remove("uid-high")
    assert residents.lowest == inf
