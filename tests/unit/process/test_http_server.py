"""Limits for clients that hold connections, send slowly, or send large bodies."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from tidelock.http_server import Limits, bounded, serve_http
from tidelock.tcp_server import ListenError

LOOPBACK = "127.0.0.1"
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _soon_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the 10 s in which aiohttp waits for the rest of a body after its answer."""
    defaults = RequestHandler.__init__.__kwdefaults__ or {}
    assert "lingering_time" in defaults
    monkeypatch.setitem(defaults, "lingering_time", 0.05)


@asynccontextmanager
async def echoing(limits: Limits) -> AsyncIterator[int]:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    application = bounded(limits)
    application.router.add_post("/", echo)
    async with serve_http(application, LOOPBACK, 0, option="--port", limits=limits) as port:
        yield port


async def post(port: int, body: bytes) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{LOOPBACK}:{port}/", data=body) as answer,
    ):
        return answer.status, await answer.read()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return all data that the server sends until it closes the connection."""
    async with asyncio.timeout(PATIENCE):
        return await reader.read()


async def test_a_request_within_the_limits_is_answered() -> None:
    async with echoing(Limits(size=4)) as port:
        assert await post(port, b"tide") == (200, b"tide")


async def test_a_body_that_is_too_large_is_refused() -> None:
    """Six unfinished bodies of 512 MiB once took 950 MiB of memory permanently."""
    async with echoing(Limits(size=3)) as port:
        assert (await post(port, b"tide"))[0] == 413


async def test_an_incomplete_body_is_refused_after_a_timeout() -> None:
    async with echoing(Limits(body=0.05)) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: tidelock\r\nContent-Length: 4\r\n\r\nti")
        assert (await ended(reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_connection_without_a_complete_request_is_closed() -> None:
    async with echoing(Limits(first_request=0.05)) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\n")  # an incomplete request
        assert await ended(reader) == b""
        writer.close()


async def test_idle_connections_are_closed_in_favour_of_new_ones() -> None:
    """1,500 idle connections once made the probes unreachable, so the kubelet restarted the operator."""
    async with echoing(Limits(connections=2)) as port:
        held = [await asyncio.open_connection(LOOPBACK, port) for _ in range(8)]
        assert await post(port, b"tide") == (200, b"tide")
        assert await ended(held[0][0]) == b""
        for _, writer in held:
            writer.close()


async def test_a_connection_with_a_request_in_progress_is_never_closed() -> None:
    release = asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response(text="done")

    limits = Limits(connections=1)
    application = bounded(limits)
    application.router.add_get("/", wait)
    async with serve_http(application, LOOPBACK, 0, option="--port", limits=limits) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: tidelock\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(0.05)
        _, other = await asyncio.open_connection(LOOPBACK, port)
        await asyncio.sleep(0.05)
        release.set()
        assert (await ended(reader)).endswith(b"done")
        writer.close()
        other.close()


PARSED = b"%s %s HTTP/1.1\r\nHost: tidelock\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
NOT_PARSED = b"\x00\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (PARSED % (b"POST", b"/", 0), b"200"),
        (PARSED % (b"POST", b"/none", 0), b"404"),
        (PARSED % (b"GET", b"/", 0), b"405"),
        (PARSED % (b"POST", b"/", 1), b"408"),
        (PARSED % (b"POST", b"/", 9) + b"too large", b"413"),
        (PARSED % (b"POST", b"/fails", 0), b"500"),
        (NOT_PARSED, b"400"),
    ],
)
async def test_no_answer_names_versions(request_: bytes, status: bytes) -> None:
    """Each answer once named the versions of Python and aiohttp."""
    limits = Limits(size=4, body=0.05)
    application = bounded(limits)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError

    application.router.add_post("/", echo)
    application.router.add_post("/fails", fail)
    async with serve_http(application, LOOPBACK, 0, option="--port", limits=limits) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(request_)
        answer = await ended(reader)
        writer.close()
    assert answer.split(b" ")[1] == status
    assert b"\r\nServer: tidelock\r\n" in answer
    for word in (b"aiohttp", b"python", b"traceback"):
        assert word not in answer.lower()


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as taken:
        yield taken.getsockname()[1]


@pytest.mark.parametrize("option", ["--port", "--tls-port"])
async def test_a_port_in_use_is_reported_with_the_option_for_another_port(
    option: str, port_in_use: int
) -> None:
    with pytest.raises(ListenError) as caught:
        async with serve_http(web.Application(), LOOPBACK, port_in_use, option=option):
            pass

    assert str(caught.value) == (
        f"cannot listen on {LOOPBACK}:{port_in_use}: Address already in use; choose another port by {option}"
    )
