"""Cluster Autoscaler with its provider of nodes without machines, which kwok makes ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from cluster.world import World
from devcluster import Cluster
from devcluster.component import Component
from devcluster.loopback import HOST, Health, free_ports
from devcluster.reaper import kept
from devcluster.tools import find_program

_NAMESPACE = "kube-system"
_CONFIG_MAPS = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
_GROUP = "example.org/node-group"


@contextmanager
def cluster_autoscaler(cluster: Cluster, world: World, directory: Path) -> Iterator[Component]:
    """Run Cluster Autoscaler with one group of nodes of 2 CPUs, which have the label of a test's world.

    It removes a node that has been idle for some seconds.
    """
    _configure(world)
    directory.mkdir()
    (port,) = free_ports(1)
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),  # which the provider reads, and not the flag
        "KWOK_PROVIDER_MODE": "local",
        "POD_NAMESPACE": _NAMESPACE,
    }
    component = Component(
        name="cluster-autoscaler",
        command=(
            "/usr/bin/env",
            *(f"{key}={value}" for key, value in environment.items()),
            str(find_program("cluster-autoscaler")),
            f"--kubeconfig={cluster.kubeconfig}",
            "--cloud-provider=kwok",
            f"--namespace={_NAMESPACE}",
            "--leader-elect=false",
            f"--address={HOST}:{port}",
            # It writes no status in protobuf.
            "--kube-api-content-type=application/json",
            "--scan-interval=2s",
            "--scale-down-unneeded-time=5s",
            "--scale-down-delay-after-add=5s",
            "--scale-down-delay-after-delete=1s",
        ),
        health=Health(port, "/health-check", None),
        directory=directory,
    )
    with kept(component):
        yield component


def _configure(world: World) -> None:
    """Write the provider's settings, and the template of its nodes."""
    size = {"cpu": "2", "memory": "16Gi", "pods": "110"}
    template = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "template",
            "labels": {**world.selector, _GROUP: "small", "kubernetes.io/hostname": "template"},
            "annotations": {"cluster-autoscaler.kwok.nodegroup/max-count": "5"},
        },
        "status": {
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        },
    }
    settings = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": _GROUP},
        "nodes": {"skipTaint": True},
        "configmap": {"name": "kwok-provider-templates"},
    }
    nodes = {"apiVersion": "v1", "kind": "List", "items": [template]}
    for name, data in (
        ("kwok-provider-config", {"config": yaml.safe_dump(settings)}),
        ("kwok-provider-templates", {"templates": yaml.safe_dump(nodes)}),
    ):
        world.admin.create(_CONFIG_MAPS, {"metadata": {"name": name}, "data": data})
