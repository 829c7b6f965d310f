"""A local, live copy of one resource: list, then watch, forever.

The copy follows the server through every failure of a watch: cut and silent connections, expired versions,
errors within the stream, repeated events. It delivers to an `EventHandler` in the very turn of the event loop
in which the bytes are read, as this is the way from a reservation's creation to its decision.

Resource versions are compared as integers, which Kubernetes permits since 1.35 for the objects of one
resource. A watch sends its events in the order of their versions. So one number, the newest version seen,
shows whether an event is new or repeated, even for an object that has been removed meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from tidelock.kube.backoff import Backoff
from tidelock.kube.client import ApiResource, KubeClient
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
from tidelock.kube.retries import Retries
from tidelock.kube.wire import (
    ListPage,
    parse_event,
    parse_identity,
    parse_page,
    parse_uid,
    parse_version,
)
from tidelock.model.failures import Attempt, failure_text
from tidelock.model.meta import Fault, Key, ObjectMeta

logger = logging.getLogger(__name__)

_UNKNOWN = 0  # no object ever has this version
_Step = tuple[Key, str]
"""The removal of an object, by its name and uid, or the end of a list."""
_END_OF_LIST: _Step = Key("", ""), ""


class HasMeta(Protocol):
    """An object decoded from a Kubernetes object."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and version."""


_T = TypeVar("_T", bound=HasMeta)
_T_contra = TypeVar("_T_contra", bound=HasMeta, contravariant=True)


class EventHandler(Protocol[_T_contra]):
    """Receives changes in order, in the event loop.

    An exception costs only its object (`Failures`), which is delivered once more later.
    """

    def upsert(self, old: _T_contra | None, new: _T_contra) -> None:
        """Process a new object (`old` is None), or a new state of the object with the same uid."""

    def remove(self, last: _T_contra) -> None:
        """Forget an object. `last` is its state as delivered before.

        After a failure it comes again, perhaps when another object has the name already. That one stays.
        """

    def synced(self) -> None:
        """Note that a complete list has been delivered: the copy is as new as that list."""


class Failures(Protocol):
    """Takes the unexpected exceptions of event handlers and decoders."""

    def __call__(self, step: str, about: ApiResource, meta: ObjectMeta, error: Exception, /) -> float:
        """Mark an object for which a step failed, and return the seconds after which to try again."""


def _raise(step: str, about: ApiResource, meta: ObjectMeta, error: Exception, /) -> NoReturn:
    del step, about, meta
    raise error


# Advice for failures that a user must fix. The others pass by themselves.
_ADVICE: Mapping[type[ApiError], str] = MappingProxyType(
    {
        Unauthorized: "log in again, or renew the ServiceAccount's token",
        Forbidden: "give it the rights of manifests/base, by your own kustomization or release",
        NotFound: "install the CRDs of this version: kubectl apply --server-side -k crds",
        Unreachable: "check that the cluster runs and can be reached, or name another kubeconfig",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """Settings for lists, watches and retries. All times are in seconds."""

    page_limit: int = 500  # objects that a list request asks for
    yield_every: int = 200  # listed objects between two turns of the event loop, at most
    turn: float = 0.01  # seconds after which a turn ends: a pod beside thousands of selectors takes 0.1 s
    shortest_watch: float = 300.0  # the server ends a watch after a random time between these two
    longest_watch: float = 600.0
    silence: float = 90.0  # a stream without a byte for this time is dead: bookmarks come each minute
    shortest_retry: float = 0.1  # back-off after errors
    longest_retry: float = 10.0
    refused_retry: float = 5.0  # at least this time after 401, 403 and 404, which a user must fix


def _is_another(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return whether an object is another one than the last of its name.

    An object without a namespace, such as a node, is the same as long as the uid of either can't be read.
    """
    if old.uid == new.uid or old.namespace:
        return old.uid != new.uid
    return new.is_other(old.uid) and old.is_other(new.uid)


class Reflector(Generic[_T]):
    """Keeps an event handler and its own `store` equal to one resource on the server.

    Args:
        client: connection to the API server.
        resource: the resource to follow.
        decode: decodes an object from its JSON, and notes its unreadable parts in the metadata's
            `faults`. Raises ValueError for JSON that is no object at all.
        sink: the event handler that receives all changes.
        rng: random generator, which spreads retries.
        name: its name for people. By default it is the plural of the resource.
        namespace: the only namespace to follow.
        field_selector: required fields of the objects.
        label_selector: required labels of the objects.
        absent_if: refusals that count as a list, so nothing waits for the resource: NotFound as an empty
            one, others as the list that is known, which is empty at first.
        expected: refusals of `absent_if` that are no failure, such as NotFound for a resource that older
            versions of Kubernetes do not serve.
        advice: sentences for the log by the type of an error, in addition to those for Tidelock's own kinds.
        on_faults: called with each object if its faults have changed.
        on_failure: takes the exceptions of the sink; by default they end `run`.
        on_listed: called after each complete list with its resource version. Returns objects to remove, too.
        unusable: returns the replacement of an object for which the sink failed.
        settings: times and sizes.
        clock: monotonic seconds.
        sleep: waits for some seconds.

    Attributes:
        resource: the resource that it follows.
        name: its name for people.
        store: the objects as last delivered, by key.
        synced: set once the first complete list has been delivered.
        relists: complete lists so far.
        watch_restarts: watch requests so far.
        faulty: faults of the objects that can't be read in full, by key.
        last_activity: clock reading of the last data from the server.
        lost: why the copy gets no news now, or None while a watch is open, before the first try, and if
            that is expected.

    """

    def __init__(
        self,
        client: KubeClient,
        resource: ApiResource,
        decode: Callable[[bytes], _T],
        sink: EventHandler[_T],
        *,
        rng: Random,
        name: str = "",
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
        absent_if: tuple[type[ApiError], ...] = (),
        expected: tuple[type[ApiError], ...] = (),
        advice: Mapping[type[ApiError], str] = MappingProxyType({}),
        on_faults: Callable[[ApiResource, ObjectMeta], None] = lambda _resource, _meta: None,
        on_failure: Failures = _raise,
        on_listed: Callable[[int], Iterable[_T]] = lambda _version: (),
        unusable: Callable[[_T, str], _T | None] = lambda _object, _problem: None,
        settings: WatchSettings = WatchSettings(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self.resource = resource
        self.name = name or resource.plural
        self._decode = decode
        self._sink = sink
        self._rng = rng
        self._path = resource.collection(namespace)
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._absent_if = absent_if
        self._expected = expected
        self._advice = {**_ADVICE, **advice}
        self._on_faults = on_faults
        self._on_failure = on_failure
        self._on_listed = on_listed
        self._unusable = unusable
        self._behind: dict[Key, tuple[asyncio.TimerHandle, _T | None]] = {}
        self._retries = Retries[_Step]()
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._backoff = Backoff(settings.shortest_retry, settings.longest_retry, rng)
        self._store: dict[Key, _T] = {}
        self._version = _UNKNOWN  # everything up to here has been delivered
        self._trouble: tuple[type[ApiError], int, str] | None = None
        self.synced = asyncio.Event()
        self.relists = 0
        self.watch_restarts = 0
        self.faulty: dict[Key, tuple[Fault, ...]] = {}
        self.last_activity = clock()
        self.lost: ApiError | None = None

    @property
    def store(self) -> Mapping[Key, _T]:
        """The objects as last delivered, by key, read only."""
        return self._store

    async def run(self) -> NoReturn:
        """Follow the resource until cancelled, through all failures of the API."""
        self.last_activity = self._clock()  # it may have been made long before
        try:
            while True:
                await self._sleep(await self._attempt())
        finally:
            for handle, _ in self._behind.values():
                handle.cancel()
            self._retries.close()

    async def _attempt(self) -> float:
        """List if that is needed, and watch until the stream ends. Return the seconds until the next try."""
        try:
            if self._version == _UNKNOWN:
                await self._list()
            advanced = await self._watch()
        except ApiError as error:
            self.lost = None if isinstance(error, self._expected) else error
            self._report(error)
            if isinstance(error, self._absent_if):
                self._end_list(() if isinstance(error, NotFound) else self._store)
            return self._delay_after(error)
        return 0.0 if advanced else self._backoff.next()

    async def _list(self) -> None:
        """Deliver the difference between the store and a consistent list, with removals last."""
        present: set[Key] = set()
        first = page = await self._fetch_page("")
        while page.metadata.token:
            # The API server makes the next page while this one is delivered.
            following = asyncio.create_task(self._fetch_page(page.metadata.token))
            try:
                await self._deliver_page(page, present)
                page = await following
            finally:
                following.cancel()
        await self._deliver_page(page, present)
        # All pages show the state of this one version.
        self._version = parse_version(first.metadata.resource_version)
        self.relists += 1
        logger.info("listed", extra=self._fields(objects=len(present), version=self._version))
        self._end_list(present)
        for gone in self._on_listed(self._version):
            self._report_removed(gone)

    def _end_list(self, present: Collection[Key]) -> None:
        """Remove the objects that are gone, after all present ones have been delivered."""
        self._retries.cancel(_END_OF_LIST)
        for key in [key for key in (*self._store, *self.faulty) if key not in present]:
            self._remove(key)
        with self._try("list", ObjectMeta("")) as attempt:
            self._sink.synced()
            self.synced.set()
        if attempt.error is not None:  # all that is known then is present
            self._retries.schedule(
                _END_OF_LIST, attempt.pause, lambda: self._end_list({*self._store, *self.faulty})
            )

    async def _fetch_page(self, token: str) -> ListPage:
        # Without a resourceVersion the list is as new as etcd itself, never older than an earlier result.
        params = {**self._selectors, "limit": str(self._settings.page_limit)}
        if token:
            params["continue"] = token
        body = await self._client.get(self._path, params)
        self.last_activity = self._clock()
        return parse_page(body)

    async def _deliver_page(self, page: ListPage, present: set[Key]) -> None:
        end = self.last_activity + self._settings.turn
        for count, raw in enumerate(page.items or (), start=1):
            listed = parse_identity(raw)
            key = listed.key
            present.add(key)
            known = self._store.get(key)
            if known is None or known.meta.resource_version != listed.resource_version:
                self._upsert(key, raw)
            if count % self._settings.yield_every == 0 or self._clock() >= end:
                await asyncio.sleep(0)
                end = self._clock() + self._settings.turn

    async def _watch(self) -> bool:
        """Deliver events until the stream ends, and return whether there were any."""
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
                end = self.last_activity + self._settings.turn
                for line in lines.split(chunk):
                    self._handle(line)
                    if self._clock() >= end:
                        await asyncio.sleep(0)
                        end = self._clock() + self._settings.turn
        return self._version > start

    def _handle(self, line: bytes) -> None:
        event = parse_event(line)
        if event.type == "ERROR":
            self._version = _UNKNOWN  # whatever the error is, the stream can't be trusted from here on
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
        with Attempt(partial(self._decoder_failed, key, raw)) as attempt:
            self._take(key, raw)
        if attempt.error is not None:
            self.faulty[key] = (_fault_of(attempt.error),)
            known = self._store.get(key)
            if (behind := self._behind.pop(key, None)) is not None:
                handle, known = behind
                handle.cancel()
            handle = asyncio.get_running_loop().call_later(attempt.pause, self._upsert, key, bytes(raw))
            self._behind[key] = handle, known

    def _decoder_failed(self, key: Key, raw: bytes, error: Exception) -> float:
        meta = ObjectMeta(key.name, key.namespace, parse_uid(raw))
        return self._on_failure("decoding", self.resource, meta, error)

    def _take(self, key: Key, raw: bytes) -> None:
        try:
            new = self._decode(raw)
        except ValueError as error:
            # Its JSON is broken, which no API server sends. An object that takes capacity must not count as
            # absent.
            self._note_faults(
                ObjectMeta(key.name, key.namespace, faults=(Fault("", str(error), needed=True),))
            )
            return
        old = self._store.get(key)
        if old is not None and _is_another(old.meta, new.meta):
            self._remove(key)  # deleted and created again between two lists
            old = None
        self._note_faults(new.meta)
        self._store[key] = new
        self._deliver(old, new)

    def _deliver(self, old: _T | None, new: _T) -> None:
        """Deliver an object. One for which the sink fails is unusable until the sink accepts it."""
        key = new.meta.key
        if (behind := self._behind.pop(key, None)) is not None:
            handle, old = behind  # the state that the sink knows
            handle.cancel()
        with self._try("event", new.meta) as attempt:
            self._sink.upsert(old, new)
        if attempt.error is not None:
            fault = _fault_of(attempt.error)
            self.faulty[key] = (fault,)
            known = self._deliver_unusable(old, new, fault)
            handle = asyncio.get_running_loop().call_later(attempt.pause, self._deliver_again, key)
            self._behind[key] = handle, known

    def _deliver_unusable(self, old: _T | None, new: _T, fault: Fault) -> _T | None:
        """Deliver the replacement of an unusable object, and return the state that the sink knows then."""
        instead = self._unusable(new, fault.problem)
        with self._try("unusable", new.meta) as attempt:
            if instead is not None:
                self._sink.upsert(old, instead)
        return old if instead is None or attempt.error is not None else instead

    def _try(self, step: str, meta: ObjectMeta) -> Attempt:
        return Attempt(lambda error: self._on_failure(step, self.resource, meta, error))

    def _deliver_again(self, key: Key) -> None:
        new = self._store.get(key)
        if new is not None:
            self._deliver(None, new)
            if key not in self._behind:
                self._note_faults(new.meta)

    def _note_faults(self, meta: ObjectMeta) -> None:
        """Log an object that can't be read in full, and pass it on, once for each set of faults."""
        if not (meta.faults or self.faulty) or meta.faults == self.faulty.get(meta.key, ()):
            return
        if not meta.faults:
            del self.faulty[meta.key]
            logger.info("can be read in full again", extra=self._fields(object=str(meta.key)))
            return
        self.faulty[meta.key] = meta.faults
        consequence = "can't be used" if meta.unreadable else "used without these parts"
        faults = "; ".join(map(str, meta.faults))
        fields = self._fields(object=str(meta.key), consequence=consequence, faults=faults)
        logger.warning("can't be read in full", extra=fields)
        self._on_faults(self.resource, meta)

    def _remove(self, key: Key) -> None:
        self.faulty.pop(key, None)
        if (behind := self._behind.pop(key, None)) is not None:
            behind[0].cancel()
        last = self._store.pop(key, None)
        if last is not None:
            self._report_removed(last)

    def _report_removed(self, last: _T) -> None:
        """Deliver the removal of an object, again later if that fails, unless it is there again."""
        step = last.meta.key, last.meta.uid
        self._retries.cancel(step)
        known = self._store.get(last.meta.key)
        if known is not None and not _is_another(last.meta, known.meta):
            return
        with self._try("removal", last.meta) as attempt:
            self._sink.remove(last)
        if attempt.error is not None:
            self._retries.schedule(step, attempt.pause, partial(self._report_removed, last))

    def _advance(self, version: int) -> None:
        self._version = version
        self._backoff.reset()
        if self._trouble:
            logger.info("watching works again", extra=self._fields())
            self._trouble = None

    def _report(self, error: ApiError) -> None:
        """Log a failure once, not at each try. An expired version is an ordinary event."""
        trouble = (type(error), error.status, error.reason)
        if trouble != self._trouble:
            ordinary = isinstance(error, (Gone, *self._expected))
            level, known = (logging.INFO if ordinary else logging.WARNING), self._advice.get(type(error))
            advice = {} if known is None or ordinary else {"advice": known}
            logger.log(level, "can't watch for now", extra=self._fields(error=str(error), **advice))
            self._trouble = trouble

    def _fields(self, **more: object) -> dict[str, object]:
        return {"resource": self.resource.plural, **more}

    def _delay_after(self, error: ApiError) -> float:
        if not isinstance(error, TransientError):
            self._version = _UNKNOWN
        delay = self._backoff.next()
        if isinstance(error, Unauthorized | Forbidden | NotFound):
            delay = max(delay, self._settings.refused_retry * self._rng.uniform(1.0, 1.5))
        return delay + (error.retry_after or 0.0)


def _fault_of(error: Exception) -> Fault:
    """Return the fault of an object that the operator failed to process."""
    return Fault("", f"the operator failed: {failure_text(error)}", needed=True)


MakeReflector = Callable[..., Reflector[Any]]
"""Makes the watch of a resource from its decoder, its sink and options of Reflector."""
