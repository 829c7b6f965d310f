from builders import node, pod
from tidelock.cluster import labels, tallies
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.selection import Choice, Selection
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.tallies import Query

ZONE = "topology.kubernetes.io/zone"
WEB = Selection((("app", "web"),))


def small() -> Cache:
    cache = Cache(Columns())
    for name in "abc":
        cache.put_node(node(name, labels={ZONE: name}))
    return cache


def test_tallies_that_nobody_asks_for_are_given_up() -> None:
    cache = small()
    first = Query((Choice(None, WEB),))
    assert cache.tallies.of(first).tolist() == [0, 0, 0]
    for number in range(tallies._TALLIES):
        cache.tallies.of(Query((Choice(None, Selection((("app", str(number)),))),)))
    assert len(cache.tallies._tallies) == tallies._TALLIES
    assert first not in cache.tallies._tallies


def test_a_narrow_snapshot_has_the_labels_of_its_rows() -> None:
    columns = small().columns
    snapshot = Snapshot.of(columns)
    rows = columns.labels.of(ZONE).codes[[2, 0]]

    narrow = snapshot.take(rows)

    assert [narrow.labels(ZONE).values[code] for code in narrow.labels(ZONE).codes] == ["c", "a"]
    assert narrow.called(["a", "b", "x"]).tolist() == [False, True]


def test_values_that_no_node_has_any_more_are_forgotten() -> None:
    """Where nodes come and go for weeks, their host names must not pile up."""
    columns = small().columns
    columns.labels.of(ZONE)
    for number in range(3 * labels._SPARE_VALUES):
        columns.put(node("a", labels={ZONE: f"zone-{number}"}))
        columns.labels.of(ZONE)

    assert len(columns.labels.of(ZONE).values) <= 2 * 3 + labels._SPARE_VALUES


def test_keys_that_nobody_asks_for_are_forgotten() -> None:
    columns = small().columns
    for number in range(2 * labels._KEYS):
        columns.labels.of(f"key-{number}")

    assert len(columns.labels._coded) == labels._KEYS


def test_label_values_that_no_pod_has_any_more_are_forgotten() -> None:
    cache = small()
    cache.assume(pod("web-0", labels={"app": "web"}, namespace="ci-1"), "a")
    cache.assume(pod("web-1", labels={"app": "api"}, namespace="ci-1"), "a")
    cache.tallies.of(Query((Choice(frozenset({"ci-1"}), WEB),)))

    cache.remove("uid-web-0")

    assert set(cache.tallies._pods._found["ci-1"]["app"]) == {"api"}


def test_what_a_tally_is_made_from_does_not_outlive_its_namespace() -> None:
    cache = small()
    cache.assume(pod(labels={"app": "web"}, namespace="ci-1"), "a")
    assert cache.tallies.of(Query((Choice(frozenset({"ci-1"}), WEB),))).sum() == 1
    assert "ci-1" in cache.tallies._pods._found

    cache.remove("uid-web-0")

    assert "ci-1" not in cache.tallies._pods._found


def test_a_new_label_of_a_bound_pod_moves_it_to_another_tally() -> None:
    """It takes as much of its node as before, so nothing else would count it again."""
    cache = small()
    web, api = (Query((Choice(None, Selection((("app", app),))),)) for app in ("web", "api"))
    cache.upsert(pod(labels={"app": "web"}, node_name="b"))
    assert [cache.tallies.of(query).sum() for query in (web, api)] == [1, 0]

    cache.upsert(pod(labels={"app": "api"}, node_name="b", version=2))

    assert [cache.tallies.of(query).sum() for query in (web, api)] == [0, 1]
