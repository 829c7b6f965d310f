"""An API server without any objects, on loopback: lists are empty, watches silent, writes recorded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tidelock.kube.client import KubeClient
from tidelock.kube.config import Connection, load_connection
from unit.kube.kubeconfigs import write_kubeconfig


class EmptyServer:
    """Counts requests, and records the writes as (method, path). It does not serve the `absent` groups."""

    def __init__(self) -> None:
        self.requests = 0
        self.written: list[tuple[str, str]] = []
        self.absent: tuple[str, ...] = ()
        self._closing = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if request.method != "GET":
            self.written.append((request.method, request.path))
            return web.json_response({}, status=201)
        if request.path.startswith(tuple(f"/apis/{group}/" for group in self.absent)):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.query.get("watch"):
            await self._closing.wait()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    def close(self) -> None:
        self._closing.set()


@asynccontextmanager
async def empty_server(kubeconfig: Path) -> AsyncIterator[tuple[EmptyServer, Connection, KubeClient]]:
    """Start the server, and yield it with a connection to it and a client."""
    server = EmptyServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        connection = load_connection(write_kubeconfig(kubeconfig, f"http://{host}:{port}", {}))
        async with KubeClient(connection, user_agent="test") as client:
            yield server, connection, client
        server.close()
    finally:
        await runner.cleanup()
