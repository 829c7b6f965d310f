"""Events about objects, for people to read, which never delay the work that they report."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, NoReturn, Self

import msgspec

from tidelock.kube.client import EVENTS, KubeClient
from tidelock.kube.correlation import Correlator
from tidelock.kube.errors import ApiError

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

_CLUSTER_SCOPED_NAMESPACE = "default"  # the API's namespace for the events of objects without a namespace
_NOTE_BYTES = 1024  # the API server counts the note's bytes in UTF-8, not its characters
_CUT = " ..."  # the end of a note that was too long, as in kube-scheduler
_NAME_LENGTH = 253  # of any object's name
_PATIENCE = 3.0  # seconds for which an event waits for more urgent requests
_LOOK = 0.05  # seconds between two checks for such requests


class ObjectReference(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object of an event."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """An object of events.k8s.io/v1, with the fields that a client writes."""

    metadata: dict[str, str]
    event_time: str
    type: EventType
    reason: str
    action: str
    note: str
    regarding: ObjectReference
    reporting_controller: str
    reporting_instance: str
    related: ObjectReference | msgspec.UnsetType = msgspec.UNSET
    api_version: str = "events.k8s.io/v1"
    kind: str = "Event"


class EventRecorder:
    """Sends events in the background; use it as an async context manager, or call `aclose`.

    When `capacity` events wait, the oldest is dropped. An event that can't be sent is logged and forgotten.
    An event costs the API server about as much as the work that it reports, so it waits for such work for
    some seconds. A few workers then send the events of thousands of bindings within seconds.

    Attributes:
        dropped: events dropped because too many waited.
        failed: events that the API server did not accept.

    """

    def __init__(
        self,
        client: KubeClient,
        reporting_controller: str,
        reporting_instance: str,
        *,
        capacity: int = 10_000,
        workers: int = 4,
        last_seconds: float = 2.0,
        busy: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to send events.

        Args:
            client: connection to the API server.
            reporting_controller: the program, such as example.com/name, for events that name no other.
            reporting_instance: the name of its process.
            capacity: most events that may wait.
            workers: most events that are sent at once.
            last_seconds: how long events that wait at the end of the context are sent.
            busy: returns whether there are more urgent requests.
            monotonic: a clock in seconds.
            now: the time of day in seconds since the epoch.

        """
        self._client = client
        self._reporting_controller = reporting_controller
        self._reporting_instance = reporting_instance
        self._correlator = Correlator()
        self._queue: asyncio.Queue[tuple[float, Event]] = asyncio.Queue(capacity)  # with its latest start
        self._worker_count = workers
        self._workers: list[asyncio.Task[NoReturn]] = []
        self._last_seconds = last_seconds
        self._busy = busy
        self._monotonic = monotonic
        self._now = now
        self._last_number = 0
        self.dropped = 0
        self.failed = 0

    async def __aenter__(self) -> Self:
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._worker_count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose(self._last_seconds)

    async def aclose(self, deadline_seconds: float) -> None:
        """Send the waiting events, for `deadline_seconds` at most, and stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds):
                await self._queue.join()
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,  # noqa: A002 -- the API's own name
        reason: str,
        action: str,
        note: str,
        *,
        controller: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        """Queue an event, unless it repeats another or its object has had too many; never wait.

        Args:
            regarding: the object of the event.
            type: Normal or Warning.
            reason: one word in CamelCase, why it happened.
            action: one word in CamelCase, the action that was done or tried.
            note: a sentence for people; cut at 1,024 bytes.
            controller: the component that reports it, such as a scheduler's name. Default: this program.
            related: another object that took part in it.

        """
        monotonic = self._monotonic()
        if not self._correlator.admits(regarding, (reason, note), monotonic):
            return
        if self._queue.full():
            self._queue.get_nowait()
            self._queue.task_done()
            self.dropped += 1
        now = self._now()
        event = Event(
            metadata={
                "name": _event_name(regarding.name, self._number(now)),
                "namespace": regarding.namespace or _CLUSTER_SCOPED_NAMESPACE,
            },
            event_time=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            type=type,
            reason=reason,
            action=action,
            note=_shortened(note),
            regarding=regarding,
            reporting_controller=controller or self._reporting_controller,
            reporting_instance=self._reporting_instance,
            related=related or msgspec.UNSET,
        )
        self._queue.put_nowait((monotonic + _PATIENCE, event))

    def _number(self, now: float) -> int:
        """Return the microsecond, or the next number if that has an event already.

        Two events of one object would have one name otherwise, and the API server would refuse the second.
        """
        self._last_number = max(self._last_number + 1, int(now * 1_000_000))
        return self._last_number

    async def _work(self) -> NoReturn:
        while True:
            latest, event = await self._queue.get()
            try:
                while self._busy() and self._monotonic() < latest:  # noqa: ASYNC110 -- it is not urgent
                    await asyncio.sleep(_LOOK)
                await self._client.create(EVENTS.collection(event.metadata["namespace"]), event)
            except (ApiError, ValueError, TypeError) as error:  # refused, or impossible to encode
                self.failed += 1
                logger.debug("an event was not taken", extra={"note": event.note, "error": str(error)})
            finally:
                self._queue.task_done()


def _shortened(note: str) -> str:
    """Return a note that the API server accepts."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES:
        return note
    return encoded[: _NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT


def _event_name(regarding: str, number: int) -> str:
    """Return the name of an event, made of its object and its number, as other recorders do."""
    suffix = f".{number:x}"
    return regarding[: _NAME_LENGTH - len(suffix)].rstrip("-.") + suffix
