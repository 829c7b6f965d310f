"""The API server in memory over HTTP, with Tidelock's own client."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import Connection, Credentials
from tidelock.kube.errors import Conflict, NotFound, ServerError, Unreachable
from tidelock.kube.rest_config import RestConfig
from world.api.local import LocalClient
from world.api.server import Request, Response
from world.api.serving import Delivery, Faults, Site, serve
from world.api.watches import Watch

HOST = "127.0.0.1"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Planned(Faults):
    """Faults that a test sets."""

    early: Response | None = None
    lose = False
    doubled = False

    async def before(self, request: Request) -> Response | None:
        del request
        return self.early

    async def after(self, request: Request, response: Response) -> Response | None:
        del request
        return None if self.lose else response

    def event(self, watch: Watch, line: bytes) -> Iterable[Delivery]:
        del watch
        return [Delivery(0.0, (line,) * (2 if self.doubled else 1))]


@pytest.fixture
def faults() -> Planned:
    return Planned()


@pytest.fixture
async def client(api: LocalClient, faults: Planned) -> AsyncIterator[KubeClient]:
    """Yield a client of a server on a real socket."""
    site = Site(api.server, faults=faults)
    listener = await serve(site, HOST, 0)
    port = listener.sockets[0].getsockname()[1]
    connection = Connection(server=f"http://{HOST}:{port}", credentials=Credentials(RestConfig))
    async with KubeClient(connection, user_agent="test/1", timeout_seconds=5) as made:
        yield made
    for each in tuple(site.connections):
        each.abort()
    listener.close()
    await asyncio.sleep(0)


async def test_a_client_creates_reads_and_deletes(client: KubeClient) -> None:
    made = msgspec.json.decode(await client.create(PODS.collection("default"), POD))
    path = PODS.item("a", "default")
    assert msgspec.json.decode(await client.get(path)) == made
    with pytest.raises(Conflict):
        await client.delete(path, uid="other")
    await client.delete(path, uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(path)


async def test_the_date_is_that_of_the_servers_clock(client: KubeClient, api: LocalClient) -> None:
    assert await client.time_of_day() == api.now


async def watched(client: KubeClient, count: int) -> list[Any]:
    """Return the names of the first events of a watch during which a pod is created."""
    lines: list[bytes] = []
    async with client.stream(PODS.collection("default"), {"watch": "true"}, silence_seconds=5) as stream:
        await client.create(PODS.collection("default"), POD)
        while len(lines) < count:
            lines += (await stream.read()).splitlines()
    return [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in lines]


async def test_a_watch_gets_events_as_they_happen(client: KubeClient) -> None:
    assert await watched(client, 1) == ["a"]


async def test_an_event_can_be_doubled(client: KubeClient, faults: Planned) -> None:
    faults.doubled = True
    assert await watched(client, 2) == ["a", "a"]


async def test_a_request_can_be_refused_before_it_is_handled(client: KubeClient, faults: Planned) -> None:
    faults.early = Response(500, b"{}")
    with pytest.raises(ServerError):
        await client.create(PODS.collection("default"), POD)
    faults.early = None
    with pytest.raises(NotFound):
        await client.get(PODS.item("a", "default"))


async def test_a_response_can_be_lost_after_it_was_stored(client: KubeClient, faults: Planned) -> None:
    faults.lose = True
    with pytest.raises(Unreachable) as lost:
        await client.create(PODS.collection("default"), POD)
    assert lost.value.outcome_unknown
    faults.lose = False
    assert await client.get(PODS.item("a", "default"))
