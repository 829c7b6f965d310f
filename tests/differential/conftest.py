from collections.abc import Iterator

import pytest

from devcluster import LocalCluster, start_cluster
from differential.profiles import profiles
from differential.upstream import FLAGS, SETTINGS
from resting import shared


@pytest.fixture(scope="session")
def scheduled_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start an API server and kube-scheduler, without kubelets and controllers."""
    started = start_cluster(
        tmp_path_factory.mktemp("differential"),
        scheduler=True,
        scheduler_settings={**SETTINGS, "profiles": profiles()},
        scheduler_flags=FLAGS,
        controller_manager=False,
        kwok=False,
    )
    with shared("scheduled_cluster", started) as cluster:
        yield cluster
