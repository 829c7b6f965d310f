"""Tidelock's door for other binders as manifests/binders installs it, and a stock kube-scheduler."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster.api import Api, Manifest, RefusedError
from cluster.live import Pod
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Component, LocalCluster, wait_for
from devcluster.binaries import find_binaries
from devcluster.identity import BINDERS, SYSTEM_NAMESPACE, operator_kubeconfig, rendered
from devcluster.loopback import HOST, Health, free_ports
from tidelock.binders.endpoint import SERVICE
from tidelock.binders.keeper import CONFIGURATION, SECRETS, WEBHOOKS
from tidelock.kube.client import PODS

BY_STOCK: Manifest = {"schedulerName": "default-scheduler"}
ADDRESS = "10.11.12.13"
"""Where the operator says that it is reached; nobody tries."""
NAMES = f"--tls-names={HOST},{SERVICE}.{SYSTEM_NAMESPACE}.svc"
SECRET = SECRETS.item("tidelock-tls", SYSTEM_NAMESPACE)


@contextmanager
def operating(cluster: LocalCluster, folder: Path, option: str, *, port: int) -> Iterator[OperatorProcess]:
    """Run the operator with its door open, to the end of which nothing must have gone wrong inside of it."""
    kubeconfig = operator_kubeconfig(cluster, folder, BINDERS)
    address = f"--tls-address={ADDRESS}"
    with OperatorProcess(kubeconfig, folder, option, f"--tls-port={port}", address, NAMES) as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@contextmanager
def webhooks(cluster: LocalCluster, api: Api, port: int) -> Iterator[None]:
    """Have the API server ask at a port of this machine, as the manifests have it ask a Service."""
    (configuration,) = [each for each in rendered(cluster, BINDERS) if each["kind"] == WEBHOOKS.kind]
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"]["url"] = f"https://{HOST}:{port}{path}"
    api.create(WEBHOOKS.collection(), configuration)
    try:
        yield
    finally:
        api.delete(WEBHOOKS.item(CONFIGURATION))


def bound_nodes(pods: list[Pod]) -> list[str]:
    """Names of the nodes to which pods are bound."""
    return [node for pod in pods if (node := (pod.read() or {})["spec"].get("nodeName"))]


def until_reviewed(world: World) -> None:
    """Wait until the API server asks, trusts the answer, and is answered."""
    node = world.node("reviewed")
    path = f"{PODS.collection(world.namespace)}?dryRun=All"
    container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "99"}}}
    body = {"metadata": {"name": "trial"}, "spec": {"nodeName": node.name, "containers": [container]}}

    def refused() -> bool:
        try:
            world.api.post(path, body)
        except RefusedError as refusal:
            return "Insufficient cpu" in str(refusal)
        return False

    wait_for(refused, what="bindings to be reviewed", timeout=60)
    node.delete()


def configuration(port: int, authority: Path, **extender: Any) -> Manifest:
    """Read the configuration for kube-scheduler that is offered, for this machine."""
    settings: Manifest = yaml.safe_load((BINDERS / "kube-scheduler.yaml").read_text())
    (offered,) = settings["extenders"]
    offered |= {"urlPrefix": f"https://{HOST}:{port}/extender", "httpTimeout": "30s", **extender}
    offered["tlsConfig"]["caFile"] = str(authority)
    return settings


def _unverified() -> ssl.SSLContext:
    """Ask a program after its health that serves with a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def stock_scheduler(cluster: LocalCluster, settings: Manifest) -> Iterator[Component]:
    """Run the real kube-scheduler on a cluster, with more fields of its configuration."""
    (port,) = free_ports(1)
    file = cluster.directory / "kube-scheduler.yaml"
    fields = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **settings,
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
    }
    file.write_text(yaml.safe_dump(fields))
    program = str(find_binaries().programs["kube-scheduler"])
    flags = (f"--config={file}", f"--bind-address={HOST}", f"--secure-port={port}")
    component = Component(
        "kube-scheduler",
        (program, *flags, "-v=2"),
        Health(port, "/healthz", _unverified()),
        cluster.directory,
    )
    component.start()
    try:
        yield component
    finally:
        component.stop()
