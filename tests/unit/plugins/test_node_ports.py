from typing import Any

import pytest

from builders import node, pod
from tidelock.framework.api import Code
from tidelock.model.pods import Pod
from tidelock.plugins.node_ports import NodePorts
from unit.plugins.scene import Scene

NODES = (node("node-a"), node("node-b"))


def with_port(name: str = "web-0", *, network: bool = False, **port: Any) -> Pod:
    container = {"name": "main", "ports": [{"containerPort": 80, **port}]}
    return pod(name, containers=[container], hostNetwork=network)


def fitting(there: Pod, wanting: Pod) -> set[str]:
    scene = Scene(*NODES)
    scene.cache.assume(there, "node-a")
    return scene.judge(NodePorts, wanting).fitting


@pytest.mark.parametrize(
    ("there", "wanting", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "0.0.0.0"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),  # noqa: S104
        ({"network": True}, {"hostPort": 80}, False),
    ],
)
def test_a_port_is_free_unless_it_is_used_on_the_same_address(
    there: dict[str, Any], wanting: dict[str, Any], free: bool
) -> None:
    found = fitting(with_port("other", **there), with_port(**wanting))
    assert found == ({"node-a", "node-b"} if free else {"node-b"})


def test_a_pod_without_host_ports_is_skipped() -> None:
    assert Scene(*NODES).judge(NodePorts, with_port()).status.code is Code.SKIP


def test_sidecars_keep_their_ports_and_other_init_containers_do_not() -> None:
    def init(policy: str | None) -> Pod:
        ports = [{"containerPort": 80, "hostPort": 80}]
        return pod("other", initContainers=[{"name": "init", "ports": ports, "restartPolicy": policy}])

    wanting = with_port(hostPort=80)
    assert fitting(init("Always"), wanting) == {"node-b"}
    assert fitting(init(None), wanting) == {"node-a", "node-b"}


def test_a_port_in_use_is_the_reason_and_an_eviction_may_help() -> None:
    scene = Scene(*NODES)
    scene.cache.assume(with_port("other", hostPort=80), "node-a")

    judgement = scene.judge(NodePorts, with_port(hostPort=80))

    assert judgement.reasons() == (NodePorts.reason,)
    assert judgement.preemption_may_help()


def test_a_port_of_two_pods_is_free_once_both_are_removed() -> None:
    scene = Scene(*NODES)
    for name in ("other-0", "other-1"):
        scene.cache.assume(with_port(name, hostPort=80), "node-a")

    scene.cache.remove("uid-other-0")
    assert scene.judge(NodePorts, with_port(hostPort=80)).fitting == {"node-b"}
    scene.cache.remove("uid-other-1")
    assert scene.judge(NodePorts, with_port(hostPort=80)).fitting == {"node-a", "node-b"}
