from typing import Any

import msgspec
import pytest

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.model.namespaces import Namespace
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY_MISMATCH,
    POD_ANTI_AFFINITY_MISMATCH,
    InterPodAffinity,
)
from unit.plugins.scene import Judgement, Scene

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ALL = {"a-1", "a-2", "b-1", "far"}


def scene(*others: Pod) -> Scene:
    """Return two nodes in zone a, one in zone b and one without a zone, with these pods."""
    zones = {"a-1": "a", "a-2": "a", "b-1": "b", "far": None}
    there = [
        node(name, labels={HOSTNAME: name} | ({ZONE: zone} if zone else {})) for name, zone in zones.items()
    ]
    small = Scene(*there)
    for other in others:
        small.cache.upsert(other)
    return small


def term(key: str = ZONE, app: str = "db", **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def preferred(kind: str, weight: int, wish: dict[str, Any]) -> dict[str, Any]:
    wishes = [{"weight": weight, "podAffinityTerm": wish}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def db(home: str = "a-1", **fields: Any) -> Pod:
    return pod(f"db-{home}", node_name=home, labels={"app": "db"}, **fields)


def web(**fields: Any) -> Pod:
    return pod(labels={"app": "web"}, **fields)


def judge(small: Scene, wanting: Pod, **args: Any) -> Judgement:
    return small.judge(InterPodAffinity, wanting, **args)


def test_affinity_keeps_a_pod_in_the_domain_of_another() -> None:
    judgement = judge(scene(db()), web(affinity=required("podAffinity", term())))

    assert judgement.fitting == {"a-1", "a-2"}
    assert judgement.reasons("b-1") == judgement.reasons("far") == (POD_AFFINITY_MISMATCH,)
    assert not judgement.preemption_may_help("b-1")


def test_all_affinity_terms_must_be_met_by_one_pod() -> None:
    wanting = web(affinity=required("podAffinity", term(app="db"), term(app="cache")))
    cache = pod("cache", node_name="a-1", labels={"app": "cache"})
    assert judge(scene(db(), cache), wanting).fitting == set()


def test_a_selector_value_that_is_no_valid_label_is_compared_literally() -> None:
    """kube-scheduler refuses such a pod. Earlier versions of the API server accepted it."""
    odd = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["{{ app }}"]}]}
    assert judge(scene(db()), web(affinity=required("podAffinity", term(labelSelector=odd)))).fitting == set()
    assert (
        judge(scene(db()), web(affinity=required("podAntiAffinity", term(labelSelector=odd)))).fitting == ALL
    )


def test_the_first_pod_that_matches_its_own_affinity_fits_on_all_nodes_with_the_label() -> None:
    itself = web(affinity=required("podAffinity", term(app="web")))

    assert judge(scene(db()), itself).fitting == {"a-1", "a-2", "b-1"}
    assert judge(scene(), web(affinity=required("podAffinity", term(app="db")))).fitting == set()
    another = pod("web-1", node_name="b-1", labels={"app": "web"})
    assert judge(scene(another), itself).fitting == {"b-1"}


def test_anti_affinity_keeps_a_pod_out_of_the_domain_of_another() -> None:
    judgement = judge(scene(db()), web(affinity=required("podAntiAffinity", term())))

    assert judgement.fitting == {"b-1", "far"}
    assert judgement.reasons("a-2") == (POD_ANTI_AFFINITY_MISMATCH,)
    assert judgement.preemption_may_help("a-2")


def test_the_anti_affinity_of_placed_pods_counts_as_well() -> None:
    judgement = judge(scene(db(affinity=required("podAntiAffinity", term(app="web")))), web())

    assert judgement.fitting == {"b-1", "far"}
    assert judgement.reasons("a-2") == (EXISTING_ANTI_AFFINITY,)
    assert judgement.preemption_may_help("a-2")


def test_a_pod_that_is_being_deleted_still_counts() -> None:
    assert judge(scene(db(deleted=True)), web(affinity=required("podAntiAffinity", term()))).fitting == {
        "b-1",
        "far",
    }


@pytest.mark.parametrize(
    ("fields", "fitting"),
    [
        ({}, ALL),
        ({"namespaces": ["bank"]}, {"b-1", "far"}),
        ({"namespaceSelector": {}}, {"b-1", "far"}),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, {"b-1", "far"}),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, ALL),
    ],
)
def test_terms_select_pods_in_the_namespaces_that_they_name(
    fields: dict[str, Any], fitting: set[str]
) -> None:
    outgoing = scene(db(namespace="bank"))
    incoming = scene(db(affinity=required("podAntiAffinity", term(app="web", **fields))))
    for small in (outgoing, incoming):
        metadata = {"name": "bank", "labels": {"team": "x"}}
        small.objects.namespaces.upsert(None, msgspec.convert({"metadata": metadata}, Namespace))

    assert judge(outgoing, web(affinity=required("podAntiAffinity", term(**fields)))).fitting == fitting
    assert judge(incoming, web(namespace="bank")).fitting == fitting


def test_a_namespace_is_selected_once_its_labels_match() -> None:
    small = scene(db(namespace="bank"))
    selector = {"matchLabels": {"team": "x"}}
    wanting = web(affinity=required("podAntiAffinity", term(namespaceSelector=selector)))
    assert judge(small, wanting).fitting == ALL

    labelled = msgspec.convert({"metadata": {"name": "bank", "labels": {"team": "x"}}}, Namespace)
    small.objects.namespaces.upsert(None, labelled)

    assert judge(small, wanting).fitting == {"b-1", "far"}


@pytest.mark.parametrize(
    "wanting", [web(), web(affinity={}), web(affinity=preferred("podAffinity", 1, term()))]
)
def test_a_pod_without_required_terms_is_skipped(wanting: Pod) -> None:
    """An anti-affinity term of a placed pod that selects other pods does not prevent the skip."""
    small = scene(db(affinity=required("podAntiAffinity", term(app="cache"))))
    assert judge(small, wanting).status.code is Code.SKIP


def test_weights_of_preferred_terms_add_up_by_domain() -> None:
    both = preferred("podAffinity", 10, term()) | preferred("podAntiAffinity", 30, term(HOSTNAME))
    scores = judge(scene(db()), web(affinity=both)).scores
    assert scores == {"a-1": 0, "a-2": 100, "b-1": 66, "far": 66}


@pytest.mark.parametrize(
    ("theirs", "args", "there", "elsewhere"),
    [
        (preferred("podAffinity", 5, term(app="web")), {}, 100, 0),
        (preferred("podAntiAffinity", 5, term(app="web")), {}, 0, 100),
        (required("podAffinity", term(app="web")), {}, 100, 0),
        (required("podAffinity", term(app="web")), {"hardPodAffinityWeight": 0}, 0, 0),
        (
            preferred("podAffinity", 5, term(app="web")),
            {"ignorePreferredTermsOfExistingPods": True},
            0,
            0,
        ),
        (preferred("podAffinity", 5, term(app="cache")), {}, 0, 0),
    ],
)
def test_the_affinity_terms_of_placed_pods_count_in_the_score(
    theirs: dict[str, Any], args: dict[str, Any], there: int, elsewhere: int
) -> None:
    scores = judge(scene(db(affinity=theirs)), web(), **args).scores
    assert scores == {"a-1": there, "a-2": there, "b-1": elsewhere, "far": elsewhere}


@pytest.mark.parametrize("weight", [-1, 101, "many"])
def test_an_invalid_weight_is_refused(weight: object) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of InterPodAffinity: Expected `int`"):
        InterPodAffinity(Scene().handle, {"hardPodAffinityWeight": weight})
