"""A port that serves an HTTP application within limits, whatever its clients do.

Any pod of a cluster may reach a port of the operator. So connections without requests give way to new ones,
and a request must arrive in time and be of a bounded size.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web, web_response
from aiohttp.typedefs import Middleware

from tidelock.tcp_server import serve_tcp

# aiohttp names itself and Python with their versions in each answer that has no such header. Its own error
# pages, which no signal of an application sees, do so too. This constant is the only place that all of them
# read.
web_response.SERVER_SOFTWARE = "tidelock"  # type: ignore[attr-defined]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one port.

    Attributes:
        connections: how many are kept open at once.
        first_request: seconds from the start of a connection to the head of its first request.
        body: seconds in which the body of a request must arrive.
        size: largest body, in bytes.
        keepalive: seconds for which a connection without requests is kept.
        last: seconds that requests get when the port is closed.

    """

    connections: int = 256
    first_request: float = 10.0
    body: float = 10.0
    size: int = 64 * 1024
    keepalive: float = 75.0
    last: float = 1.0


def bounded(limits: Limits, *before: Middleware) -> web.Application:
    """Return an application with a bounded size and time for the bodies of requests.

    A request that `before` refuses is refused before its body is read.
    """

    @web.middleware
    async def read_in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(limits.body):
                await request.read()
        except TimeoutError:
            text = f"the body did not come within {limits.body:g} s"
            return web.Response(status=408, text=text, headers={"Connection": "close"})
        return await handler(request)

    return web.Application(client_max_size=limits.size, middlewares=(*before, read_in_time))


@asynccontextmanager
async def serve_http(
    application: web.Application,
    address: str,
    port: int,
    *,
    option: str,
    limits: Limits = Limits(),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serve an application while the context lasts, and yield the port, which the flag `option` sets.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """
    runner = web.AppRunner(
        application, access_log=None, keepalive_timeout=limits.keepalive, shutdown_timeout=limits.last
    )
    connections = _Connections(limits)
    application.middlewares.insert(0, connections.note)
    await runner.setup()
    assert runner.server is not None, "the runner is set up"  # noqa: S101 -- for the type checker
    connections.server = runner.server
    try:
        async with serve_tcp(connections, address, port, option=option, tls=tls) as served:
            yield served
    finally:
        await runner.cleanup()


class _Connections:
    """Creates the protocols of a port, and closes idle connections.

    At the limit a new connection replaces the one that has been idle for the longest time, so clients that
    only hold connections keep no other client out.
    """

    server: web.Server

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: dict[object, float] = {}
        self._busy: set[object] = set()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a connection that a client opens now."""
        known = self.server.connections
        self._asked = {each: self._asked[each] for each in known if each in self._asked}
        if len(known) >= self._limits.connections:
            idle = (each for each in known if each not in self._busy)
            if (longest := min(idle, key=lambda each: self._asked.get(each, 0.0), default=None)) is not None:
                longest.force_close()
        made = self.server()

        def expect_request() -> None:
            if made not in self._asked:
                made.force_close()

        asyncio.get_running_loop().call_later(self._limits.first_request, expect_request)
        return made

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that a connection is in use."""
        protocol = request.protocol
        self._asked[protocol] = asyncio.get_running_loop().time()
        self._busy.add(protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(protocol)
