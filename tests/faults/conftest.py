import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from cluster.crds import install_crds
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig
from faults.histories import HistoryBuilder
from resting import shared

# Runs at once, as each waits for half of its time.
_PROCESSES = 2 * (os.cpu_count() or 1)


@pytest.fixture(scope="session")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start an API server without controllers, so that every change comes from the plan or the operator."""
    directory = tmp_path_factory.mktemp("faults")
    with shared("bare_cluster", start_cluster(directory, controller_manager=False, kwok=False)) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="session")
def operator_identity(bare_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kubeconfig with exactly the operator's rights."""
    return operator_kubeconfig(bare_cluster, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Start processes to run in, as each run has an event loop with a time of its own."""
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def history() -> HistoryBuilder:
    """Return a history that begins with a node of four cores."""
    made = HistoryBuilder()
    made.node()
    return made
