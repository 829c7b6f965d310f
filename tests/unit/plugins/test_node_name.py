import numpy as np

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.plugins.node_name import NodeName
from unit.plugins.scene import Scene

SCENE = Scene(node("node-a"), node("node-b"))


def test_a_pod_that_names_no_node_is_skipped() -> None:
    assert SCENE.judge(NodeName, pod()).status.code is Code.SKIP


def test_a_pod_goes_to_the_node_that_it_names() -> None:
    judgement = SCENE.judge(NodeName, pod(node_name="node-b"))

    assert judgement.status.code is Code.SUCCESS
    assert judgement.fitting == {"node-b"}
    assert judgement.reasons("node-a") == ("node(s) didn't match the requested node name",)


def test_a_pod_whose_node_is_not_there_goes_nowhere() -> None:
    assert SCENE.judge(NodeName, pod(node_name="node-x")).fitting == set()


def test_no_eviction_changes_a_name() -> None:
    assert not SCENE.judge(NodeName, pod(node_name="node-b")).preemption_may_help("node-a")


def test_a_node_is_found_among_a_few_that_were_taken() -> None:
    judgement = SCENE.judge(NodeName, pod(node_name="node-b"))
    few = judgement.snapshot.take(np.array([1]))

    assert isinstance(judgement.plugin, NodeName)
    assert judgement.plugin.filter(judgement.state, judgement.pod, few).tolist() == [True]
