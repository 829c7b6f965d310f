"""The binder server of Tidelock, as the component extender installs it, and a stock kube-scheduler."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from cluster.api import Api, Manifest, RefusedError
from cluster.live import Node, Pod
from cluster.operator_process import OperatorProcess
from cluster.quick_operator import QUICK
from cluster.world import World
from devcluster import Component, LocalCluster, wait_for
from devcluster.binaries import find_binaries
from devcluster.binders import NAMES, scheduler_keys, webhook_configuration
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.loopback import HOST, Health, free_ports
from tidelock import process
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import MUTATING_WEBHOOKS, PODS, SECRETS, WEBHOOKS, ApiResource
from tidelock.machine import Machine
from tidelock.pace import Pace
from tidelock.settings import Settings

BY_STOCK: Manifest = {"schedulerName": "default-scheduler"}
ADDRESS = "10.11.12.13"
"""The address that the operator announces. No test connects to it."""
SECRET = SECRETS.item("tidelock-tls", SYSTEM_NAMESPACE)


def known_schedulers(cluster: LocalCluster) -> str:
    """Return the option that makes the operator trust the certificates of a cluster's schedulers."""
    return f"--extender-clients={scheduler_keys(cluster).authority}"


def addresses(port: int, address: str = ADDRESS) -> tuple[str, ...]:
    """Return the options by which the operator listens on a port of this machine and announces an address."""
    return f"--tls-port={port}", f"--tls-address={address}", f"--tls-names={','.join(NAMES)}"


@contextmanager
def operating(cluster: LocalCluster, folder: Path, *options: str, port: int) -> Iterator[OperatorProcess]:
    """Run the operator with its binder server. At the end its log must contain no traceback."""
    kubeconfig = operator_kubeconfig(cluster, folder, EXTENDER)
    with OperatorProcess(
        kubeconfig, folder, *options, known_schedulers(cluster), *addresses(port)
    ) as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


def authority(api: Api, folder: Path, port: int) -> Path:
    """Read the authority of the operator's serving certificate, as an installation does.

    An earlier operator can have left a Secret that this one will replace soon.
    """
    file = folder / "ca.crt"

    def trusted() -> bool:
        data: Manifest = api.get(SECRET).get("data") or {}
        if not data:
            return False
        file.write_bytes(base64.b64decode(data["ca.crt"]))
        context = ssl.create_default_context(cafile=str(file))
        try:
            with socket.create_connection((HOST, port), timeout=5) as connection:
                context.wrap_socket(connection, server_hostname=NAMES[0]).close()
        except OSError:
            return False
        return True

    wait_for(trusted, what="a certificate of the Secret's authority", timeout=60)
    return file


@contextmanager
def webhooks(cluster: LocalCluster, api: Api, port: int, resource: ApiResource = WEBHOOKS) -> Iterator[None]:
    """Make the API server call the webhooks at a port of this machine, not at the Service of the manifests.

    Within seconds the operator adds the authority to trust and the token to send.
    """
    api.create(resource.collection(), webhook_configuration(cluster, port, resource.kind))
    try:
        yield
    finally:
        api.delete(resource.item(CONFIGURATION))


def creation_webhook(cluster: LocalCluster, api: Api, port: int) -> AbstractContextManager[None]:
    """Make the API server call the webhook of creations at a port of this machine."""
    return webhooks(cluster, api, port, MUTATING_WEBHOOKS)


@asynccontextmanager
async def operating_here(
    kubeconfig: Path, port: int, pace: Pace = QUICK, **settings: Any
) -> AsyncIterator[None]:
    """Run the operator inside of this process, which must outlive it, until the end of the context."""
    chosen = Settings(
        kubeconfig=str(kubeconfig),
        listen=HOST,
        port=0,
        tls_port=port,
        tls_names=(HOST,),
        leader_elect=False,
        **settings,
    )
    stop, machine = asyncio.Event(), Machine(end_within=lambda _seconds: None)
    operator = asyncio.create_task(process.operate(chosen, stop, pace, machine))
    yield
    stop.set()
    await operator


def webhook_urls(api: Api) -> list[str]:
    """Read the URLs that the API server calls."""
    webhooks = api.get(WEBHOOKS.item(CONFIGURATION))["webhooks"]
    return [webhook["clientConfig"]["url"] for webhook in webhooks]


def repoint(api: Api, port: int, resource: ApiResource = WEBHOOKS) -> None:
    """Make the API server call another port of this machine, as when the Service has another endpoint."""

    def point_to(configuration: Manifest) -> None:
        for webhook in configuration["webhooks"]:
            url = urlsplit(webhook["clientConfig"]["url"])
            webhook["clientConfig"]["url"] = url._replace(netloc=f"{HOST}:{port}").geturl()

    api.edit(resource.item(CONFIGURATION), point_to)


def bind(pod: Pod, node: Node, *, uid: bool = True) -> str:
    """Bind a pod as any client can, and return the text of the refusal, or an empty text."""
    metadata = {"name": pod.name, "namespace": pod.namespace} | ({"uid": pod.uid} if uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": node.name}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        pod.api.post(f"{pod.path}/binding", body)
    except RefusedError as refusal:
        return str(refusal)
    return ""


def bound_nodes(pods: list[Pod]) -> list[str]:
    """Return the names of the nodes to which pods are bound."""
    return [node for pod in pods if (node := (pod.read() or {})["spec"].get("nodeName"))]


def reviewing_operator(cluster: LocalCluster, folder: Path) -> AbstractContextManager[OperatorProcess]:
    """Run the operator with its admission webhooks, which review requests of other clients from now on."""
    return called_operator(cluster, folder, "--admission", WEBHOOKS, until_reviewed)


@contextmanager
def called_operator(
    cluster: LocalCluster,
    folder: Path,
    option: str,
    resource: ApiResource,
    until_called: Callable[[World], None],
) -> Iterator[OperatorProcess]:
    """Run the operator with the webhooks of an option, and wait until the API server calls them."""
    (port,) = free_ports(1)
    api = Api(cluster.kubeconfig)
    with (
        operating(cluster, folder, option, port=port) as running,
        webhooks(cluster, api, port, resource),
        closing(World(api)) as trial,
    ):
        until_called(trial)
        yield running


def until_reviewed(world: World) -> None:
    """Wait until the API server calls the webhook, trusts it and gets an answer."""
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


def _unverified() -> ssl.SSLContext:
    """Return a TLS context for the health probe of a program with a self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def stock_scheduler(cluster: LocalCluster, settings: Manifest) -> Iterator[Component]:
    """Run the real kube-scheduler on a cluster, with these additional fields of its configuration."""
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
