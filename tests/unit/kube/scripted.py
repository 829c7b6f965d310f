"""A real HTTP server on loopback that answers as an API server does, rightly or wrongly, from a script."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedServer:
    """Sends its answers in order, one for each request. A request after the last answer waits forever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.finished = asyncio.Event()  # The script is over and one more request has arrived.
        self.url = ""
        self.port = 0
        self._script: deque[Answer] = deque()
        self._closing = asyncio.Event()
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, self.port = self._runner.addresses[0]
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"

    async def close(self) -> None:
        self._closing.set()
        await self._runner.cleanup()

    def replays(self, *answers: Answer) -> None:
        self._script.extend(answers)

    async def silence(self, _request: web.Request) -> web.StreamResponse:
        """Send no answer, but keep the connection."""
        await self._closing.wait()
        return web.Response()

    def quiet_watch(self, *events: bytes) -> Answer:
        """Send events and then no more data, but keep the connection."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await _begin(request, events)
            await self._closing.wait()
            return response

        return answer

    def malformed_watch(self, line: bytes, data: bytes, heard: Callable[[], bool]) -> Answer:
        """Send an event, then data that is no chunk once the event was handled, and keep the connection."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await _begin(request, (line,))
            while not heard():  # noqa: ASYNC110 -- the handler sets no event
                await asyncio.sleep(0.01)
            assert request.transport is not None
            request.transport.write(data)
            await self._closing.wait()
            return response

        return answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(
            Asked(
                request.method, request.path, dict(request.query), dict(request.headers), await request.read()
            )
        )
        if self._script:
            return await self._script.popleft()(request)
        self.finished.set()
        return await self.silence(request)


def answers(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Answer with JSON, or with text as it is."""

    async def answer(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, headers=headers)

    return answer


def fails(
    status: int, reason: str = "", message: str = "no", headers: dict[str, str] | None = None
) -> Answer:
    """Answer with a Status object."""
    return answers(failure(status, reason, message), status, headers)


def failure(status: int, reason: str = "", message: str = "no") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}


def page(*items: dict[str, Any], version: int, more: str = "") -> Answer:
    """Answer with one page of a list."""
    metadata = {"resourceVersion": str(version), "continue": more}
    return answers({"kind": "List", "metadata": metadata, "items": list(items)})


def watch(*chunks: bytes) -> Answer:
    """Answer with a stream that ends properly."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _begin(request, chunks)

    return answer


def cut_watch(*chunks: bytes) -> Answer:
    """Answer with a stream, and break the connection after its chunks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await _begin(request, chunks)
        _cut(request)
        return response

    return answer


def cut_page(*items: dict[str, Any], version: int) -> Answer:
    """Answer with half of a list, and break the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body = json.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}).encode()
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        _cut(request)
        return response

    return answer


def event(type_: str, item: dict[str, Any]) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def pod(name: str, version: int, uid: str = "", namespace: str = "shop", **fields: Any) -> dict[str, Any]:
    """Return an object with an identity. By default its uid is made of its name."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, **fields}


async def _begin(request: web.Request, chunks: tuple[bytes, ...]) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.close()
