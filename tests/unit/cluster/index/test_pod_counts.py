from collections import Counter
from random import Random
from typing import Any

from builders import node, pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.index import labels, pod_counts, pod_labels
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection
from tidelock.cluster.snapshot import Snapshot
from tidelock.model.selectors import Requirement

ZONE = "topology.kubernetes.io/zone"
WEB = Selection((("app", "web"),))


def small() -> Cache:
    cache = Cache(Columns())
    for name in "abc":
        cache.put_node(node(name, labels={ZONE: name}))
    return cache


def test_tallies_without_queries_are_dropped() -> None:
    cache = small()
    first = PodCountQuery((Choice(None, WEB),))
    assert cache.pod_counts.of(first).tolist() == [0, 0, 0]
    for number in range(pod_counts._TALLIES):
        cache.pod_counts.of(PodCountQuery((Choice(None, Selection((("app", str(number)),))),)))
    assert len(cache.pod_counts._pod_counts) == pod_counts._TALLIES
    assert first not in cache.pod_counts._pod_counts


def test_a_narrow_snapshot_has_the_labels_of_its_rows() -> None:
    columns = small().columns
    snapshot = Snapshot.of(columns)
    rows = columns.labels.of(ZONE).codes[[2, 0]]

    narrow = snapshot.take(rows)

    assert [narrow.labels(ZONE).values[code] for code in narrow.labels(ZONE).codes] == ["c", "a"]
    assert narrow.called(["a", "b", "x"]).tolist() == [False, True]


def test_values_that_no_node_has_any_more_are_forgotten() -> None:
    """Check that host names do not accumulate while nodes come and go for weeks."""
    columns = small().columns
    columns.labels.of(ZONE)
    for number in range(3 * labels._SPARE_VALUES):
        columns.put(node("a", labels={ZONE: f"zone-{number}"}))
        columns.labels.of(ZONE)

    assert len(columns.labels.of(ZONE).values) <= 2 * 3 + labels._SPARE_VALUES


def test_label_keys_without_queries_are_forgotten() -> None:
    columns = small().columns
    columns.put(node("a", labels={f"key-{number}": "x" for number in range(2 * labels._KEYS)}))
    for number in range(2 * labels._KEYS):
        columns.labels.of(f"key-{number}")

    assert len(columns.labels._coded) == labels._KEYS


def test_label_keys_that_no_node_has_are_not_kept() -> None:
    """Guard against a pass over all nodes for each of 5,000 terms of a pod's node affinity."""
    columns = small().columns
    label = columns.labels.of("none")

    assert columns.labels.of("other") is label
    assert label.codes.tolist() == [-1, -1, -1]
    assert not columns.labels._coded

    columns.put(node("a", labels={"none": "x"}))
    assert columns.labels.of("none").codes.tolist() == [0, -1, -1]
    columns.drop("a")
    assert columns.labels.of("none").codes.tolist() == [-1, -1]


def test_label_values_that_no_pod_has_any_more_are_forgotten() -> None:
    cache = small()
    cache.assume(pod("web-0", labels={"app": "web"}, namespace="ci-1"), "a")
    cache.assume(pod("web-1", labels={"app": "api"}, namespace="ci-1"), "a")
    cache.pod_counts.of(PodCountQuery((Choice(frozenset({"ci-1"}), WEB),)))

    cache.remove("uid-web-0")

    pods = cache.pod_counts._pods
    for number in range(len(pods._there) + pod_labels._SPARE_VALUES):
        cache.upsert(pod("job", labels={"app": f"job-{number}"}, node_name="b", version=number + 1))
    cache.pod_counts.of(PodCountQuery((Choice(frozenset({"ci-2"}), WEB),)))

    assert len(pods._coded["app"].code_of) == 2


def test_values_of_former_pods_are_forgotten_even_if_no_query_comes() -> None:
    """A key was queried once. After that, each new value of it and each new namespace took memory."""
    cache = small()
    cache.upsert(pod("web", labels={"app": "web"}, node_name="a"))
    cache.pod_counts.of(PodCountQuery((Choice(None, WEB),)))
    pods = cache.pod_counts._pods
    most = 2 * len(pods._there) + pod_labels._SPARE_VALUES
    for number in range(2 * most):
        job = pod("job", namespace=f"ci-{number}", labels={"app": f"job-{number}"}, node_name="b")
        cache.upsert(job)
        cache.remove(job.uid)

    assert len(pods._coded["app"].code_of) <= most
    assert len(pods._namespaces.code_of) <= most
    assert cache.pod_counts.of(PodCountQuery((Choice(None, WEB),))).tolist() == [1, 0, 0]


def test_label_codes_are_dropped_with_the_last_pod_that_has_the_key() -> None:
    cache = small()
    cache.assume(pod(labels={"app": "web"}, namespace="ci-1"), "a")
    assert cache.pod_counts.of(PodCountQuery((Choice(frozenset({"ci-1"}), WEB),))).sum() == 1
    assert "app" in cache.pod_counts._pods._coded

    cache.remove("uid-web-0")

    assert "app" not in cache.pod_counts._pods._coded


def test_a_new_label_of_a_bound_pod_moves_it_to_another_tally() -> None:
    """Check that a change of labels alone counts a pod again, although its requests stay the same."""
    cache = small()
    web, api = (PodCountQuery((Choice(None, Selection((("app", app),))),)) for app in ("web", "api"))
    cache.upsert(pod(labels={"app": "web"}, node_name="b"))
    assert [cache.pod_counts.of(query).sum() for query in (web, api)] == [1, 0]

    cache.upsert(pod(labels={"app": "api"}, node_name="b", version=2))

    assert [cache.pod_counts.of(query).sum() for query in (web, api)] == [0, 1]


def test_terms_that_no_pod_has_any_more_are_forgotten() -> None:
    """Check that no terms are left, so new pods are not compared with any."""
    cache = small()
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cache.assume(pod("web-0", affinity=affinity), "a")
    cache.assume(pod("web-1", affinity=affinity), "b")

    cache.remove("uid-web-0")
    assert cache.affinity_terms.shunned

    cache.remove("uid-web-1")
    assert not cache.affinity_terms.shunned


def carrier(name: str, count: int, key: str = ZONE) -> Any:
    """Build a pod with different anti-affinity terms, each against all pods of all namespaces."""
    terms = [
        {
            "topologyKey": key,
            "namespaceSelector": {},
            "labelSelector": {"matchExpressions": [{"key": f"k-{each}", "operator": "DoesNotExist"}]},
        }
        for each in range(count)
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod(name, affinity=affinity)


def test_thousands_of_terms_of_one_pod_are_summed_up_by_topology_key() -> None:
    """Guard against a separate sum for each term, which took 1.2 s in the decision of every other pod."""
    cache = small()
    cache.assume(carrier("web-0", 1000), "a")
    cache.assume(carrier("web-1", 10), "b")

    found = cache.affinity_terms.shunned.meaning(pod("other"), {})

    assert {key: sums.tolist() for key, sums in found.items()} == {ZONE: [1000, 10, 0]}


def test_a_term_with_a_topology_key_that_no_node_has_costs_nothing() -> None:
    cache = small()
    cache.assume(carrier("web-0", 300, key="example.com/none"), "a")

    assert cache.affinity_terms.shunned.meaning(pod("other"), {}) == {}
    cache.put_node(node("c", labels={"example.com/none": "x"}, version=2))
    assert cache.affinity_terms.shunned.meaning(pod("other"), {})["example.com/none"].tolist() == [300, 0, 0]


def test_a_term_of_many_pods_follows_them_and_their_nodes() -> None:
    cache = Cache(Columns())
    for number in range(100):
        cache.put_node(node(f"n-{number:02}", labels={ZONE: "x"}))
        cache.assume(carrier(f"web-{number}", 1), f"n-{number:02}")
    cache.remove("uid-web-7")
    cache.remove("uid-web-0")
    cache.drop_node("n-00")

    (sums,) = cache.affinity_terms.shunned.meaning(pod("other"), {}).values()

    assert (len(sums), sums.sum(), sums[0], sums[7]) == (99, 98, 1, 0)


def test_a_choice_of_every_kind_selects_the_pods_that_its_selectors_match() -> None:
    """Check the comparison with all placed pods at once. One by one, 200 terms and 10,000 pods took 15 s."""
    random = Random(1)  # noqa: S311 -- reproducible, not secret
    cache = small()
    placed = []
    for number in range(200):
        known = {key: f"v-{random.randrange(3)}" for key in "xyz" if random.random() < 0.7}
        placed.append(pod(f"p-{number}", namespace=f"n-{number % 3}", labels=known, deleted=number % 5 == 0))
        cache.assume(placed[-1], random.choice(["a", "b", "c", "unknown"]))
    for number in range(0, 200, 7):
        cache.remove(f"uid-p-{number}")
    there = [each for each in (cache.get(one.uid) for one in placed) if each is not None]
    for _ in range(300):
        requirements = tuple(
            Requirement(
                random.choice("xyzw"),
                random.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Like"]),
                tuple(f"v-{random.randrange(4)}" for _ in range(random.randrange(1, 3))),
            )
            for _ in range(random.randrange(3))
        )
        pairs = ((random.choice("xyz"), f"v-{random.randrange(3)}"),) if random.random() < 0.5 else ()
        namespaces = random.choice([None, frozenset({"n-1"}), frozenset({"n-0", "n-2", "n-9"})])
        query = PodCountQuery(
            (Choice(namespaces, Selection(pairs, requirements)),), deleted=random.random() < 0.5
        )

        expected = Counter(each.node_name for each in there if query.selects(each.pod))

        assert cache.pod_counts.of(query).tolist() == [expected[name] for name in "abc"]


def test_a_term_leaves_nothing_on_a_removed_node() -> None:
    cache = small()
    cache.assume(carrier("web-0", 1), "a")
    cache.assume(carrier("web-1", 1), "c")
    cache.remove("uid-web-1")
    cache.drop_node("c")

    assert cache.affinity_terms.shunned.meaning(pod("other"), {})[ZONE].tolist() == [1, 0]
