import numpy as np

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.plugins.node_name import NodeName
from unit.plugins.scene import Scene

SCENE = Scene(node("node-a"), node("node-b"))


def test_a_pod_that_names_no_node_is_skipped() -> None:
    assert SCENE.judge(NodeName, pod()).status.code is Code.SKIP


def test_a_pod_fits_only_on_the_node_that_it_names() -> None:
    judgement = SCENE.judge(NodeName, pod(node_name="node-b"))

    assert judgement.status.code is Code.SUCCESS
    assert judgement.fitting == {"node-b"}
    assert judgement.reasons("node-a") == (NodeName.reason,)


def test_a_pod_that_names_an_unknown_node_fits_nowhere() -> None:
    assert SCENE.judge(NodeName, pod(node_name="node-x")).fitting == set()


def test_evictions_do_not_help_on_other_nodes() -> None:
    assert not SCENE.judge(NodeName, pod(node_name="node-b")).preemption_may_help("node-a")


def test_the_filter_works_on_a_subset_of_the_snapshot() -> None:
    judgement = SCENE.judge(NodeName, pod(node_name="node-b"))
    few = judgement.snapshot.take(np.array([1]))

    assert isinstance(judgement.plugin, NodeName)
    assert judgement.plugin.filter(judgement.state, judgement.pod, few).tolist() == [True]
