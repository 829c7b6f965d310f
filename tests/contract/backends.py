"""Servers for each kind of source, with recorded answers of a real server and the values of a scene."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from aiohttp import web

from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from tidelock.load.metrics_server import MetricsServerSource
from tidelock.load.prometheus import (
    NODE_CPU,
    NODE_MEMORY,
    NODE_NAMES,
    NODE_TIME,
    POD_CPU,
    POD_MEMORY,
    PrometheusSource,
)
from tidelock.load.promql import anonymous_access
from tidelock.load.source import Source
from tidelock.model.instants import format_instant
from unit.kube.kubeconfigs import write_kubeconfig

NOW = 1_800_000_000.0
CORES, MEMORY = 10, 2**34
CAPACITY = {"cpu": CORES * 1000, "memory": MEMORY}
NODES = ("node-a", "node-b")


@dataclass(frozen=True)
class NodeSample:
    """A node's use in percent as its exporter reports it, correct or not, and its age in seconds."""

    name: str
    cpu: float
    memory: float
    age: float = 0.0


@dataclass(frozen=True)
class PodSample:
    """A pod's use in cores and bytes."""

    namespace: str
    name: str
    cpu: float
    memory: float


@dataclass
class Scene:
    """The samples of the server, and its fault.

    Attributes:
        fault: "" or refused, silent, cut, truncated, gibberish, unauthorized.
        partial: whether the answer reports that it is incomplete.

    """

    nodes: list[NodeSample] = field(default_factory=list)
    pods: list[PodSample] = field(default_factory=list)
    fault: str = ""
    partial: bool = False


class Backend(Protocol):
    """A kind of source, and the server that it reads from."""

    def routes(self, scene: Scene) -> list[web.RouteDef]:
        """Return the routes of the server."""

    def source(self, url: str, folder: Path, patience: float) -> Any:
        """Open a source of the server as an asynchronous context."""

    def failure(self) -> web.Response:
        """Return an error response in the format of this API."""


class PrometheusBackend:
    """Prometheus 3, as recorded from its HTTP API."""

    def routes(self, scene: Scene) -> list[web.RouteDef]:
        async def query(request: web.Request) -> web.Response:
            form = await request.post()
            return web.Response(text=json.dumps(self._answer(scene, str(form["query"]))))

        return [web.post("/api/v1/query", query)]

    @asynccontextmanager
    async def source(
        self,
        url: str,
        folder: Path,  # noqa: ARG002 -- of the protocol
        patience: float,
    ) -> AsyncIterator[Source]:
        async with aiohttp.ClientSession() as session:
            yield PrometheusSource(session, url, anonymous_access, lambda: NODES, timeout_seconds=patience)

    def failure(self) -> web.Response:
        answer = {"status": "error", "errorType": "internal", "error": "out of order"}
        return web.Response(status=500, text=json.dumps(answer))

    def _answer(self, scene: Scene, query: str) -> dict[str, Any]:
        def of_nodes(text: Callable[[NodeSample], str]) -> Iterator[tuple[dict[str, str], float, str]]:
            for each in scene.nodes:
                yield {"instance": f"{each.name}:9100", "job": "node"}, NOW - each.age, text(each)

        def of_pods(text: Callable[[PodSample], str]) -> Iterator[tuple[dict[str, str], float, str]]:
            for each in scene.pods:
                yield {"namespace": each.namespace, "pod": each.name}, NOW, text(each)

        series = {
            NODE_CPU: of_nodes(lambda each: _number(each.cpu / 100)),
            NODE_MEMORY: of_nodes(lambda each: _number(each.memory / 100)),
            NODE_TIME: of_nodes(lambda each: _number(NOW - each.age)),
            NODE_NAMES: iter(()),
            POD_CPU: of_pods(lambda each: _number(each.cpu)),
            POD_MEMORY: of_pods(lambda each: _number(each.memory)),
        }[query]
        answer: dict[str, Any] = {
            "status": "success",
            "data": {
                "resultType": "vector",
                "result": [{"metric": labels, "value": [at, text]} for labels, at, text in series],
            },
        }
        return answer | ({"warnings": ["a store did not answer"]} if scene.partial else {})


class MetricsServerBackend:
    """metrics-server 0.8 behind the API server."""

    def routes(self, scene: Scene) -> list[web.RouteDef]:
        def answer(items: list[dict[str, Any]]) -> web.Response:
            return web.Response(text=json.dumps({"kind": "List", "metadata": {}, "items": items}))

        async def nodes(_request: web.Request) -> web.Response:
            return answer(
                [
                    {
                        "metadata": {"name": each.name},
                        "timestamp": format_instant(NOW - each.age),
                        "window": "20s",
                        "usage": {
                            "cpu": _quantity(each.cpu * CORES * 10, "m"),
                            "memory": _quantity(each.memory * MEMORY / 100 / 1024, "Ki"),
                        },
                    }
                    for each in scene.nodes
                ]
            )

        async def pods(_request: web.Request) -> web.Response:
            if scene.partial:
                return self.failure()
            return answer(
                [
                    {
                        "metadata": {"name": each.name, "namespace": each.namespace},
                        "timestamp": format_instant(NOW),
                        "window": "15s",
                        "containers": [
                            {
                                "name": name,
                                "usage": {
                                    "cpu": _quantity(each.cpu * 1e9 / 2, "n"),
                                    "memory": _quantity(each.memory / 2, ""),
                                },
                            }
                            for name in ("main", "sidecar")
                        ],
                    }
                    for each in scene.pods
                ]
            )

        root = "/apis/metrics.k8s.io/v1beta1"
        return [web.get(f"{root}/nodes", nodes), web.get(f"{root}/pods", pods)]

    @asynccontextmanager
    async def source(self, url: str, folder: Path, patience: float) -> AsyncIterator[Source]:
        connection = load_connection(write_kubeconfig(folder / "kubeconfig", url, {}))
        async with KubeClient(connection, user_agent="tidelock-test", timeout_seconds=patience) as client:
            yield MetricsServerSource(client, dict.fromkeys(NODES, CAPACITY).get)

    def failure(self) -> web.Response:
        answer = {"kind": "Status", "status": "Failure", "code": 503, "message": "out of order"}
        return web.Response(status=503, text=json.dumps(answer))


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{'+' if value > 0 else '-'}Inf" if math.isinf(value) else repr(value)


def _quantity(value: float, suffix: str) -> str:
    return f"{value:.0f}{suffix}" if math.isfinite(value) else _number(value)


@asynccontextmanager
async def serving(backend: Backend, scene: Scene) -> AsyncIterator[str]:
    """Serve a scene on loopback with its fault, and yield the URL."""
    closing = asyncio.Event()

    @web.middleware
    async def faulty(request: web.Request, handler: Any) -> web.StreamResponse:
        match scene.fault:
            case "silent":
                await closing.wait()
            case "refused":
                return backend.failure()
            case "unauthorized":
                return web.Response(status=401, text="go away")
            case "gibberish":
                return web.Response(text="<html>welcome</html>")
            case "cut":
                whole = await handler(request)
                response = web.StreamResponse(headers={"Content-Length": str(len(whole.body))})
                await response.prepare(request)
                await response.write(whole.body[:40])
                assert request.transport is not None
                request.transport.close()
                return response
            case "truncated":
                whole = await handler(request)
                return web.Response(body=whole.body[:-20])
        return await handler(request)  # type: ignore[no-any-return]

    application = web.Application(middlewares=[faulty])
    application.add_routes(backend.routes(scene))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        yield f"http://{host}:{port}"
    finally:
        closing.set()
        await runner.cleanup()
