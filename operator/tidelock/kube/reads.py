"""Reads over aiohttp: lists and watches. Their answers are long, and may be compressed or endless.

The import takes a tenth of a second, so a client imports this module for its first such read.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from socket import SHUT_RDWR, socket
from weakref import WeakSet

import aiohttp
from yarl import URL

from tidelock.kube.connections import KEEPALIVE_SECONDS
from tidelock.kube.errors import Unreachable

_MULTIPLE_CHOICES = 300  # the first status code that is no success


class Stream:
    """The body of an endless answer."""

    def __init__(self, response: aiohttp.ClientResponse, silence_seconds: float) -> None:
        self._content = response.content
        self._silence_seconds = silence_seconds

    async def read(self) -> bytes:
        """Wait for data and return all that has arrived, or nothing at the end of the stream.

        Raises:
            Unreachable: the connection broke or was silent for too long.

        """
        # aiohttp's own time-out is the only end once a body has turned out to be malformed.
        with Reads.errors():
            async with asyncio.timeout(self._silence_seconds):
                return await self._content.readany()


class Reads:
    """Connections to one server for reads."""

    def __init__(
        self, server: str, tls: ssl.SSLContext | None, limit: int, headers: Mapping[str, str]
    ) -> None:
        """Prepare for a server's base URL. `limit` is the largest number of connections."""
        self._server = server
        self._sockets: WeakSet[socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit,
                ssl=tls or True,
                keepalive_timeout=KEEPALIVE_SECONDS,
                socket_factory=self._make_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # The API server compresses only big lists, where decompressing is cheaper than reading more TLS.
            headers={**headers, "Accept-Encoding": "gzip"},
        )

    async def send(
        self,
        path: str,
        params: Mapping[str, str] | None,
        authorization: Mapping[str, str],
        *,
        total: float | None = None,
        connect: float | None = None,
        silence: float | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a GET and return its answer, which is not read yet if it is a 2xx.

        The limits are in seconds: for the whole request, for a connection, and without any data.
        """
        url = URL(self._server + path, encoded=True)
        limits = aiohttp.ClientTimeout(total=total, connect=connect, sock_read=silence)
        response = await self._session.get(
            url, params=params, timeout=limits, allow_redirects=False, headers=authorization
        )
        if response.status >= _MULTIPLE_CHOICES:
            await response.read()  # which frees its connection
        return response

    @staticmethod
    @asynccontextmanager
    async def streaming(response: aiohttp.ClientResponse, silence: float) -> AsyncIterator[Stream]:
        """Read an endless answer, and close its connection at the end."""
        try:
            yield Stream(response, silence)
        finally:
            # close() would shut TLS down, and asyncio would wait 30 s for the answer of a silent server.
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    @staticmethod
    @contextmanager
    def errors() -> Iterator[None]:
        """Convert errors of aiohttp to Unreachable. A time-out counts as an OSError."""
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    @property
    def open(self) -> bool:
        """Whether a socket is open."""
        return any(each.fileno() >= 0 for each in self._sockets)

    async def aclose(self) -> None:
        """Close all connections at once."""
        await self._session.close()
        # aiohttp no longer knows a connection if its request was cut short while it was opened. Such a
        # connection would go on with its TLS shutdown. A socket shutdown ends it at once, whatever the server
        # answers.
        for left in [each for each in self._sockets if each.fileno() >= 0]:
            with suppress(OSError):
                left.shutdown(SHUT_RDWR)

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket:
        family, kind, protocol, _name, _address = address
        made = socket(family, kind, protocol)
        self._sockets.add(made)
        return made
