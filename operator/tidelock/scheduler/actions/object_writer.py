"""The one way in which the objects of Tidelock's own kinds are written, with one policy for all kinds.

The controller of each kind compares the stored objects with their desired state, and writes the difference.
When a write is sent, repeated or given up is decided here:

- Writes are level-triggered. Whatever happened to an object, `reconcile` compares it as it is now.
- One write an object is under way. An event that comes meanwhile is compared when that write has ended.
- Namespaces, and the objects within one, take turns (`turn`).
- A write is tried once. If a difference is left, the object is compared again. So nothing is held in a pause.
- A conflict ends a write, because the watch brings the version that it met. If that version is known
  already, the difference is computed again at once.
- A conflict of a request for another object, such as one that it owns, does not (`another_object`).
- Any other error of the API server is counted, logged, and tried again after a pause. The pause doubles, up
  to 5 s while the error may pass by itself, and up to 60 s for a write that the API server refuses. A new
  spec ends the pause, and so does a new phase of a Reservation.
- A write after which another status is stored than the sent one is counted, logged and repeated after such
  pauses, too. The API server drops fields that its CRD does not have, and a webhook can change others.
- A fault of the program costs its object alone. The isolation counts it and records an event, the status
  names it, and the object is left alone for a while unless its spec changes.

Statuses and deletions carry the uid and the resource version that they were computed from. The client adds
the field manager.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol

from tidelock.kube.client import ApiResource
from tidelock.kube.errors import ApiError, Conflict, NotFound, TransientError
from tidelock.model import reasons
from tidelock.model.conditions import failed
from tidelock.model.failures import Attempt, failure_note
from tidelock.model.meta import Key, ObjectMeta
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import LONGEST_RETRY, FaultSubject

logger = logging.getLogger(__name__)

NO_EFFECT = "NoEffect"
"""Reason, in the metric, of writes that the API server took, but did not store as they were sent."""


class WritableObject(Protocol):
    """One version of an object, as the API server stores it."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and version."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The stored status as plain JSON values."""


@contextmanager
def another_object() -> Iterator[None]:
    """Hold during a request for another object than the written one, such as one that it owns.

    A Conflict or NotFound of that request says nothing about the written object, so no watch brings news of
    it. Each is raised as an error of no such type, with which the write is tried again. A Conflict may pass
    by itself: two creations can meet in one ResourceQuota.
    """
    try:
        yield
    except (Conflict, NotFound) as error:
        kind = TransientError if isinstance(error, Conflict) else ApiError
        raise kind(
            error.message,
            status=error.status,
            reason=error.reason,
            retry_after=error.retry_after,
            fields=error.fields,
        ) from error


class _Pause(NamedTuple):
    """An object with this spec is left alone for a while."""

    uid: str
    generation: int


class ObjectWriter(ABC):
    """Brings the stored objects of one kind to their desired state.

    A controller derives from it. It knows the stored and the desired state, and writes the difference.
    """

    def __init__(
        self, context: WriterContext, resource: ApiResource, step: str, *, tenant: str | None = None
    ) -> None:
        """Prepare.

        Args:
            context: what all writes need.
            resource: the kind of the objects.
            step: names the work in the metric and the event of a fault.
            tenant: takes turns with the namespaces. With None each object takes those of its namespace.

        """
        self._client = context.client
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._resource = resource
        self._step = step
        self._tenant = tenant
        self._writing: set[Key] = set()
        self._paused: dict[Key, _Pause] = {}
        self._sent: dict[Key, Mapping[str, Any]] = {}  # the statuses of the writes under way
        self._passing = context.tasks.backoffs(LONGEST_RETRY)
        self._refused = context.tasks.backoffs()

    # For the controller of a kind.

    @abstractmethod
    def _stored(self, key: Key) -> WritableObject | None:
        """Return the newest version of an object, or None if there is nothing to write of it."""

    @abstractmethod
    def _differs(self, key: Key) -> bool:
        """Return whether the stored object differs from its desired state, or False if it is gone."""

    @abstractmethod
    async def _write_difference(self, key: Key) -> None:
        """Write the present difference, with each request in a turn.

        Raises:
            ApiError: a request failed.

        """

    @abstractmethod
    def _compare_later(self, key: Key) -> None:
        """Schedule another `reconcile` of an object."""

    def _settled(self, key: Key) -> None:  # noqa: B027 -- not every kind has something to do
        """Schedule the next comparison of an object that is as it should be now."""

    def _acknowledge(self, written: bytes) -> None:  # noqa: B027 -- as above
        """Take over the API server's answer to a status, which may come before the watch's event."""

    def _ended(self, key: Key) -> None:  # noqa: B027 -- as above
        """Take note that the write of an object has ended."""

    # For all.

    def reconcile(self, key: Key) -> None:
        """Write, in the background, the difference between the stored object and its desired state."""
        if key in self._writing or self._is_left_alone(key):
            return
        if (stored := self._stored(key)) is None:
            self._forget(key)
            return
        with self._isolation.attempt(self._step, self._resource, stored.meta) as attempt:
            if self._differs(key):
                self._spawn(key, stored)
            else:
                self._forget(key)
                self._settled(key)
        if attempt.error is not None:
            self._spawn(key, stored, attempt)

    def _spawn(self, key: Key, stored: WritableObject, failure: Attempt | None = None) -> None:
        """Write an object in the background, or its status alone after a fault."""
        self._writing.add(key)
        about = FaultSubject(self._step, self._resource, stored.meta)
        self._tasks.spawn(self._write(key, stored.meta, failure), about)

    def lags(self, key: Key) -> bool:
        """Return whether an object differs from its desired state with no write under way."""
        return key not in self._writing and self._differs(key)

    def turn(self, meta: ObjectMeta) -> AbstractAsyncContextManager[None]:
        """Hold a turn of the object's namespace while the context lasts.

        Within a namespace objects take turns, too. The objects that one controller owns, such as the
        Reservations of one group, share the turns of one, so a large group delays no other object. If all
        objects of the kind are one tenant, their namespaces take its turns.
        """
        if self._tenant is not None:
            return self._tasks.turn.of(self._tenant, meta.namespace)
        owner = meta.controller
        queue = meta.uid if owner is None else f"made by {owner.uid}"
        return self._tasks.turn.of(meta.namespace, queue)

    async def _replace_status(self, meta: ObjectMeta, status: dict[str, Any]) -> None:
        """Write a status and take over the answer, within a turn. Raises ApiError."""
        self._acknowledge(await self._client.replace_status(self._resource, meta, status))
        self._sent[meta.key] = status

    async def _delete(self, meta: ObjectMeta, resource: ApiResource | None = None) -> None:
        """Delete an object in exactly this version, within a turn. Raises ApiError.

        With a resource it is another object than the written one.
        """
        path = (resource or self._resource).item(meta.name, meta.namespace)
        with nullcontext() if resource is None else another_object():
            await self._client.delete(path, uid=meta.uid, resource_version=meta.resource_version)

    def _forget(self, key: Key) -> None:
        """Drop the back-offs and the pause of an object that is gone, or is as it should be."""
        self._paused.pop(key, None)
        self._passing.reset(key)
        self._refused.reset(key)

    async def _write(self, key: Key, meta: ObjectMeta, failure: Attempt | None) -> None:
        """Write an object once, or its status alone after a fault in this version."""
        again = False
        try:
            if failure is None and (stored := self._stored(key)) is not None:
                meta = stored.meta
                with self._isolation.attempt(self._step, self._resource, meta) as attempt:
                    again = await self._write_once(key, stored)
                failure = attempt
            if failure is not None and failure.error is not None:
                again = await self._leave_alone(key, meta, failure.error, failure.pause)
        finally:
            self._writing.discard(key)
            self._sent.pop(key, None)
            self._ended(key)
        if (known := self._stored(key)) is None or known.meta.uid != meta.uid:
            self._forget(key)
        if again:
            self._compare_later(key)

    async def _write_once(self, key: Key, stored: WritableObject) -> bool:
        """Write the difference once. Return whether the object must be compared again at once."""
        try:
            await self._write_difference(key)
        except (Conflict, NotFound):
            # The watch brings the newer version, or another object of the name, unless it has done so.
            known = self._stored(key)
            return known is not None and known.meta.resource_version != stored.meta.resource_version
        except ApiError as error:
            backoffs = self._passing if isinstance(error, TransientError) else self._refused
            seconds = max(backoffs.next(key), error.retry_after or 0.0)
            self._count_failure(key, error, seconds)
            self._pause(key, stored.meta, seconds)
            return self._stored(key) is not None and not self._is_left_alone(key)
        if not self._differs(key):
            self._forget(key)
            self._settled(key)
            return False
        known = self._stored(key)
        if known is None or known.meta.uid != stored.meta.uid:
            return True
        same = known.meta.resource_version == stored.meta.resource_version
        if not same and self._sent.get(key, known.status) == known.status:
            return True  # the desired state has changed meanwhile
        self._pause_without_effect(key, stored.meta)
        return not self._is_left_alone(key)

    def _pause_without_effect(self, key: Key, meta: ObjectMeta) -> None:
        """Pause after a write in vain: the CRD may be older than the operator."""
        seconds, kind = self._refused.next(key), self._resource.kind.lower()
        self._telemetry.api_errors.labels(kind, NO_EFFECT).inc()
        logger.warning("a write had no effect", extra={kind: str(key), "again_in": round(seconds, 1)})
        self._pause(key, meta, seconds)

    def _pause(self, key: Key, meta: ObjectMeta, seconds: float) -> None:
        """Leave an object with this spec alone for some seconds, and compare it again then."""
        pause = self._paused[key] = _Pause(meta.uid, meta.generation)
        self._tasks.call_later(seconds, self._end_pause, key, pause)

    def _end_pause(self, key: Key, pause: _Pause) -> None:
        if self._paused.get(key) is not pause:
            return
        del self._paused[key]
        if self._stored(key) is None:
            self._forget(key)
        else:
            self._compare_later(key)

    def _count_failure(self, key: Key, error: ApiError, again_in: float) -> None:
        kind = self._resource.kind.lower()
        self._telemetry.api_errors.labels(kind, type(error).__name__).inc()
        fields = {kind: str(key), "error": str(error), "again_in": round(again_in, 1)}
        logger.warning("an object was not written", extra=fields)

    async def _leave_alone(self, key: Key, meta: ObjectMeta, fault: Exception, seconds: float) -> bool:
        """Name a fault in the status of its object, and leave the object with this spec alone for a while.

        Returns:
            whether the object must be compared at once, as it has another spec by now.

        """
        stored = self._stored(key)
        if stored is None or (stored.meta.uid, stored.meta.generation) != (meta.uid, meta.generation):
            return stored is not None
        try:
            await self._write_fault(stored, fault)
        except ApiError as error:
            self._count_failure(key, error, seconds)  # the next fault is written again
        finally:
            self._pause(key, meta, seconds)
        return self._stored(key) is not None and not self._is_left_alone(key)

    async def _write_fault(self, stored: WritableObject, fault: Exception) -> None:
        """Name a fault in the status. An object that has finished keeps the status of its end."""
        meta, note = stored.meta, failure_note(fault)
        status = failed(stored.status, meta.generation, reasons.INTERNAL_ERROR, note, self._clock.now())
        if "finishedAt" in stored.status or status == stored.status:
            return
        async with self.turn(meta):
            await self._replace_status(meta, status)

    def _is_left_alone(self, key: Key) -> bool:
        """Return whether an object is paused. A new spec ends the pause, and the next one is short again."""
        if (pause := self._paused.get(key)) is None or (stored := self._stored(key)) is None:
            return False
        if pause == (stored.meta.uid, stored.meta.generation):
            return True
        self._forget(key)
        return False
