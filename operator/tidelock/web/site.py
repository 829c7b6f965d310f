"""The web view over HTTP: a few files without data, and a stream of server-sent events with data.

A browser sends no bearer token when it requests files, so every client that can reach the port gets the
files. The script requests the stream, with the token, if there is one, as for metrics.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from types import MappingProxyType

import msgspec
from aiohttp import web

from tidelock.clock import Clock
from tidelock.http_server import Handler
from tidelock.running import until
from tidelock.serving import MetricsToken
from tidelock.web.query import BadQueryError, ViewQuery, read_query
from tidelock.web.replica_status import ReplicaStatus
from tidelock.web.view import Slices

MOST_STREAMS = 16
"""Number of browsers that can look at once, because their views cost the decision loop time."""
MOST_OF_CLIENT = 8
"""Number of these from one address, which all users of a port-forward or a proxy share."""

# Seconds between two views for a browser, and the part of the time that all views may take.
_PAUSE = 1.0
_SHARE = 0.1

_FILES = MappingProxyType(
    {
        "": ("index.html", "text/html"),
        "page.css": ("page.css", "text/css"),
        "page.js": ("page.js", "text/javascript"),
        "screens.js": ("screens.js", "text/javascript"),
        "parts.js": ("parts.js", "text/javascript"),
    }
)
_HEADERS = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
            " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        ),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
)


Look = Callable[[ViewQuery, float], Slices]
"""Computes a page in slices, see `tidelock.web.view.WebView.look`."""


class Site:
    """Answers browsers.

    Attributes:
        application: to be mounted at a path that ends in a slash.

    """

    def __init__(
        self, look: Look, replica: Callable[[], ReplicaStatus], clock: Clock, token: MetricsToken | None
    ) -> None:
        """Take the source of pages, and the token that clients must send, if there is one."""
        self._look, self._replica, self._clock = look, replica, clock
        self._streams: Counter[str | None] = Counter()
        self._ending = asyncio.Event()
        self.application = web.Application()
        for path, (name, kind) in _FILES.items():
            body = files("tidelock.web").joinpath("assets", name).read_bytes()
            self.application.router.add_get(f"/{path}", _giving(body, kind))
        events = self._events if token is None else token.guard(self._events)
        self.application.router.add_get("/events", events, allow_head=False)
        self.application.on_response_prepare.append(_harden)
        self.application.on_shutdown.append(self._end)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        try:
            query = read_query(request.query)
        except BadQueryError as error:
            return web.Response(status=400, text=str(error))
        client = request.remote
        if self._streams[client] >= MOST_OF_CLIENT:
            return web.Response(
                status=503, text=f"{MOST_OF_CLIENT} browsers of {client} are already connected"
            )
        if self._streams.total() >= MOST_STREAMS:
            return web.Response(status=503, text=f"{MOST_STREAMS} browsers are already connected")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._streams[client] += 1
        try:
            await response.prepare(request)
            await until(self._ending, self._send_pages(response, query))
        except ConnectionError:
            pass  # the browser has gone
        finally:
            self._streams -= Counter([client])  # an address without a stream is dropped
        return response

    async def _send_pages(self, response: web.StreamResponse, query: ViewQuery) -> None:
        """Send pages forever. An unchanged page is not sent again."""
        sent = b""
        while True:
            replica = self._replica()
            page, spent = b"null", 0.0
            if replica.state == "leading":
                page, spent = await self._page(query)
            news = b'"replica":%b,"page":%b' % (msgspec.json.encode(replica), page)
            now = b'"now":%.3f' % self._clock.now()
            await response.write(b"data: {%b}\n\n" % (now if news == sent else b",".join((now, news))))
            sent = news
            await asyncio.sleep(pause_after(spent, self._streams.total()))

    async def _page(self, query: ViewQuery) -> tuple[bytes, float]:
        """Compute a page, and yield between the slices. Return its JSON, and the seconds it took."""
        slices, spent = self._look(query, self._clock.now()), 0.0
        while True:
            started = time.perf_counter()
            try:
                next(slices)
            except StopIteration as end:
                page = msgspec.json.encode(end.value)
                return page, spent + time.perf_counter() - started
            spent += time.perf_counter() - started
            await asyncio.sleep(0)

    async def _end(self, _: web.Application) -> None:
        self._ending.set()


def pause_after(spent: float, browsers: int) -> float:
    """Return how long to wait after a view that took some seconds, with this many browsers."""
    return max(_PAUSE, spent * browsers / _SHARE)


def _giving(body: bytes, kind: str) -> Handler:
    async def give(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return give


async def _harden(_: web.Request, response: web.StreamResponse) -> None:
    """Restrict the browser to the files, data and requests of this site."""
    response.headers.update(_HEADERS)
