"""A thin HTTP client of the API server, and the paths of the resources that Tidelock uses."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Literal, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from tidelock.kube import connections
from tidelock.kube.config import Connection
from tidelock.kube.connections import ConnectionPool, NotConnected, format_request
from tidelock.kube.errors import MalformedResponse, Unreachable, error_from_response
from tidelock.kube.responses import Response
from tidelock.model.meta import ObjectMeta

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]
Params = Mapping[str, str]

_JSON = "application/json"
_PATCH_TYPES: Mapping[PatchKind, str] = MappingProxyType(
    {
        "merge": "application/merge-patch+json",
        "json": "application/json-patch+json",
        "strategic": "application/strategic-merge-patch+json",
        "apply": "application/apply-patch+yaml",
    }
)
_CREDENTIALS_SECONDS = 60.0  # how often the credentials are read for a newer header
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_CLOSE_SECONDS = 1.0  # for sockets that were shut down, which takes some turns of the event loop


def _may_read() -> None:
    """Allow a read at any time."""


def _plain(value: object) -> object:
    """Return the plain value of a subclass of str or a NumPy scalar, or raise TypeError for others.

    msgspec refuses to encode them. A write that contains one would fail for ever.
    """
    if isinstance(value, str):
        return str(value)
    if callable(item := getattr(value, "item", None)):
        return item()
    raise TypeError(f"an object of type {type(value).__name__} has no JSON")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource of the API and its paths. The core group is empty."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Group and version, as objects carry them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None = None) -> str:
        """Path of the collection, in one namespace or in all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            root += f"/namespaces/{quote(namespace, safe='')}"
        return f"{root}/{self.plural}"

    def item(self, name: str, namespace: str | None = None, subresource: str | None = None) -> str:
        """Path of one object or of its subresource.

        Raises:
            ValueError: the resource is namespaced and no namespace is given.

        """
        if self.namespaced and not namespace:
            raise ValueError(f"{self.plural} are namespaced: no namespace for {name!r}")
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


PODS = ApiResource("", "v1", "pods", "Pod")
NODES = ApiResource("", "v1", "nodes", "Node", namespaced=False)
EVENTS = ApiResource("events.k8s.io", "v1", "events", "Event")
WEBHOOKS = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
RESERVATIONS = ApiResource("tidelock.dev", "v1alpha1", "reservations", "Reservation")
RESERVATIONGROUPS = ApiResource("tidelock.dev", "v1alpha1", "reservationgroups", "ReservationGroup")
RESERVATIONSCHEDULES = ApiResource("tidelock.dev", "v1alpha1", "reservationschedules", "ReservationSchedule")
PODGROUPS = ApiResource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
SECRETS = ApiResource("", "v1", "secrets", "Secret")
RESOURCEQUOTAS = ApiResource("", "v1", "resourcequotas", "ResourceQuota")
RESERVATIONQUOTAS = ApiResource("tidelock.dev", "v1alpha1", "reservationquotas", "ReservationQuota")
RESERVATIONQUOTES = ApiResource("tidelock.dev", "v1alpha1", "reservationquotes", "ReservationQuote")
WATERLEVELS = ApiResource("tidelock.dev", "v1alpha1", "waterlevels", "WaterLevel", namespaced=False)


class Stream:
    """The body of an endless response."""

    def __init__(self, stream: connections.Stream) -> None:
        self._stream = stream

    async def read(self) -> bytes:
        """Wait for data and return all that has arrived, or nothing at the end of the stream.

        Raises:
            Unreachable: the connection broke or was silent for too long.

        """
        with _transport_errors("GET"):
            return await self._stream.read()


_A = TypeVar("_A", Response, connections.Stream)


class KubeClient:
    """One user's connections to one API server; use it as an async context manager.

    A request answered with 401 is repeated once, if the credentials have changed meanwhile. A GET, PUT or
    DELETE is repeated if its kept connection turns out to be closed. No other request is repeated. All
    methods raise the errors of `tidelock.kube.errors`, and no others.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        timeout_seconds: float = 10.0,
        connections: int = 100,
        may_write: Callable[[], None] = lambda: None,
        manager: Callable[[], str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the client, with up to `connections` for reads and as many for writes.

        `may_write` is called for each write once it has a connection, right before its first byte, and again
        if the write is repeated. It raises an ApiError if the write must not be sent. `manager` is the
        fieldManager of creations, replacements and patches. Without it the API server derives one from the
        user agent. `monotonic` is a clock in seconds.
        """
        self._connection = connection
        self._user_agent = user_agent
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._may_write = may_write
        self._manager = manager
        self._monotonic = monotonic
        self._reads: ConnectionPool
        self._writes: ConnectionPool
        self._renewal = asyncio.Lock()
        self._authorization: dict[str, str]  # headers; a new object each time they are read
        self._authorization_due: float

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._connection.server

    async def __aenter__(self) -> Self:
        self._authorization = await self._read(self._connection.credentials.header)
        self._authorization_due = self._monotonic() + _CREDENTIALS_SECONDS
        server = self._connection.server
        tls = self._connection.ssl_context() if server.startswith("https:") else None
        self._reads = ConnectionPool(server, tls, self._connections)
        self._writes = ConnectionPool(server, tls, self._connections)
        return self

    async def __aexit__(self, *_: object) -> None:
        pools = self._reads, self._writes
        for pool in pools:
            pool.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while any(pool.open for pool in pools):  # noqa: ASYNC110 -- no event is set
                    await asyncio.sleep(0)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        content_type: str = _JSON,
        timeout: float | None = None,  # noqa: ASYNC109 -- a timer of the event loop is cheaper
    ) -> bytes:
        """Send one request and return the body of the response.

        Args:
            method: HTTP method in capitals.
            path: quoted path below the server's base URL.
            params: query, not quoted.
            body: bytes as they are, or an object that msgspec encodes as JSON, or None for no body. A GET has
                none.
            content_type: media type of the body.
            timeout: seconds for the whole request; the client's own time-out if None.

        """
        data = body if isinstance(body, bytes) else b"" if body is None else _encode(body)
        response = await self._exchange(method, path, params, data, content_type, timeout)
        return response.take()

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Read an object or a list."""
        return await self.request("GET", path, params=params)

    async def create(self, path: str, body: object) -> bytes:
        """Create an object in a collection, or post to a subresource such as a pod's binding."""
        return await self.request("POST", path, params=self._named(), body=body)

    async def replace(self, path: str, body: object) -> bytes:
        """Replace the stored object, or a subresource such as its status."""
        return await self.request("PUT", path, params=self._named(), body=body)

    async def replace_status(self, resource: ApiResource, meta: ObjectMeta, status: object) -> bytes:
        """Replace the status of an object, if the stored object still has that version.

        A PUT costs the API server less than a patch. The API server takes all but the status from the stored
        object, so the request has no other content.
        """
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "status": status,
        }
        return await self.replace(resource.item(meta.name, meta.namespace, "status"), body)

    async def patch(
        self, path: str, body: object, *, kind: PatchKind = "merge", params: Params | None = None
    ) -> bytes:
        """Change an object. The kind "apply" needs a separate fieldManager among the parameters."""
        params = {**(self._named() or {}), **(params or {})}
        return await self.request("PATCH", path, params=params, body=body, content_type=_PATCH_TYPES[kind])

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> bytes:
        """Delete an object, if it still has that uid and resource version.

        A pod gets `grace_seconds` to end, or its own grace period if that is None.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {field: value for field, value in preconditions.items() if value},
            "propagationPolicy": propagation,
        } | ({} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds})
        return await self.request("DELETE", path, body=options)

    async def time_of_day(self) -> float:
        """Return the API server's clock in whole seconds since the epoch, from the Date of its response."""
        response = await self._exchange("GET", "/version")
        try:
            return parsedate_to_datetime(response.headers[b"date"].decode()).timestamp()
        except (KeyError, ValueError) as error:
            raise MalformedResponse(f"no readable Date in the response: {error}") from error

    @asynccontextmanager
    async def stream(self, path: str, params: Params, *, silence_seconds: float) -> AsyncIterator[Stream]:
        """Open an endless response, which fails after `silence_seconds` without data."""

        async def send(authorization: dict[str, str]) -> connections.Stream:
            stream = await self._reads.stream(
                self._format("GET", path, params, authorization),
                connect=self._timeout_seconds,
                silence=silence_seconds,
            )
            if stream.status >= HTTPStatus.MULTIPLE_CHOICES:
                await stream.finish()
            return stream

        with _transport_errors("GET"):
            opened = await self._authorized(send)
        try:
            _check(opened.response, writing=False)
            yield Stream(opened)
        finally:
            opened.close()

    def _named(self) -> Params | None:
        return {"fieldManager": self._manager()} if self._manager else None

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        data: bytes = b"",
        content_type: str = _JSON,
        seconds: float | None = None,
    ) -> Response:
        """Send a request and return its whole response, which is a 2xx."""
        writing = method != "GET"
        pool, may_send = (self._writes, self._may_write) if writing else (self._reads, _may_read)

        async def send(authorization: dict[str, str]) -> Response:
            return await pool.send(
                self._format(method, path, params, authorization, data, content_type),
                seconds=seconds or self._timeout_seconds,
                may_send=may_send,
                repeatable=method in _REPEATABLE,
            )

        with _transport_errors(method):
            response = await self._authorized(send)
        _check(response, writing=writing)
        return response

    def _format(
        self,
        method: str,
        path: str,
        params: Params | None,
        authorization: dict[str, str],
        data: bytes = b"",
        content_type: str = _JSON,
    ) -> bytes:
        server = urlsplit(self._connection.server)
        target = server.path + path + (f"?{urlencode(params, quote_via=quote)}" if params else "")
        headers = {
            "Host": server.netloc.rpartition("@")[2],
            "User-Agent": self._user_agent,
            "Accept": _JSON,
        }
        if data:
            headers["Content-Type"] = content_type
        if method == "GET":
            # The API server compresses only big lists, where decompressing is cheaper than reading more TLS.
            headers["Accept-Encoding"] = "gzip"
        return format_request(method, target, headers | authorization, data)

    async def _authorized(self, send: Callable[[dict[str, str]], Awaitable[_A]]) -> _A:
        """Send a request with the credentials, and once more with newer ones if they are refused."""
        authorization = await self._current_authorization()
        response = await send(authorization)
        if response.status == HTTPStatus.UNAUTHORIZED and await self._renew_authorization(authorization):
            return await send(self._authorization)
        return response

    async def _current_authorization(self) -> dict[str, str]:
        now = self._monotonic()
        if now >= self._authorization_due:
            self._authorization_due = (
                now + _CREDENTIALS_SECONDS
            )  # at once: no other request waits for the thread
            self._authorization = await self._read(self._connection.credentials.header)
        return self._authorization

    async def _renew_authorization(self, refused: dict[str, str]) -> bool:
        """Read the credentials again, once for all refused requests, and return whether they differ."""
        async with self._renewal:
            if self._authorization is refused:
                self._authorization = await self._read(self._connection.credentials.renew)
        return self._authorization != refused

    @staticmethod
    async def _read(credentials: Callable[[], str | None]) -> dict[str, str]:
        header = await asyncio.to_thread(credentials)
        return {"Authorization": header} if header else {}


def _check(response: Response, *, writing: bool) -> None:
    """Raise the ApiError of a response that is no success."""
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        body, retry_after = response.take(), response.retry_after
        raise error_from_response(response.status, body, retry_after=retry_after, writing=writing)


@contextmanager
def _transport_errors(method: str) -> Iterator[None]:
    """Convert errors of connections to ApiErrors. A time-out counts as an OSError."""
    try:
        yield
    except NotConnected as error:
        raise Unreachable(str(error)) from error
    except OSError as error:
        message = str(error) or type(error).__name__
        raise Unreachable(message, outcome_unknown=method != "GET") from error
