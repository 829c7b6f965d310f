"""An API server for tests of the client, with reservations, watches, and faults by method."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tidelock.client import Cluster
from unit.kube.kubeconfigs import write_kubeconfig

Manifest = dict[str, Any]
SPEC: Manifest = {
    "resources": {"cpu": "1"},
    "owners": [{"pod": {"name": "web-0"}}],
    "ttlSeconds": 60,
}


def status(active: bool, reason: str, phase: str, generation: int = 1, **fields: Any) -> Manifest:
    """Return the status of a reservation."""
    condition = {
        "type": "Active",
        "status": str(active),
        "reason": reason,
        "message": f"{reason} here",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "observedGeneration": generation,
        "phase": phase,
        "conditions": [condition, *fields.pop("more", [])],
        **fields,
    }


def committed(committed: bool, reason: str, **commit: str) -> Manifest:
    """Return the status of a prepared or committed reservation."""
    condition = {
        "type": "Committed",
        "status": str(committed),
        "reason": reason,
        "message": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return status(True, "Admitted", "Active", nodeName="n", more=[condition], commit={"holds": 1, **commit})


def prepared(_stored: Manifest) -> Manifest:
    return committed(False, "AwaitingCommit", token="uid.1")  # noqa: S106 -- of a hold


def counts(_stored: Manifest) -> Manifest:
    return committed(True, "Committed")


ACTIVE = status(True, "Admitted", "Active", nodeName="node-1")


class FakeApi:
    """An API server with the reservations of one namespace, and faults by method.

    Attributes:
        objects: the reservations, by name.
        pods: the pods, by name. They can only be read.
        requests: methods and names of the requests that were no lists and watches. Pods are `pods/name`.
        faults: called for each such request with its method. It returns a status code, or None for no fault,
            or 0 for a connection that is cut without an answer, after the request is carried out.
        before: awaited before each such request is carried out.
        decide: returns the status of a new reservation, or None for none.
        on_patch: returns the status after a patch of the spec.

    """

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.pods: dict[str, Manifest] = {}
        self.before: Callable[[], Awaitable[None]] = _nothing
        self.requests: list[tuple[str, str]] = []
        self.faults: Callable[[str], int | None] = lambda _method: None
        self.decide: Callable[[Manifest], Manifest | None] = lambda _object: ACTIVE
        self.on_patch: Callable[[Manifest], Manifest] = lambda stored: stored["status"]
        self._version = 1
        self._history: list[Manifest] = []
        self._streams: list[asyncio.Queue[Manifest]] = []
        self._closing = asyncio.Event()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> str:
        """Start the server and return its URL."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0]
        return f"http://{host}:{port}"

    async def close(self) -> None:
        """Stop the server."""
        self._closing.set()
        await self._runner.cleanup()

    def store(self, name: str, spec: Manifest, status: Manifest, uid: str = "") -> None:
        """Store a reservation."""
        self._version += 1
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": uid or f"uid-{self._version}",
            "generation": 1,
            "resourceVersion": str(self._version),
        }
        self.objects[name] = {"metadata": metadata, "spec": spec, "status": status}
        self._send_event("ADDED", self.objects[name])

    def change(self, name: str, status: Manifest) -> None:
        """Change the status of a reservation."""
        self._version += 1
        stored = self.objects[name]
        stored["metadata"]["resourceVersion"] = str(self._version)
        stored["status"] = status
        self._send_event("MODIFIED", stored)

    def remove(self, name: str) -> None:
        """Delete a reservation."""
        self._version += 1
        stored = self.objects.pop(name)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self._send_event("DELETED", stored)

    def _send_event(self, kind: str, stored: Manifest) -> None:
        event = json.loads(json.dumps({"type": kind, "object": stored}))
        self._history.append(event)
        for stream in self._streams:
            stream.put_nowait(event)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = request.path.partition("/namespaces/shop/")[2].removeprefix("reservations").strip("/")
        if request.method == "GET" and not name:
            return await self._watch(request) if "watch" in request.query else self._list()
        body = await request.json() if request.can_read_body else {}
        self.requests.append((request.method, name or body["metadata"]["name"]))
        await self.before()
        fault = self.faults(request.method)
        if fault:
            return _failure(fault, "Injected")
        answer = self._carry_out(request.method, name, body)
        if fault is not None and request.transport is not None:
            request.transport.abort()
        return answer

    def _carry_out(self, method: str, name: str, body: Manifest) -> web.Response:
        if name.startswith("pods/"):
            stored = self.pods.get(name.removeprefix("pods/"))
            return web.json_response(stored) if stored is not None else _failure(404, "NotFound")
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.objects:
                return _failure(409, "AlreadyExists")
            self.store(name, body["spec"], {})
            decided = self.decide(self.objects[name])
            if decided is not None:
                asyncio.get_running_loop().call_later(0.01, self._decided, name, decided)
        elif name not in self.objects:
            return _failure(404, "NotFound")
        elif method == "DELETE":
            uid = body["preconditions"].get("uid")
            if uid not in (None, self.objects[name]["metadata"]["uid"]):
                return _failure(409, "Conflict")
            self.remove(name)
            return web.json_response({"kind": "Status", "status": "Success"})
        elif method == "PATCH":
            stored = self.objects[name]
            for field, value in body["spec"].items():
                stored["spec"].setdefault(field, {}).update(value)
            stored["metadata"]["generation"] += 1
            self.change(name, stored["status"])
            status = {**self.on_patch(stored), "observedGeneration": stored["metadata"]["generation"]}
            asyncio.get_running_loop().call_later(0.01, self._decided, name, status)
        return web.json_response(self.objects[name])

    def _decided(self, name: str, status: Manifest) -> None:
        if name in self.objects:
            self.change(name, status)

    def _list(self) -> web.Response:
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"kind": "List", "metadata": metadata, "items": list(self.objects.values())})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        events: asyncio.Queue[Manifest] = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for past in self._history:
            if int(past["object"]["metadata"]["resourceVersion"]) > since:
                events.put_nowait(past)
        self._streams.append(events)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        closing = asyncio.create_task(self._closing.wait())
        try:
            while not self._closing.is_set():
                event = asyncio.create_task(events.get())
                await asyncio.wait((event, closing), return_when=asyncio.FIRST_COMPLETED)
                if event.done():
                    await response.write(json.dumps(event.result()).encode() + b"\n")
                else:
                    event.cancel()
        finally:
            closing.cancel()
            self._streams.remove(events)
        return response


async def _nothing() -> None:
    """Wait for nothing."""


def _failure(code: int, reason: str) -> web.Response:
    return web.json_response(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}, status=code
    )


Members = dict[str, tuple[FakeApi, Cluster]]
"""The API servers of a race and the client's connections to them, by the name of the cluster."""


@asynccontextmanager
async def serving(folder: Path, name: str = "east") -> AsyncIterator[tuple[FakeApi, Cluster]]:
    """Yield a server and the client's connection to it."""
    api = FakeApi()
    kubeconfig = write_kubeconfig(folder / name, await api.start(), {}, namespace="shop")
    async with Cluster(name, kubeconfig=kubeconfig) as cluster:
        yield api, cluster
    await api.close()
