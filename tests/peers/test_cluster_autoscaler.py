"""Cluster Autoscaler keeps the nodes of reservations.

The version that the Go proxy offers does not read CapacityBuffers yet, so requests for nodes are not tried.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cluster.api import Api
from cluster.crds import install_crds
from cluster.live import Live, Node
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Cluster, start_cluster, wait_for
from devcluster.identity import operator_kubeconfig
from peers.cluster_autoscaler import cluster_autoscaler
from tidelock.integrations.autoscalers.node_protection import CLUSTER_AUTOSCALER, PROTECTED
from tidelock.kube.client import NODES

_MINUTES = 180.0


@pytest.fixture
def controlplane(tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster in which no other autoscaler acts."""
    with start_cluster(tmp_path / "controlplane") as cluster:
        yield cluster


@pytest.fixture
def world(controlplane: Cluster, tmp_path: Path) -> Iterator[World]:
    """Run an operator that keeps nodes, and yield a world for it."""
    install_crds(controlplane)
    with (
        OperatorProcess(operator_kubeconfig(controlplane, tmp_path), tmp_path, "--keep-nodes") as process,
        closing(World(Api(controlplane.kubeconfig))) as made,
    ):
        yield made
        assert process.stop() == 0
    assert "Traceback" not in process.log


def names(world: World) -> set[str]:
    """Return the names of the world's nodes."""
    label, value = next(iter(world.selector.items()))
    found = world.admin.get(f"{NODES.collection()}?labelSelector={label}={value}")["items"]
    return {each["metadata"]["name"] for each in found}


def until_nodes(world: World, expected: set[str]) -> None:
    wait_for(
        lambda: names(world), until=lambda found: found == expected, what=f"{expected}", timeout=_MINUTES
    )


def until_annotated(node: Live, key: str) -> None:
    node.until(lambda found: found["metadata"]["annotations"].get(key) == "true", f"have {key}")


def test_a_node_stays_while_it_holds_a_reservation_unless_its_own_annotation_says_no(
    controlplane: Cluster, world: World, tmp_path: Path
) -> None:
    world.quota(autoscaling="KeepNodes")
    with cluster_autoscaler(controlplane, world, tmp_path / "peer"):
        pods, nodes = [], []
        for name in ("first", "second", "third"):  # more than half of a node each
            pods.append(world.pod(name, "1500m"))
            bound = pods[-1].until_bound()
            nodes.append(Node(world.admin, NODES, world.admin.get(NODES.item(bound))))
        kept, idle, disabled = nodes
        disabled.merge({"metadata": {"annotations": {CLUSTER_AUTOSCALER: "false"}}})
        reservation = world.active_reservation("web-0", "250m", kept)
        until_annotated(kept, CLUSTER_AUTOSCALER)
        lost = world.active_reservation("web-1", "250m", disabled)
        until_annotated(disabled, PROTECTED)
        assert names(world) == {kept.name, idle.name, disabled.name}

        # All three look idle now.
        for pod in pods:
            pod.delete()
        until_nodes(world, {kept.name})
        assert reservation.status()["phase"] == "Active"
        lost.until_phase("Lost")

        reservation.delete()
        until_nodes(world, set())
