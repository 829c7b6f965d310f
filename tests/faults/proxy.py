"""A proxy between one operator and the API server. It parses watches line by line, and fails as planned.

It shows its operator only one namespace, and only the cluster's objects with one label. So many runs
share a server.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl, urlencode

import aiohttp
from aiohttp import web
from yarl import URL

from cluster.relay import Right, right_of
from devcluster.loopback import HOST
from faults.hasty import awaiting_answer
from faults.history import CLAIMS, RESOURCES
from faults.observations import Delivery, Passed, Stamps
from faults.plan import Fault
from tidelock.scheduler.informers.informers import OPTIONAL, WATCHED

_GROUP = "tidelock.dev"
_DEVICES = CLAIMS.group
# All that the operator watches. Of the kinds that no run uses it sees no objects.
_WATCHED = {
    each.collection(): each
    for each in (*RESOURCES, *(resource for resource, _ in (*WATCHED.values(), *OPTIONAL.values())))
}
_RESERVATIONS = f"reservations.{_GROUP}"
_POINTS = {
    Right("create", "pods/binding"): "bind",
    Right("update", f"{_RESERVATIONS}/status"): "status",
    Right("delete", _RESERVATIONS): "delete",
    Right("patch", "pods/status"): "condition",
    Right("create", "pods/eviction"): "evict",
    Right("create", _RESERVATIONS): "member",
    Right("update", f"reservationgroups.{_GROUP}/status"): "group status",
    Right("delete", f"reservationgroups.{_GROUP}"): "delete group",
    Right("update", f"reservationquotes.{_GROUP}/status"): "answer",
    Right("delete", f"reservationquotes.{_GROUP}"): "delete quote",
    Right("update", f"reservationquotas.{_GROUP}/status"): "quota status",
    Right("update", f"reservationschedules.{_GROUP}/status"): "schedule status",
    Right("patch", f"waterlevels.{_GROUP}/status"): "level status",
    Right("get", "pods"): "read",
    Right("create", "events.events.k8s.io"): "event",
    **{
        Right(verb, f"{each.plural}.{each.group}" if each.group else each.plural): f"{verb} {each.plural}"
        for verb in ("list", "watch")
        for each in _WATCHED.values()
    },
    Right("create", f"resourceclaims.{_DEVICES}"): "claim",
    Right("delete", f"resourceclaims.{_DEVICES}"): "claim",
    Right("patch", f"resourceclaims.{_DEVICES}"): "claim",
    Right("patch", f"resourceclaims.{_DEVICES}/status"): "claim",
}
_WRITES = {
    *("bind", "status", "delete", "condition", "evict", "claim"),
    *("member", "group status", "delete group", "answer", "delete quote", "quota status", "schedule status"),
}
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_CONTINUED = re.compile(rb'^.{,400}"continue":"')
_NAME = re.compile(r"/(?:pods|reservations)/([^/]+)")
_REFUSALS = {
    401: "Unauthorized",
    403: "Forbidden",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_OF_ONE_HOP = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
# After this many further events, or the seconds of the fault, the server admits that events are missing.
_LINES_IN_A_GAP = 3
_HUNG_UP = web.RequestKey("hung up", asyncio.Event)


# Turns of the loop in which an accepted connection comes to be known to the server, which then closes it. A
# listener that is closed within them leaves it open for ever (CPython's gh-109564).
_TURNS = 3
# Seconds that requests get to end when the listener is closed.
_PARTING = 60.0


class _Answer(NamedTuple):
    """An answer of the server."""

    status: int
    kind: str
    body: bytes


class Proxy:
    """Stands between an operator and its API server, over all instances of the operator.

    Attributes:
        log: requests, in the order in which they came.
        stamps: times of bindings, and of the creation of reservations and groups.
        fired: the faults that have taken effect, for people.
        crash: set when the operator must be killed.
        away: whether all connections are refused.

    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        *,
        namespace: str,
        selector: str,
        faults: Mapping[tuple[str, int], Fault],
        stamps: Stamps,
        host: str = HOST,
    ) -> None:
        self._session = session
        self._host = host
        self._server = server
        self._namespace = namespace
        self._selector = selector
        self._faults = dict(faults)
        self.stamps = stamps
        self._counts: Counter[str] = Counter()
        self._storm: tuple[float, int] = (0.0, 0)
        self._forwards: set[asyncio.Task[_Answer]] = set()
        self._handlers: set[asyncio.Task[web.StreamResponse]] = set()
        self._gaps: set[str] = set()
        self._door = web.Server(self._handle, handler_cancellation=True)
        self._listener: asyncio.Server | None = None
        self._calm = asyncio.Event()
        self.log: list[Passed] = []
        self.deliveries: list[Delivery] = []  # events and lists that the operator received
        self.fired: list[str] = []
        self.crash = asyncio.Event()
        self.away = False

    async def open(self) -> str:
        """Open a listener for one instance of the operator, and return its URL."""
        self._door = web.Server(self._handle, handler_cancellation=True)
        self._listener = await asyncio.get_running_loop().create_server(self._door, HOST, 0)
        _, port = self._listener.sockets[0].getsockname()
        return f"http://{self._host}:{port}"

    async def shut(self) -> None:
        """Cut all connections of the operator, and wait for the requests that have reached the server."""
        listener, self._listener = self._listener, None
        for task in self._handlers:
            task.cancel()
        if self._handlers:
            await asyncio.wait(self._handlers)
        if listener is not None:
            for socket in listener.sockets:
                asyncio.get_running_loop().remove_reader(socket)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            listener.close()
            self._door.pre_shutdown()
            await self._door.shutdown(_PARTING)
        self.crash.clear()
        if self._forwards:
            await asyncio.wait(self._forwards)

    def storm(self, code: int, seconds: float) -> None:
        """Refuse all requests for some seconds."""
        self._storm = (asyncio.get_running_loop().time() + seconds, code)

    def calm(self) -> None:
        """Stop all faults. A gap or a silence that has begun lasts until the operator notices it."""
        self._faults.clear()
        self._storm = (0.0, 0)
        self._calm.set()

    async def pause(self, seconds: float) -> None:
        """Sleep for some seconds, or until all faults stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calm.wait()

    @property
    def writes(self) -> int:
        """Number of requests so far that would change something."""
        return sum(each.point in _WRITES for each in self.log)

    def note_delivery(self, kind: str, text: bytes, *, listed: bool = False) -> None:
        """Note an event or a list that the operator receives. A list counts with its last page."""
        found = _VERSION.search(text)
        if found and not (listed and _CONTINUED.match(text)):
            self.deliveries.append(Delivery(kind, int(found[1]), listed, asyncio.get_running_loop().time()))

    def next_fault(self, point: str) -> Fault | None:
        """Return the fault of the next request or event of a point, if one is planned."""
        self._counts[point] += 1
        fault = self._faults.pop((point, self._counts[point]), None)
        if fault is not None:
            self.fired.append(f"{point} {self._counts[point]}: {fault}")
        return fault

    # Requests.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. If the operator hangs up, a read ends, and a write continues."""
        if self._listener is None or self.away:
            return _abort(request)  # the operator is dead, or the server away
        request[_HUNG_UP] = asyncio.Event()
        task = asyncio.create_task(self._pass(request))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        try:
            return await asyncio.shield(task)
        finally:
            request[_HUNG_UP].set()
            if request.method == "GET":
                task.cancel()

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        right = right_of(request.method, request.path_qs)
        point = _POINTS.get(right, "other") if right is not None else "other"
        loop = asyncio.get_running_loop()
        name = _NAME.search(request.path)
        passed = Passed(point, name[1] if name else "", loop.time())
        self.log.append(passed)
        until, code = self._storm
        try:
            if passed.start < until:
                return _diagnosis(code)
            with suppress(ConnectionError, aiohttp.ClientError):  # either side may hang up at any time
                if point.startswith("watch "):
                    return await self._watch(request, point.removeprefix("watch "))
                if point.startswith("list "):
                    self.close_gap(point.removeprefix("list "))
                answer = await self._answer(request, self.next_fault(point))
                if point.startswith("list ") and isinstance(answer.body, bytes):
                    self.note_delivery(point.removeprefix("list "), answer.body, listed=True)
                return answer
        finally:
            passed.end = loop.time()
        return _abort(request)

    async def _answer(self, request: web.BaseRequest, fault: Fault | None) -> web.Response:
        body = await request.read()
        if fault is None:
            return _response(await self._forward(request, body))
        early = await self._befall(request, fault)
        if early is not None:
            return early
        return await self._spoil(request, fault, await self._forward(request, body))

    async def _befall(self, request: web.BaseRequest, fault: Fault) -> web.Response | None:
        """Apply a fault before the server has the request. Return an answer if the server never gets it."""
        match fault.what:
            case "refused" | "gone":
                return _diagnosis(fault.code)
            case "reset":
                return _abort(request)
            case "hang":
                await _while_listening(request)
                return _abort(request)
            case "late":  # the operator may stop waiting earlier
                await self.pause(fault.seconds)
            case "crash before":
                await self._crash()
        return None

    async def _spoil(self, request: web.BaseRequest, fault: Fault, answer: _Answer) -> web.Response:
        """Apply a fault to an answer, when the server has already carried out the request."""
        match fault.what:
            case "lost":
                return _abort(request)
            case "broken":
                return _diagnosis(fault.code)
            case "slow":
                await self.pause(fault.seconds)
            case "torn":
                await _write_half(request, answer)
                return _abort(request)
            case "crash after":
                await self._crash()
        return _response(answer)

    async def _forward(self, request: web.BaseRequest, body: bytes) -> _Answer:
        """Send a request to the server, even if the operator dies before the answer."""
        if request.path.endswith("/binding"):
            self.stamps.note(json.loads(body).get("metadata", {}).get("uid", ""))
        task = asyncio.create_task(self._send(request.method, self._target(request), _headers(request), body))
        self._forwards.add(task)
        task.add_done_callback(self._forwards.discard)
        return await asyncio.shield(task)

    async def _send(self, method: str, url: URL, headers: Mapping[str, str], body: bytes) -> _Answer:
        try:
            with awaiting_answer():
                async with self._session.request(method, url, data=body or None, headers=headers) as answer:
                    read = await _read(answer)
        except aiohttp.ClientError as error:  # an idle connection may end at the same moment
            return _Answer(HTTPStatus.BAD_GATEWAY, "text/plain", str(error).encode())
        good = read.status < HTTPStatus.BAD_REQUEST and method != "DELETE"
        return read._replace(body=self.stamps.rewritten(read.body)) if good else read

    def _target(self, request: web.BaseRequest) -> URL:
        """Return the URL at the server, narrowed to the objects that this operator may see."""
        path, query = request.path, dict(parse_qsl(request.query_string, keep_blank_values=True))
        resource = _WATCHED.get(path)
        if resource is not None and not resource.namespaced:
            query["labelSelector"] = self._selector
        elif resource is not None:
            path = resource.collection(self._namespace)
        return URL(f"{self._server}{path}?{urlencode(query)}", encoded=True)

    async def _crash(self) -> NoReturn:
        self.crash.set()
        await _for_ever()

    # Watches.

    def open_gap(self, resource: str) -> None:
        """Answer each watch of a resource with 410 from now on, so that the operator must list first."""
        self._gaps.add(resource)

    def close_gap(self, resource: str) -> None:
        """End a gap, as a list reports all that was left out."""
        self._gaps.discard(resource)

    async def _watch(self, request: web.BaseRequest, resource: str) -> web.StreamResponse:
        if resource in self._gaps:  # the operator hung up before it got the error
            return _diagnosis(410)
        fault = self.next_fault(f"watch {resource}")
        if request.headers.get("User-Agent", "").startswith("kopf/"):  # informers watch, too
            fault = self.next_fault(f"watch {resource} by Kopf") or fault
        if fault is not None:
            if fault.code:
                return _diagnosis(fault.code)
            if fault.what == "hang":
                await _while_listening(request)
            return _abort(request)
        with awaiting_answer():
            answer = await self._session.get(self._target(request), headers=_headers(request))
        async with answer:
            if answer.status != HTTPStatus.OK:
                return _response(await _read(answer))
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await _Lines(request, response, answer.content, self, resource).pass_on()
        return response


class _Lines:
    """One watch, event by event."""

    def __init__(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        source: aiohttp.StreamReader,
        proxy: Proxy,
        resource: str,
    ) -> None:
        self._request = request
        self._response = response
        self._source = source
        self._proxy = proxy
        self._resource = resource

    async def pass_on(self) -> None:
        """Pass the events on until the stream ends, or a fault ends it."""
        while line := self._proxy.stamps.rewritten(await self._next()):
            marked = b'"type":"BOOKMARK"' in line[:40]
            fault = None if marked else self._proxy.next_fault(f"line {self._resource}")
            if fault is not None and fault.what == "delay":
                await self._proxy.pause(fault.seconds)
            elif fault is not None and fault.what == "double":
                await self._response.write(line)
            elif fault is not None:
                await self._end(line, fault)
                return
            await self._response.write(line)
            if not marked:
                self._proxy.note_delivery(self._resource, line)

    async def _end(self, line: bytes, fault: Fault) -> None:
        """End the stream by the fault of an event. Servers also cause the fault "end" now and then."""
        match fault.what:
            case "cut":
                await self._response.write(line[: len(line) // 2])
                _abort(self._request)
            case "error":
                await self._response.write(_error_event(500))
            case "swap":  # clients drop an event that is older than one before, so this is a gap too
                await self._admit_gap(fault.seconds, late=line)
            case "drop":
                await self._admit_gap(fault.seconds)
            case "gap":  # the operator never receives the events of this time
                self._proxy.open_gap(self._resource)
                await self._proxy.pause(fault.seconds)
                await self._response.write(_error_event(410))
            case "silence":
                await _while_listening(self._request)
            case "crash before":
                await self._proxy._crash()

    async def _admit_gap(self, seconds: float, late: bytes = b"") -> None:
        """Drop an event, or deliver it after the next one, and answer 410 some time later."""
        self._proxy.open_gap(self._resource)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self._proxy._calm.is_set() else seconds):
                for _ in range(_LINES_IN_A_GAP):
                    await self._response.write(self._proxy.stamps.rewritten(await self._next()) + late)
                    late = b""
        await self._response.write(_error_event(410))

    async def _next(self) -> bytes:
        return await self._source.readuntil(b"\n")


def _headers(request: web.BaseRequest) -> dict[str, str]:
    kept = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
    return kept | {"Accept-Encoding": "identity"}


def _status(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": _REFUSALS[code],
        "message": "planned by a test",
    }


def _diagnosis(code: int) -> web.Response:
    headers = {"Retry-After": "1"} if code == HTTPStatus.TOO_MANY_REQUESTS else None
    return web.json_response(_status(code), status=code, headers=headers)


def _error_event(code: int) -> bytes:
    return json.dumps({"type": "ERROR", "object": _status(code)}).encode() + b"\n"


async def _read(answer: aiohttp.ClientResponse) -> _Answer:
    return _Answer(answer.status, answer.headers.get("Content-Type", ""), await answer.read())


def _response(answer: _Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.kind})


def _abort(request: web.BaseRequest) -> web.Response:
    """Cut the connection without any further bytes."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _write_half(request: web.BaseRequest, answer: _Answer) -> None:
    headers = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body))}
    begun = web.StreamResponse(status=answer.status, headers=headers)
    await begun.prepare(request)
    await begun.write(answer.body[: len(answer.body) // 2])


async def _while_listening(request: web.BaseRequest) -> None:
    """Send nothing for as long as the operator holds the connection."""
    await request[_HUNG_UP].wait()


async def _for_ever() -> NoReturn:
    await asyncio.Future()
    raise AssertionError
