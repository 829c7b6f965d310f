"""ReservationGroups' side of the API: makes their members, and tells in their status what became of them.

As with locks, it works on levels: whatever touched a group or one of its members, the members are compared
with those that the group asks for, and its status with what the ledger knows.
"""

import asyncio
import logging
from typing import NoReturn

from tidelock.kube.client import RESERVATIONGROUPS, RESERVATIONS
from tidelock.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from tidelock.ledger.book import Book
from tidelock.ledger.groups import Group, GroupKey
from tidelock.ledger.groupstatus import render_group
from tidelock.ledger.timers import Timers
from tidelock.model.lockgroups import ReservationGroup, decode_group
from tidelock.model.meta import Key
from tidelock.scheduler.tasks import until_news
from tidelock.scheduler.tools import Tools

logger = logging.getLogger(__name__)

# Seconds for which a member that was made may be unseen by the watch before it is looked for again.
_UNSEEN_SECONDS = 10.0


class GroupKeeper:
    """Takes groups in, as the sink of their watch, and makes each what it ought to be."""

    def __init__(self, tools: Tools, book: Book) -> None:
        self._client = tools.client
        self._clock = tools.clock
        self._tasks = tools.tasks
        self._book = book
        self._groups: dict[Key, ReservationGroup] = {}
        self._made: dict[Key, dict[str, float]] = {}
        self._problems: dict[Key, str] = {}
        self._changed: dict[Key, None] = {}
        self._writing: set[Key] = set()
        self._due: Timers[Key] = Timers()
        self._news = asyncio.Event()
        book.groups.on_change(self._note)

    # What the API server says of the objects.

    def upsert(self, old: ReservationGroup | None, new: ReservationGroup) -> None:
        """Take over a group's newest version."""
        del old
        known = self._groups.get(new.key)
        if known is not None and known.meta.uid != new.meta.uid:
            self.remove(known)
        elif known is not None and known.meta.version > new.meta.version:
            return  # older than our own write
        if new.meta.deletion_timestamp is not None:
            self.remove(new)
            return
        self._groups[new.key] = new
        self._note(new.key)

    def remove(self, last: ReservationGroup) -> None:
        """Forget a group: its members go with it."""
        for known in (self._groups, self._made, self._problems, self._changed):
            known.pop(last.key, None)
        self._due.set(last.key, None)

    def synced(self) -> None:
        """All groups are known, which changes nothing."""

    # What is done about them.

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Keep groups for ever, from the moment that all locks are known."""
        await started.wait()
        while True:
            await until_news(self._news, self._due.next(), self._clock)
            for key in self._due.pop_due(self._clock.now()):
                self._note(key)
            for key in [key for key in self._changed if key not in self._writing]:
                del self._changed[key]
                self.reconcile(key)

    def reconcile(self, key: Key) -> None:
        """Make one group what it ought to be, in the background."""
        if self.lags(key):
            self._writing.add(key)
            self._tasks.spawn(self._write(key))
        elif (group := self._groups.get(key)) is not None:
            self._due.set(key, self._next_look(group))

    def lags(self, key: Key) -> bool:
        """Tell whether a group is not as it ought to be, with no write under way that sees to it."""
        group = self._groups.get(key)
        if group is None or key in self._writing:
            return False
        return bool(self._missing(group)) or self._differs(group) or self._removable(group)

    def _note(self, key: Key) -> None:
        """Note a group that is to be looked at."""
        if key in self._groups:
            self._changed[key] = None
            self._news.set()

    async def _write(self, key: Key) -> None:
        """Write until the group is as it ought to be or is gone."""
        pause = self._tasks.retry_pauses()
        try:
            while (group := self._groups.get(key)) is not None:
                try:
                    if not await self._write_once(group):
                        self._note(key)  # what was due may be so no more, if the clock was set back
                        return
                except (Conflict, NotFound):
                    return  # the watch will tell, or has told
                except ApiError as error:
                    logger.warning("a group was not written", extra={"group": str(key), "error": str(error)})
                    await pause(error)
        finally:
            self._writing.discard(key)
            self._news.set()

    async def _write_once(self, group: ReservationGroup) -> bool:
        """Write what differs now; whether anything did.

        Raises:
            ApiError: not all could be written; the status tells why a member is missing.

        """
        missing = self._missing(group)
        errors = await asyncio.gather(*(self._make(group, name) for name in missing))
        problem = next((error for error in errors if error is not None), None)
        if problem is not None:
            self._problems[group.key] = str(problem)
        elif missing:
            self._problems.pop(group.key, None)
        differs, removable = self._differs(group), self._removable(group)
        if differs:
            status = self._wanted(group)
            async with self._tasks.turn.of(group.meta.namespace):
                written = await self._client.replace_status(RESERVATIONGROUPS, group.meta, status)
            self.upsert(group, decode_group(written))
        elif removable:
            async with self._tasks.turn.of(group.meta.namespace):
                await self._client.delete(
                    RESERVATIONGROUPS.item(group.meta.name, group.meta.namespace), uid=group.meta.uid
                )
            self.remove(group)
        if problem is not None:
            raise problem
        return bool(missing) or differs or removable

    async def _make(self, group: ReservationGroup, name: str) -> ApiError | None:
        """Make a member; gives the error if that fails."""
        namespace = group.meta.namespace
        try:
            async with self._tasks.turn.of(namespace):
                await self._client.create(RESERVATIONS.collection(namespace), group.manifest(name))
        except AlreadyExists:
            return ApiError(f"there is another Reservation {name}")
        except ApiError as error:
            return error
        if self._groups.get(group.key) is not None:
            self._made.setdefault(group.key, {})[name] = self._clock.now()
        return None

    def _missing(self, group: ReservationGroup) -> list[str]:
        """Name the members that are to be made: those neither there nor on their way to us."""
        if group.finished_at is not None:
            return []
        made, oldest = self._made.get(group.key, {}), self._clock.now() - _UNSEEN_SECONDS
        there = self._members_of(group)
        for name in [name for name in made if made[name] <= oldest or _has(there, group, name)]:
            del made[name]
        return [name for name in group.members if name not in made and not _has(there, group, name)]

    def _differs(self, group: ReservationGroup) -> bool:
        return self._wanted(group) != group.status

    def _wanted(self, group: ReservationGroup) -> object:
        problem = self._problems.get(group.key, "")
        return render_group(group, self._members_of(group), self._clock.now(), problem)

    def _removable(self, group: ReservationGroup) -> bool:
        return group.removable_at is not None and group.removable_at <= self._clock.now()

    def _next_look(self, group: ReservationGroup) -> float | None:
        """Tell when to look at a group if nothing happens: it may go, or a member has not been seen."""
        made = self._made.get(group.key)
        return min(made.values()) + _UNSEEN_SECONDS if made else group.removable_at

    def _members_of(self, group: ReservationGroup) -> Group | None:
        return self._book.groups.get(GroupKey(*group.key, group.meta.uid))


def _has(there: Group | None, group: ReservationGroup, name: str) -> bool:
    return there is not None and Key(group.meta.namespace, name) in there.members
