import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from cluster.api import Api
from cluster.crds import install_crds
from cluster.operator_process import Launch, OperatorProcess
from cluster.world import World
from devcluster import Cluster, LocalCluster, attached, start_cluster
from devcluster.identity import operator_kubeconfig
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter, exporting


@pytest.fixture(scope="session")
def controlplane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster that tests share: the one that TIDELOCK_KUBECONFIG names, else one of their own."""
    cluster = attached() or start_cluster(tmp_path_factory.mktemp("controlplane"))
    with cluster:
        yield cluster


@pytest.fixture
def namespace(controlplane: Cluster) -> Iterator[str]:
    """The name of a namespace of the test's own."""
    name = f"test-{secrets.token_hex(4)}"
    controlplane.kubectl("create", "namespace", name)
    yield name
    controlplane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def operator(controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """The operator on the shared cluster, with the rights of its manifests and no others.

    It runs for one module's tests at a time, as tests elsewhere play its part by hand. At the end it must
    stop as asked, and nothing must have gone wrong inside of it.
    """
    install_crds(controlplane)
    directory = tmp_path_factory.mktemp("operator")
    with OperatorProcess(operator_kubeconfig(controlplane, directory), directory) as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def world(controlplane: Cluster, operator: OperatorProcess) -> Iterator[World]:
    """Nodes, pods and locks of the test's own, on the shared cluster where the operator runs."""
    with closing(World(Api(controlplane.kubeconfig))) as made:
        yield made


@pytest.fixture
def other_world(controlplane: Cluster, operator: OperatorProcess) -> Iterator[World]:
    """As `world`, in another namespace."""
    with closing(World(Api(controlplane.kubeconfig))) as made:
        yield made


@pytest.fixture(scope="session")
def private_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A bare API server that tests may break: no controllers, and nothing that plays the kubelets."""
    with start_cluster(tmp_path_factory.mktemp("private"), controller_manager=False, kwok=False) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture
def private_world(private_cluster: LocalCluster) -> Iterator[World]:
    """Nodes, pods and locks of the test's own, on the private cluster."""
    with closing(World(Api(private_cluster.kubeconfig))) as made:
        yield made


@pytest.fixture(scope="session")
def private_kubeconfig(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's identity on the private cluster."""
    return operator_kubeconfig(private_cluster, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def private_operator(
    private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator on the private cluster; the tests alone end pods and write the status of budgets."""
    with OperatorProcess(private_kubeconfig, tmp_path_factory.mktemp("operator")) as running:
        yield running
    assert "Traceback" not in running.log


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """The use of nodes and pods, for Prometheus to scrape."""
    with exporting() as made:
        yield made


@pytest.fixture
def prometheus(exporter: Exporter, tmp_path: Path) -> Iterator[PrometheusServer]:
    """A Prometheus that scrapes the exporter."""
    with PrometheusServer(tmp_path / "prometheus", [exporter.address]) as server:
        yield server


@pytest.fixture
def launch(private_kubeconfig: Path, tmp_path: Path) -> Iterator[Launch]:
    """Start the operator on the private cluster with these options; one at a time."""
    with ExitStack() as running:
        yield lambda *options: running.enter_context(OperatorProcess(private_kubeconfig, tmp_path, *options))
