"""Reservations' side of the API: makes each stored object what the ledger says that it ought to be.

It works on levels: whatever touched a lock, the object's status is compared with the ledger's and written if
it differs, or the object is deleted if its time is over. Writes carry the resource version that they were
computed from; one that is refused for it is computed anew.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.kube.events import ObjectReference
from tidelock.ledger.ledger import Ledger, Transition
from tidelock.ledger.lifecycle.transitions import SETTLED, Event
from tidelock.ledger.output.audit import Record, record
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import Attempt
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.reservation import decode_reservation
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import About

logger = logging.getLogger(__name__)
audit = logging.getLogger("tidelock.audit")

# Objects compared between two turns of the event loop, which takes some 10 ms.
_OBJECTS_A_FLUSH = 256

_WARNINGS = frozenset(
    {
        *(Event.GIVE_UP, Event.LOSE_NODE, Event.DISPLACE, Event.RETURN, Event.VIOLATE),
        *(Event.LAPSE, Event.FORFEIT),
    }
)
# A claim lasts for the milliseconds of a binding, whose end is told.
_UNTOLD = frozenset({Event.CLAIM})


class StatusWriter:
    """Writes what has changed in the ledger, one write an object at a time."""

    def __init__(
        self, context: WriterContext, ledger: Ledger, wake: Callable[[], None] = lambda: None
    ) -> None:
        """Take the ledger, and what has `flush` be called again."""
        self._wake = wake
        self._client = context.client
        self._recorder = context.recorder
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._recent = context.recent
        self._ledger = ledger
        self._writing: set[Key] = set()

    def flush(self) -> bool:
        """Tell of all changes in events and metrics, start to write some; whether more is left to write."""
        changes, ended = self._ledger.changes, self._ledger.ended
        self._ledger.changes, self._ledger.ended = [], []
        lives: dict[str, Record] = {}
        for entry in ended:
            with self._isolated("audit", entry.reservation.meta):
                lives[entry.uid] = self._audit(entry)
        for change in changes:
            with self._isolated("telling", change.meta):
                self._telemetry.changed(change)
                self._recent.changed(change, self._ledger.entries.get(change.meta.key))
                self._tell(change, lives.get(change.meta.uid))
        changed = self._ledger.changed
        for _ in range(min(_OBJECTS_A_FLUSH, len(changed))):
            key, _none = changed.popitem()  # the last: a new lock does not wait for a start's thousands
            self._see_to(key)
        return bool(changed)

    def _audit(self, entry: ReservationInfo) -> Record:
        life = record(entry, self._clock.now())
        self._telemetry.ended(life)
        audit.info("a lock has ended", extra=asdict(life))
        return life

    def _see_to(self, key: Key) -> None:
        """Compare an object, and write what differs; one for which that fails is compared again later."""
        with self._isolated("status", self._meta(key)) as attempt:
            if (entry := self._ledger.entries.get(key)) is not None:
                self._recent.waits(entry, self._ledger.waiting_reservations.steady.instant(entry.refused_at))
            self.reconcile(key)
        if attempt.error is not None:
            asyncio.get_running_loop().call_later(attempt.pause, self._compare_again, key)

    def _compare_again(self, key: Key) -> None:
        self._ledger.changed[key] = None
        self._wake()

    def _isolated(self, step: str, meta: ObjectMeta) -> Attempt:
        return self._isolation.attempt(step, RESERVATIONS, meta)

    def _meta(self, key: Key) -> ObjectMeta:
        entry = self._ledger.find(key)
        return entry.reservation.meta if entry is not None else ObjectMeta(key.name, key.namespace)

    def reconcile(self, key: Key) -> None:
        """Make one object what it ought to be, in the background."""
        if self.lags(key):
            self._writing.add(key)
            about = About("status", RESERVATIONS, self._meta(key))
            self._tasks.spawn(self._write(key), about, partial(self._compare_again, key))
        elif key not in self._writing:
            self._ledger.await_removal(key)

    def lags(self, key: Key) -> bool:
        """Tell whether an object is not as it ought to be, with no write under way that sees to it."""
        if key in self._writing:
            return False
        entry = self._ledger.find(key)
        return entry is not None and self._differs(entry)

    def _differs(self, entry: ReservationInfo) -> bool:
        """Tell whether the stored object is not as it ought to be."""
        return not entry.deleted and (self._removable(entry) or self._news(entry) is not None)

    def _news(self, entry: ReservationInfo) -> dict[str, Any] | None:
        """Give the status that an entry ought to have, if it has another; a claim is not worth a write."""
        if entry.phase is Phase.BOUND:
            return None
        wanted = render_reservation(entry, self._clock.now())
        return wanted if wanted != entry.reservation.status else None

    def _removable(self, entry: ReservationInfo) -> bool:
        removable_at = entry.removable_at()
        return removable_at is not None and removable_at <= self._clock.now()

    async def _write(self, key: Key) -> None:
        """Write until the object is as it ought to be or is gone."""
        pause = self._tasks.retry_pauses()
        try:
            while True:
                version = self._version_of(key)
                try:
                    async with self._tasks.turn.of(key.namespace, self._line(key)):
                        if not await self._write_once(key):
                            self._ledger.await_removal(key)
                            return
                except (Conflict, NotFound):
                    if self._version_of(key) == version:
                        return  # what became of it is on its way; a namesake will be compared then
                except ApiError as error:
                    self._telemetry.api_errors.labels("reservation", type(error).__name__).inc()
                    logger.warning(
                        "a status was not written", extra={"reservation": str(key), "error": str(error)}
                    )
                    await pause(error)
        finally:
            self._writing.discard(key)

    async def _write_once(self, key: Key) -> bool:
        """Write what differs now; whether anything did."""
        entry = self._ledger.find(key)
        if entry is None or entry.deleted:
            return False
        removable = self._removable(entry)
        # The last state goes with the deletion event, so that whoever waits sees how a lock ended. Consumed
        # is spared the extra write: the pod is bound, which says it all.
        news = None if removable and entry.phase is Phase.CONSUMED else self._news(entry)
        if news is not None:
            await self._write_status(entry, news)
        if removable and self._removable(entry):  # or its spec was edited meanwhile, and it is wanted again
            meta = entry.reservation.meta
            await self._client.delete(
                RESERVATIONS.item(meta.name, meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
            entry.deleted = True
        return removable or news is not None

    async def _write_status(self, entry: ReservationInfo, wanted: dict[str, Any]) -> None:
        meta, stored = entry.reservation.meta, entry.reservation.status
        answer = await self._client.replace_status(RESERVATIONS, meta, wanted)
        written = decode_reservation(answer)
        self._ledger.acknowledge(written)
        was_active = stored.get("phase") == Phase.ACTIVE
        if wanted["phase"] == Phase.ACTIVE and not was_active:
            self._telemetry.activated(self._clock.now() - entry.seen_waiting_at, waited=entry.tried)

    def _line(self, key: Key) -> str:
        """Name the line that a write waits in: all Reservations of one group or schedule share one.

        The writes of the group or schedule itself have another line, so its status does not wait for theirs.
        """
        meta = self._meta(key)
        return f"made by {meta.controller.uid}" if meta.controller is not None else meta.uid

    def _version_of(self, key: Key) -> str | None:
        entry = self._ledger.find(key)
        return entry.reservation.meta.resource_version if entry is not None else None

    def _tell(self, change: Transition, life: Record | None) -> None:
        if change.event in _UNTOLD:
            return
        meta = change.meta
        message = change.message
        if life is not None and change.phase in SETTLED:
            message += f" ({life.text})"
        self._recorder.record(
            ObjectReference(RESERVATIONS.api_version, RESERVATIONS.kind, meta.name, meta.namespace, meta.uid),
            "Warning" if change.event in _WARNINGS else "Normal",
            change.reason,
            change.phase.value,
            message,
        )
