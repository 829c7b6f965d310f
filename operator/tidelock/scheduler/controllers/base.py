"""Controllers of objects that own several Reservations: they create these, and write the status.

They are level-triggered, as the writer of Reservations is. Whatever happened to an object or to one of its
Reservations, these are compared with those that the object asks for, and its status with the ledger.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from tidelock.kube.client import RESERVATIONS, ApiResource
from tidelock.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key, ObjectMeta
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter, another_object
from tidelock.scheduler.actions.status_events import StatusEvents
from tidelock.scheduler.actions.tasks import until_woken
from tidelock.scheduler.controllers.creations import Creations

# Reservations that are created before the status says anything of their object: a namespace writes 8 at once.
_FEW = 8
# Seconds for which objects are compared in one turn of the event loop. The last one is finished.
_TURN_SECONDS = 0.05


class OwnerObject(Protocol):
    """One version of an object that owns Reservations."""

    @property
    def meta(self) -> ObjectMeta:
        """Identity and version."""

    @property
    def key(self) -> Key:
        """Namespace and name."""

    @property
    def status(self) -> dict[str, Any]:
        """The stored status as plain JSON values."""


class DesiredState(NamedTuple):
    """The desired state of an object at an instant.

    Attributes:
        names: the names of all Reservations that should exist.
        there: the keys of those that the ledger knows.
        status: renders the status, given why not all could be created.
        next_look: when the object must be compared again if nothing happens.
        surplus: the Reservations that must be deleted.
        removable: whether the object itself must be deleted.

    """

    names: Sequence[str]
    there: Collection[Key]
    status: Callable[[str], dict[str, Any]]
    next_look: float | None
    surplus: Sequence[ReservationInfo] = ()
    removable: bool = False


K = TypeVar("K", bound=OwnerObject)


class Reconciler(ObjectWriter, Generic[K]):
    """Takes objects of one kind in, as the event handler of their watch, and reconciles each.

    Attributes:
        objects: all known objects by their keys, as a live view.

    """

    def __init__(
        self, context: WriterContext, ledger: Ledger, resource: ApiResource, decode: Callable[[bytes], K]
    ) -> None:
        super().__init__(context, resource, "keeping")
        self._ledger = ledger
        self._decode = decode
        self._kept: dict[Key, K] = {}
        self.objects: Mapping[Key, K] = MappingProxyType(self._kept)
        self._creations = Creations()
        self._events = StatusEvents(context, resource)
        self._changed: dict[Key, None] = {}
        self._due: Timers[Key] = Timers()
        self._awake: Timers[Key] = Timers()  # by the monotonic clock
        self._wakeup = asyncio.Event()
        ledger.quotas.on_change(self._try_refused_again)

    # For the controller of a kind.

    @abstractmethod
    def _desired_state(self, kept: K) -> DesiredState:
        """Compute the desired state of an object now."""

    @abstractmethod
    def _final_status(self, kept: K) -> dict[str, Any]:
        """Render the status of an object that is being deleted, and that a finalizer keeps."""

    @abstractmethod
    def _manifest(self, kept: K, name: str) -> dict[str, Any]:
        """Return one of the Reservations as it must be created."""

    # For the watch.

    def upsert(self, old: K | None, new: K) -> None:
        """Take over an object's newest version."""
        del old
        known = self._kept.get(new.key)
        if known is not None and known.meta.uid != new.meta.uid:
            self.remove(known)
        elif known is not None and known.meta.version > new.meta.version:
            return  # older than our own write
        if new.meta.deletion_timestamp is not None:
            self.remove(new)
        self._kept[new.key] = new
        self._compare_later(new.key)

    def remove(self, last: K) -> None:
        """Forget an object, unless another one has its name: the API server deletes its Reservations too."""
        known = self._kept.get(last.key)
        if known is not None and known.meta.uid != last.meta.uid:
            return
        self._kept.pop(last.key, None)
        self._changed.pop(last.key, None)
        self._creations.forget(last.key)
        self._forget(last.key)
        self._due.set(last.key, None)
        self._awake.set(last.key, None)

    def synced(self) -> None:
        """Take note that all objects are known, which changes nothing."""

    # The work.

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Reconcile objects for ever, from the moment at which all Reservations are known."""
        await started.wait()
        while True:
            due, awake, clock = self._due.next(), self._awake.next(), self._clock
            if awake is not None:
                soon = clock.now() + awake - clock.monotonic()
                due = soon if due is None else min(due, soon)
            await until_woken(self._wakeup, due, clock)
            while self.look():  # noqa: ASYNC110 -- all else has its turn, and nothing is waited for
                await asyncio.sleep(0)

    def look(self) -> bool:
        """Reconcile the objects that have changed or are due.

        Returns:
            whether some are left for the next turn of the event loop: a tenant may have thousands.

        """
        end = self._clock.monotonic() + _TURN_SECONDS
        due = self._due.pop_due(self._clock.now()), self._awake.pop_due(self._clock.monotonic())
        for key in chain(*due):
            self._compare_later(key)
        for key in [key for key in self._changed if self._is_ready(key)]:
            del self._changed[key]
            self.reconcile(key)
            if self._clock.monotonic() >= end:
                return any(self._is_ready(key) for key in self._changed)
        return False

    def _is_ready(self, key: Key) -> bool:
        return key not in self._writing and not self._is_left_alone(key)

    def _compare_later(self, key: Key) -> None:
        if key in self._kept:
            self._changed[key] = None
            self._wakeup.set()

    def _stored(self, key: Key) -> K | None:
        return self._kept.get(key)

    def _differs(self, key: Key) -> bool:
        if (kept := self._kept.get(key)) is None:
            return False
        desired = self._ask(kept)
        if desired.surplus or desired.removable:
            return True
        may_create = not self._creations.is_paused(kept.meta, self._clock.monotonic())
        return bool(may_create and self._missing(kept, desired)) or self._status(kept, desired) != kept.status

    def _settled(self, key: Key) -> None:
        if (kept := self._kept.get(key)) is None:
            return
        # An instant that has come may be ahead again, if the clock was set back.
        self._due.set(key, self._ask(kept).next_look)
        if (due := self._creations.next_due(key)) is not None:
            self._awake.set(key, due)

    def _ended(self, key: Key) -> None:  # noqa: ARG002 -- each end is a reason to look
        self._wakeup.set()

    def _acknowledge(self, written: bytes) -> None:
        answer = self._decode(written)
        # The watch may be faster than the answer, and have reported that it is gone.
        if self._is_there(answer):
            self.upsert(None, answer)

    def _ask(self, kept: K) -> DesiredState:
        """Compute the desired state now: for an object that is being deleted, a status that says so."""
        if kept.meta.deletion_timestamp is None:
            return self._desired_state(kept)
        return DesiredState(
            names=(), there=(), status=lambda _problem: self._final_status(kept), next_look=None
        )

    async def _write_difference(self, key: Key) -> None:
        """Create and delete Reservations, and write the status or delete the object.

        Raises:
            ApiError: not all could be written. The status says why a Reservation is missing.

        """
        if (kept := self._kept.get(key)) is None:
            return
        desired = self._ask(kept)
        resting = self._creations.is_paused(kept.meta, self._clock.monotonic())
        missing = [] if resting else self._missing(kept, desired)
        if len(missing) > _FEW and kept.status.get("observedGeneration") != kept.meta.generation:
            status = self._status(kept, desired)
            async with self.turn(kept.meta):  # before the Reservations, which take seconds
                await self._replace_status(kept.meta, status)
            self._events.record(kept.meta, kept.status, status)
            return
        problem = await self._make_all(kept, missing)
        left = self._ask(kept)
        while left.surplus:  # computed again each time, as a request may take long
            entry = left.surplus[0]
            async with self.turn(kept.meta):  # it fails if the Reservation has changed meanwhile
                await self._delete(entry.reservation.meta, RESERVATIONS)
            self._ledger.note_deletion(entry)
            left = self._ask(kept)
        status = self._status(kept, left)
        if status != kept.status:
            async with self.turn(kept.meta):
                await self._replace_status(kept.meta, status)
            self._events.record(kept.meta, kept.status, status)
        elif left.removable:
            async with self.turn(kept.meta):
                await self._delete(kept.meta)
            if self._is_there(kept):
                self.remove(kept)
        if problem is not None:
            raise problem

    async def _make_all(self, kept: K, missing: Sequence[str]) -> ApiError | None:
        """Create Reservations. Return an error after which another try may help."""
        if not missing:
            return None
        errors = await asyncio.gather(*(self._make(kept, name) for name in missing))
        problem = next((error for error in errors if error is not None), None)
        self._creations.problems[kept.key] = str(problem or "")
        if isinstance(problem, Forbidden | Invalid):
            self._awake.set(kept.key, self._creations.pause(kept.meta, self._clock.monotonic()))
            return None  # the same would be refused again
        self._creations.end_rest(kept.key)
        return problem

    def _try_refused_again(self, namespace: str) -> None:
        """Try refused creations of a namespace again soon, as its quotas have changed."""
        for key, until in self._creations.shorten_pauses(namespace, self._clock.monotonic()):
            self._awake.set(key, until)
            self._wakeup.set()

    def _is_there(self, kept: K) -> bool:
        known = self._kept.get(kept.key)
        return known is not None and known.meta.uid == kept.meta.uid

    async def _make(self, kept: K, name: str) -> ApiError | None:
        """Create a Reservation. Return the error if that fails."""
        namespace = kept.meta.namespace
        try:
            async with self.turn(kept.meta):
                with another_object():
                    await self._client.create(RESERVATIONS.collection(namespace), self._manifest(kept, name))
        except AlreadyExists:
            return ApiError(f"there is another Reservation {name}")
        except ApiError as error:
            return error
        if self._kept.get(kept.key) is not None:
            self._creations.note(kept.key, name, self._clock.monotonic())
        return None

    def _missing(self, kept: K, desired: DesiredState) -> list[str]:
        return self._creations.missing(kept.key, desired.names, desired.there, self._clock.monotonic())

    def _status(self, kept: K, desired: DesiredState) -> dict[str, Any]:
        problem = self._creations.problems.get(kept.key, "")
        return desired.status(problem if self._missing(kept, desired) else "")
