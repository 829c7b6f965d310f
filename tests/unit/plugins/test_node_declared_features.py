"""Pods that need features of the kubelet."""

from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.framework.rejections import nodes_by_reason
from tidelock.plugins.node_declared_features import NodeDeclaredFeatures
from unit.plugins.scene import Scene
from unit.scheduler.machinery import Core

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
SCENE = Scene(node("node-a"), node("node-b", features=[RESTART]), node("node-c", features=[RESTART, USERS]))

RESTARTING = {
    "name": "main",
    "restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}],
}


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"containers": [RESTARTING]}, {"node-b", "node-c"}),
        ({"initContainers": [RESTARTING]}, {"node-b", "node-c"}),
        ({"hostNetwork": True, "hostUsers": False}, {"node-c"}),
        ({"hostNetwork": True, "hostUsers": False, "containers": [RESTARTING]}, {"node-c"}),
    ],
)
def test_a_node_must_declare_the_features_that_a_pod_needs(fields: dict[str, Any], nodes: set[str]) -> None:
    judgement = SCENE.judge(NodeDeclaredFeatures, pod(**fields))

    assert judgement.status.ok
    assert judgement.fitting == nodes
    assert judgement.reasons("node-a") == (NodeDeclaredFeatures.reason,)
    assert not judgement.preemption_may_help("node-a")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"hostNetwork": True},
        {"hostNetwork": True, "hostUsers": True},
        {"hostUsers": False},
        {"containers": [{"name": "main", "restartPolicyRules": [{"action": "Restart"}]}]},
    ],
)
def test_pods_that_need_no_feature_are_skipped(fields: dict[str, Any]) -> None:
    assert SCENE.judge(NodeDeclaredFeatures, pod(**fields)).status.code is Code.SKIP


def test_needed_features_separate_equivalence_classes_and_a_new_feature_wakes_the_pod() -> None:
    core = Core(node("node-a"))
    core.add(pod("plain", requests={"cpu": "1"}))
    core.place()
    core.add(pod("web-0", containers=[RESTARTING | {"resources": {"requests": {"cpu": "1"}}}]))
    diagnosis = core.refuse().diagnosis
    assert diagnosis.message.startswith(nodes_by_reason(1, {NodeDeclaredFeatures.reason: 1}))
    assert diagnosis.plugins == {"NodeDeclaredFeatures"}

    core.event_handlers.nodes.upsert(None, node("node-a", images={"app": 1}))
    assert core.step() is None
    core.event_handlers.nodes.upsert(None, node("node-a", features=[RESTART]))
    core.clock.advance(10)
    assert core.place().pod.meta.name == "web-0"
