import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tidelock.kube.connections import ConnectionPool, NotConnected, format_request
from tidelock.kube.responses import Disconnected, Response

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAMED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
REQUEST = format_request("POST", "/pods", {"Host": "there"}, b"[]")


class Far:
    """A server that sends the bytes of a script, one item for each request, and closes after an empty one.

    With `close` it closes each connection after its first response.
    """

    def __init__(self, *script: bytes, close: bool = False) -> None:
        self.asked: list[bytes] = []
        self.connections = 0
        self._script = list(script)
        self._close = close
        self._left: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serve(self, limit: int = 10) -> AsyncIterator[ConnectionPool]:
        async with await asyncio.start_server(self._response, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            pool = ConnectionPool(f"http://127.0.0.1:{port}", None, limit)
            yield pool
            pool.abort()
            for writer in self._left:
                with suppress(ConnectionError):
                    await writer.wait_closed()
        assert not pool.open

    async def _response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._left.append(writer)
        with suppress(ConnectionError):  # the client aborts
            while data := await reader.read(1 << 16):
                self.asked.append(data)
                response = self._script.pop(0) if self._script else b""
                writer.write(response)
                if not response or self._close:
                    break
        writer.close()


async def send(
    pool: ConnectionPool,
    *,
    seconds: float = 5.0,
    may_send: Callable[[], None] = lambda: None,
    repeatable: bool = False,
) -> Response:
    return await pool.send(REQUEST, seconds=seconds, may_send=may_send, repeatable=repeatable)


def test_a_request_has_the_length_of_its_body_and_a_quoted_target() -> None:
    made = format_request("POST", "/a b\r\nX: 1", {"Host": "there"}, b"[]")
    assert made == b"POST /a%20b%0D%0AX:%201 HTTP/1.1\r\nHost: there\r\nContent-Length: 2\r\n\r\n[]"


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with pytest.raises(ValueError, match="line break"):
        format_request("POST", "/", {"Authorization": "Bearer a\r\nX: 1"}, b"")


async def test_an_answer_without_a_length_is_read() -> None:
    far = Far(b"HTTP/1.1 503 Service Unavailable\r\n\r\n<html>", close=True)
    async with far.serve() as pool:
        assert (await send(pool)).take() == b"<html>"
    assert far.connections == 1


async def test_a_connection_is_kept() -> None:
    far = Far(OK, OK, OK)
    async with far.serve() as pool:
        for _ in range(3):
            assert (await send(pool)).take() == b"{}"
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
        assert (await send(pool)).take() == b"{}"
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
        assert (await send(pool)).take() == b"{}"


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


async def test_a_stream_is_sent_again_when_its_kept_connection_was_closed() -> None:
    far = Far(OK, b"", STREAMED)
    async with far.serve() as pool:
        await send(pool)
        stream = await pool.stream(REQUEST, connect=5.0, silence=5.0)
        assert await stream.read() == b"one\n"
        stream.close()
    assert (len(far.asked), far.connections) == (3, 2)


async def test_the_connection_of_a_stream_is_kept_only_after_its_end() -> None:
    far = Far(STREAMED + b"0\r\n\r\n", OK, STREAMED, OK)
    async with far.serve(limit=1) as pool:
        for connections in (1, 2):
            stream = await pool.stream(REQUEST, connect=5.0, silence=5.0)
            assert await stream.read() == b"one\n"
            stream.close()
            stream.close()  # which has no effect
            await send(pool)
            assert far.connections == connections


async def test_a_server_waits_for_the_reader_of_a_stream() -> None:
    """Without that a watch that is read too slowly would take more and more memory."""
    size = 2**26
    far = Far(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
    async with far.serve() as pool:
        stream = await pool.stream(REQUEST, connect=5.0, silence=5.0)
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert stream.response.buffered < size / 8
        read = 0
        while part := await stream.read():
            read += len(part)
        assert read == size
        stream.close()


async def test_a_long_refusal_of_a_stream_is_read_as_a_whole() -> None:
    """Its connection would wait for a reader for ever."""
    far = Far(b"HTTP/1.1 500 Error\r\nContent-Length: %d\r\n\r\n" % 2**24 + bytes(2**24), OK)
    async with far.serve(limit=1) as pool:
        stream = await pool.stream(REQUEST, connect=5.0, silence=5.0)
        await stream.finish()
        assert len(stream.response.take()) == 2**24
        assert (await send(pool)).take() == b"{}"
    assert far.connections == 1


async def test_connections_are_closed_in_the_order_in_which_they_were_opened() -> None:
    """The order of a set was that of addresses, so two runs of one simulated history differed."""
    async with Far(*([OK] * 8)).serve() as pool:
        await asyncio.gather(*(send(pool) for _ in range(8)))
        opened, closed = list(pool.open), []
        for connection in opened:
            connection.abort = lambda known=connection: closed.append(known)  # type: ignore[method-assign, misc]
        pool.abort()
        assert closed == opened
        assert len(closed) > 1
        for connection in opened:
            del connection.abort
