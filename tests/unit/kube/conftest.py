from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="tidelock-test", timeout_seconds=5.0) as opened:
        yield opened
