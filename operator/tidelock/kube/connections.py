"""HTTP/1.1 over kept connections, for writes, whose answers are short.

A drain sends two writes a pod. Each would take several times the processor time with aiohttp, which is made
for any request and answer. Lists and watches are long, and may be compressed, so they use aiohttp.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")  # a connection of the latter ends, unless the server says otherwise
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_LARGEST_HEAD = 64 * 1024  # bytes
KEEPALIVE_SECONDS = 60.0  # less than the API server's 90 s, so the client closes an idle connection
_UNSAFE = re.compile(r"[^\x21-\x7e]")  # in a target, which ends at a space
_LINE_END = re.compile(r"[\r\n]")


class Disconnected(ConnectionError):  # noqa: N818 -- as the states of a connection are called
    """The connection ended before the answer, or the answer is not HTTP/1."""


class NotConnected(ConnectionError):  # noqa: N818
    """No connection was free or could be opened in time, so nothing was sent."""


class Answer(NamedTuple):
    """A complete answer: its status code, its headers by their names in lower case, and its body."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def retry_after(self) -> str | None:
        """The value of the header of that name."""
        value = self.headers.get(b"retry-after")
        return None if value is None else value.decode("latin-1")

    @property
    def last(self) -> bool:
        """Whether the server closes the connection."""
        return self.headers.get(b"connection", b"").lower() == b"close"


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


def parse_answer(data: bytes, *, ended: bool = False) -> Answer | None:
    """Read the answer that the data consists of, or return None if it is not complete.

    The end of the connection is also the end of an answer without a length, which some proxies send.

    Raises:
        Disconnected: the data is no answer, or more than one.

    """
    end = data.find(_HEAD_END)
    if end < 0:
        if len(data) > _LARGEST_HEAD:
            raise Disconnected("the headers of the answer do not end")
        return None
    body = data[end + len(_HEAD_END) :]
    try:
        status, headers = _parse_head(data[:end])
        if status < HTTPStatus.OK:  # an interim answer
            return parse_answer(body, ended=ended)
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            joined = _join_chunks(body) if body.endswith(_LAST_CHUNK) else None
            return None if joined is None else Answer(status, headers, joined)
        length = 0 if status == HTTPStatus.NO_CONTENT else int(headers.get(b"content-length", -1))
    except ValueError as error:
        raise Disconnected("the answer is not HTTP/1") from error
    if length < 0:
        return Answer(status, headers, body) if ended else None
    if len(body) > length:
        raise Disconnected("the answer is longer than it should be")
    return Answer(status, headers, body) if len(body) == length else None


def _parse_head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Return the status code and the headers, or raise ValueError."""
    first, *lines = head.split(b"\r\n")
    version, code = first.split(b" ", 2)[:2]
    if version not in _VERSIONS:
        raise ValueError(version)
    headers = {} if version == _VERSIONS[0] else {b"connection": b"close"}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return int(code), headers


def _join_chunks(body: bytes) -> bytes | None:
    """Join the chunks of a body. Return None if the last is missing, or raise ValueError."""
    chunks: list[bytes] = []
    start = 0
    while (end := body.find(b"\r\n", start)) >= 0:
        size = int(body[start:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[end + 2 : end + 2 + size])
        start = end + 2 + size + 2
    return None


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
        self.open: set[_Connection] = set()

    async def send(
        self, request: bytes, *, seconds: float, may_send: Callable[[], None], repeatable: bool
    ) -> Answer:
        """Send a request and return its answer, within the seconds. A connection gets half of them.

        `may_send` is called right before the first byte, and its errors are raised. A repeatable request is
        sent again if the server closed the kept connection on which it was sent.

        Raises:
            NotConnected: nothing was sent.
            Disconnected, TimeoutError: there is no complete answer.

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


class _Connection(asyncio.Protocol):
    """One connection, which is among the open ones until it ends."""

    def __init__(self, connections: set["_Connection"]) -> None:
        self._connections = connections
        self._transport: asyncio.Transport
        self._data = b""
        self._answer: asyncio.Future[Answer] | None = None
        self.used = False
        self.idle_since = 0.0

    @property
    def closing(self) -> bool:
        """Whether no further request can be sent."""
        return self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if error is None:
            self._read(ended=True)
        self._fail(Disconnected(str(error or "the server closed the connection")))

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._read(ended=False)

    def _read(self, *, ended: bool) -> None:
        try:
            answer = parse_answer(self._data, ended=ended)
        except Disconnected as error:
            self._fail(error)
            return
        if answer is None:
            return
        self._data = b""
        if self._answer is None or answer.last:
            self.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def send(self, request: bytes, seconds: float) -> Answer:
        """Send a request and wait for its answer. Without one the connection is closed."""
        loop = asyncio.get_running_loop()
        self.used = True
        answer: asyncio.Future[Answer] = loop.create_future()
        self._answer = answer
        timer = loop.call_later(seconds, self._fail, TimeoutError("no answer in time"))
        try:
            self._transport.write(request)
            return await answer
        finally:
            timer.cancel()
            self._answer = None
            if answer.cancelled():
                self.abort()

    def abort(self) -> None:
        """Close the connection at once. A TLS shutdown would wait for a silent server."""
        self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
