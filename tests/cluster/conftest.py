import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest

from devcluster import Cluster, DevClusterError, attached, start_cluster
from devcluster.binaries import find_binaries


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test: a test's time-out is shorter than a cold build."""
    wanted = any("controlplane" in getattr(item, "fixturenames", ()) for item in session.items)
    if not wanted or session.config.option.collectonly or attached() is not None:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled(), suppress(DevClusterError):  # the fixture tells the error
        find_binaries()


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
