"""Labels, tallies and carried terms that follow the events of a cluster equal those made from its state."""

from collections.abc import Callable
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from property.neighbours import DICE, HOSTNAME, NAMES, ZONE, Dice
from tidelock.cluster import labels, selection
from tidelock.cluster.cache import Cache
from tidelock.cluster.carriers import Carried
from tidelock.cluster.columns import Columns
from tidelock.cluster.selection import Choice, Selection
from tidelock.cluster.tallies import Query
from tidelock.model.pods import Pod
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
        Query((Choice(namespaces, selected),), deleted=deleted)
        for namespaces, selected, deleted in product(NAMESPACES, SELECTIONS, (True, False))
    ),
    Query((Choice(None, SELECTIONS[0]), Choice(frozenset({"shop"}), SELECTIONS[2]))),
]
NAMESPACE_LABELS: tuple[dict[str, str], ...] = ({}, {"team": "x"})


def event(dice: Dice, cache: Cache) -> None:
    """Let something happen to one of a few nodes or pods."""
    name, pod_name = dice.one(*NAMES), dice.one("web-0", "web-1", "web-2", "web-3")
    uid = f"uid-{pod_name}"
    happenings: list[Callable[[], object]] = [
        lambda: cache.put_node(dice.node(name)),
        lambda: cache.put_node(dice.node(name)),
        lambda: cache.drop_node(name),
        lambda: cache.assume(dice.demanding_pod(pod_name), name),
        lambda: cache.forget(uid),
        lambda: cache.upsert(bound(dice, pod_name, name)),
        lambda: cache.upsert(bound(dice, pod_name, name)),
        lambda: cache.remove(uid),
        lambda: cache.tallies.of(dice.one(*QUERIES)),
        lambda: cache.columns.labels.of(dice.one(HOSTNAME, ZONE)),
    ]
    dice.one(*happenings)()


def bound(dice: Dice, name: str, node_name: str) -> Pod:
    most = dice.one(0, 1)
    spec = {"affinity": dice.affinity(most)} if most else {}
    return dice.pod(name, node_name=node_name, phase=dice.one("Running", "Running", "Failed"), **spec)


def by_name(cache: Cache, counts: labels.Counts) -> dict[str, int]:
    """Give counts by node, which a rebuild has in other rows."""
    assert len(counts) == len(cache.columns)
    return {each.name: int(count) for each, count in zip(cache.columns.nodes, counts, strict=True) if count}


def rebuilt(cache: Cache) -> Cache:
    fresh = Cache(Columns())
    for each in cache.columns.nodes:
        fresh.put_node(each)
    for namespace in ("shop", "bank", "lab"):
        for placed in cache.pods_in(namespace):
            fresh.assume(placed.pod, placed.node_name)
    return fresh


@given(DICE, st.integers(1, 40))
@settings(deadline=None)
def test_tallies_and_carried_terms_follow_every_event(dice: Dice, count: int) -> None:
    cache = Cache(Columns(capacity=1))
    for _ in range(count):
        event(dice, cache)
    fresh = rebuilt(cache)

    for query in QUERIES:
        counts = by_name(cache, cache.tallies.of(query))
        placed = (each for ns in ("shop", "bank", "lab") for each in cache.pods_in(ns))
        expected: dict[str, int] = {}
        for each in placed:
            if query.selects(each.pod) and each.node_name in cache.columns.row_of:
                expected[each.node_name] = expected.get(each.node_name, 0) + 1
        assert counts == expected
        assert by_name(fresh, fresh.tallies.of(query)) == expected
    probes = [dice.pod("probe") for _ in range(3)]
    for kind in ("shunned", "sought", "wished"):
        for probe, namespace_labels in product(probes, NAMESPACE_LABELS):
            now = said(cache, getattr(cache.carriers, kind), probe, namespace_labels)
            assert now == said(fresh, getattr(fresh.carriers, kind), probe, namespace_labels)


def said(
    cache: Cache, carried: Carried, pod: Pod, namespace_labels: dict[str, str]
) -> list[tuple[str, list[tuple[str, int]]]]:
    """Give topology keys and weights by node; a term whose carriers weigh nothing is left out."""
    meaning = carried.meaning(pod, namespace_labels)
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
