from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.node_affinity import (
    AFFINITY_CONFLICT,
    ENFORCED_AFFINITY_MISMATCH,
    NODE_AFFINITY_ELSEWHERE,
    NODE_AFFINITY_MISMATCH,
    NodeAffinityPlugin,
)
from unit.plugins.scene import Scene

SCENE = Scene(
    node("node-a", labels={"zone": "a", "disk": "ssd"}),
    node("node-b", labels={"zone": "b", "disk": "ssd"}),
    node("node-c"),
)


def term(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}


def requiring(*terms: dict[str, Any], **spec: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(affinity={"nodeAffinity": required}, **spec)


def preferring(**weights: int) -> Pod:
    preferred = [
        {"weight": weight, "preference": term("zone", zone) if zone != "ssd" else term("disk", "ssd")}
        for zone, weight in weights.items()
    ]
    return pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


@pytest.mark.parametrize(
    "ordinary", [pod(), pod(affinity={}), pod(affinity={"nodeAffinity": {}}), preferring(a=1)]
)
def test_a_pod_that_requires_nothing_is_skipped(ordinary: Pod) -> None:
    judgement = SCENE.judge(NodeAffinityPlugin, ordinary)
    assert judgement.status.code is Code.SKIP
    assert judgement.fitting == {"node-a", "node-b", "node-c"}


@pytest.mark.parametrize(
    ("demanding", "fitting"),
    [
        (pod(nodeSelector={"disk": "ssd"}), {"node-a", "node-b"}),
        (pod(nodeSelector={"disk": "ssd", "zone": "b"}), {"node-b"}),
        (requiring(term("zone", "a"), term("zone", "b")), {"node-a", "node-b"}),
        (requiring(term("zone", "a"), nodeSelector={"zone": "b"}), set()),
        (requiring({}), set()),
        (requiring(), set()),
        (
            requiring({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-c"]}]}),
            {"node-c"},
        ),
        (
            requiring({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-c"]}]}),
            {"node-a", "node-b"},
        ),
        (requiring({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}), set()),
        (requiring({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}), set()),
        (
            requiring({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
            {"node-b", "node-c"},
        ),
    ],
)
def test_selector_and_required_terms_must_both_match(demanding: Pod, fitting: set[str]) -> None:
    judgement = SCENE.judge(NodeAffinityPlugin, demanding)
    assert judgement.status.code is Code.SUCCESS
    assert judgement.fitting == fitting


def test_the_reason_is_that_of_kube_scheduler() -> None:
    judgement = SCENE.judge(NodeAffinityPlugin, pod(nodeSelector={"zone": "x"}))
    assert judgement.reasons() == (NODE_AFFINITY_MISMATCH,)


@pytest.mark.parametrize(
    ("preferences", "scores"),
    [
        ({"a": 30, "ssd": 10}, {"node-a": 100, "node-b": 25, "node-c": 0}),
        ({"a": 2, "ssd": 1}, {"node-a": 100, "node-b": 33, "node-c": 0}),
        ({"x": 100}, {"node-a": 0, "node-b": 0, "node-c": 0}),
        ({}, {"node-a": 0, "node-b": 0, "node-c": 0}),
    ],
)
def test_weights_of_matching_preferences_are_scaled_to_100(
    preferences: dict[str, int], scores: dict[str, float]
) -> None:
    assert SCENE.judge(NodeAffinityPlugin, preferring(**preferences)).scores == scores


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("zone", "NotIn", ["no label value"]),
        ("zone", "NotIn", ["-"]),
        ("zone", "NotIn", ["x" * 64]),
        ("zone", "NotIn", []),
        ("no label key", "DoesNotExist", []),
        ("x" * 318, "DoesNotExist", []),
        ("", "DoesNotExist", []),
        ("zone", "Exists", ["a"]),
        ("rack", "DoesNotExist", ["a"]),
        ("zone", "Near", ["a"]),
    ],
)
def test_a_term_that_is_not_valid_matches_no_node(key: str, operator: str, values: list[str]) -> None:
    """The API server accepts such values in preferred terms. Earlier versions did so in required terms."""
    expression = {"key": key, "operator": operator, "values": values}
    assert SCENE.judge(NodeAffinityPlugin, requiring({"matchExpressions": [expression]})).fitting == set()
    beside = requiring({"matchExpressions": [expression]}, term("zone", "a"))
    assert SCENE.judge(NodeAffinityPlugin, beside).fitting == {"node-a"}

    preferred = [{"weight": 50, "preference": {"matchExpressions": [expression]}}]
    wishful = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert set(SCENE.judge(NodeAffinityPlugin, wishful).scores.values()) == {0}


def test_a_field_requirement_has_one_value() -> None:
    several = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a", "node-b"]}]}
    assert SCENE.judge(NodeAffinityPlugin, requiring(several)).fitting == set()


def test_an_empty_preference_matches_no_node() -> None:
    preferred = [{"weight": 50, "preference": {}}]
    wishful = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert set(SCENE.judge(NodeAffinityPlugin, wishful).scores.values()) == {0}


def test_a_pod_with_only_other_kinds_of_affinity_scores_zero() -> None:
    assert set(SCENE.judge(NodeAffinityPlugin, pod(affinity={"podAffinity": {}})).scores.values()) == {0}


def named(*names: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    return {"matchFields": fields}


def test_terms_that_can_match_no_node_are_refused_at_once() -> None:
    judgement = SCENE.judge(
        NodeAffinityPlugin, requiring(named("node-a", "node-b"), named("node-b", "node-c"))
    )

    assert judgement.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert judgement.status.reasons == (AFFINITY_CONFLICT,)


def test_nodes_outside_the_named_ones_have_a_reason_of_their_own() -> None:
    judgement = SCENE.judge(NodeAffinityPlugin, requiring(named("node-a"), nodeSelector={"zone": "x"}))

    assert judgement.reasons("node-b") == (NODE_AFFINITY_ELSEWHERE,)
    assert judgement.reasons("node-a") == (NODE_AFFINITY_MISMATCH,)
    assert not judgement.preemption_may_help("node-a")
    other = SCENE.judge(NodeAffinityPlugin, requiring(named("node-a"), term("zone", "x")))
    assert other.reasons("node-b") == (NODE_AFFINITY_MISMATCH,)


def test_the_added_affinity_of_the_profile_applies_to_every_pod() -> None:
    preferred = [{"weight": 1, "preference": term("zone", "b")}]
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("disk", "ssd")]},
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    judgement = SCENE.judge(NodeAffinityPlugin, pod(), addedAffinity=added)

    assert judgement.fitting == {"node-a", "node-b"}
    assert judgement.reasons("node-c") == (ENFORCED_AFFINITY_MISMATCH,)
    assert judgement.scores == {"node-a": 0, "node-b": 100, "node-c": 0}


def test_an_invalid_added_affinity_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of NodeAffinity: Expected `object`"):
        NodeAffinityPlugin(Scene().handle, {"addedAffinity": 1})
