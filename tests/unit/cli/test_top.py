"""The state of the followed cluster in top, and its messages about a failing connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from builders import Json, node_json, pod_json
from tidelock.cli import top
from tidelock.cli.session import Session, explained
from tidelock.cli.top import TopCluster, following
from tidelock.clock import SystemClock
from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import Forbidden
from unit.cli.scenes import active_json
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import Answer, ScriptedServer, answers, event, fails, page


@dataclass
class World:
    """Answers by path without end: lists, then watches that send the events of a queue."""

    lists: dict[str, list[Json]]
    broken: dict[str, Answer] = field(default_factory=dict)
    events: dict[str, asyncio.Queue[bytes | None]] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in self.broken:
            return await self.broken[path](request)
        if "watch" not in request.query:
            return await page(*self.lists.get(path, ()), version=5)(request)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        while (line := await self.watch(path).get()) is not None:
            await response.write(line)
        return response

    def watch(self, path: str) -> asyncio.Queue[bytes | None]:
        return self.events.setdefault(path, asyncio.Queue())

    def send(self, path: str, kind: str, item: Json, version: int) -> None:
        item["metadata"]["resourceVersion"] = str(version)
        self.watch(path).put_nowait(event(kind, item))


@pytest.fixture
def world() -> World:
    resident = pod_json("resident", requests={"cpu": "2"}, node_name="node-a")
    return World(
        {
            NODES.collection(): [node_json("node-a")],
            PODS.collection(): [resident],
            RESERVATIONS.collection(): [active_json("batch")],
        }
    )


@pytest.fixture
async def session(
    server: ScriptedServer, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Session]:
    monkeypatch.setattr(top, "_CHECK_SECONDS", 0.05)
    server.replays(*[world.answer] * 100_000)
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="test", timeout_seconds=20.0) as client:
        yield Session(client, "shop")


@pytest.fixture
async def cluster(session: Session) -> AsyncIterator[TopCluster]:
    async with following(session, SystemClock()) as cluster:
        await until(lambda: cluster.world is not None)
        yield cluster


async def until(accept: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not accept():  # noqa: ASYNC110 -- the screen polls, too
            await asyncio.sleep(0.01)


def used(cluster: TopCluster) -> dict[str, int]:
    """Return the requested millicores by node, for nodes with any."""
    assert cluster.world is not None
    return {name: amounts["cpu"] for name, amounts in cluster.world.used.items() if amounts.get("cpu")}


async def test_requests_follow_added_changed_and_deleted_pods(world: World, cluster: TopCluster) -> None:
    assert used(cluster) == {"node-a": 2000}
    second = pod_json("second", requests={"cpu": "500m"}, node_name="node-b")

    world.send(PODS.collection(), "ADDED", second, 6)
    await until(lambda: used(cluster) == {"node-a": 2000, "node-b": 500})
    assert cluster.changed()
    assert not cluster.changed()

    larger = pod_json("second", requests={"cpu": "700m"}, node_name="node-b")
    world.send(PODS.collection(), "MODIFIED", larger, 7)
    await until(lambda: used(cluster) == {"node-a": 2000, "node-b": 700})

    world.send(PODS.collection(), "DELETED", larger, 8)
    await until(lambda: used(cluster) == {"node-a": 2000})


async def test_only_bound_unfinished_pods_are_requested(server: ScriptedServer, cluster: TopCluster) -> None:
    selectors = {each.query["fieldSelector"] for each in server.asked if each.path == PODS.collection()}
    assert selectors == {"spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}


async def test_a_failing_api_server_is_reported_until_it_answers(world: World, cluster: TopCluster) -> None:
    await until(lambda: cluster.trouble == "")
    world.broken["/version"] = fails(503, "ServiceUnavailable", "etcd is away")
    await until(lambda: cluster.trouble.endswith("s ago; trying again: etcd is away."))
    assert cluster.trouble.startswith("This is the cluster of ")

    del world.broken["/version"]
    await until(lambda: cluster.trouble == "")


async def test_a_silent_api_server_is_reported(world: World, cluster: TopCluster) -> None:
    async def silence(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError

    world.broken["/version"] = silence
    await until(lambda: "no answer from http://127.0.0.1:" in cluster.trouble)


async def test_a_withdrawn_right_is_reported(world: World, cluster: TopCluster) -> None:
    path = NODES.collection()
    world.broken[path] = fails(403, "Forbidden", "may not watch nodes")
    world.watch(path).put_nowait(None)  # the stream ends
    await until(lambda: "you lack the right: may not watch nodes" in cluster.trouble)
    assert cluster.world is not None  # The last state stays in view.


async def test_a_missing_right_is_reported_before_the_screen_opens(world: World, session: Session) -> None:
    world.broken[PODS.collection()] = fails(403, "Forbidden", "may not list pods")
    with pytest.raises(Forbidden) as told:
        await top._top(session, everywhere=False)
    assert "you lack the right: may not list pods" in explained(told.value, "")


async def test_the_time_follows_the_clock_of_the_api_server(world: World, cluster: TopCluster) -> None:
    ours = SystemClock().now()
    assert abs(cluster.now() - ours) < 60
    ahead = {"Date": "Fri, 15 Jan 2100 08:00:00 GMT"}
    world.broken["/version"] = answers(json.loads("{}"), 200, ahead)
    await until(lambda: cluster.now() - ours > 3600)
