from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.crds import install_crds
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig


@pytest.fixture(scope="session")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """An API server alone: whatever happens, the plan or the operator has done it."""
    directory = tmp_path_factory.mktemp("faults")
    with start_cluster(directory, controller_manager=False, kwok=False) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="session")
def operator_identity(bare_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the operator's rights and no others."""
    return operator_kubeconfig(bare_cluster, tmp_path_factory.mktemp("identity"))
