from typing import Any

import numpy as np
import pytest

from builders import node, pod
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code
from tidelock.framework.cyclestate import CycleState
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation as Balanced
from unit.plugins.scene import Scene


def test_a_pod_that_unbalances_a_node_scores_less_than_one_that_does_not() -> None:
    """Shares 3/4 and 1/2 make 87 of 100: 50 + (50 - 13) / 2 = 68. Shares 1/2 and 1/2 change nothing: 75."""
    scene = Scene(node("node-a", cpu="4", memory="10000"), node("node-b", cpu="6", memory="10000"))
    wanted = pod(requests={"cpu": "3", "memory": "5000"})
    assert scene.judge(Balanced, wanted).scores == {"node-a": 68, "node-b": 75}


def test_a_pod_that_balances_a_node_scores_more() -> None:
    """Shares 1/2 and 0 make 75. With the pod, 1/2 and 1/2 make 100: 50 + (50 + 25) / 2 = 87."""
    scene = Scene(node("node-a", cpu="4", memory="10000"))
    scene.cache.assume(pod("other", requests={"cpu": "2"}), "node-a")
    assert scene.judge(Balanced, pod(requests={"memory": "5000"})).scores == {"node-a": 87}


def test_reserved_capacity_counts_as_used() -> None:
    scene = Scene(node("node-a", cpu="4", memory="10000"))
    scene.reservation("lock", resources={"cpu": "2"})
    assert scene.judge(Balanced, pod(requests={"memory": "5000"})).scores == {"node-a": 87}


def test_a_share_is_at_most_one() -> None:
    """Shares 1 and 0 make 50. With the pod, 1 (not 3/2) and 1/2 make 75: 50 + (50 + 25) / 2 = 87."""
    scene = Scene(node("node-a", cpu="4", memory="10000"))
    scene.cache.assume(pod("other", requests={"cpu": "4"}), "node-a")
    assert scene.judge(Balanced, pod(requests={"cpu": "2", "memory": "5000"})).scores == {"node-a": 87}


@pytest.mark.parametrize(("cpu", "memory"), [("4", "0"), ("0", "10000"), ("0", "0")])
def test_a_node_without_cpu_or_memory_counts_as_balanced(cpu: str, memory: str) -> None:
    scene = Scene(node("node-a", cpu=cpu, memory=memory))
    assert scene.judge(Balanced, pod(requests={"cpu": "2"})).scores == {"node-a": 75}


def test_a_pod_that_requests_neither_cpu_nor_memory_is_not_scored() -> None:
    """Otherwise, pods without requests would all be placed on one node."""
    scene = Scene(node("node-a"), node("node-b"))
    assert scene.judge(Balanced, pod(requests={"nvidia.com/gpu": "1"})).scores == {"node-a": 0, "node-b": 0}


def test_a_pod_that_requests_none_of_the_resources_is_skipped() -> None:
    scene = Scene(node("node-a", **{"nvidia.com/gpu": "2"}))
    plugin = Balanced(scene.handle, {"resources": [{"name": "nvidia.com/gpu"}]})
    snapshot = Snapshot.of(scene.columns)

    def code(requests: dict[str, str]) -> Code:
        return plugin.pre_score(CycleState(), pod(requests=requests), snapshot, np.arange(1)).code

    assert code({"cpu": "1"}) is Code.SKIP
    assert code({"nvidia.com/gpu": "1"}) is Code.SUCCESS


@pytest.mark.parametrize(
    "resources", [[{"name": "cpu", "weight": 2}], [{"name": "cpu"}, {"name": "cpu"}]], ids=["weight", "twice"]
)
def test_repeated_and_weighted_resources_are_refused(resources: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"^pluginConfig of .*: resources must differ and have weight 1$"):
        Balanced(Scene().handle, {"resources": resources})
