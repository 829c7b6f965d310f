import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tidelock.kube.connections import (
    Answer,
    ConnectionPool,
    Disconnected,
    NotConnected,
    format_request,
    parse_answer,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUEST = format_request("POST", "/pods", {"Host": "there"}, b"[]")


class Far:
    """A server that sends the bytes of a script, one item for each request, and closes after an empty one.

    With `close` it closes each connection after its first answer.
    """

    def __init__(self, *script: bytes, close: bool = False) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._script = list(script)
        self._close = close
        self._left: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serve(self, limit: int = 10) -> AsyncIterator[ConnectionPool]:
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            pool = ConnectionPool(f"http://127.0.0.1:{port}", None, limit)
            yield pool
            pool.abort()
            for writer in self._left:
                with suppress(ConnectionError):
                    await writer.wait_closed()
        assert not pool.open

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._left.append(writer)
        with suppress(ConnectionError):  # the client aborts
            while data := await reader.read(1 << 16):
                self.asked.append(data)
                answer = self._script.pop(0) if self._script else b""
                writer.write(answer)
                if not answer or self._close:
                    break
        writer.close()


async def send(
    pool: ConnectionPool,
    *,
    seconds: float = 5.0,
    may_send: Callable[[], None] = lambda: None,
    repeatable: bool = False,
) -> Answer:
    return await pool.send(REQUEST, seconds=seconds, may_send=may_send, repeatable=repeatable)


def test_a_request_has_the_length_of_its_body_and_a_quoted_target() -> None:
    made = format_request("POST", "/a b\r\nX: 1", {"Host": "there"}, b"[]")
    assert made == b"POST /a%20b%0D%0AX:%201 HTTP/1.1\r\nHost: there\r\nContent-Length: 2\r\n\r\n[]"


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with pytest.raises(ValueError, match="line break"):
        format_request("POST", "/", {"Authorization": "Bearer a\r\nX: 1"}, b"")


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (OK, b"{}"),
        (CHUNKED + b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n", b"abcd"),
        (CHUNKED + b"a\r\n012345678\n\r\n0\r\n\r\n", b"012345678\n"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
    ],
)
def test_an_answer_is_read_once_it_is_complete(data: bytes, body: bytes) -> None:
    for length in range(len(data)):
        assert parse_answer(data[:length]) is None
    answer = parse_answer(data)
    assert answer is not None
    assert answer.body == body


@pytest.mark.parametrize(
    "data",
    [
        OK + b"{",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"220 mail.example.com ESMTP\r\n\r\n",
        CHUNKED + b"zz\r\n0\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_other_data_is_no_answer(data: bytes) -> None:
    with pytest.raises(Disconnected):
        parse_answer(data)


def test_without_a_length_the_answer_ends_with_the_connection() -> None:
    data = b"HTTP/1.0 503 Service Unavailable\r\n\r\n<html>"
    assert parse_answer(data) is None
    assert parse_answer(data, ended=True) == Answer(503, {b"connection": b"close"}, b"<html>")
    assert parse_answer(OK[:-1], ended=True) is None


async def test_an_answer_without_a_length_is_read() -> None:
    far = Far(b"HTTP/1.1 503 Service Unavailable\r\n\r\n<html>", close=True)
    async with far.serve() as pool:
        assert (await send(pool)).body == b"<html>"
    assert far.connections == 1


async def test_a_connection_is_kept() -> None:
    far = Far(OK, OK, OK)
    async with far.serve() as pool:
        for _ in range(3):
            assert (await send(pool)).body == b"{}"
    assert (len(far.asked), far.connections) == (3, 1)


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    far = Far(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), OK)
    async with far.serve() as pool:
        await send(pool)
        await send(pool)
    assert far.connections == 2


@pytest.mark.parametrize(("repeatable", "sent"), [(True, 3), (False, 2)])
async def test_only_a_repeatable_request_is_sent_again_when_its_kept_connection_was_closed(
    repeatable: bool, sent: int
) -> None:
    far = Far(OK, b"", OK)
    async with far.serve() as pool:
        await send(pool)
        if repeatable:
            await send(pool, repeatable=True)
        else:
            with pytest.raises(Disconnected):
                await send(pool)
    assert len(far.asked) == sent


async def test_a_new_connection_without_an_answer_is_not_tried_again() -> None:
    far = Far(b"")
    async with far.serve() as pool:
        with pytest.raises(Disconnected):
            await send(pool, repeatable=True)
    assert len(far.asked) == 1


async def test_a_late_answer_belongs_to_no_other_request() -> None:
    """The connection of a request that timed out is closed."""
    far = Far(OK[:-1], OK)
    async with far.serve() as pool:
        with pytest.raises(TimeoutError):
            await send(pool, seconds=0.1)
        assert (await send(pool)).body == b"{}"
    assert far.connections == 2


async def test_requests_wait_for_a_connection_below_the_limit() -> None:
    far = Far(OK[:-1], OK)
    async with far.serve(limit=1) as pool:
        first = asyncio.create_task(send(pool))
        while not far.asked:  # noqa: ASYNC110 -- the server sets no event
            await asyncio.sleep(0.01)
        with pytest.raises(NotConnected):
            await send(pool, seconds=0.1)
        first.cancel()
        assert (await send(pool)).body == b"{}"


async def test_a_request_that_may_not_be_sent_leaves_its_connection() -> None:
    def refuse() -> None:
        raise PermissionError

    far = Far(OK, OK)
    async with far.serve() as pool:
        await send(pool)
        with pytest.raises(PermissionError):
            await send(pool, may_send=refuse)
        await send(pool)
    assert (len(far.asked), far.connections) == (2, 1)
