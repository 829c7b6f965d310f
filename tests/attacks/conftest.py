"""A cluster with RBAC, the operator as manifests/base installs it, and tenants that attack it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from attacks.operators import AS_INSTALLED, Replica, lives, until_led
from attacks.tenant import Canary, Tenant
from cluster.api import Api
from cluster.door import operating, until_reviewed, webhooks
from cluster.leases import forget_lease
from cluster.operator_process import OperatorProcess
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig
from devcluster.loopback import free_ports
from soak.__main__ import install


@pytest.fixture(scope="session")
def attacked_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """An API server with all of manifests/base: tests play controllers and kubelets."""
    with start_cluster(tmp_path_factory.mktemp("attacked"), controller_manager=False, kwok=False) as cluster:
        install(cluster)
        yield cluster


@pytest.fixture(scope="session")
def operator_identity(attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the token of the operator's ServiceAccount."""
    return operator_kubeconfig(attacked_cluster, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def operator(
    attacked_cluster: LocalCluster, operator_identity: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator, which leads: `port` answers /healthz and /metrics. It must outlive the module's tests."""
    with OperatorProcess(operator_identity, tmp_path_factory.mktemp("operator"), *AS_INSTALLED) as process:
        until_led(process)
        begun = process.pid
        yield process
        lives(process)
        assert process.running
        assert process.pid == begun, "the operator was restarted"
        assert process.stop() == 0
    forget_lease(Api(attacked_cluster.kubeconfig))


@pytest.fixture(scope="module")
def reviewing_operator(
    attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator with extender and webhook, which the API server asks about bindings of others."""
    (port,) = free_ports(1)
    api = Api(attacked_cluster.kubeconfig)
    folder = tmp_path_factory.mktemp("reviewing")
    with (
        operating(attacked_cluster, folder, "--admission", "--extender", port=port) as process,
        webhooks(attacked_cluster, api, port),
    ):
        tenant = Tenant(attacked_cluster, folder)
        tenant.api = tenant.admin  # it names the node of a pod that it tries
        with closing(tenant):
            until_reviewed(tenant)
        yield process
        lives(process)


@pytest.fixture
def replica(attacked_cluster: LocalCluster, operator_identity: Path, tmp_path: Path) -> Iterator[Replica]:
    """Start operators of the test's own: the first leads, the next stands by. At the end all must live.

    `operator` must not be used in the same module: it would lead.
    """
    with ExitStack() as running:
        running.callback(forget_lease, Api(attacked_cluster.kubeconfig))
        started: list[OperatorProcess] = []

        def start(name: str, *options: str) -> OperatorProcess:
            directory = tmp_path / name
            directory.mkdir()
            process = OperatorProcess(operator_identity, directory, *AS_INSTALLED, *options)
            started.append(running.enter_context(process))
            return process

        yield start
        for process in started:
            lives(process)


@pytest.fixture
def tenant_a(attacked_cluster: LocalCluster, tmp_path: Path) -> Iterator[Tenant]:
    """A tenant: namespace, manager, pod author."""
    with closing(Tenant(attacked_cluster, tmp_path)) as made:
        yield made


@pytest.fixture
def tenant_b(attacked_cluster: LocalCluster, tmp_path: Path) -> Iterator[Tenant]:
    """Another tenant, with rights in its own namespace alone."""
    with closing(Tenant(attacked_cluster, tmp_path)) as made:
        yield made


@pytest.fixture(scope="module")
def canary(attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    """A third tenant, whose small Reservations must go on being answered."""
    with closing(Tenant(attacked_cluster, tmp_path_factory.mktemp("canary"))) as tenant:
        yield Canary(tenant)
