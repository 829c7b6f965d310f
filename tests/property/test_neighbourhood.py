"""Label codes, pod counts and affinity terms that follow events equal ones that are built from the state."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW
from property.neighbours import DICE, HOSTNAME, NAMES, ZONE, Dice
from tidelock.cluster.arrays import Counts
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.index import selection
from tidelock.cluster.index.affinity_terms import AffinityTerm
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod, reserve_pod_of
from tidelock.model.selectors import LabelSelector, Requirement

SELECTIONS = [
    Selection.of(LabelSelector({"app": "web"})),
    Selection.of(LabelSelector({"app": "web", "tier": "1"})),
    Selection.of(LabelSelector({}, (Requirement("tier", "Exists"),))),
    Selection.of(LabelSelector({}, (Requirement("app", "In", ("db",)),))),
    Selection.of(LabelSelector()),
    Selection.of(None),
]
MANY = frozenset({"shop", *map(str, range(selection._MANY))})
NAMESPACES = [None, frozenset({"shop"}), frozenset({"shop", "bank"}), frozenset({"nowhere"}), MANY]
QUERIES = [
    *(
        PodCountQuery((Choice(namespaces, selected),), deleted=deleted)
        for namespaces, selected, deleted in product(NAMESPACES, SELECTIONS, (True, False))
    ),
    PodCountQuery((Choice(None, SELECTIONS[0]), Choice(frozenset({"shop"}), SELECTIONS[2]))),
]
NAMESPACE_LABELS: tuple[dict[str, str], ...] = ({}, {"team": "x"})


def event(dice: Dice, cache: Cache) -> None:
    """Apply a random event to one of a few nodes or pods."""
    name, pod_name = dice.one(*NAMES), dice.one("web-0", "web-1", *(f"web-{name}" for name in NAMES))
    uid = f"uid-{pod_name}"
    happenings: list[Callable[[], object]] = [
        lambda: cache.put_node(dice.node(name)),
        lambda: cache.put_node(dice.node(name)),
        lambda: cache.drop_node(name),
        lambda: cache.assume(at_home(dice.demanding_pod(pod_name)), name),
        lambda: cache.forget(uid),
        lambda: cache.upsert(bound(dice, pod_name, name)),
        lambda: change(dice, cache, uid),
        lambda: change(dice, cache, uid),
        lambda: cache.remove(uid),
        lambda: cache.reserve_pods.put(reserve_pod(dice, pod_name), name),
        lambda: cache.reserve_pods.put(reserve_pod(dice, pod_name), name),
        lambda: cache.reserve_pods.discard(uid),
        lambda: cache.neighbours(dice.one(*QUERIES)),
        lambda: cache.pod_counts.of(dice.one(*QUERIES)),
        lambda: cache.columns.labels.of(dice.one(HOSTNAME, ZONE)),
    ]
    dice.one(*happenings)()


def change(dice: Dice, cache: Cache, uid: str) -> None:
    """Change a placed pod in one way only."""
    placed = cache.get(uid)
    if placed is None:
        return
    old, drawn = placed.pod, bound(dice, "other", placed.node_name)
    replace = msgspec.structs.replace
    here = replace(old.spec, node_name=placed.node_name)
    deleted = replace(old.metadata, deletion_timestamp=datetime.fromtimestamp(NOW, tz=UTC))
    metadata, spec = dice.one(
        (replace(old.metadata, labels=drawn.metadata.labels), here),
        (deleted, here),
        (old.metadata, replace(here, affinity=drawn.spec.affinity)),
    )
    cache.upsert(replace(old, metadata=metadata, spec=spec))


def bound(dice: Dice, name: str, node_name: str) -> Pod:
    most = dice.one(0, 2)
    spec: dict[str, Any] = {"affinity": dice.affinity(most)} if most else {}
    return at_home(
        dice.pod(name, node_name=node_name, phase=dice.one("Running", "Running", "Failed"), **spec)
    )


def at_home(pod: Pod) -> Pod:
    """Return the pod in a namespace that depends on its name only, so that it never changes."""
    namespace = ("shop", "shop", "bank", "lab")[sum(pod.meta.name.encode()) % 4]
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def reserve_pod(dice: Dice, name: str) -> ReservePod:
    of = at_home(dice.demanding_pod(name))
    return reserve_pod_of(of.metadata, of.spec, of.requests)


def by_name(cache: Cache, counts: Counts) -> dict[str, int]:
    """Return counts by node name, because a rebuilt cache has other rows."""
    assert len(counts) == len(cache.columns)
    return {each.name: int(count) for each, count in zip(cache.columns.nodes, counts, strict=True) if count}


def rebuilt(cache: Cache) -> Cache:
    fresh = Cache(Columns())
    for each in cache.columns.nodes:
        fresh.put_node(each)
    for namespace in ("shop", "bank", "lab"):
        for placed in cache.pods_in(namespace):
            fresh.assume(placed.pod, placed.node_name)
    for name in NAMES:
        for expected in cache.reserve_pods.on(name):
            fresh.reserve_pods.put(expected, name)
    return fresh


@given(DICE, st.integers(1, 40))
@settings(deadline=None)
def test_pod_counts_and_affinity_terms_follow_every_event(dice: Dice, count: int) -> None:
    cache = Cache(Columns(capacity=1))
    for name in NAMES:
        cache.put_node(dice.node(name))
        cache.upsert(bound(dice, f"web-{name}", name))
    for query in dice.some(QUERIES, 0, 10):
        cache.pod_counts.of(query)
    for _ in range(count):
        event(dice, cache)
    fresh = rebuilt(cache)

    for query in QUERIES:
        pods = Counter(
            each.node_name
            for ns in ("shop", "bank", "lab")
            for each in cache.pods_in(ns)
            if query.selects(each.pod) and each.node_name in cache.columns.row_of
        )
        reserved = Counter(
            name
            for name in cache.columns.row_of
            for each in cache.reserve_pods.on(name)
            if query.selects(each)
        )
        for each in (cache, fresh):
            assert by_name(each, each.pod_counts.of(query)) == pods
            assert by_name(each, each.reserve_pods.pod_counts.of(query)) == reserved
            assert by_name(each, each.neighbours(query)) == pods + reserved
    probes = [dice.pod("probe") for _ in range(3)]
    for kind in ("shunned", "sought", "wished"):
        for probe, namespace_labels in product(probes, NAMESPACE_LABELS):
            now = said(cache, getattr(cache.affinity_terms, kind), probe, namespace_labels)
            assert now == said(fresh, getattr(fresh.affinity_terms, kind), probe, namespace_labels)


def said(
    cache: Cache, carried: AffinityTerm, pod: Pod, namespace_labels: dict[str, str]
) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return the topology keys of a term with its weights by node, without keys of no weight."""
    meaning = carried.meaning(pod, namespace_labels).items()
    return sorted(
        (key, sorted(weights.items())) for key, counts in meaning if (weights := by_name(cache, counts))
    )


@given(DICE, st.integers(1, 40))
@settings(deadline=None)
def test_label_codes_follow_every_event(dice: Dice, count: int) -> None:
    columns = Columns(capacity=1)
    for _ in range(count):
        name = dice.one(*NAMES)
        match dice.one("put", "put", "drop", "ask"):
            case "put":
                columns.put(dice.node(name))
            case "drop":
                columns.drop(name)
            case _:
                columns.labels.of(dice.one(HOSTNAME, ZONE))
        for key in (HOSTNAME, ZONE):
            label = columns.labels.of(key)
            there = [each.meta.labels.get(key) for each in columns.nodes]
            assert [label.values[code] if code >= 0 else None for code in label.codes] == there
            assert [label.code_of[value] for value in label.values] == list(range(len(label.values)))
            in_use = {value for value, used in zip(label.values, label.in_use, strict=False) if used}
            assert in_use == {value for value in there if value is not None}
            assert label.in_use[-1] == (None in there)
            assert (label.borne is None) == (None not in there)
