"""Karpenter with its provider of nodes without machines, which kwok makes ready."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.api import Api
from cluster.world import World
from devcluster import Cluster, wait_for
from devcluster.build import find_module
from devcluster.component import Component
from devcluster.loopback import Health, free_ports
from devcluster.reaper import kept
from devcluster.tools import SOURCES, find_program
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource

NODE_CLASSES = ApiResource(
    "karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", namespaced=False
)
NODE_POOLS = ApiResource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
_MODULE = "sigs.k8s.io/karpenter"
_CRDS = ("pkg/apis/crds", "kwok/apis/crds")
# Of 2 CPUs, of which 100m are kept for the system.
_INSTANCE_TYPE = "c-2x-amd64-linux"


@contextmanager
def karpenter(cluster: Cluster, directory: Path) -> Iterator[Component]:
    """Run Karpenter with its feature of CapacityBuffers."""
    module = find_module(SOURCES["karpenter"].module, _MODULE)
    for folder in _CRDS:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(module / folder))
    metrics, health = free_ports(2)
    settings = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "FEATURE_GATES": "CapacityBuffer=true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "SYSTEM_NAMESPACE": "kube-system",
        "KARPENTER_SERVICE": "karpenter",
    }
    component = Component(
        name="karpenter",
        command=(
            shutil.which("env") or "/usr/bin/env",
            *(f"{key}={value}" for key, value in settings.items()),
            str(find_program("karpenter")),
        ),
        health=Health(health, "/healthz", None),
        directory=directory,
    )
    with kept(component):
        yield component


@contextmanager
def node_pool(world: World, cpu: str = "8") -> Iterator[None]:
    """Let Karpenter add nodes of 2 CPUs with the label of a test's world, and remove idle ones soon.

    `cpu` limits the CPUs of all its nodes. At the end they go with the reservations and the pods.
    """
    api: Api = world.admin
    name = world.namespace
    api.create(
        NODE_CLASSES.collection(),
        {"apiVersion": NODE_CLASSES.api_version, "kind": NODE_CLASSES.kind, "metadata": {"name": name}},
    )
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [_INSTANCE_TYPE]}
    reference = {"group": NODE_CLASSES.group, "kind": NODE_CLASSES.kind, "name": name}
    spec = {"requirements": [requirement], "nodeClassRef": reference, "expireAfter": "Never"}
    pool = {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": world.selector}, "spec": spec},
            "limits": {"cpu": cpu},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"},
        },
    }
    made = api.create(NODE_POOLS.collection(), pool)
    wait_for(lambda: _is_ready(api, made["metadata"]["name"]), what="the NodePool to be ready")
    try:
        yield
    finally:
        for resource in (RESERVATIONS, PODS):
            api.delete_all(resource.collection(name))
        api.delete(NODE_POOLS.item(name))
        wait_for(
            lambda: api.get(f"/api/v1/nodes?labelSelector=karpenter.sh/nodepool={name}")["items"],
            until=lambda left: not left,
            what="Karpenter's nodes to go",
            timeout=120,
        )
        api.delete(NODE_CLASSES.item(name))


def _is_ready(api: Api, name: str) -> bool:
    conditions = api.get(NODE_POOLS.item(name)).get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
