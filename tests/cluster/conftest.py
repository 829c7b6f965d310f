import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from cluster.api import Api
from cluster.binder_server import reviewing_operator
from cluster.crds import install_crds
from cluster.operator_process import Launch, OperatorProcess
from cluster.standing_operator import StandingOperator
from cluster.world import NAMESPACES, World
from devcluster import Cluster, LocalCluster, attached, start_cluster
from devcluster.identity import operator_kubeconfig
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter, exporting
from resting import shared


@pytest.fixture(scope="session")
def controlplane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield the cluster that tests share: the one that TIDELOCK_KUBECONFIG names, or a new one."""
    cluster = attached() or start_cluster(tmp_path_factory.mktemp("controlplane"))
    with cluster:
        yield cluster


@pytest.fixture
def namespace(controlplane: Cluster) -> Iterator[str]:
    """Yield the name of a namespace that only this test uses."""
    name, api = f"test-{secrets.token_hex(4)}", Api(controlplane.kubeconfig)
    api.create(NAMESPACES.collection(), {"metadata": {"name": name}})
    yield name
    api.delete(NAMESPACES.item(name))


@pytest.fixture(scope="session")
def standing_operator(
    controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandingOperator]:
    """Install the operator on the shared cluster. At the end it must stop with status 0."""
    install_crds(controlplane)
    directory = tmp_path_factory.mktemp("operator")
    made = StandingOperator(OperatorProcess(operator_kubeconfig(controlplane, directory), directory))
    try:
        yield made
        made.stop()
    finally:
        made.kill()


@pytest.fixture(scope="module")
def operator(standing_operator: StandingOperator) -> Iterator[OperatorProcess]:
    """Run the operator on the shared cluster, with only the rights that its manifests grant.

    It is suspended during other modules, because their tests act in its place.
    """
    with standing_operator.at_work() as process:
        yield process


@pytest.fixture
def world(controlplane: Cluster, operator: OperatorProcess) -> Iterator[World]:
    """Yield a world for nodes, pods and reservations of this test, on the operator's shared cluster."""
    with closing(World(Api(controlplane.kubeconfig))) as made:
        yield made


@pytest.fixture
def other_world(controlplane: Cluster, operator: OperatorProcess) -> Iterator[World]:
    """Yield a second world on the shared cluster, in another namespace than that of `world`."""
    with closing(World(Api(controlplane.kubeconfig))) as made:
        yield made


@pytest.fixture(scope="session")
def private_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a bare API server that tests may break, without controllers and without kubelets."""
    started = start_cluster(tmp_path_factory.mktemp("private"), controller_manager=False, kwok=False)
    with shared("private_cluster", started) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="module")
def reviewing(
    private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator with the webhooks that review every binding and allocation by another client."""
    with reviewing_operator(private_cluster, tmp_path_factory.mktemp("reviewing")) as process:
        yield process


@pytest.fixture
def private_world(private_cluster: LocalCluster) -> Iterator[World]:
    """Yield a world for nodes, pods and reservations of this test, on the private cluster."""
    with closing(World(Api(private_cluster.kubeconfig))) as made:
        yield made


@pytest.fixture(scope="session")
def private_kubeconfig(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kubeconfig with the operator's identity on the private cluster."""
    return operator_kubeconfig(private_cluster, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="session")
def standing_private_operator(
    private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandingOperator]:
    """Install the operator on the private cluster."""
    made = StandingOperator(OperatorProcess(private_kubeconfig, tmp_path_factory.mktemp("operator")))
    yield made
    made.kill()


@pytest.fixture
def private_operator(standing_private_operator: StandingOperator) -> Iterator[OperatorProcess]:
    """Run the operator on the private cluster, where only tests end pods and write the status of budgets.

    A test may kill it and start it again. It is suspended during tests that do not ask for it.
    """
    with standing_private_operator.at_work() as process:
        yield process


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """Yield an exporter of the use of nodes and pods, for Prometheus to scrape."""
    with exporting() as made:
        yield made


@pytest.fixture
def prometheus(exporter: Exporter, tmp_path: Path) -> Iterator[PrometheusServer]:
    """Run a Prometheus that scrapes the exporter."""
    with PrometheusServer(tmp_path / "prometheus", [exporter.address]) as server:
        yield server


@pytest.fixture
def launch(private_kubeconfig: Path, tmp_path: Path) -> Iterator[Launch]:
    """Yield a function that starts the operator on the private cluster, one at a time, with these options."""
    with ExitStack() as running:
        yield lambda *options: running.enter_context(OperatorProcess(private_kubeconfig, tmp_path, *options))
