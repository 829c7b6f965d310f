"""Whoever else binds pods: locked room is not theirs to give, and what they take all the same is told."""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from cluster.api import Manifest, RefusedError
from cluster.door import (
    SECRET,
    STOCK,
    binders_kubeconfig,
    configuration,
    stock_scheduler,
    until_reviewed,
    webhooks,
)
from cluster.live import Node, Pod
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE
from devcluster.loopback import HOST, free_ports

NAMES = f"--tls-names={HOST},tidelock.{SYSTEM_NAMESPACE}.svc"
BY_STOCK: Manifest = {"schedulerName": STOCK}


@contextmanager
def operating(cluster: LocalCluster, folder: Path, option: str, *, port: int) -> Iterator[OperatorProcess]:
    """Run the operator with its door open."""
    kubeconfig = binders_kubeconfig(cluster, folder)
    with OperatorProcess(kubeconfig, folder, option, f"--tls-port={port}", NAMES) as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def port() -> int:
    (free,) = free_ports(1)
    return free


@pytest.fixture
def reviewing(
    private_cluster: LocalCluster, private_world: World, port: int, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """The operator, which is asked about every binding that is not its own."""
    with (
        operating(private_cluster, tmp_path, "--admission", port=port) as process,
        webhooks(private_cluster, private_world.api, port),
    ):
        until_reviewed(private_world)
        yield process


@pytest.fixture
def authority(private_world: World, extending: OperatorProcess, tmp_path: Path) -> Path:
    """The certificate that kube-scheduler is to trust, as an installation reads it out of the Secret."""
    file = tmp_path / "ca.crt"
    data = wait_for(lambda: _secret(private_world), what="the Secret with the certificate", timeout=30)
    file.write_bytes(base64.b64decode(data["ca.crt"]))
    return file


def _secret(world: World) -> dict[str, str]:
    try:
        data: dict[str, str] = world.api.get(SECRET)["data"]
    except RefusedError:
        return {}
    return data


@pytest.fixture
def extending(private_cluster: LocalCluster, port: int, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator, which other schedulers may ask."""
    with operating(private_cluster, tmp_path, "--extender", port=port) as process:
        yield process


def bind(pod: Pod, node: Node, *, uid: bool = True) -> str:
    """Bind a pod as any client may; gives what was said against it."""
    metadata = {"name": pod.name, "namespace": pod.namespace} | ({"uid": pod.uid} if uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": node.name}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        pod.api.post(f"{pod.path}/binding", body)
    except RefusedError as refusal:
        return str(refusal)
    return ""


def on(pods: list[Pod]) -> list[str]:
    """Names of the nodes to which pods are bound."""
    return [node for pod in pods if (node := (pod.read() or {})["spec"].get("nodeName"))]


@pytest.mark.parametrize("uid", [True, False])
def test_a_binding_into_locked_room_is_refused_with_the_numbers(
    reviewing: OperatorProcess, private_world: World, uid: bool
) -> None:
    node = private_world.node(cpu="4")
    private_world.active_lock(cpu="3", node=node)
    stranger, small = (
        private_world.pod("stranger", "2", **BY_STOCK),
        private_world.pod("small", "1", **BY_STOCK),
    )
    refusal = bind(stranger, node, uid=uid)
    assert f"cpu 2 needed, 1 free, 3 locked by {private_world.namespace}/web-0" in refusal
    assert bind(small, node, uid=uid) == ""
    assert small.until_bound() == node.name
    assert on([stranger]) == []


def test_a_pod_that_names_its_node_is_refused_too(reviewing: OperatorProcess, private_world: World) -> None:
    node = private_world.node(cpu="4")
    private_world.active_lock(cpu="3", node=node)
    with pytest.raises(RefusedError, match="3 locked by"):
        private_world.bound_pod(node, "large", "2")
    assert private_world.bound_pod(node, "small", "1").until_bound() == node.name
    assert private_world.taken_cpu(node) == Decimal(4)


def test_an_owner_that_another_binds_consumes_its_lock(
    reviewing: OperatorProcess, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    lock = private_world.active_lock(cpu="4", node=node)
    owner = private_world.pod(cpu="4", **BY_STOCK)
    assert bind(owner, node) == ""
    lock.until_gone()
    assert private_world.taken_cpu(node) == Decimal(4)


def test_bindings_and_locks_that_race_for_a_node_never_overcommit_it(
    reviewing: OperatorProcess, private_world: World
) -> None:
    node = private_world.node(cpu="8")
    pods = [private_world.pod(f"pod-{i}", **BY_STOCK) for i in range(16)]

    def take(number: int) -> bool:
        if number % 2:
            private_world.lock(f"lock-{number}", node=node, pendingDeadlineSeconds=3600)
            return False
        return not bind(pods[number // 2], node, uid=bool(number % 4))

    with ThreadPoolExecutor(16) as clients:
        bound = sum(clients.map(take, range(32)))
    assert bound == len(on(pods))
    wait_for(
        lambda: private_world.taken_cpu(node),
        until=lambda taken: taken == Decimal(8),
        what="all room to be given",
        timeout=30,
    )
    assert "Violated" not in reviewing.log
    assert 'tidelock_reservation_violations_total{policy="Keep"}' not in reviewing.metrics()


def test_kube_scheduler_alone_can_not_take_locked_room(
    reviewing: OperatorProcess, private_cluster: LocalCluster, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    private_world.active_lock(cpu="3", node=node)
    with stock_scheduler(private_cluster, {}):
        pods = [private_world.pod(f"stock-{i}", **BY_STOCK) for i in range(3)]
        wait_for(lambda: on(pods), what="one to be bound", timeout=60)
        refused = 'tidelock_admission_reviews_total{verdict="refused"}'
        wait_for(lambda: reviewing.metrics().get(refused, 0) >= 3, what="others to be refused", timeout=60)
        assert on(pods) == [node.name]
        owner = private_world.pod(cpu="3", **BY_STOCK)
        assert owner.until_bound(60) == node.name
    assert private_world.taken_cpu(node) == Decimal(4)


@pytest.mark.parametrize("capable", [True, False])
def test_kube_scheduler_with_the_extender_honours_locks(
    extending: OperatorProcess,
    private_cluster: LocalCluster,
    private_world: World,
    authority: Path,
    port: int,
    capable: bool,
) -> None:
    locked, other = private_world.node("a", cpu="4"), private_world.node("b", cpu="8")
    lock = private_world.active_lock(cpu="3", node=locked)
    settings = configuration(port, authority, nodeCacheCapable=capable, ignorable=False)
    with stock_scheduler(private_cluster, settings):
        pods = [private_world.pod(f"stock-{i}", **BY_STOCK) for i in range(12)]
        bound = wait_for(
            lambda: on(pods), until=lambda nodes: len(nodes) == 9, what="nine to be bound", timeout=90
        )
        assert (bound.count(locked.name), bound.count(other.name)) == (1, 8)
        waiting = next(pod for pod in pods if not on([pod]))
        waiting.until_refused("Insufficient cpu beside reservations")
        assert lock.status()["phase"] == "Active"

        owner = private_world.pod(cpu="3", **BY_STOCK)
        assert owner.until_bound(60) == locked.name
        lock.until_gone()
    assert private_world.taken_cpu(locked) == Decimal(4)
    assert private_world.taken_cpu(other) == Decimal(8)


def test_kube_scheduler_sends_owners_to_their_locks(
    extending: OperatorProcess,
    private_cluster: LocalCluster,
    private_world: World,
    authority: Path,
    port: int,
) -> None:
    small, *_ = (private_world.node(name, cpu=cpu) for name, cpu in (("a", "2"), ("b", "64"), ("c", "64")))
    lock = private_world.active_lock(cpu="1", node=small)
    with stock_scheduler(private_cluster, configuration(port, authority)):
        assert private_world.pod(cpu="1", **BY_STOCK).until_bound(60) == small.name
        lock.until_gone()


def test_what_takes_locked_room_all_the_same_is_told_by_name(
    reviewing: OperatorProcess, private_cluster: LocalCluster, private_world: World
) -> None:
    node = private_world.node(cpu="4")
    lock = private_world.active_lock(cpu="3", node=node)
    container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "2"}}}
    static = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": private_world.namespace},
        "spec": {"nodeName": node.name, "containers": [container]},
    }
    kubelet = ("--as=system:node:a", "--as-group=system:nodes", "--as-group=system:masters")
    private_cluster.kubectl("create", *kubelet, "-f", "-", input=yaml.safe_dump(static))

    text = f"pod {private_world.namespace}/static took cpu 1 locked on {node.name}"
    assert lock.until_condition("Violated", "True", "RoomTaken")["message"] == text
    assert lock.until_condition("Active", "False", "Violated")["message"] == text
    assert lock.status()["resources"] == {"cpu": "2"}
    wait_for(lambda: "Violated" in private_world.event_reasons(lock), what="the event", timeout=30)
    assert reviewing.metrics()['tidelock_reservation_violations_total{policy="Keep"}'] == 1

    private_world.api.delete(f"/api/v1/namespaces/{private_world.namespace}/pods/static")
    lock.until_condition("Active", "True", "Restored")
    assert lock.status()["resources"] == {"cpu": "3"}
