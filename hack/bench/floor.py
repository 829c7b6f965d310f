"""The floor, a writer that decides nothing: python -m bench.floor KUBECONFIG PORT.

It answers every Reservation with one write, the shortest status that has Active=True, on open connections and
without any framework. No operator on the same API server can be faster.
"""

import asyncio
import sys
from typing import Any

import msgspec
from aiohttp import web

from bench.following import following
from bench.world import IN_FLIGHT, NAMESPACE
from devcluster.loopback import HOST
from tidelock.kube.client import RESERVATIONS, KubeClient
from tidelock.kube.config import load_connection

_ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Admitted",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def answer(kubeconfig: str, port: int) -> None:
    """Answer reservations until the process is stopped."""
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    connection = load_connection(kubeconfig)

    def take(line: bytes, _: float) -> str:
        event = msgspec.json.decode(line)
        found: dict[str, Any] = event["object"]
        if event["type"] == "ADDED":
            queue.put_nowait(found)
        return str(found["metadata"]["resourceVersion"])

    async with KubeClient(
        connection, user_agent="bench-floor", timeout_seconds=60.0, connections=IN_FLIGHT + 1
    ) as client:

        async def write() -> None:
            while True:
                found = await queue.get()
                name = found["metadata"]["name"]
                path = f"{RESERVATIONS.item(name, NAMESPACE)}/status"
                await client.replace(path, {**found, "status": {"conditions": [_ACTIVE]}})

        async def healthy(_: web.Request) -> web.Response:
            return web.Response()

        async with (
            following(client, RESERVATIONS.collection(NAMESPACE), take),
            asyncio.TaskGroup() as writers,
        ):
            application = web.Application()
            application.router.add_get("/healthz", healthy)
            runner = web.AppRunner(application)
            await runner.setup()
            await web.TCPSite(runner, HOST, port).start()
            for _ in range(IN_FLIGHT):
                writers.create_task(write())


if __name__ == "__main__":
    asyncio.run(answer(sys.argv[1], int(sys.argv[2])))
