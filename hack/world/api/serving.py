"""Speaks HTTP/1.1 for a server in memory, on any event loop: keep-alive, chunked watches, injected faults.

`ApiServer.process` yields the webhooks of a request, so other requests are handled meanwhile. The responses
of one connection keep their order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from world.api.operations import Answer, User, WebhookCall, WebhookFailedError
from world.api.server import ApiServer, Request, Response
from world.api.watches import Watch

_HEAD_END = b"\r\n\r\n"
_MOST_HEAD = 64 * 1024
_BOOKMARK_SECONDS = 60.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

AskWebhook = Callable[[WebhookCall], Awaitable[Answer]]
"""Calls a webhook. It returns the answer as JSON, or a WebhookFailedError."""


class Delivery(NamedTuple):
    """Lines of a watch to send, after some seconds. With `close`, the connection ends behind them."""

    seconds: float
    lines: tuple[bytes, ...]
    close: bool = False


class Faults:
    """The places at which faults are injected. This class injects none."""

    async def before(self, request: Request) -> Response | None:
        """Wait before a request is handled. A response replaces the handling."""
        del request
        return None

    async def after(self, request: Request, response: Response) -> Response | None:
        """Wait after a request has been stored. None loses the response, and ends the connection."""
        del request
        return response

    def event(self, watch: Watch, line: bytes) -> Iterable[Delivery]:
        """Return the deliveries of one event of a watch: late, doubled, replaced by another, or none."""
        del watch
        return (Delivery(0.0, (line,)),)


async def _no_webhooks(call: WebhookCall) -> Answer:
    return WebhookFailedError(f'Post "{call.config.get("url", "")}": no caller of webhooks')


class Site:
    """A server with all that its connections share.

    Attributes:
        api: the server in memory.
        ask: calls webhooks.
        faults: the injected faults.
        users: the user of each bearer token. Others are the administrator.

    """

    def __init__(
        self,
        api: ApiServer,
        *,
        ask: AskWebhook = _no_webhooks,
        faults: Faults | None = None,
        users: Mapping[str, User] | None = None,
    ) -> None:
        self.api = api
        self.ask = ask
        self.faults = faults or Faults()
        self.users = dict(users or {})
        self.connections: set[Connection] = set()

    def protocol(self) -> "Connection":
        """Return the protocol of a new connection, as `loop.create_server` asks for it."""
        return Connection(self)

    async def respond(self, request: Request) -> Response | None:
        """Handle a request with faults and webhooks. None means that the response is lost."""
        early = await self.faults.before(request)
        response = early if early is not None else await self._process(request)
        return await self.faults.after(request, response)

    async def _process(self, request: Request) -> Response:
        steps = self.api.process(request)
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._answer(call))
        except StopIteration as finished:
            response: Response = finished.value
            return response

    async def _answer(self, call: WebhookCall) -> Answer:
        try:
            async with asyncio.timeout(call.timeout):
                return await self.ask(call)
        except TimeoutError:
            return WebhookFailedError("context deadline exceeded")

    def user_of(self, headers: Mapping[str, str]) -> User:
        """Return the user of a request, by its token or by impersonation."""
        if named := headers.get("impersonate-user"):
            return User(named, ("system:authenticated",))
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return self.users.get(token, User())


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._waiting: list[Request] = []
        self._task: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]
        self._site.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the watch and the request under way. What was stored stays stored."""
        del error
        self._site.connections.discard(self)
        self._transport = None
        self._end_watch()

    def data_received(self, data: bytes) -> None:
        """Parse the requests that are complete."""
        self._received += data
        while (request := self._next_request()) is not None:
            self._waiting.append(request)
        if self._waiting and self._task is None:
            self._task = self._loop.create_task(self._handle_all())

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _next_request(self) -> Request | None:
        """Take a request off the received bytes, or return None if it is not complete."""
        head, end, rest = self._received.partition(_HEAD_END)
        if not end:
            if len(head) > _MOST_HEAD:
                self.abort()
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        if headers.get("transfer-encoding", "").lower() == "chunked":
            if (chunked := _dechunked(rest)) is None:
                return None
            body, self._received = chunked
        else:
            length = int(headers.get("content-length") or 0)
            if len(rest) < length:
                if headers.get("expect", "").lower() == "100-continue" and not rest:
                    self._write(_CONTINUE)
                return None
            body, self._received = rest[:length], rest[length:]
        method, target, *_ = first.split(" ")
        return Request(method, target, headers, body, self._site.user_of(headers))

    async def _handle_all(self) -> None:
        """Handle the requests of this connection, one after the other."""
        while self._waiting:
            request = self._waiting.pop(0)
            response = await self._site.respond(request)
            if response is None or self._transport is None:
                self.abort()
                if response is not None and response.watch is not None:
                    response.watch.close()
                break
            if response.watch is not None:
                self._open_watch(response.watch)
                break
            self._send(response, close=request.headers.get("connection", "").lower() == "close")
        self._task = None

    def _send(self, response: Response, *, close: bool) -> None:
        headers = {**response.headers, "Content-Length": str(len(response.body)), "Date": self._date()}
        if close:
            headers["Connection"] = "close"
        self._write(_head(response.code, headers) + response.body)
        if close and self._transport is not None:
            self._transport.close()

    def _date(self) -> str:
        return formatdate(self._site.api.stamps.clock(), usegmt=True)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _open_watch(self, watch: Watch) -> None:
        """Send the events of a watch until it ends."""
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", "Date": self._date()}
        self._write(_head(HTTPStatus.OK, headers))
        self._watch = watch
        watch.wake = self._deliver
        if watch.seconds:
            self._timers.append(self._loop.call_later(watch.seconds, watch.close))
        self._timers.append(self._loop.call_later(_BOOKMARK_SECONDS, self._bookmark))
        self._deliver()

    def _bookmark(self) -> None:
        if self._watch is not None:
            self._watch.bookmark()
            self._timers.append(self._loop.call_later(_BOOKMARK_SECONDS, self._bookmark))

    def _deliver(self) -> None:
        watch = self._watch
        if watch is None:
            return
        while watch.lines:
            for delivery in self._site.faults.event(watch, watch.lines.popleft()):
                if delivery.seconds > 0:
                    self._timers.append(self._loop.call_later(delivery.seconds, self._write_events, delivery))
                else:
                    self._write_events(delivery)
        if watch.closed:
            self._write(b"0\r\n\r\n")
            self._end_watch()
            if self._waiting and self._task is None:
                self._task = self._loop.create_task(self._handle_all())

    def _write_events(self, delivery: Delivery) -> None:
        if self._watch is None:
            return
        for line in delivery.lines:
            self._write(b"%x\r\n%s\r\n" % (len(line), line))
        if delivery.close:
            self.abort()

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if watch is not None:
            watch.wake = lambda: None
            watch.close()


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    phrase = ""
    with suppress(ValueError):
        phrase = HTTPStatus(code).phrase
    lines = [f"HTTP/1.1 {code} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + _HEAD_END


def _dechunked(data: bytes) -> tuple[bytes, bytes] | None:
    """Return the body of a chunked request and the bytes behind it, or None if it is not complete."""
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        if not end:
            return None
        length = int(size.partition(b";")[0], 16)
        if len(data) < length + 2:
            return None
        if not length:
            return body, data.partition(b"\r\n")[2]
        body, data = body + data[:length], data[length + 2 :]


async def serve(site: Site, host: str, port: int) -> asyncio.Server:
    """Serve on an address with the running event loop, and return the listener."""
    return await asyncio.get_running_loop().create_server(site.protocol, host, port)
