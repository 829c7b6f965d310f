"""A server that answers a WaterLevel's queries as Prometheus would, with given numbers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from devcluster.loopback import HOST

QUERIES = {
    "nodeCPU": "node_cpu",
    "nodeMemory": "node_memory",
    "nodeTime": "node_time",
    "podCPU": "pod_cpu",
    "podMemory": "pod_memory",
}
"""Queries of a WaterLevel that this server understands."""

_POD_BYTES = 256 * 2**20

Series = tuple[dict[str, str], float]


@dataclass
class Scripted:
    """The data of the server. All nodes have the same use, and so have all pods.

    Attributes:
        nodes: names of the nodes.
        pods: namespaces and names of the pods.
        part: use of a node as a part of its capacity, and of a pod as a part of a core.
        address: URL of the server, once it listens.

    """

    nodes: list[str]
    pods: list[tuple[str, str]]
    part: float = 0.2
    address: str = ""

    def answer(self, query: str, time: float) -> Iterator[Series]:
        """Return the series of a query, as (labels, value)."""
        match query:
            case "node_cpu" | "node_memory":
                return (({"node": name}, self.part) for name in self.nodes)
            case "node_time":
                return (({"node": name}, time) for name in self.nodes)
            case "pod_cpu":
                return (({"namespace": space, "pod": name}, self.part) for space, name in self.pods)
            case "pod_memory":
                return (({"namespace": space, "pod": name}, float(_POD_BYTES)) for space, name in self.pods)
            case _:
                return iter(())


def encoded(kind: str, series: Iterator[Series], time: float) -> bytes:
    """Encode an answer of the HTTP API."""
    result = [{"metric": labels, "value": (time, repr(value))} for labels, value in series]
    return msgspec.json.encode({"status": "success", "data": {"resultType": kind, "result": result}})


@asynccontextmanager
async def serving(scripted: Scripted) -> AsyncIterator[None]:
    """Serve on loopback while the context lasts."""

    async def now(request: web.Request) -> web.Response:
        form = await request.post()
        time = float(str(form["time"]))
        return web.Response(body=encoded("vector", scripted.answer(str(form["query"]), time), time))

    async def past(_request: web.Request) -> web.Response:
        return web.Response(body=encoded("matrix", iter(()), 0.0))

    application = web.Application()
    application.add_routes([web.post("/api/v1/query", now), web.post("/api/v1/query_range", past)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    host, port = runner.addresses[0][:2]
    scripted.address = f"http://{host}:{port}"
    try:
        yield
    finally:
        await runner.cleanup()
