"""A cluster with RBAC, the operator as manifests/base installs it, and tenants that attack it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from attacks.operators import AS_INSTALLED, Replica, lives, until_led
from attacks.tenant import LatencyProbe, Tenant
from cluster.api import Api
from cluster.leases import forget_lease
from cluster.operator_process import COMMAND, OperatorProcess
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig
from resting import shared
from soak.__main__ import install


@pytest.fixture(scope="session")
def attacked_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start an API server with all of manifests/base. The tests act as its controllers and kubelets."""
    started = start_cluster(tmp_path_factory.mktemp("attacked"), controller_manager=False, kwok=False)
    with shared("attacked_cluster", started) as cluster:
        install(cluster)
        yield cluster


@pytest.fixture(scope="session")
def operator_identity(attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kubeconfig with the token of the operator's ServiceAccount."""
    return operator_kubeconfig(attacked_cluster, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def operator(
    attacked_cluster: LocalCluster, operator_identity: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Start the operator as the leader, which must outlive the module's tests.

    Its `port` answers /healthz and /metrics.
    """
    directory = tmp_path_factory.mktemp("operator")
    with OperatorProcess(operator_identity, directory, *AS_INSTALLED, command=COMMAND) as process:
        until_led(process)
        begun = process.pid
        yield process
        lives(process)
        assert process.running
        assert process.pid == begun, "the operator was restarted"
        assert process.stop() == 0
    forget_lease(Api(attacked_cluster.kubeconfig))


@pytest.fixture
def replica(attacked_cluster: LocalCluster, operator_identity: Path, tmp_path: Path) -> Iterator[Replica]:
    """Return a function that starts operators for one test. The first leads, the next are standbys.

    All of them must be alive at the end. A module that uses this can't use `operator`, which would lead.
    """
    with ExitStack() as running:
        running.callback(forget_lease, Api(attacked_cluster.kubeconfig))
        started: list[OperatorProcess] = []

        def start(name: str, *options: str) -> OperatorProcess:
            directory = tmp_path / name
            directory.mkdir()
            process = OperatorProcess(operator_identity, directory, *AS_INSTALLED, *options, command=COMMAND)
            started.append(running.enter_context(process))
            return process

        yield start
        for process in started:
            lives(process)


@pytest.fixture
def tenant_a(attacked_cluster: LocalCluster, tmp_path: Path) -> Iterator[Tenant]:
    """Create a tenant with a namespace, a manager and a pod author."""
    with closing(Tenant(attacked_cluster, tmp_path)) as made:
        yield made


@pytest.fixture
def tenant_b(attacked_cluster: LocalCluster, tmp_path: Path) -> Iterator[Tenant]:
    """Create a second tenant, which has rights in its own namespace only."""
    with closing(Tenant(attacked_cluster, tmp_path)) as made:
        yield made


@pytest.fixture(scope="module")
def latency_probe(
    attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LatencyProbe]:
    """Create a third tenant. Its small Reservations must still be answered."""
    with closing(Tenant(attacked_cluster, tmp_path_factory.mktemp("probe"))) as tenant:
        yield LatencyProbe(tenant)
