"""The HTTP server for probes and metrics."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class ListenError(Exception):
    """The address cannot be listened on."""


@asynccontextmanager
async def serve(
    address: str,
    port: int,
    registry: CollectorRegistry,
    *,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
) -> AsyncIterator[int]:
    """Answer /metrics, /healthz and /readyz while the context lasts; gives the port.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """

    def probe(holds: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text="ok") if holds() else web.Response(status=503, text="not yet")

        return answer

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/healthz", probe(alive))
    application.router.add_get("/readyz", probe(ready))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}:{port}: {os.strerror(error.errno or 0)}"
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
