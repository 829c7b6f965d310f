"""Objects that stand for several locks: makes these, and tells in the status what became of them.

As with locks, it works on levels: whatever touched an object or one of its Reservations, these are compared
with those that the object asks for, and its status with what the ledger knows.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from tidelock.kube.client import RESERVATIONS, ApiResource
from tidelock.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from tidelock.ledger import reasons
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.conditions import failed
from tidelock.model.failures import failure_note
from tidelock.model.meta import Key, ObjectMeta
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import About, until_news

logger = logging.getLogger(__name__)

# Seconds for which a Reservation that was made may be unseen by the watch before it is looked for again.
_UNSEEN_SECONDS = 10.0
# Seconds after which a Reservation that was refused is asked for again: each time twice as many.
_SHORTEST_REST = 1.0
_LONGEST_REST = 60.0
# Reservations that are made before the status says anything of their object: a namespace writes 8 at once.
_FEW = 8
# Seconds for which objects are looked at in one turn of the event loop; the object under way is finished.
_TURN_SECONDS = 0.05


class OwnerObject(Protocol):
    """One version of an object that stands for locks."""

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
    """What an object asks for at an instant.

    `names` are those of the Reservations that there ought to be, `there` the keys of those that the ledger
    knows, `surplus` those that are to go. `status` writes the status that it ought to have, given why not all
    could be made. The object itself is to go if it is `removable`, and is looked at again at `next_look` if
    nothing happens.
    """

    names: Sequence[str]
    there: Collection[Key]
    status: Callable[[str], object]
    next_look: float | None
    surplus: Sequence[ReservationInfo] = ()
    removable: bool = False


K = TypeVar("K", bound=OwnerObject)


class _Rest(NamedTuple):
    """Until when, by the monotonic clock, an object of a generation makes nothing, after so long a rest."""

    until: float
    seconds: float
    generation: int


class Reconciler(ABC, Generic[K]):
    """Takes objects of one kind in, as the sink of their watch, and makes each what it ought to be."""

    def __init__(
        self, context: WriterContext, ledger: Ledger, resource: ApiResource, decode: Callable[[bytes], K]
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._ledger = ledger
        self._resource = resource
        self._decode = decode
        self._kept: dict[Key, K] = {}
        self._made: dict[Key, dict[str, float]] = {}
        self._problems: dict[Key, str] = {}
        self._rests: dict[Key, _Rest] = {}
        self._faulty: dict[Key, _Rest] = {}
        self._changed: dict[Key, None] = {}
        self._writing: set[Key] = set()
        self._due: Timers[Key] = Timers()
        self._awake: Timers[Key] = Timers()  # by the monotonic clock
        self._news = asyncio.Event()
        ledger.quotas.on_change(self._wake)

    # What the objects of a kind ask for.

    @abstractmethod
    def _demand(self, kept: K) -> DesiredState:
        """Tell what an object asks for now."""

    @abstractmethod
    def _last_words(self, kept: K) -> object:
        """Write the status of an object that is being deleted, and that a finalizer keeps."""

    @abstractmethod
    def _manifest(self, kept: K, name: str) -> dict[str, Any]:
        """Write one of the Reservations."""

    # What the API server says of the objects.

    def upsert(self, old: K | None, new: K) -> None:
        """Take over an object's newest version."""
        del old
        known = self._kept.get(new.key)
        if known is not None and known.meta.uid != new.meta.uid:
            self.remove(known)
        elif known is not None and known.meta.version > new.meta.version:
            return  # older than our own write
        if new.meta.deletion_timestamp is not None:
            self._drop(new)
        self._kept[new.key] = new
        self._note(new.key)

    def remove(self, last: K) -> None:
        """Forget an object: its Reservations go with it."""
        self._drop(last)

    def _drop(self, last: K) -> None:
        """Make nothing more of an object that is gone or going."""
        for known in (self._kept, self._made, self._problems, self._rests, self._faulty, self._changed):
            known.pop(last.key, None)
        self._due.set(last.key, None)
        self._awake.set(last.key, None)

    def synced(self) -> None:
        """All objects are known, which changes nothing."""

    # What is done about them.

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Keep objects for ever, from the moment that all locks are known."""
        await started.wait()
        while True:
            due, awake, clock = self._due.next(), self._awake.next(), self._clock
            if awake is not None:
                soon = clock.now() + awake - clock.monotonic()
                due = soon if due is None else min(due, soon)
            await until_news(self._news, due, clock)
            while self.look():  # noqa: ASYNC110 -- all else has its turn, and nothing is waited for
                await asyncio.sleep(0)

    def look(self) -> bool:
        """Look at the objects that something happened to, and at those whose time has come.

        Returns whether some are left for the next turn of the event loop: a tenant may have thousands.
        """
        end = self._clock.monotonic() + _TURN_SECONDS
        due = self._due.pop_due(self._clock.now()), self._awake.pop_due(self._clock.monotonic())
        for key in chain(*due):
            self._note(key)
        ready = [key for key in self._changed if key not in self._writing and not self._is_left_alone(key)]
        for key in ready:
            del self._changed[key]
            self._see_to(key)
            if self._clock.monotonic() >= end:
                return any(key not in self._writing for key in self._changed)
        return False

    def _see_to(self, key: Key) -> None:
        """Make one object what it ought to be; one for which that fails is looked at again later."""
        kept = self._kept.get(key)
        if kept is None:
            return
        with self._isolation.attempt("keeping", self._resource, kept.meta) as attempt:
            self.reconcile(key)
        if attempt.error is not None:
            self._leave_alone(kept, attempt.pause)
            self._spawn(kept, attempt.error)

    def _leave_alone(self, kept: K, seconds: float) -> None:
        """Have an object for which a step failed not be looked at for a while, unless its spec changes."""
        until = self._clock.monotonic() + seconds
        self._faulty[kept.key] = _Rest(until, seconds, kept.meta.generation)
        self._awake.set(kept.key, until)

    def _is_left_alone(self, key: Key) -> bool:
        rest, kept = self._faulty.get(key), self._kept.get(key)
        if rest is None or kept is None or rest.generation != kept.meta.generation:
            return False
        return self._clock.monotonic() < rest.until

    def _ask(self, kept: K) -> DesiredState:
        """Compute what an object asks for now: of one that is being deleted, that its status says so."""
        if kept.meta.deletion_timestamp is None:
            return self._demand(kept)
        return DesiredState(
            names=(), there=(), status=lambda _problem: self._last_words(kept), next_look=None
        )

    def reconcile(self, key: Key) -> None:
        """Make one object what it ought to be, in the background."""
        kept = self._kept.get(key)
        if kept is None or key in self._writing:
            return
        demand = self._ask(kept)
        if self._is_unmet(kept, demand):
            self._spawn(kept)
        else:
            self._due.set(key, demand.next_look)
            if made := self._made.get(key):
                self._awake.set(key, min(made.values()) + _UNSEEN_SECONDS)

    def _spawn(self, kept: K, fault: Exception | None = None) -> None:
        """Write an object in the background, or, after a fault, that alone."""
        self._writing.add(kept.key)
        self._tasks.spawn(self._write(kept, fault), About("keeping", self._resource, kept.meta))

    def lags(self, key: Key) -> bool:
        """Tell whether an object is not as it ought to be, with no write under way that sees to it."""
        kept = self._kept.get(key)
        return kept is not None and key not in self._writing and self._is_unmet(kept, self._ask(kept))

    def _note(self, key: Key) -> None:
        """Note an object that is to be looked at."""
        if key in self._kept:
            self._changed[key] = None
            self._news.set()

    async def _write(self, kept: K, fault: Exception | None) -> None:
        try:
            if fault is None:
                with self._isolation.attempt("keeping", self._resource, kept.meta) as attempt:
                    await self._write_all(kept.key)
                if (fault := attempt.error) is not None:
                    self._leave_alone(kept, attempt.pause)
            if fault is not None and (known := self._kept.get(kept.key)) is not None:
                await self._tell(known, fault)
        finally:
            self._writing.discard(kept.key)
            self._news.set()

    async def _write_all(self, key: Key) -> None:
        """Write until the object is as it ought to be or is gone."""
        pause = self._tasks.retry_pauses()
        while (kept := self._kept.get(key)) is not None:
            try:
                if not await self._write_once(kept):
                    self._note(key)  # what was due may be so no more, if the clock was set back
                    return
            except (Conflict, NotFound):
                return  # the watch will tell, or has told
            except ApiError as error:
                self._warn(key, error)
                await pause(error)

    async def _tell(self, kept: K, error: Exception) -> None:
        """Have the status say that a step failed; what a status says of an end stays."""
        generation, now = kept.meta.generation, self._clock.now()
        status = failed(kept.status, generation, reasons.INTERNAL_ERROR, failure_note(error), now)
        if "finishedAt" in kept.status or status == kept.status:
            return
        try:
            await self._store(kept, status)
        except ApiError as refused:
            self._warn(kept.key, refused)  # the next try tells it, if it fails, too

    def _warn(self, key: Key, error: ApiError) -> None:
        fields = {self._resource.kind.lower(): str(key), "error": str(error)}
        logger.warning("an object was not written", extra=fields)

    async def _store(self, kept: K, status: object) -> None:
        """Write a status; raises ApiError."""
        async with self._turn(kept):
            written = await self._client.replace_status(self._resource, kept.meta, status)
        # The watch may be faster than the answer, and have told that it is gone.
        if self._is_there(kept):
            self.upsert(kept, self._decode(written))

    async def _write_once(self, kept: K) -> bool:
        """Write what differs now; whether anything did.

        Raises:
            ApiError: not all could be written; the status tells why a Reservation is missing.

        """
        demand = self._ask(kept)
        missing = [] if self._rests_now(kept) else self._missing(kept, demand)
        if len(missing) > _FEW and kept.status.get("observedGeneration") != kept.meta.generation:
            await self._store(kept, self._status(kept, demand))  # making them takes seconds
            return True
        errors = await asyncio.gather(*(self._make(kept, name) for name in missing))
        problem = next((error for error in errors if error is not None), None)
        if missing:
            self._problems[kept.key] = str(problem or "")
        if isinstance(problem, Forbidden | Invalid):
            self._rest(kept)
            problem = None  # the same would be refused again
        elif missing:
            self._rests.pop(kept.key, None)
        left = self._ask(kept)
        while left.surplus:  # looked at anew each time, as a request may take long
            await self._unmake(kept, left.surplus[0])
            left = self._ask(kept)
        status = self._status(kept, left)
        if status != kept.status:
            await self._store(kept, status)
        elif left.removable:
            async with self._turn(kept):
                await self._client.delete(
                    self._resource.item(kept.meta.name, kept.meta.namespace),
                    uid=kept.meta.uid,
                    resource_version=kept.meta.resource_version,
                )
            if self._is_there(kept):
                self.remove(kept)
        if problem is not None:
            raise problem
        return bool(missing or demand.surplus or status != kept.status or left.removable)

    def _rest(self, kept: K) -> None:
        """Have an object that was refused a Reservation make none for a while, longer than the last time."""
        before = self._rests.get(kept.key)
        seconds = _SHORTEST_REST if before is None else min(2 * before.seconds, _LONGEST_REST)
        until = self._clock.monotonic() + seconds
        self._rests[kept.key] = _Rest(until, seconds, kept.meta.generation)
        self._awake.set(kept.key, until)

    def _rests_now(self, kept: K) -> bool:
        rest = self._rests.get(kept.key)
        if rest is not None and rest.generation != kept.meta.generation:
            del self._rests[kept.key]
            return False
        return rest is not None and self._clock.monotonic() < rest.until

    def _wake(self, namespace: str) -> None:
        """Learn that the quotas of a namespace have changed, which the API server may do a moment later."""
        for key in [key for key in self._rests if key.namespace == namespace]:
            until = self._clock.monotonic() + _SHORTEST_REST
            self._rests[key] = self._rests[key]._replace(until=until, seconds=_SHORTEST_REST / 2)
            self._awake.set(key, until)
            self._news.set()

    def _is_there(self, kept: K) -> bool:
        known = self._kept.get(kept.key)
        return known is not None and known.meta.uid == kept.meta.uid

    async def _make(self, kept: K, name: str) -> ApiError | None:
        """Make a Reservation; gives the error if that fails."""
        namespace = kept.meta.namespace
        try:
            async with self._turn(kept):
                await self._client.create(RESERVATIONS.collection(namespace), self._manifest(kept, name))
        except AlreadyExists:
            return ApiError(f"there is another Reservation {name}")
        except ApiError as error:
            return error
        if self._kept.get(kept.key) is not None:
            self._made.setdefault(kept.key, {})[name] = self._clock.monotonic()
        return None

    async def _unmake(self, kept: K, entry: ReservationInfo) -> None:
        """Delete a Reservation, if nothing has become of it meanwhile."""
        meta = entry.reservation.meta
        async with self._turn(kept):
            await self._client.delete(
                RESERVATIONS.item(meta.name, meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        entry.deleted = True

    def _turn(self, kept: K) -> AbstractAsyncContextManager[None]:
        """Hold a turn of the namespace in the object's own line: a large group delays no other object."""
        return self._tasks.turn.of(kept.meta.namespace, kept.meta.uid)

    def _is_unmet(self, kept: K, demand: DesiredState) -> bool:
        if demand.surplus or demand.removable or (self._missing(kept, demand) and not self._rests_now(kept)):
            return True
        return self._status(kept, demand) != kept.status

    def _missing(self, kept: K, demand: DesiredState) -> list[str]:
        """Name the Reservations that are to be made: those neither there nor on their way to us."""
        made, oldest = self._made.get(kept.key, {}), self._clock.monotonic() - _UNSEEN_SECONDS
        there = {key.name for key in demand.there}
        for name in [name for name in made if made[name] <= oldest or name in there]:
            del made[name]
        return [name for name in demand.names if name not in made and name not in there]

    def _status(self, kept: K, demand: DesiredState) -> object:
        return demand.status(self._problems.get(kept.key, "") if self._missing(kept, demand) else "")
