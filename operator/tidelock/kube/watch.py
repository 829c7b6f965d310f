"""A local, live copy of one resource: list, then watch, for ever.

The copy follows the server through everything that a watch can suffer: cut and silent connections, expired
versions, errors within the stream, events that come twice. It delivers to a `Sink` in the very turn of the
event loop in which the bytes are read, as this is the way from a lock's creation to its decision.

Resource versions are compared as integers, which Kubernetes permits since 1.35 for the objects of one
resource. A watch sends its events in the order of their versions, so one number, the newest version
seen, tells whether an event is news or a repetition, even for an object that has been removed meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Generic, NoReturn, Protocol, TypeVar

from tidelock.kube.backoff import Backoff
from tidelock.kube.client import KubeClient, Resource
from tidelock.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    TransientError,
    Unauthorized,
    Unreachable,
    error_from_event,
)
from tidelock.kube.lines import LineSplitter
from tidelock.kube.wire import Page, parse_event, parse_identity, parse_page, parse_version
from tidelock.model.meta import Key, ObjectMeta

logger = logging.getLogger(__name__)

_UNKNOWN = 0  # no object ever has this version


class HasMeta(Protocol):
    """Anything decoded from a Kubernetes object."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and version."""


T = TypeVar("T", bound=HasMeta)
T_contra = TypeVar("T_contra", bound=HasMeta, contravariant=True)


class Sink(Protocol[T_contra]):
    """Receives changes in order, in the event loop. An exception in it ends the reflector's `run`."""

    def upsert(self, old: T_contra | None, new: T_contra) -> None:
        """Take a new object (`old` is None), or a new state of the object that has the same uid."""

    def remove(self, last: T_contra) -> None:
        """Forget an object; `last` is its state as delivered before."""

    def synced(self) -> None:
        """Learn that a complete list has been delivered: the copy is as new as that list."""


# What people can do about a failure; the others pass by themselves.
_ADVICE: Mapping[type[ApiError], str] = MappingProxyType(
    {
        Unauthorized: "log in again, or renew the ServiceAccount's token",
        Forbidden: "give it the rights of manifests/base",
        NotFound: "install the CRDs: kubectl apply --server-side -k manifests/base",
        Unreachable: "see that the cluster runs and can be reached, or name another kubeconfig",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """How a reflector lists, watches and retries; all times are in seconds."""

    page_limit: int = 500  # objects a list request asks for
    yield_every: int = 200  # listed objects between two turns of the event loop
    shortest_watch: float = 300.0  # the server ends a watch after a random time between these two
    longest_watch: float = 600.0
    silence: float = 90.0  # a stream without a byte for so long is dead: bookmarks come each minute
    shortest_retry: float = 0.1  # back-off after errors
    longest_retry: float = 10.0
    refused_retry: float = 5.0  # at least so long after 401, 403 and 404, as people must mend those


class Reflector(Generic[T]):
    """Keeps a sink and its own `store` equal to one resource on the server.

    Attributes:
        store: the objects as last delivered, by key.
        synced: set once the first complete list has been delivered.
        relists: complete lists so far.
        watch_restarts: watch requests so far.
        bad_objects: states that could not be decoded so far.
        last_activity: clock reading when the server was last heard of.
        lost: why the copy gets no news now; None while a watch is open, and before the first try.

    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        decode: Callable[[bytes], T],
        sink: Sink[T],
        *,
        rng: Random,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        optional: bool = False,
        settings: WatchSettings = WatchSettings(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare to follow a resource; `decode` raises ValueError for what it can't read.

        If the API server does not know an `optional` resource, there are no objects of it until it does.
        """
        self._client = client
        self._resource = resource
        self._decode = decode
        self._sink = sink
        self._rng = rng
        self._path = resource.collection(namespace)
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._optional = optional
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._backoff = Backoff(settings.shortest_retry, settings.longest_retry, rng)
        self._store: dict[Key, T] = {}
        self._version = _UNKNOWN  # everything up to here has been delivered
        self._trouble: tuple[type[ApiError], int, str] | None = None
        self.synced = asyncio.Event()
        self.relists = 0
        self.watch_restarts = 0
        self.bad_objects = 0
        self.last_activity = clock()
        self.lost: ApiError | None = None

    @property
    def store(self) -> Mapping[Key, T]:
        """The objects as last delivered, by key; read only."""
        return self._store

    async def run(self) -> NoReturn:
        """Follow the resource until cancelled, whatever the API does; only errors of the sink get out."""
        while True:
            await self._sleep(await self._attempt())

    async def _attempt(self) -> float:
        """List if that is needed, watch until the stream ends; return the seconds to wait before the next."""
        try:
            if self._version == _UNKNOWN:
                await self._list()
            advanced = await self._watch()
        except ApiError as error:
            self.lost = error
            self._report(error)
            if self._optional and isinstance(error, NotFound):
                self._end_list(())
            return self._delay_after(error)
        return 0.0 if advanced else self._backoff.next()

    async def _list(self) -> None:
        """Deliver the difference between the store and a consistent list; what vanished is removed last."""
        present: set[Key] = set()
        first = page = await self._fetch_page("")
        await self._deliver_page(page, present)
        while page.metadata.token:
            page = await self._fetch_page(page.metadata.token)
            await self._deliver_page(page, present)
        # All pages show the state of this one version.
        self._version = parse_version(first.metadata.resource_version)
        self.relists += 1
        logger.info("listed", extra=self._fields(objects=len(present), version=self._version))
        self._end_list(present)

    def _end_list(self, present: Collection[Key]) -> None:
        """Remove what is not there any more; all that is there has been delivered."""
        for key in [key for key in self._store if key not in present]:
            self._remove(key)
        self._sink.synced()
        self.synced.set()

    async def _fetch_page(self, token: str) -> Page:
        # Without a resourceVersion the list is as new as etcd itself, never older than what was seen before.
        params = {**self._selectors, "limit": str(self._settings.page_limit)}
        if token:
            params["continue"] = token
        body = await self._client.get(self._path, params)
        self.last_activity = self._clock()
        return parse_page(body)

    async def _deliver_page(self, page: Page, present: set[Key]) -> None:
        for count, raw in enumerate(page.items or (), start=1):
            listed = parse_identity(raw)
            present.add(listed.key)
            known = self._store.get(listed.key)
            if known is None or known.meta.resource_version != listed.resource_version:
                self._upsert(listed.key, raw)
            if count % self._settings.yield_every == 0:
                await asyncio.sleep(0)

    async def _watch(self) -> bool:
        """Deliver events until the stream ends; whether there was news."""
        start = self._version
        seconds = self._rng.uniform(self._settings.shortest_watch, self._settings.longest_watch)
        params = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(start),
            "timeoutSeconds": str(int(seconds)),
        }
        lines = LineSplitter()
        self.watch_restarts += 1
        async with self._client.stream(self._path, params, silence_seconds=self._settings.silence) as stream:
            self.lost = None
            while chunk := await stream.read():
                self.last_activity = self._clock()
                for line in lines.feed(chunk):
                    self._handle(line)
        return self._version > start

    def _handle(self, line: bytes) -> None:
        event = parse_event(line)
        if event.type == "ERROR":
            self._version = _UNKNOWN  # whatever it is, the stream can't be trusted to go on from here
            raise error_from_event(event.object)
        changed = parse_identity(event.object)
        version = parse_version(changed.resource_version)
        if version <= self._version:
            return
        if event.type == "DELETED":
            self._remove(changed.key)
        elif event.type != "BOOKMARK":
            self._upsert(changed.key, event.object)
        self._advance(version)

    def _upsert(self, key: Key, raw: bytes) -> None:
        try:
            new = self._decode(raw)
        except ValueError:
            # The last good state stays: it is wrong, but an object that takes room is not taken for none.
            self.bad_objects += 1
            logger.exception("undecodable, keeping its last good state", extra=self._fields(object=str(key)))
            return
        old = self._store.get(key)
        if old is not None and old.meta.uid != new.meta.uid:
            self._remove(key)  # deleted and created again while nobody looked
            old = None
        self._store[key] = new
        self._sink.upsert(old, new)

    def _remove(self, key: Key) -> None:
        last = self._store.pop(key, None)
        if last is not None:
            self._sink.remove(last)

    def _advance(self, version: int) -> None:
        self._version = version
        self._backoff.reset()
        if self._trouble:
            logger.info("watching works again", extra=self._fields())
            self._trouble = None

    def _report(self, error: ApiError) -> None:
        """Log a failure once, not at each try; an expired version is an ordinary event."""
        trouble = (type(error), error.status, error.reason)
        if trouble != self._trouble:
            level = logging.INFO if isinstance(error, Gone) else logging.WARNING
            advice = {"advice": _ADVICE[type(error)]} if type(error) in _ADVICE else {}
            logger.log(level, "can't watch for now", extra=self._fields(error=str(error), **advice))
            self._trouble = trouble

    def _fields(self, **more: object) -> dict[str, object]:
        return {"resource": self._resource.plural, **more}

    def _delay_after(self, error: ApiError) -> float:
        if not isinstance(error, TransientError):
            self._version = _UNKNOWN
        delay = self._backoff.next()
        if isinstance(error, Unauthorized | Forbidden | NotFound):
            delay = max(delay, self._settings.refused_retry * self._rng.uniform(1.0, 1.5))
        return delay + (error.retry_after or 0.0)
