from typing import Any

import pytest

from builders import node, pod
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from unit.plugins.scene import Scene

GPU = "nvidia.com/gpu"


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    """Return args with a shape of (utilization, score)."""
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": shape},
        }
    }


def test_requests_must_fit_beside_those_of_placed_pods() -> None:
    scene = Scene(node("node-a", cpu="4"), node("node-b", cpu="4"))
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")

    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "2"})).fitting == {"node-a", "node-b"}
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "2001m"})).fitting == {"node-b"}
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "4001m"})).fitting == set()


def test_a_request_for_a_resource_that_a_node_lacks_does_not_fit() -> None:
    scene = Scene(node("node-a"), node("node-b", **{GPU: "2"}))

    assert scene.judge(NodeResourcesFit, pod(requests={GPU: "1"})).fitting == {"node-b"}
    assert scene.judge(NodeResourcesFit, pod(requests={GPU: "0"})).fitting == {"node-a", "node-b"}


def test_reserved_capacity_is_left_to_another_plugin() -> None:
    scene = Scene(node("node-a", cpu="4"))
    scene.reservation("lock", resources={"cpu": "4"})
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "4"})).fitting == {"node-a"}


def test_every_insufficient_resource_is_reported_with_its_numbers() -> None:
    scene = Scene(node("node-a", cpu="4", memory="8Gi", pods="1"))
    scene.cache.assume(pod("other", requests={"cpu": "3500m", "memory": "6Gi"}), "node-a")

    judgement = scene.judge(NodeResourcesFit, pod(requests={"cpu": "1", "memory": "4Gi", GPU: "1"}))

    assert judgement.fitting == set()
    assert judgement.reasons() == (
        "Insufficient cpu",
        "Insufficient memory",
        "Too many pods",
        f"Insufficient {GPU}",
    )
    assert judgement.detail() == (
        f"cpu 1 needed, 500m free, memory 4Gi needed, 2Gi free, pods 1 needed, 0 free, {GPU} 1 needed, 0 free"
    )


def test_an_overcommitted_node_has_a_negative_free_amount() -> None:
    scene = Scene(node("node-a", cpu="4"))
    scene.cache.assume(pod("other", requests={"cpu": "5"}), "node-a")
    assert scene.judge(NodeResourcesFit, pod()).detail() == "cpu 1 needed, -1 free"


def test_a_resource_that_is_not_requested_is_never_insufficient() -> None:
    scene = Scene(node("node-a", cpu="1", memory="1Gi"))
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")
    judgement = scene.judge(NodeResourcesFit, pod(requests={"cpu": "0", "memory": "1Gi"}))
    assert judgement.fitting == {"node-a"}
    assert judgement.reasons() == ()


def test_emptier_nodes_score_higher() -> None:
    """Cpu leaves 1/4 and 3/6 free, memory 1/2 of both: (25 + 50) / 2 = 37 and (50 + 50) / 2 = 50."""
    scene = Scene(node("node-a", cpu="4", memory="10000"), node("node-b", cpu="6", memory="10000"))
    wanted = pod(requests={"cpu": "3", "memory": "5000"})
    assert scene.judge(NodeResourcesFit, wanted).scores == {"node-a": 37, "node-b": 50}


def test_used_and_reserved_amounts_lower_the_score() -> None:
    """Of 4 cpu, 1 is used, 1 reserved and 1 requested: 25. Of the memory, 80 % stays free: 52."""
    scene = Scene(node("node-a", cpu="4", memory="10000"))
    scene.cache.assume(pod("other", requests={"cpu": "1", "memory": "1000"}), "node-a")
    scene.reservation("lock", resources={"cpu": "1"})
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "1", "memory": "1000"})).scores == {
        "node-a": 52
    }


def test_a_pod_without_requests_is_scored_with_default_requests() -> None:
    """0.1 of 4 cores leaves 97, and 200 MiB of 1 GB leaves 79: 88."""
    scene = Scene(node("node-a", cpu="4", memory="1G"))
    assert scene.judge(NodeResourcesFit, pod(requests={})).scores == {"node-a": 88}


def test_a_resource_that_would_exceed_its_capacity_scores_zero() -> None:
    scene = Scene(node("node-a", cpu="1", memory="10000"))
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "2", "memory": "5000"})).scores == {
        "node-a": 25
    }


def test_a_resource_that_a_node_lacks_does_not_count_in_its_mean() -> None:
    scene = Scene(node("node-a", cpu="4", memory="0"), node("node-b", cpu="0", memory="0"))
    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "1"})).scores == {"node-a": 75, "node-b": 0}


def test_an_eviction_helps_unless_the_node_is_too_small() -> None:
    scene = Scene(node("node-a", cpu="4", pods="1"))
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")

    assert scene.judge(NodeResourcesFit, pod(requests={"cpu": "3"})).preemption_may_help()
    assert not scene.judge(NodeResourcesFit, pod(requests={"cpu": "5"})).preemption_may_help()
    assert not scene.judge(NodeResourcesFit, pod(requests={"cpu": "1", GPU: "1"})).preemption_may_help()


def test_ignored_extended_resources_are_not_checked() -> None:
    scene = Scene(node("node-a"))
    wanted = pod(requests={GPU: "1", "cpu": "5"})

    for args in ({"ignoredResources": [GPU, "cpu"]}, {"ignoredResourceGroups": ["nvidia.com", "cpu"]}):
        assert scene.judge(NodeResourcesFit, wanted, **args).reasons() == ("Insufficient cpu",)


def test_fuller_nodes_score_higher_if_so_configured() -> None:
    """Cpu is used to 3/4 and 3/6, memory to 1/2 on both: (75 + 50) / 2 = 62 and (50 + 50) / 2 = 50."""
    scene = Scene(node("node-a", cpu="4", memory="10000"), node("node-b", cpu="6", memory="10000"))
    wanted = pod(requests={"cpu": "3", "memory": "5000"})
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    assert scene.judge(NodeResourcesFit, wanted, **args).scores == {"node-a": 62, "node-b": 50}


def test_a_shape_scores_the_utilization_of_a_resource() -> None:
    """At 75 % the curve from (0, 10) by (50, 0) to (100, 4) has the value 2: 20 points of 100."""
    args = ratio((0, 10), (50, 0), (100, 4))
    args["scoringStrategy"]["resources"] = [{"name": "cpu", "weight": 3}]
    scene = Scene(node("node-a", cpu="4"))
    judgement = scene.judge(NodeResourcesFit, pod(requests={"cpu": "3"}), **args)
    assert judgement.scores == {"node-a": 20}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"scoringStrategy": {"type": "Random"}}, "Invalid enum value"),
        (
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
            "weight of cpu",
        ),
        ({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "is needed there"),
        (
            {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}}},
            "is needed there",
        ),
        (ratio(), "increasing"),
        (ratio((50, 1), (50, 2)), "increasing"),
        (ratio((0, 1), (101, 2)), "a utilization is not"),
        (ratio((0, 11)), "a score is not"),
        ({"ignoredResourceGroups": ["nvidia.com/gpu"]}, "slash"),
        ({"ignoredResources": "all"}, "Expected `array`"),
    ],
)
def test_wrong_args_are_refused_with_the_plugins_name(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=rf"^pluginConfig of NodeResourcesFit: .*{text}"):
        NodeResourcesFit(Scene().handle, args)
