"""The policy that limits the operator's identity to Tidelock's own writes of a pod's status.

It also limits a client with a stolen token of the operator.

It needs an API server that evaluates admission policies for changes of a pod's status.
"""

from pathlib import Path

import pytest

from cluster.api import Api, Manifest
from cluster.live import Pod
from cluster.world import World
from devcluster import wait_for

TIME = "2026-11-20T10:00:00Z"
CLAIMED = "tidelock.dev/claimed-locks"


def written(kind: str, status: str, reason: str) -> Manifest:
    """Build a patch with one condition, beside the condition of another author."""
    condition = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": TIME}
    return {"status": {"conditions": [OTHERS, condition]}}


CONTAINER = {"name": "main", "ready": True, "restartCount": 0, "image": "", "imageID": ""}
OTHERS = {"type": "Ready", "status": "True", "lastTransitionTime": TIME}
# The API server checks only that the container requests the resource.
MAPPING = {"containerName": "main", "resourceName": "cpu", "requestName": "r"}
OWN: dict[str, Manifest] = {
    "unschedulable": written("PodScheduled", "False", "Unschedulable"),
    "preempted": written("DisruptionTarget", "True", "PreemptionByScheduler"),
    "nominated": {"status": {"nominatedNodeName": "node-1"}},
    "provided by devices": {
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": [MAPPING]}}
    },
    "claimed": {"metadata": {"annotations": {CLAIMED: "u1,u2"}}},
}
FOREIGN: dict[str, tuple[Manifest, str]] = {
    "phase": ({"status": {"phase": "Failed"}}, "status: "),
    "address": ({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, "status: "),
    "reason": ({"status": {"reason": "Evicted"}}, "status: "),
    "containers": (
        {
            "status": {
                "containerStatuses": [
                    {"name": "main", "ready": True, "restartCount": 0, "image": "", "imageID": ""}
                ]
            }
        },
        "status: ",
    ),
    "ready": (
        {"status": {"conditions": [OTHERS | {"status": "False"}]}},
        "status.conditions: ",
    ),
    "a gate of another": (written("example.org/gate", "True", "Passed"), "status.conditions: "),
    "none": ({"status": {"conditions": []}}, "status.conditions: "),
    "scheduled": (written("PodScheduled", "True", ""), "status.conditions: "),
    "another disruption": (
        written("DisruptionTarget", "True", "EvictionByEvictionAPI"),
        "status.conditions: ",
    ),
    "labels": ({"metadata": {"labels": {"app": "victim"}}}, "metadata: "),
    "finalizers": ({"metadata": {"finalizers": ["example.org/hold"]}}, "metadata: "),
    "annotations": ({"metadata": {"annotations": {"example.org/owner": "eve"}}}, "metadata: "),
    "annotation of another": ({"metadata": {"annotations": {"example.org/other": None}}}, "metadata: "),
}


@pytest.fixture
def pod(private_world: World) -> Pod:
    """Create a pod with a label, an annotation and a condition of other authors."""
    metadata = {"labels": {"app": "web"}, "annotations": {"example.org/other": "ann"}}
    made = private_world.pod("web-0", schedulerName="nobody", metadata=metadata)
    private_world.api.merge(f"{made.path}/status", {"status": {"conditions": [OTHERS]}})
    return made


def test_the_operator_writes_only_its_own_parts_of_a_pod(
    pod: Pod, private_kubeconfig: Path, private_world: World
) -> None:
    """A stolen token could make a pod Ready, move it into a Service, or mark it as failed."""
    operator = Api(private_kubeconfig)
    assert FOREIGN
    assert OWN
    for name, (patch, word) in FOREIGN.items():
        told = f"{word}the operator writes"
        # The API server enforces a new policy only after a moment.
        wait_for(
            lambda patch=patch: operator.forbidden(f"{pod.path}/status", patch),  # type: ignore[misc]
            until=lambda text, told=told: told in text,  # type: ignore[misc]
            what=f"{name} to be refused",
        )
        assert private_world.api.forbidden(f"{pod.path}/status", patch) == ""
    for patch in OWN.values():
        assert operator.forbidden(f"{pod.path}/status", patch) == ""
