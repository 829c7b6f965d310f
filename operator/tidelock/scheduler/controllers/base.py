"""Controllers of objects that own several Reservations: they create these, and write the status.

They are level-triggered, as the writer of Reservations is. Whatever happened to an object or to one of its
Reservations, these are compared with those that the object asks for, and its status with the ledger.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from tidelock.kube.client import RESERVATIONS, ApiResource
from tidelock.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key, ObjectMeta
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter
from tidelock.scheduler.actions.tasks import until_news

# Seconds for which a Reservation that was created may be unseen by the watch before it is created again.
_UNSEEN_SECONDS = 10.0
# Seconds after which a Reservation that was refused is asked for again: each time twice as many.
_SHORTEST_REST = 1.0
_LONGEST_REST = 60.0
# Reservations that are made before the status says anything of their object: a namespace writes 8 at once.
_FEW = 8
# Seconds for which objects are compared in one turn of the event loop; the object under way is finished.
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


class _Rest(NamedTuple):
    """Until when, by the monotonic clock, an object of a generation creates nothing, after so long a rest."""

    until: float
    seconds: float
    generation: int


class Reconciler(ObjectWriter, Generic[K]):
    """Takes objects of one kind in, as the event handler of their watch, and reconciles each."""

    def __init__(
        self, context: WriterContext, ledger: Ledger, resource: ApiResource, decode: Callable[[bytes], K]
    ) -> None:
        super().__init__(context, resource, "keeping")
        self._ledger = ledger
        self._decode = decode
        self._kept: dict[Key, K] = {}
        self._made: dict[Key, dict[str, float]] = {}
        self._problems: dict[Key, str] = {}
        self._rests: dict[Key, _Rest] = {}
        self._changed: dict[Key, None] = {}
        self._due: Timers[Key] = Timers()
        self._awake: Timers[Key] = Timers()  # by the monotonic clock
        self._news = asyncio.Event()
        ledger.quotas.on_change(self._try_refused_again)

    # For the controller of a kind.

    @abstractmethod
    def _demand(self, kept: K) -> DesiredState:
        """Compute the desired state of an object now."""

    @abstractmethod
    def _last_words(self, kept: K) -> dict[str, Any]:
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
            self._drop(new)
        self._kept[new.key] = new
        self._compare_later(new.key)

    def remove(self, last: K) -> None:
        """Forget an object: the API server deletes its Reservations with it."""
        self._drop(last)

    def _drop(self, last: K) -> None:
        """Create nothing more for an object that is gone or going."""
        for known in (self._kept, self._made, self._problems, self._rests, self._changed):
            known.pop(last.key, None)
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
            await until_news(self._news, due, clock)
            while self.look():  # noqa: ASYNC110 -- all else has its turn, and nothing is waited for
                await asyncio.sleep(0)

    def look(self) -> bool:
        """Reconcile the objects that something happened to, and those whose time has come.

        Returns whether some are left for the next turn of the event loop: a tenant may have thousands.
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
            self._news.set()

    def _stored(self, key: Key) -> K | None:
        return self._kept.get(key)

    def _differs(self, key: Key) -> bool:
        kept = self._kept.get(key)
        return kept is not None and self._is_unmet(kept, self._ask(kept))

    def _settled(self, key: Key) -> None:
        if (kept := self._kept.get(key)) is None:
            return
        # An instant that has come may be ahead again, if the clock was set back.
        self._due.set(key, self._ask(kept).next_look)
        if made := self._made.get(key):
            self._awake.set(key, min(made.values()) + _UNSEEN_SECONDS)

    def _ended(self) -> None:
        self._news.set()

    def _acknowledge(self, written: bytes) -> None:
        answer = self._decode(written)
        # The watch may be faster than the answer, and have reported that it is gone.
        if self._is_there(answer):
            self.upsert(None, answer)

    def _ask(self, kept: K) -> DesiredState:
        """Compute the desired state now: for an object that is being deleted, a status that says so."""
        if kept.meta.deletion_timestamp is None:
            return self._demand(kept)
        return DesiredState(
            names=(), there=(), status=lambda _problem: self._last_words(kept), next_look=None
        )

    async def _write_difference(self, key: Key) -> None:
        """Create and delete Reservations, and write the status or delete the object.

        Raises:
            ApiError: not all could be written; the status says why a Reservation is missing.

        """
        if (kept := self._kept.get(key)) is None:
            return
        demand = self._ask(kept)
        missing = [] if self._rests_now(kept) else self._missing(kept, demand)
        if len(missing) > _FEW and kept.status.get("observedGeneration") != kept.meta.generation:
            await self._write_status(kept, self._status(kept, demand))
            return  # making them takes seconds, and comes next
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
        while left.surplus:  # computed again each time, as a request may take long
            await self._unmake(kept, left.surplus[0])
            left = self._ask(kept)
        status = self._status(kept, left)
        if status != kept.status:
            await self._write_status(kept, status)
        elif left.removable:
            await self._remove(kept)
        if problem is not None:
            raise problem

    async def _write_status(self, kept: K, status: dict[str, Any]) -> None:
        async with self.turn(kept.meta):
            await self._replace_status(kept.meta, status)

    async def _remove(self, kept: K) -> None:
        async with self.turn(kept.meta):
            await self._delete(kept.meta)
        if self._is_there(kept):
            self.remove(kept)

    def _rest(self, kept: K) -> None:
        """Create no Reservation for a while after one was refused, for longer than the last time."""
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

    def _try_refused_again(self, namespace: str) -> None:
        """Shorten the rests of a namespace whose quotas changed. The API server may be a moment later."""
        for key in [key for key in self._rests if key.namespace == namespace]:
            until = self._clock.monotonic() + _SHORTEST_REST
            self._rests[key] = self._rests[key]._replace(until=until, seconds=_SHORTEST_REST / 2)
            self._awake.set(key, until)
            self._news.set()

    def _is_there(self, kept: K) -> bool:
        known = self._kept.get(kept.key)
        return known is not None and known.meta.uid == kept.meta.uid

    async def _make(self, kept: K, name: str) -> ApiError | None:
        """Create a Reservation. Return the error if that fails."""
        namespace = kept.meta.namespace
        try:
            async with self.turn(kept.meta):
                await self._client.create(RESERVATIONS.collection(namespace), self._manifest(kept, name))
        except AlreadyExists:
            return ApiError(f"there is another Reservation {name}")
        except ApiError as error:
            return error
        if self._kept.get(kept.key) is not None:
            self._made.setdefault(kept.key, {})[name] = self._clock.monotonic()
        return None

    async def _unmake(self, kept: K, entry: ReservationInfo) -> None:
        """Delete a Reservation, if it has not changed meanwhile."""
        async with self.turn(kept.meta):
            await self._delete(entry.reservation.meta, RESERVATIONS)
        self._ledger.note_deletion(entry)

    def _is_unmet(self, kept: K, demand: DesiredState) -> bool:
        if demand.surplus or demand.removable or (self._missing(kept, demand) and not self._rests_now(kept)):
            return True
        return self._status(kept, demand) != kept.status

    def _missing(self, kept: K, demand: DesiredState) -> list[str]:
        """Name the Reservations that must be created: those that neither exist nor are on their way to us."""
        made, oldest = self._made.get(kept.key, {}), self._clock.monotonic() - _UNSEEN_SECONDS
        there = {key.name for key in demand.there}
        for name in [name for name in made if made[name] <= oldest or name in there]:
            del made[name]
        return [name for name in demand.names if name not in made and name not in there]

    def _status(self, kept: K, demand: DesiredState) -> dict[str, Any]:
        return demand.status(self._problems.get(kept.key, "") if self._missing(kept, demand) else "")
