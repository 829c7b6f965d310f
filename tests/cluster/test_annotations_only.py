"""The policy by which the operator, or who has stolen its token, changes nothing of nodes and workloads."""

from http import HTTPStatus
from pathlib import Path

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.live import Live
from cluster.workloads import install_clone_sets, make_workloads
from cluster.world import World
from devcluster import LocalCluster, wait_for
from tidelock.model.usage_annotations import CRANE_HOT_VALUE, CRANE_METRICS, NODE_LEVEL, POD_USAGE

FOREIGN = {"metadata": {"annotations": {"example.org/owner": "ann"}}}
MEASURED = {"metadata": {"annotations": {POD_USAGE: "{}", NODE_LEVEL: "{}"}}}
CRANE = {"metadata": {"annotations": dict.fromkeys((*CRANE_METRICS, CRANE_HOT_VALUE), "0.5,then")}}
# What each kind's own rules would let anybody change who may patch it.
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
    """One object of each kind that the operator annotates, by its kind."""
    install_clone_sets(private_cluster)
    node = private_world.node()
    return {"Node": node, **make_workloads(private_world, node)}


def refusal(api: Api, live: Live, patch: Manifest) -> str:
    """Try a patch that is not stored; gives why it is forbidden, or nothing."""
    try:
        api.merge(f"{live.path}?dryRun=All", patch)
    except RefusedError as refused:
        if refused.status != HTTPStatus.FORBIDDEN:
            raise
        return str(refused)
    return ""


def test_the_operator_annotates_and_changes_nothing_else(
    objects: dict[str, Live], private_kubeconfig: Path
) -> None:
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
            # The API server takes a moment to enforce a policy that is new.
            wait_for(
                lambda live=live, patch=patch: refusal(operator, live, patch),  # type: ignore[misc]
                until=lambda text, told=told: told in text,  # type: ignore[misc]
                what=f"{patch} of a {kind} to be refused",
            )
        assert refusal(operator, live, MEASURED) == ""
        assert refusal(operator, live, CRANE) == ""


def test_others_are_not_held_back(objects: dict[str, Live], private_world: World) -> None:
    assert objects
    for kind, live in objects.items():
        assert refusal(private_world.api, live, {"spec": SPECS[kind]}) == ""
