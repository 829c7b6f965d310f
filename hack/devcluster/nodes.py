"""Nodes without machines, for clusters in which kwok simulates the kubelets, and a wait for any node."""

import json
from collections.abc import Mapping
from typing import Any

from devcluster.cluster import Cluster
from devcluster.polling import wait_for

_NOT_READY = "node.kubernetes.io/not-ready"


def add_kwok_node(
    cluster: Cluster,
    name: str,
    *,
    cpu: str = "3900m",
    labels: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> None:
    """Create a node of 16Gi and 110 pods, and wait until it is Ready and takes pods.

    `timeout` is in seconds.

    Raises:
        WaitTimeoutError: the node did not become Ready, for example because kwok does not run. Or it kept the
            taint that a new node gets, for example because kube-controller-manager does not run.

    """
    cluster.kubectl("create", "-f", "-", input=json.dumps(_manifest(name, cpu, labels or {})))
    wait_until_ready(cluster, name, timeout)


def wait_until_ready(cluster: Cluster, name: str, timeout: float = 60.0) -> None:
    """Wait until a node exists, is Ready and takes pods. `timeout` is in seconds.

    Raises:
        WaitTimeoutError: the node is not there, not Ready or takes no pods after the timeout.

    """
    wait_for(
        lambda: _obstacles(cluster.kubectl("get", "node", name, "--ignore-not-found", "-o", "json")),
        until=lambda obstacles: not obstacles,
        what=f"node {name} to be Ready",
        timeout=timeout,
    )


def _manifest(name: str, cpu: str, labels: Mapping[str, str]) -> dict[str, Any]:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},  # in other setups kwok manages only these
        },
        "status": {"capacity": size, "allocatable": size},
    }


def _obstacles(text: str) -> list[str]:
    """Return the reasons for which a new node takes no pods. `text` is its JSON, or empty without a node."""
    if not text:
        return ["there is no such node"]
    node = json.loads(text)
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    ready = [] if conditions.get("Ready") == "True" else [f"Ready={conditions.get('Ready')}"]
    return ready + [taint["key"] for taint in node["spec"].get("taints", []) if taint["key"] == _NOT_READY]
