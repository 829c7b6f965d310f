from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.api import Api
from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig

# Without kubelets nodes have no heartbeats, and the tests play the kubelets of pods.
_NO_HEARTBEATS = ("--controllers=*,-node-lifecycle-controller",)


@pytest.fixture(scope="module")
def peer_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a control plane with the controllers of Kubernetes, for one peer."""
    with start_cluster(
        tmp_path_factory.mktemp("peers"), controller_manager_flags=_NO_HEARTBEATS, kwok=False
    ) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="module")
def peer_operator(
    peer_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator with the rights and the options of the component for ProvisioningRequests."""
    directory = tmp_path_factory.mktemp("operator")
    kubeconfig = operator_kubeconfig(peer_cluster, directory, "components/provisioning-requests")
    with OperatorProcess(kubeconfig, directory, "--provisioning-requests") as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def world(peer_cluster: LocalCluster, peer_operator: OperatorProcess) -> Iterator[World]:
    """Yield a world for nodes, pods and reservations of this test."""
    with closing(World(Api(peer_cluster.kubeconfig))) as made:
        yield made
