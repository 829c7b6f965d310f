"""The HTTP server for probes, metrics and the web view."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tidelock.http_server import Handler, Limits, bounded, serve_http
from tidelock.tokens import TokenError, read_token

logger = logging.getLogger(__name__)


class MetricsToken:
    """The token that scrapes must send. It is read for each scrape, as a mounted Secret can change."""

    def __init__(self, path: Path) -> None:
        """Take the file, or raise TokenError if it holds no token now."""
        self._path = path
        read_token(path)

    def guard(self, handler: Handler) -> Handler:
        """Return a handler that answers only requests with the token."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                if not await self._shown_by(request):
                    return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
            except TokenError as error:
                logger.warning(
                    "a request was not answered", extra={"path": request.path, "error": str(error)}
                )
                return web.Response(status=503, text="the token to compare with can't be read")
            return await handler(request)

        return answer

    async def _shown_by(self, request: web.Request) -> bool:
        """Return whether a request has the token, in a time that leaks nothing, or raise TokenError."""
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        token = await asyncio.to_thread(read_token, self._path)
        shown = credentials.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(shown, token) and scheme.lower() == "bearer"


def _verbose(details: Mapping[str, str], *, passed: bool) -> str:
    """Return details in the format of the API server's `/readyz?verbose`."""
    lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in details.items()]
    return "\n".join([*lines, f"readyz check {'passed' if passed else 'failed'}", ""])


@asynccontextmanager
async def serve(
    address: str,
    port: int,
    registry: CollectorRegistry,
    *,
    alive: Callable[[], bool],
    ready: Callable[[], bool],
    details: Callable[[], Mapping[str, str]] = dict,
    token: MetricsToken | None = None,
    site: web.Application | None = None,
) -> AsyncIterator[int]:
    """Serve /metrics, /healthz, /readyz and the site's /web/ while the context lasts. Yield the port.

    With a site, / and /web lead to it, also behind a proxy that adds a prefix.
    With a token, /metrics needs the token. Kubelets have none, so probes stay open. `/readyz?verbose` lists
    the `details`: parts by name, each with its error, or nothing. They do not decide whether the process is
    ready.

    Raises:
        ListenError: the port is taken, or the address is not one of this machine's.

    """

    def probe(holds: Callable[[], bool]) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text="ok") if holds() else web.Response(status=503, text="not yet")

        return answer

    async def readyz(request: web.Request) -> web.StreamResponse:
        if "verbose" not in request.query:
            return await probe(ready)(request)
        passed = ready()
        return web.Response(status=200 if passed else 503, text=_verbose(details(), passed=passed))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = bounded(Limits())
    application.router.add_get("/metrics", metrics if token is None else token.guard(metrics))
    application.router.add_get("/healthz", probe(alive))
    application.router.add_get("/readyz", readyz)

    async def to_site(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("web/")

    if site is not None:
        application.router.add_get("/", to_site)
        application.router.add_get("/web", to_site)
        application.add_subapp("/web/", site)
    async with serve_http(application, address, port, option="--port") as served:
        yield served
