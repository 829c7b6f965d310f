import pytest

from builders import node, pod
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from unit.plugins.scene import Scene

SCENE = Scene(node("node-a"), node("node-b", cordoned=True))


def test_a_cordoned_node_fits_no_pods() -> None:
    judgement = SCENE.judge(NodeUnschedulable, pod())

    assert judgement.fitting == {"node-a"}
    assert judgement.reasons("node-b") == (NodeUnschedulable.reason,)
    assert not judgement.preemption_may_help("node-b")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "operator": "Exists"}, False),
    ],
)
def test_a_pod_that_tolerates_the_cordon_fits(toleration: dict[str, str], tolerated: bool) -> None:
    judgement = SCENE.judge(NodeUnschedulable, pod(tolerations=[toleration]))
    assert ("node-b" in judgement.fitting) is tolerated
