"""HTTP/1.1 over kept connections.

A drain sends two writes a pod. Each would take several times the processor time with aiohttp, which is made
for any server, and takes a tenth of a start to import.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable
from typing import cast
from urllib.parse import quote, urlsplit

from tidelock.kube.responses import Disconnected, Response

KEEPALIVE_SECONDS = 60.0  # less than the API server's 90 s, so the client closes an idle connection
_UNSAFE = re.compile(r"[^\x21-\x7e]")  # in a target, which ends at a space
_LINE_END = re.compile(r"[\r\n]")
_MOST_BUFFERED = 2**20  # bytes of a stream that wait for their reader, before the server must wait


class NotConnected(ConnectionError):  # noqa: N818
    """No connection was free or could be opened in time, so nothing was sent."""


def format_request(method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return a whole request. The headers lack only the length of the body.

    Raises:
        ValueError: a header has a line break.

    """
    target = _UNSAFE.sub(lambda found: quote(found[0]), target)
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any(map(_LINE_END.search, lines)):
        raise ValueError("a header has a line break")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "\r\n"]).encode() + body


class ConnectionPool:
    """Kept connections to one server, each with at most one request under way."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, limit: int) -> None:
        """Prepare for a server's base URL. `limit` is the largest number of connections."""
        url = urlsplit(server)
        self._host = url.hostname or ""
        self._port = url.port or (443 if tls else 80)
        self._tls = tls
        self._free = asyncio.Semaphore(limit)
        self._idle: deque[_Connection] = deque()  # the one used last at the right
        self.open: dict[_Connection, None] = {}  # in the order in which they were opened

    async def send(
        self, request: bytes, *, seconds: float, may_send: Callable[[], None], repeatable: bool
    ) -> Response:
        """Send a request and return its whole response, within the seconds. A connection gets half of them.

        `may_send` is called right before the first byte, and its errors are raised. A repeatable request is
        sent again if the server closed the kept connection on which it was sent.

        Raises:
            NotConnected: nothing was sent.
            Disconnected, TimeoutError: there is no complete response.

        """
        now = asyncio.get_running_loop().time
        end = now() + seconds
        while True:
            connection = await self._take(seconds / 2)
            kept = connection.used
            try:
                may_send()
                return await connection.send(request, end - now())
            except Disconnected:
                if not (repeatable and kept):
                    raise
            finally:
                self._release(connection)

    async def stream(self, request: bytes, *, connect: float, silence: float) -> "Stream":
        """Send a request, which may be sent twice, and return its response once the head has arrived.

        The limits are in seconds: for a connection, and without any data.

        Raises:
            NotConnected: nothing was sent.
            Disconnected, TimeoutError: there is no response.

        """
        while True:
            connection = await self._take(connect)
            kept = connection.used
            try:
                response = await connection.begin(request, silence)
                return Stream(response, connection, silence, self._release)
            except Disconnected:
                self._release(connection)
                if not kept:
                    raise
            except BaseException:
                connection.abort()  # a part of the response may have arrived
                self._release(connection)
                raise

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in tuple(self.open):
            connection.abort()

    async def _take(self, seconds: float) -> "_Connection":
        """Return an idle connection, or a new one."""
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
                try:
                    return self._take_idle() or await self._connect()
                except BaseException:
                    self._free.release()
                    raise
        except OSError as error:  # a time-out, too
            raise NotConnected(str(error) or f"no connection to {self._host} in {seconds:g} s") from error

    def _take_idle(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
        return None

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self.open), self._host, self._port, ssl=self._tls
        )
        return connection

    def _release(self, connection: "_Connection") -> None:
        self._free.release()
        now = asyncio.get_running_loop().time()
        if not connection.closing:
            connection.idle_since = now
            self._idle.append(connection)
        while self._idle and now - self._idle[0].idle_since > KEEPALIVE_SECONDS:
            self._idle.popleft().abort()


class Stream:
    """A response that is read as it arrives.

    Attributes:
        response: its status and its headers.

    """

    def __init__(
        self,
        response: Response,
        connection: "_Connection",
        silence: float,
        release: "Callable[[_Connection], None]",
    ) -> None:
        self.response = response
        self._connection = connection
        self._silence = silence
        self._release = release
        self._closed = False

    @property
    def status(self) -> int:
        """The status code of the response."""
        return self.response.status

    async def read(self) -> bytes:
        """Wait for data and return all that has arrived, or nothing at the end of the body.

        Raises:
            Disconnected, TimeoutError: the connection ended, or was silent for too long.

        """
        return await self._connection.read(self.response, self._silence)

    async def finish(self) -> None:
        """Wait for the rest of a short response, and leave the connection to others.

        Raises:
            Disconnected, TimeoutError: the connection ended, or was silent for too long.

        """
        try:
            await self._connection.rest(self.response, self._silence)
        finally:
            self.close()

    def close(self) -> None:
        """Leave the connection. Without the whole response it is closed."""
        if self._closed:
            return
        self._closed = True
        self._connection.finish(self.response)
        self._release(self._connection)


class _Connection(asyncio.Protocol):
    """One connection, which is among the open ones until it ends."""

    def __init__(self, connections: dict["_Connection", None]) -> None:
        self._connections = connections
        self._transport: asyncio.Transport
        self._response: Response | None = None  # of the request under way
        self._whole = True  # whether news of it wait until it is complete
        self._paused = False
        self._news: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self.used = False
        self.idle_since = 0.0

    @property
    def closing(self) -> bool:
        """Whether no further request can be sent."""
        return self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections[self] = None

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.pop(self, None)
        if error is None and self._response is not None:
            self._response.end()
            if self._response.complete:
                self._wake()
                return
        self._fail(Disconnected(str(error or "the server closed the connection")))

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()  # nothing was asked
            return
        try:
            response.feed(data)
        except Disconnected as error:
            self._fail(error)
            return
        if response.complete and response.last:
            self.abort()
        if self._whole and not response.complete:
            return
        if response.buffered > _MOST_BUFFERED and not (self._whole or self._paused or self.closing):
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    async def send(self, request: bytes, seconds: float) -> Response:
        """Send a request and wait for its whole response. Without one the connection is closed."""
        response = self._begin(request, whole=True)
        await self._wait(seconds)
        self.finish(response)
        return response

    async def begin(self, request: bytes, silence: float) -> Response:
        """Send a request and wait for the head of its response. Without one the connection is closed."""
        response = self._begin(request, whole=False)
        while not response.status:
            await self._wait(silence)
        return response

    async def read(self, response: Response, silence: float) -> bytes:
        """Wait for a part of the body, and return all that has arrived, or nothing at its end."""
        while not (response.buffered or response.complete):
            await self._wait(silence)
        self._resume()
        return response.take()

    async def rest(self, response: Response, silence: float) -> None:
        """Wait for the whole response."""
        self._whole = True
        self._resume()
        while not response.complete:
            await self._wait(silence)

    def finish(self, response: Response) -> None:
        """Leave a response. The connection is kept if the response has arrived as a whole."""
        self._response = None
        if not response.complete:
            self.abort()
        self._resume()

    def _resume(self) -> None:
        if self._paused and not self.closing:
            self._transport.resume_reading()
        self._paused = False

    def _begin(self, request: bytes, *, whole: bool) -> Response:
        self.used = True
        self._response, self._whole, self._error = Response(), whole, None
        self._transport.write(request)
        return self._response

    async def _wait(self, seconds: float) -> None:
        """Wait for more of the response, or raise the error that ended the connection."""
        if self._error is None:
            loop = asyncio.get_running_loop()
            self._news = news = loop.create_future()
            timer = loop.call_later(seconds, self._fail, TimeoutError("no answer in time"))
            try:
                await news
            finally:
                timer.cancel()
                self._news = None
                if news.cancelled():
                    self.abort()
        if self._error is not None and not (self._response is not None and self._response.complete):
            raise self._error

    def abort(self) -> None:
        """Close the connection at once. A TLS shutdown would wait for a silent server."""
        self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self.abort()
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
