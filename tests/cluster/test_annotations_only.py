"""The policy that limits the operator's identity to annotations of nodes and workloads.

It also limits a client with a stolen token of the operator.

It needs an API server that evaluates admission policies for an identity.
"""

from pathlib import Path

import pytest

from cluster.api import Api, Manifest
from cluster.live import Live
from cluster.workloads import install_clone_sets, make_workloads
from cluster.world import World
from devcluster import LocalCluster, wait_for
from tidelock.integrations.autoscalers.node_protection import CLUSTER_AUTOSCALER, KARPENTER, PROTECTED
from tidelock.model.usage_annotations import CRANE_HOT_VALUE, CRANE_METRICS, NODE_LEVEL, POD_USAGE

FOREIGN = {"metadata": {"annotations": {"example.org/owner": "ann"}}}
MEASURED = {"metadata": {"annotations": {POD_USAGE: "{}", NODE_LEVEL: "{}"}}}
CRANE = {"metadata": {"annotations": dict.fromkeys((*CRANE_METRICS, CRANE_HOT_VALUE), "0.5,then")}}
KEPT = {"metadata": {"annotations": dict.fromkeys((PROTECTED, CLUSTER_AUTOSCALER, KARPENTER), "true")}}
# Changes of each kind that the API server's own validation accepts.
SPECS: dict[str, Manifest] = {
    "Node": {"unschedulable": True},
    "Deployment": {"template": {"spec": {"hostNetwork": True}}},
    "StatefulSet": {"template": {"spec": {"hostNetwork": True}}},
    "DaemonSet": {"template": {"spec": {"hostNetwork": True}}},
    "Job": {"suspend": True},
    "CloneSet": {"template": {"spec": {"hostNetwork": True}}},
}


@pytest.fixture
def objects(private_cluster: LocalCluster, private_world: World) -> dict[str, Live]:
    """Create one object of each kind that the operator annotates, and return them by kind."""
    install_clone_sets(private_cluster)
    node = private_world.node()
    return {"Node": node, **make_workloads(private_world, node)}


def test_the_operator_writes_only_its_annotations(objects: dict[str, Live], private_kubeconfig: Path) -> None:
    operator = Api(private_kubeconfig)
    assert objects.keys() == SPECS.keys()
    for kind, live in objects.items():
        live.merge(FOREIGN)
        for patch, word in (
            ({"spec": SPECS[kind]}, "spec: "),
            ({"metadata": {"labels": {"zone": "b"}}}, "metadata: "),
            ({"metadata": {"finalizers": ["example.org/hold"]}}, "metadata: "),
            ({"metadata": {"annotations": {"example.org/owner": "eve"}}}, "metadata.annotations: "),
            ({"metadata": {"annotations": {"example.org/other": "eve"}}}, "metadata.annotations: "),
            ({"metadata": {"annotations": {"example.org/owner": None}}}, "metadata.annotations: "),
        ):
            told = f"{word}the operator writes"
            # The API server enforces a new policy only after a moment.
            wait_for(
                lambda live=live, patch=patch: operator.forbidden(live.path, patch),  # type: ignore[misc]
                until=lambda text, told=told: told in text,  # type: ignore[misc]
                what=f"{patch} of a {kind} to be refused",
            )
        assert operator.forbidden(live.path, MEASURED) == ""
        assert operator.forbidden(live.path, CRANE) == ""
        assert operator.forbidden(live.path, KEPT) == ""


def test_the_policy_does_not_limit_other_clients(objects: dict[str, Live], private_world: World) -> None:
    assert objects
    for kind, live in objects.items():
        assert private_world.api.forbidden(live.path, {"spec": SPECS[kind]}) == ""
