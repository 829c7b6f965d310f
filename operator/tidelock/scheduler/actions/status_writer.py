"""Writes Reservations: statuses, removals after the end, events and the audit log.

`ObjectWriter` has the policy of the writes. The ledger decides their contents: the stored status of each
object is compared with the rendered one, and an object is deleted after its retention.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tidelock.kube.client import RESERVATIONS
from tidelock.kube.events import ObjectReference
from tidelock.ledger.effects import Effects, Transition
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.lifecycle.transitions import SETTLED, Event
from tidelock.ledger.output.audit import Record, record
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import Attempt
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.reservation import Reservation, decode_written
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter, WritableObject
from tidelock.scheduler.actions.status_events import StatusEvents

audit = logging.getLogger("tidelock.audit")

# Objects compared between two turns of the event loop, which takes some 10 ms.
_OBJECTS_A_FLUSH = 256

# Statuses that only report that a Reservation waits: how many of them are written at once. While a tenant
# creates thousands that can't be granted, more would keep the API server from answers to other tenants.
# Their turns are those of one tenant, so none of them waits for the turns of its own namespace.
_WAITING_AT_ONCE = 2
_WAITING = "/waiting"

# A status that repeats an answer waits so long for a pause between more urgent requests (seconds), as an
# event does, and looks for one so often.
_PATIENCE = 3.0
_LOOK = 0.05

_WARNINGS = frozenset(
    {
        *(Event.GIVE_UP, Event.LOSE_NODE, Event.DISPLACE, Event.RETURN, Event.VIOLATE),
        *(Event.LAPSE, Event.FORFEIT),
    }
)
# A claim lasts for the milliseconds of a binding. The end of the binding is an event.
_WITHOUT_EVENT = frozenset({Event.CLAIM})


class StatusWriter(ObjectWriter):
    """Writes the Reservations that have changed in the ledger.

    Attributes:
        unwritten: names of Reservations with a stored status that may differ from the ledger.
        waiting: such names of Reservations that wait, by namespace. Few of these are written at once.

    """

    def __init__(self, context: WriterContext, ledger: Ledger, wake: Callable[[], None]) -> None:
        """Take the ledger, and a function that schedules another `flush`."""
        super().__init__(context, RESERVATIONS, "status")
        self._wake_loop = wake
        self._recorder = context.recorder
        self._waits = StatusEvents(context, RESERVATIONS)
        self._recent = context.recent
        self._ledger = ledger
        self.unwritten: dict[Key, None] = {}
        self.waiting: dict[str, dict[Key, None]] = {}
        self._waiting_writes: set[Key] = set()
        self._phases: dict[Key, Phase] = {}  # those of the writes under way
        self._answered: dict[Key, float] = {}  # until when each waits at most, by the monotonic clock

    def record(self, effects: Effects) -> None:
        """Record changes as events, metrics and lines of the audit log, and note the statuses to write."""
        lives: dict[str, Record] = {}
        for entry in effects.ended:
            with self._isolated("audit", entry.reservation.meta):
                lives[entry.uid] = self._audit(entry)
        for change in effects.transitions:
            with self._isolated("telling", change.meta):
                self._telemetry.changed(change)
                self._recent.changed(change, self._ledger.entries.get(change.meta.key))
                if self._paused:
                    self._forget(change.meta.key)  # the API server refused another status
                if not self._is_in_first_status(change):
                    self._record_event(change, lives.get(change.meta.uid))
        for key in effects.statuses:
            if self._is_answered(key):
                self._write_later(key)
            else:
                self._answered.pop(key, None)
                self.unwritten[key] = None

    def flush(self) -> bool:
        """Begin to write some of the statuses. Return whether more are left."""
        for _ in range(min(_OBJECTS_A_FLUSH, len(self.unwritten))):
            key, _ = self.unwritten.popitem()  # the last: new ones do not wait for a start's thousands
            entry = self._ledger.entries.get(key)
            if entry is not None and entry.phase is Phase.PENDING:
                self._note_waiting(entry)
                self.waiting.setdefault(key.namespace, {})[key] = None
            else:
                self.reconcile(key)
        return self._write_waiting() or bool(self.unwritten)

    def _write_waiting(self) -> bool:
        """Begin to write statuses of waiting Reservations. Return whether more can begin now."""
        for _ in range(_OBJECTS_A_FLUSH):
            if not self.waiting or len(self._waiting_writes) >= _WAITING_AT_ONCE:
                return False
            namespace, keys = next(iter(self.waiting.items()))
            key, _ = keys.popitem()
            del self.waiting[namespace]
            if keys:
                self.waiting[namespace] = keys  # behind the other namespaces
            if key not in self._writing:  # such as an earlier status, in a turn of its namespace
                self.reconcile(key)
                if key in self._writing:
                    self._waiting_writes.add(key)
        return True

    def _ended(self, key: Key) -> None:
        self._waiting_writes.discard(key)
        phase = self._phases.pop(key, None)
        entry = self._ledger.records.find(key) if key in self._paused else None
        if entry is not None and phase is not None and entry.phase is not phase:
            self._forget(key)  # the API server refused another status
            self._compare_later(key)
        if self.waiting:
            self._wake_loop()

    def _is_in_first_status(self, change: Transition) -> bool:
        """Return whether the first status of a reservation reports its capacity, which needs no event."""
        entry = self._ledger.entries.get(change.meta.key)
        return change.event is Event.ADMIT and entry is not None and not entry.reservation.decided

    def _is_answered(self, key: Key) -> bool:
        """Return whether the response to a creation has said what the first status will say."""
        entry = self._ledger.entries.get(key)
        if entry is None or entry.reservation.decided:
            return False
        return entry.answered == entry.phase == Phase.ACTIVE

    def _write_later(self, key: Key) -> None:
        """Write a status when there is nothing more urgent to do, but within seconds."""
        if not self._answered:
            asyncio.get_running_loop().call_later(_LOOK, self._write_answered)
        self._answered.setdefault(key, self._clock.monotonic() + _PATIENCE)

    def _write_answered(self) -> None:
        """Schedule the statuses that have waited long enough, or all of them if no creation goes on."""
        now, calm = self._clock.monotonic(), not self._tasks.activity.busy()
        for key in [key for key, latest in self._answered.items() if calm or latest <= now]:
            del self._answered[key]
            self._compare_later(key)
        if self._answered:
            asyncio.get_running_loop().call_later(_LOOK, self._write_answered)

    def _audit(self, entry: ReservationInfo) -> Record:
        life = record(entry, self._clock.now())
        self._telemetry.ended(life)
        audit.info("a reservation has ended", extra=asdict(life))
        return life

    def _note_waiting(self, entry: ReservationInfo) -> None:
        """Record for the web view why a reservation waits."""
        with self._isolated("status", entry.reservation.meta):
            self._recent.waits(entry, self._ledger.waiting_reservations.steady.instant(entry.refused_at))

    def _isolated(self, step: str, meta: ObjectMeta) -> Attempt:
        return self._isolation.attempt(step, RESERVATIONS, meta)

    def _stored(self, key: Key) -> Reservation | None:
        entry = self._ledger.records.find(key)
        return None if entry is None or entry.unseen else entry.reservation

    def _differs(self, key: Key) -> bool:
        """Return whether the stored object is not as it should be."""
        entry = self._ledger.records.find(key)
        if entry is None or entry.deleted:
            return False
        return self._removable(entry) or self._status_difference(entry) is not None

    def _settled(self, key: Key) -> None:
        self._ledger.await_removal(key)

    def _compare_later(self, key: Key) -> None:
        self.unwritten[key] = None
        self._wake_loop()

    def _status_difference(self, entry: ReservationInfo) -> dict[str, Any] | None:
        """Return the status of an entry if another one is stored. A claim is not worth a write."""
        if entry.phase is Phase.BOUND:
            return None
        wanted = render_reservation(entry, self._clock.now())
        return wanted if wanted != entry.reservation.status else None

    def _removable(self, entry: ReservationInfo) -> bool:
        removable_at = deadlines.removable_at(entry)
        return removable_at is not None and removable_at <= self._clock.now()

    async def _write_difference(self, key: Key) -> None:
        """Write the status or delete the object, with the state of the moment in which it has its turn."""
        entry = self._ledger.records.find(key)
        if entry is None:
            return
        waits = key in self._waiting_writes
        turn = self._tasks.turn.of(_WAITING) if waits else self.turn(entry.reservation.meta)
        async with turn:
            entry = self._ledger.records.find(key)
            if entry is None or entry.deleted:
                return
            self._phases[key] = entry.phase
            removable = self._removable(entry)
            # The last state goes with the deletion event, so that a client that waits sees how a reservation
            # ended. Consumed is spared the extra write: the pod is bound, which says it all.
            status = None if removable and entry.phase is Phase.CONSUMED else self._status_difference(entry)
            if status is not None:
                await self._write_status(entry, status)
            if removable and self._removable(entry):  # its spec may have been edited meanwhile
                await self._delete(entry.reservation.meta)
                self._ledger.note_deletion(entry)

    async def _write_status(self, entry: ReservationInfo, wanted: dict[str, Any]) -> None:
        meta, stored = entry.reservation.meta, entry.reservation.status
        await self._replace_status(meta, wanted)
        # The event of a group speaks for its members.
        if wanted["phase"] == Phase.PENDING and not entry.node and entry.reservation.membership is None:
            self._waits.record(meta, stored, wanted)
        was_active = stored.get("phase") == Phase.ACTIVE
        if wanted["phase"] == Phase.ACTIVE and not was_active:
            self._telemetry.activated(self._clock.now() - entry.seen_waiting_at, waited=entry.tried)

    def _acknowledge(self, written: bytes) -> None:
        self._ledger.acknowledge(decode_written(written))

    async def _write_fault(self, stored: WritableObject, fault: Exception) -> None:
        """Write nothing: a Reservation's status is a promise, which is never written in part."""

    def _record_event(self, change: Transition, life: Record | None) -> None:
        if change.event in _WITHOUT_EVENT:
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
