"""gRPC over mutual TLS, within limits: unary methods from bytes to bytes.

grpclib speaks HTTP/2 on the event loop of this process. It has no limit for the size of a request or for the
number of connections, so both are added here.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream

from tidelock.tcp_server import serve_tcp

MOST_BYTES = 256 * 1024
"""Largest request. Karmada's have a few hundred bytes, and as many for each assumed workload."""
MOST_CONNECTIONS = 64
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
"""Files of the server's certificate and key, and of the authority of callers, named as in a TLS Secret."""

Method = Callable[[bytes], Awaitable[bytes]]
"""Answers a request, or raises GRPCError."""

_ARRIVAL = 10.0  # seconds in which a request must arrive
_WINDOW = 2**16 - 1  # bytes of a request that may wait to be read, the least that HTTP/2 allows


def mutual_tls(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of a server that only answers callers with a certificate of the authority.

    Raises:
        OSError: a file is missing, or is no such certificate or key.

    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY, password="")  # an encrypted key fails
    context.load_verify_locations(folder / AUTHORITY)
    context.set_alpn_protocols(["h2"])
    return context


@asynccontextmanager
async def serving(
    methods: Mapping[str, Method], address: str, port: int, *, option: str, tls: ssl.SSLContext
) -> AsyncIterator[int]:
    """Serve methods by their full names while the context lasts, and yield the port.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """
    server = _Server(methods)
    async with serve_tcp(server.connect, address, port, option=option, tls=tls) as served:
        try:
            yield served
        finally:
            server.disconnect()


class _Server(Server):
    """Makes the protocols of connections. grpclib's own way to listen has no limit for a handshake."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        config = Configuration(http2_stream_window_size=_WINDOW)
        super().__init__([_Service(methods)], codec=_Plain(), config=config)
        self._live: set[_Connection] = set()
        self._most = MOST_CONNECTIONS

    def connect(self) -> H2Protocol:
        """Return the protocol of a new connection."""
        return _Connection(self._protocol_factory(), self)

    def admit(self, connection: "_Connection") -> None:
        """Take a connection after its handshake, or close it if there are too many."""
        if len(self._live) < self._most:
            self._live.add(connection)
        else:
            connection.processor.close("too many connections")

    def release(self, connection: "_Connection") -> None:
        """Forget a connection that has ended."""
        self._live.discard(connection)

    def disconnect(self) -> None:
        """Close all connections, also those in their handshake, and cancel the requests under way."""
        self._most = 0
        for each in tuple(self._live):
            each.processor.close()


class _Connection(H2Protocol):
    """A connection with bounded requests, one of a bounded number."""

    def __init__(self, made: H2Protocol, server: _Server) -> None:
        super().__init__(made.handler, made.config, made.h2_config)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        self._server.admit(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._server.release(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of the requests, and refuse a request that has become too large."""
        try:
            super().data_received(data)
        except NotImplementedError:  # a frame that no gRPC client sends
            self.processor.close("unexpected frame")
        for stream in tuple(self.processor.streams.values()):
            if stream.data_received > MOST_BYTES and stream.wrapper is not None:
                text = f"a request has at most {MOST_BYTES} bytes"
                stream.wrapper.cancel(GRPCError(Status.RESOURCE_EXHAUSTED, text))


class _Plain(CodecBase):
    """Leaves messages as the bytes that they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ARG002 -- bytes are bytes
        """Return the message itself."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:  # noqa: ARG002
        """Return the message itself."""
        return data


class _Service:
    """The methods, as grpclib calls them."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods

    def __mapping__(self) -> dict[str, Handler]:
        """Return the handler of each path."""
        return {
            f"/{name}": Handler(partial(_answer, method), Cardinality.UNARY_UNARY, bytes, bytes)
            for name, method in self._methods.items()
        }


async def _answer(method: Method, stream: Stream[bytes, bytes]) -> None:
    await stream.send_message(await method(await _received(stream)))


async def _received(stream: Stream[bytes, bytes]) -> bytes:
    """Return a request, or raise GRPCError if none arrives in time and as a whole."""
    try:
        async with asyncio.timeout(_ARRIVAL):
            message = await stream.recv_message()
    except TimeoutError:
        raise GRPCError(Status.DEADLINE_EXCEEDED, "the request did not arrive") from None
    except NotImplementedError:
        raise GRPCError(Status.UNIMPLEMENTED, "compressed requests are not supported") from None
    except AssertionError:  # grpclib's check of the length
        message = None
    if message is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "the request ended early")
    return message
