from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from devcluster import LocalCluster, start_cluster
from devcluster.binaries import wanted_version
from devcluster.build import NEWEST
from devcluster.identity import operator_kubeconfig
from kubelet.stage import Stage
from resting import shared

# A kubelet renews its lease every 10 s, and a stall of the machine for some seconds must not matter.
_SOON = ("--node-monitor-period=1s", "--node-monitor-grace-period=18s")


@pytest.fixture(scope="session")
def kubelet_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a control plane with kube-scheduler, to which tests add nodes with real kubelets."""
    if wanted_version() != NEWEST:
        pytest.skip("a kubelet must not be newer than its API server")
    started = start_cluster(
        tmp_path_factory.mktemp("kubelets"), scheduler=True, controller_manager_flags=_SOON, kwok=False
    )
    with shared("kubelet_cluster", started) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="module")
def kubelet_operator(
    kubelet_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator, with only the rights that its manifests grant."""
    directory = tmp_path_factory.mktemp("operator")
    identity = operator_kubeconfig(kubelet_cluster, directory)
    with OperatorProcess(identity, directory, "--move-after-seconds=600") as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def stage(kubelet_cluster: LocalCluster, kubelet_operator: OperatorProcess) -> Iterator[Stage]:
    """Yield a stage for nodes with kubelets, pods and reservations of this test."""
    with closing(Stage(kubelet_cluster)) as made:
        yield made
