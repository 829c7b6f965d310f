"""Nodes without machines or kubelets."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidelock.kube.client import NODES

Json = dict[str, Any]


def ready_node(
    name: str, size: Mapping[str, str], labels: Mapping[str, str] | None = None, taints: Sequence[Json] = ()
) -> Json:
    """Return a node that is Ready. Its capacity and allocatable are `size`, a quantity for each resource."""
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": size, "allocatable": size, "conditions": [readiness(ready=True)]},
    }


def readiness(*, ready: bool) -> Json:
    """Return the condition Ready of a node."""
    return {"type": "Ready", "status": "True" if ready else "False", "reason": "Bench", "message": ""}
