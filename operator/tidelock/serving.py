"""The HTTP server for probes, metrics and the web view."""

import asyncio
import errno
import hmac
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

logger = logging.getLogger(__name__)

_OTHER_PORT = "; choose another port by {option}"
_OTHER_ADDRESS = "; name an address of this machine by --listen"
_ADVICE: Mapping[int, str] = MappingProxyType(
    {errno.EADDRINUSE: _OTHER_PORT, errno.EACCES: _OTHER_PORT, errno.EADDRNOTAVAIL: _OTHER_ADDRESS}
)
# Seconds that requests get at the end.
_LAST = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ListenError(Exception):
    """The address cannot be listened on."""


class TokenError(Exception):
    """The token that scrapes have to show can't be had from its file."""


class MetricsToken:
    """What scrapes have to show, read anew for each of them, as the file of a mounted Secret changes."""

    def __init__(self, path: Path) -> None:
        """Take the file; raises TokenError if it holds no token now."""
        self._path = path
        self._read()

    def guard(self, handler: Handler) -> Handler:
        """Have a handler answer those alone who show the token."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                if not await self._shown_by(request):
                    return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
            except TokenError as error:
                logger.warning("nothing is given", extra={"path": request.path, "error": str(error)})
                return web.Response(status=503, text="the token to compare with can't be read")
            return await handler(request)

        return answer

    async def _shown_by(self, request: web.Request) -> bool:
        """Tell whether a request shows the token, in a time that tells nothing of it; raises TokenError."""
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        token = await asyncio.to_thread(self._read)
        shown = credentials.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(shown, token) and scheme.lower() == "bearer"

    def _read(self) -> bytes:
        try:
            token = self._path.read_bytes().strip()
        except OSError as error:
            raise TokenError(f"metrics token file {self._path}: {error.strerror or error}") from error
        if not token:
            raise TokenError(f"metrics token file {self._path}: is empty, expected a token")
        return token


async def listen(
    runner: web.AppRunner, address: str, port: int, *, option: str, tls: ssl.SSLContext | None = None
) -> None:
    """Have a server listen; `option` is what its port is set by.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """
    try:
        await web.TCPSite(runner, address, port, ssl_context=tls).start()
    except OSError as error:
        raise ListenError(f"cannot listen on {address}:{port}: {_reason(error, option)}") from error


def _reason(error: OSError, option: str) -> str:
    """Say why an address can't be listened on, and what to do; asyncio's own text names it once more."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}{_OTHER_ADDRESS}"
    number = error.errno or errno.EADDRNOTAVAIL  # Python 3.13 leaves it out where no address could be bound
    advice = _ADVICE.get(number, "")
    return f"{os.strerror(number)}{advice.format(option=option)}"


@asynccontextmanager
async def serve(
    address: str,
    port: int,
    registry: CollectorRegistry,
    *,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
    token: MetricsToken | None = None,
    site: web.Application | None = None,
) -> AsyncIterator[int]:
    """Answer /metrics, /healthz and /readyz while the context lasts, and /web/ by the site; gives the port.

    With a token, /metrics is for those who show it; kubelets have none, so that probes stay open.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """

    def probe(holds: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text="ok") if holds() else web.Response(status=503, text="not yet")

        return answer

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/metrics", metrics if token is None else token.guard(metrics))
    application.router.add_get("/healthz", probe(alive))
    application.router.add_get("/readyz", probe(ready))
    if site is not None:
        application.add_subapp("/web/", site)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_LAST)
    await runner.setup()
    try:
        await listen(runner, address, port, option="--port")
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
