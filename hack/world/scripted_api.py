"""An API server of a script: it stores writes as they come, and shows them in lists and watches."""

import asyncio
import json
from email.utils import formatdate
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from world import Host

HOST, PORT = "api.world", 80
URL = f"http://{HOST}:{PORT}"
BOOKMARK_SECONDS = 30.0

_KOPF_PATHS: dict[str, dict[str, Any]] = {
    "/api": {"versions": ["v1"]},
    "/apis": {
        "groups": [
            {
                "name": "tidelock.dev",
                "versions": [{"groupVersion": "tidelock.dev/v1alpha1", "version": "v1alpha1"}],
                "preferredVersion": {"groupVersion": "tidelock.dev/v1alpha1", "version": "v1alpha1"},
            }
        ]
    },
    "/api/v1": {"resources": []},
    "/apis/tidelock.dev/v1alpha1": {
        "resources": [
            {
                "name": "waterlevels",
                "singularName": "waterlevel",
                "namespaced": False,
                "kind": "WaterLevel",
                "verbs": ["get", "list", "watch", "patch"],
            }
        ]
    },
}


class ScriptedApi:
    """Serves every path.

    Attributes:
        requests: method and path of each request.
        stored: the objects that were written, by path.

    """

    def __init__(self, host: Host) -> None:
        self.requests: list[tuple[str, str]] = []
        self.stored: dict[str, dict[str, Any]] = {}
        self._host, self._version = host, 1
        self._numbers = count(1)
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._watches: dict[int, tuple[str, asyncio.Queue[dict[str, Any]]]] = {}

    @property
    def watches(self) -> list[str]:
        """The watched paths."""
        return [path for path, _ in self._watches.values()]

    async def run(self) -> None:
        """Serve until cancelled."""
        await asyncio.start_server(self._converse, port=PORT)
        await asyncio.Event().wait()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = next(
                    (
                        int(line[15:])
                        for line in head.split("\r\n")
                        if line.lower().startswith("content-length:")
                    ),
                    0,
                )
                body = await reader.readexactly(length)
                method, target, _ = head.split(" ", 2)
                await self._answer(method, target, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(target)
        query = parse_qs(url.query)
        self.requests.append((method, url.path))
        if query.get("watch") == ["true"]:
            since, seconds = (
                float(query.get(name, ["300"])[0]) for name in ("resourceVersion", "timeoutSeconds")
            )
            await self._watch(url.path, since, seconds, writer)
            return
        if method == "GET":
            status, answer = self._read(url.path)
        else:
            status, answer = self._write(method, url.path, json.loads(body or b"{}"))
        content = json.dumps(answer).encode()
        writer.write(self._head(status, f"Content-Length: {len(content)}") + content)
        await writer.drain()

    def _head(self, status: int, *more: str) -> bytes:
        date = formatdate(self._host.wall(), usegmt=True)
        lines = (f"HTTP/1.1 {status} Any", f"Date: {date}", "Content-Type: application/json", *more)
        return "\r\n".join((*lines, "\r\n")).encode()

    def _read(self, path: str) -> tuple[int, dict[str, Any]]:
        if path == "/version":
            return 200, {"major": "1", "minor": "37"}
        if path in _KOPF_PATHS:
            return 200, _KOPF_PATHS[path]
        if path in self.stored:
            return 200, self.stored[path]
        items = [each for name, each in self.stored.items() if name.rpartition("/")[0] == path]
        return 200, {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _write(self, method: str, path: str, written: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = path if method != "POST" else f"{path}/{written.get('metadata', {}).get('name', '')}"
        known = self.stored.get(name)
        meta = written.setdefault("metadata", {})
        expected = meta.get("resourceVersion")
        if expected and known and known["metadata"]["resourceVersion"] != expected:
            return 409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "it has changed"}
        if method == "POST" and known:
            return 409, {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "it exists"}
        self._version += 1
        meta |= {"resourceVersion": str(self._version), "uid": known["metadata"]["uid"] if known else name}
        if method == "DELETE":
            self.stored.pop(name, None)
        else:
            self.stored[name] = written
        kind = "DELETED" if method == "DELETE" else "MODIFIED" if known else "ADDED"
        changed, event = name.rpartition("/")[0], {"type": kind, "object": written}
        self._events.append((self._version, changed, event))
        for watched, events in self._watches.values():
            if changed == watched:
                events.put_nowait(event)
        return 201 if method == "POST" else 200, written

    async def _watch(self, path: str, since: float, seconds: float, writer: asyncio.StreamWriter) -> None:
        writer.write(self._head(200, "Transfer-Encoding: chunked"))
        number, events = next(self._numbers), asyncio.Queue[dict[str, Any]]()
        self._watches[number] = (path, events)
        for version, changed, event in self._events:
            if version > since and changed == path:
                events.put_nowait(event)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    line = json.dumps(await self._next(events)).encode() + b"\n"
                    writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                    await writer.drain()
        except TimeoutError:
            writer.write(b"0\r\n\r\n")
        finally:
            del self._watches[number]

    async def _next(self, events: asyncio.Queue[dict[str, Any]]) -> dict[str, Any]:
        """Return the next event, or a bookmark if none comes."""
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                return await events.get()
        except TimeoutError:
            return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}}
