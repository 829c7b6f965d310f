"""Autoscalers keep the nodes of reservations, and add nodes for reservations and pods that need one.

It needs an API server that merges the fields of several managers in server-side applies.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.autoscaler_example import NODE_CPU, run_example
from cluster.live import Live, Node
from cluster.operator_process import OperatorProcess
from cluster.scripted_autoscaler import ScriptedAutoscaler, capacity_buffers
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import operator_kubeconfig
from tidelock.integrations.autoscalers.capacity_buffers import CAPACITY_BUFFERS, POD_TEMPLATES
from tidelock.integrations.autoscalers.node_protection import CLUSTER_AUTOSCALER, KARPENTER, PROTECTED
from tidelock.kube.client import NODES

ALL = {PROTECTED: "true", CLUSTER_AUTOSCALER: "true", KARPENTER: "true"}


@pytest.fixture(scope="module")
def kubeconfig(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kubeconfig with the rights of the component."""
    directory = tmp_path_factory.mktemp("identity")
    return operator_kubeconfig(private_cluster, directory, "components/autoscalers")


@pytest.fixture
def operator_process(kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Run an operator that works with autoscalers."""
    with OperatorProcess(kubeconfig, tmp_path, "--request-nodes") as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log
    assert "forbidden: user" not in process.log.lower()


@pytest.fixture
def world(private_cluster: LocalCluster, operator_process: OperatorProcess) -> Iterator[World]:
    """Yield a world for this test."""
    with closing(World(Api(private_cluster.kubeconfig))) as made:
        yield made


@pytest.fixture
def buffers(private_cluster: LocalCluster) -> Iterator[None]:
    """Install CapacityBuffer for this test."""
    with capacity_buffers(Api(private_cluster.kubeconfig)):
        yield


def annotations(node: Live) -> Manifest:
    found = node.read()
    assert found is not None
    known = (*ALL, "example.org/owner")
    return {key: value for key, value in found["metadata"].get("annotations", {}).items() if key in known}


def until_annotated(node: Live, expected: Manifest) -> None:
    wait_for(partial(annotations, node), until=lambda found: found == expected, what=f"{expected}")


def requests(world: World) -> list[Manifest]:
    """Return the buffers and the templates of the world's namespace, or none without the CRD."""
    found: list[Manifest] = []
    for resource in (CAPACITY_BUFFERS, POD_TEMPLATES):
        with suppress(RefusedError):
            found += world.api.get(resource.collection(world.namespace))["items"]
    return found


def until_removed(autoscaler: ScriptedAutoscaler, *names: str) -> None:
    wait_for(lambda: autoscaler.removed, until=lambda found: found == [*names], what=f"{names} to go")


def node_named(world: World, name: str) -> Node:
    return Node(world.admin, NODES, world.admin.get(NODES.item(name)))


@pytest.mark.usefixtures("buffers")
def test_a_reservation_and_a_pod_get_nodes_and_keep_them(world: World) -> None:
    with ScriptedAutoscaler(world, cpu=NODE_CPU) as autoscaler:
        example = run_example(world)
        assert autoscaler.made == [example.made, example.guest_node]
        until_annotated(example.first, ALL)
        until_annotated(node_named(world, example.made), ALL)
        wait_for(lambda: requests(world), until=lambda found: not found, what="the requests to end")

        example.guest.delete()
        until_removed(autoscaler, example.guest_node)
        example.second.delete()
        until_removed(autoscaler, example.guest_node, example.made)
        assert annotations(example.first) == ALL


def test_annotations_of_others_are_left_alone(world: World) -> None:
    world.quota(autoscaling="KeepNodes")
    node = world.node()
    node.merge({"metadata": {"annotations": {CLUSTER_AUTOSCALER: "false", "example.org/owner": "ann"}}})
    others = {CLUSTER_AUTOSCALER: "false", "example.org/owner": "ann"}
    reservation = world.active_reservation(node=node)
    until_annotated(node, {**others, PROTECTED: "true", KARPENTER: "true"})
    reservation.delete()
    until_annotated(node, others)

    same = world.node("same")
    same.merge({"metadata": {"annotations": {KARPENTER: "true"}}})
    reservation = world.active_reservation("web-1", node=same)
    until_annotated(same, ALL)
    same.merge({"metadata": {"annotations": {CLUSTER_AUTOSCALER: "false"}}})
    reservation.delete()
    until_annotated(same, {CLUSTER_AUTOSCALER: "false", KARPENTER: "true"})


def test_without_the_crd_reservations_wait_as_before_and_the_log_says_why(
    private_cluster: LocalCluster, world: World, operator_process: OperatorProcess
) -> None:
    world.quota(hard={"cpu": "8"}, autoscaling="RequestNodes")
    wait_for(lambda: "install CapacityBuffer v1beta1" in operator_process.log, what="the advice in the log")
    waiting = world.reservation("web-0", "2", pendingDeadlineSeconds=600)
    waiting.until_condition("Active", "False", "NoMatchingNode")
    assert requests(world) == []
    with capacity_buffers(Api(private_cluster.kubeconfig)):
        wait_for(
            lambda: requests(world), until=lambda found: len(found) == 2, what="a buffer and its template"
        )
    world.node(cpu="2")
    waiting.until_phase("Active")
