"""Karpenter keeps the nodes of reservations, and adds nodes for reservations and pods that need one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cluster.api import Api, Manifest
from cluster.autoscaler_example import permit, reservation, run_example
from cluster.crds import install_crds
from cluster.live import Live, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Cluster, start_cluster, wait_for
from devcluster.component import Component
from devcluster.identity import operator_kubeconfig
from peers.added_nodes import node_names, until_nodes
from peers.karpenter import karpenter, node_pool
from tidelock.integrations.autoscalers.capacity_buffers import CAPACITY_BUFFERS, POD_TEMPLATES

CPU = "1500m"


@pytest.fixture(scope="module")
def controlplane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster for this module, in which no other autoscaler acts."""
    with start_cluster(tmp_path_factory.mktemp("controlplane")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def peer(controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Component]:
    """Run Karpenter for the tests of this module."""
    with karpenter(controlplane, tmp_path_factory.mktemp("karpenter")) as running:
        yield running


@pytest.fixture
def world(controlplane: Cluster, peer: Component, tmp_path: Path) -> Iterator[World]:
    """Run an operator that works with autoscalers, and yield a world for it."""
    install_crds(controlplane)
    kubeconfig = operator_kubeconfig(controlplane, tmp_path, "components/autoscalers")
    with (
        OperatorProcess(kubeconfig, tmp_path, "--request-nodes") as process,
        closing(World(Api(controlplane.kubeconfig))) as made,
    ):
        yield made
        assert process.stop() == 0
    assert "Traceback" not in process.log


def buffers(world: World) -> list[Manifest]:
    found: list[Manifest] = world.api.get(CAPACITY_BUFFERS.collection(world.namespace))["items"]
    return found


def until_buffers(world: World, count: int) -> None:
    wait_for(lambda: buffers(world), until=lambda found: len(found) == count, what=f"{count} buffers")


def test_the_example_of_the_page(world: World) -> None:
    with node_pool(world):
        example = run_example(world)
        until_buffers(world, 0)
        # Two added nodes look idle now, and one of them has a reservation.
        example.guest.delete()
        until_nodes(world, {example.first.name, example.made})
        assert example.second.status()["nodeName"] == example.made
        example.second.delete()
        until_nodes(world, {example.first.name})


def test_requests_wait_for_a_karpenter_that_is_away_and_its_node_goes_to_the_one_that_asked(
    world: World, peer: Component
) -> None:
    permit(world)
    peer.stop()
    hurried = reservation(world, "web-0")
    hurried["spec"]["pendingDeadlineSeconds"] = 5
    impatient = world.store(hurried)
    until_buffers(world, 1)
    impatient.until_condition("Active", "False", "DeadlineExceeded")
    until_buffers(world, 0)

    # A pod without a reservation waits for the same node, and for longer.
    guest = world.pod("guest", CPU)
    guest.until_refused("nodes are available")
    patient = world.store(reservation(world))
    until_buffers(world, 1)
    peer.start()
    with node_pool(world, cpu="2"):
        made = patient.until_phase("Active")["nodeName"]
        assert node_names(world) == {made}
        guest.until_refused("Insufficient cpu beside reservations")


def test_without_the_exclusion_karpenter_counts_reserved_capacity_as_a_buffer(world: World) -> None:
    """This is why the template of a request names the nodes whose capacity is reserved."""
    world.node("first", cpu="2")
    world.active_reservation("web-0", CPU)
    spec = {"containers": world.pod_spec(CPU)["containers"], "nodeSelector": world.selector}
    template = {"metadata": {"name": "plain"}, "template": {"spec": spec}}
    world.api.create(POD_TEMPLATES.collection(world.namespace), template)
    manifest = {
        "apiVersion": CAPACITY_BUFFERS.api_version,
        "kind": CAPACITY_BUFFERS.kind,
        "metadata": {"name": "plain"},
        "spec": {"podTemplateRef": {"name": "plain"}, "replicas": 1},
    }
    path = CAPACITY_BUFFERS.collection(world.namespace)
    with node_pool(world):
        buffer = Live(world.api, CAPACITY_BUFFERS, world.api.create(path, manifest))
        buffer.until(
            lambda found: (
                condition(found.get("status", {}), "Provisioning").get("reason") == "FitsExistingCapacity"
            ),
            "fit on the reserved node",
        )
        assert len(node_names(world)) == 1
        buffer.delete()
