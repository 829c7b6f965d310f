import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from aiohttp import web

from tidelock.kube.client import PODS, KubeClient, PatchKind
from tidelock.kube.config import Connection, Credentials, load_connection
from tidelock.kube.errors import (
    Conflict,
    NotFound,
    NotLeading,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tidelock.kube.rest_config import RestConfig
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer, answers, cut_page, fails, watch

PATH = PODS.item("web-0", "shop")


class Labels(msgspec.Struct):
    app: str


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="tidelock-test", timeout_seconds=5.0) as opened:
        yield opened


async def test_a_get_returns_the_body_unchanged(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("the body"))

    assert await client.get(PATH, {"a": "x y&z"}) == b"the body"
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.query) == ("GET", PATH, {"a": "x y&z"})
    assert asked.headers["User-Agent"] == "tidelock-test"
    assert asked.headers["Accept"] == "application/json"
    assert "Content-Type" not in asked.headers


async def test_a_name_is_quoted_once(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("{}"))

    await client.get(PODS.item("a:b%/ä", "shop"))
    assert server.asked[0].path == "/api/v1/namespaces/shop/pods/a:b%/ä"


@pytest.mark.parametrize("body", [b'{"app":"web"}', {"app": "web"}, Labels("web")])
async def test_a_body_is_sent_as_json(client: KubeClient, server: ScriptedServer, body: object) -> None:
    server.replays(answers("{}", status=201))

    await client.create(PODS.collection("shop"), body)
    (asked,) = server.asked
    assert asked.method == "POST"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.body == b'{"app":"web"}'


async def test_a_body_may_have_subclasses_of_str_and_numpy_scalars(
    client: KubeClient, server: ScriptedServer
) -> None:
    """Regression: a quote's reason of its own class was a TypeError, and the write failed for ever."""
    server.replays(answers("{}", status=201))
    reason = type("Reason", (str,), {})("timed out")
    await client.create(PODS.collection("shop"), {reason: [reason, np.int64(3), np.float64(0.5), np.True_]})
    assert server.asked[0].body == b'{"timed out":["timed out",3,0.5,true]}'
    with pytest.raises(TypeError, match="an object of type object has no JSON"):
        await client.create(PODS.collection("shop"), {"reason": object()})


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
async def test_a_patch_has_the_content_type_of_its_kind(
    client: KubeClient, server: ScriptedServer, kind: PatchKind, content_type: str
) -> None:
    server.replays(answers("{}"))

    await client.patch(PATH, {}, kind=kind, params={"fieldManager": "tidelock"})
    (asked,) = server.asked
    assert asked.method == "PATCH"
    assert asked.headers["Content-Type"] == content_type
    assert asked.query == {"fieldManager": "tidelock"}


@pytest.mark.parametrize(
    ("options", "preconditions", "propagation"),
    [
        ({}, {}, None),
        ({"uid": "u1"}, {"uid": "u1"}, None),
        (
            {"uid": "u1", "resource_version": "7", "propagation": "Background"},
            {"uid": "u1", "resourceVersion": "7"},
            "Background",
        ),
    ],
)
async def test_a_delete_carries_its_preconditions(
    client: KubeClient,
    server: ScriptedServer,
    options: dict[str, Any],
    preconditions: dict[str, str],
    propagation: str | None,
) -> None:
    server.replays(answers("{}"))

    await client.delete(PATH, **options)
    (asked,) = server.asked
    assert asked.method == "DELETE"
    assert asked.json["preconditions"] == preconditions
    assert asked.json["propagationPolicy"] == propagation


async def test_a_refused_request_raises_the_matching_error(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(fails(404, "NotFound", 'pods "web-0" not found'), fails(409, "Conflict"))

    with pytest.raises(NotFound, match='pods "web-0" not found'):
        await client.get(PATH)
    with pytest.raises(Conflict):
        await client.patch(PATH, {})


async def test_a_failed_request_is_not_repeated(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(fails(429, headers={"Retry-After": "2"}))

    with pytest.raises(TooManyRequests) as caught:
        await client.get(PATH)
    assert caught.value.retry_after == 2.0
    assert len(server.asked) == 1


async def test_a_redirection_is_not_followed(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(answers("elsewhere", status=302, headers={"Location": "/login"}))

    with pytest.raises(Exception, match="302: elsewhere"):
        await client.get(PATH)


@pytest.mark.parametrize(("method", "unknown"), [("GET", False), ("PATCH", True)])
async def test_a_lost_answer_leaves_the_outcome_of_a_write_unknown(
    client: KubeClient, server: ScriptedServer, method: str, unknown: bool
) -> None:
    server.replays(server.silence, cut_page(version=1))

    with pytest.raises(Unreachable) as timed_out:
        await client.request(method, PATH, timeout=0.5)
    with pytest.raises(Unreachable) as cut:
        await client.request(method, PATH)
    for error in (timed_out.value, cut.value):
        assert error.outcome_unknown is unknown
        assert isinstance(error.__cause__, OSError)
        assert error.message


async def test_a_refused_connection_cannot_have_written(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{unused.getsockname()[1]}"
        connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server, {}))
        async with KubeClient(connection, user_agent="test") as client:
            with pytest.raises(Unreachable) as caught:
                await client.create(PATH, {})
    assert not caught.value.outcome_unknown


async def test_a_timeout_while_waiting_for_a_connection_cannot_have_written(
    server: ScriptedServer, tmp_path: Path
) -> None:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="test", connections=1) as client:
        first = asyncio.create_task(client.create(PATH, {}))
        await server.finished.wait()
        with pytest.raises(Unreachable) as caught:
            await client.request("POST", PATH, body={}, timeout=0.05)
        first.cancel()
    assert not caught.value.outcome_unknown


async def test_refused_credentials_are_read_again_once(server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    config = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"tokenFile": str(token)})
    async with KubeClient(load_connection(config), user_agent="test") as client:
        token.write_text("new\n")
        server.replays(fails(401), answers("{}"), answers("{}"))

        await client.get(PATH)
        await client.get(PATH)
    sent = [asked.headers["Authorization"] for asked in server.asked]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


async def test_requests_refused_together_read_the_credentials_once(server: ScriptedServer) -> None:
    loads: list[RestConfig] = []

    def load() -> RestConfig:
        header = f"Bearer {len(loads) + 1}"
        loads.append(RestConfig(header=lambda: header))
        return loads[-1]

    connection = Connection(server=server.url, credentials=Credentials(load))
    async with KubeClient(connection, user_agent="test") as client:
        server.replays(*(fails(401) for _ in range(5)), *(answers("{}") for _ in range(5)))

        await asyncio.gather(*(client.get(PATH) for _ in range(5)))
    sent = [asked.headers["Authorization"] for asked in server.asked]
    assert sent == ["Bearer 1"] * 5 + ["Bearer 2"] * 5
    assert len(loads) == 2


async def test_credentials_that_stay_the_same_are_not_sent_again(
    server: ScriptedServer, tmp_path: Path
) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "same"})
    async with KubeClient(load_connection(config), user_agent="test") as client:
        server.replays(fails(401, "Unauthorized"))

        with pytest.raises(Unauthorized):
            await client.get(PATH)
    assert len(server.asked) == 1


async def test_credentials_are_refreshed_every_minute(server: ScriptedServer) -> None:
    headers = ["Bearer old"]
    found = RestConfig(header=lambda: headers[-1])
    connection = Connection(server=server.url, credentials=Credentials(lambda: found))
    async with KubeClient(connection, user_agent="test") as client:
        server.replays(answers("{}"), answers("{}"))
        headers.append("Bearer new")

        await client.get(PATH)
        client._authorization_due -= 60.0
        await client.get(PATH)
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer old", "Bearer new"]


async def test_a_server_below_a_path_is_reached(server: ScriptedServer, tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", f"{server.url}/k8s/clusters/c-1/", {})
    server.replays(answers("{}"))
    async with KubeClient(load_connection(config), user_agent="test") as client:
        await client.get("/api/v1/nodes")
    assert server.asked[0].path == "/k8s/clusters/c-1/api/v1/nodes"


async def test_a_stream_ends_with_empty_data(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(watch(b"one\n"))

    async with client.stream(PODS.collection(), {"watch": "true"}, silence_seconds=5.0) as stream:
        assert await stream.read() == b"one\n"
        assert await stream.read() == b""


async def test_a_refused_stream_raises_its_error(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(fails(404))

    with pytest.raises(NotFound):
        async with client.stream(PODS.collection(), {}, silence_seconds=5.0):
            pytest.fail("there is no stream")


class Term:
    """A leadership that can end, with the number of checks."""

    def __init__(self) -> None:
        self.over = False
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        if self.over:
            raise NotLeading("the term is over")


async def test_a_write_that_waited_for_a_connection_is_not_sent_after_the_leadership_ended(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Leadership was once checked only before a write waited for a connection, which can take seconds."""
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    term, free = Term(), asyncio.Event()

    async def slow(_request: web.Request) -> web.StreamResponse:
        await free.wait()
        return web.Response(text="{}")

    server.replays(slow, answers("{}"))
    options: dict[str, Any] = {"user_agent": "tidelock-test", "connections": 1, "may_write": term.check}
    async with KubeClient(connection, **options) as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.create(PATH, {}))
        while not server.asked:  # noqa: ASYNC110 -- the server sets no event
            await asyncio.sleep(0.01)
        writing = group.create_task(_refused(client))
        for _ in range(10):
            await asyncio.sleep(0)
        term.over = True
        free.set()
        assert await writing == "the term is over"
        await first
        term.over = False
        assert await client.patch(PATH, {}) == b"{}"  # the connection of the unsent write is released
    assert [each.method for each in server.asked] == ["POST", "PATCH"]
    assert term.asked == 3


async def _refused(client: KubeClient) -> str:
    with pytest.raises(NotLeading) as refusal:
        await client.replace(PATH, {})
    return str(refusal.value)


@pytest.mark.parametrize("write", ["create", "replace", "patch"])
async def test_every_write_has_the_field_manager_of_the_leadership(
    server: ScriptedServer, tmp_path: Path, write: str
) -> None:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    server.replays(answers("{}"))
    async with KubeClient(connection, user_agent="t", manager=lambda: "tidelock-7") as client:
        await getattr(client, write)(PATH, {})
    assert server.asked[0].query == {"fieldManager": "tidelock-7"}
