"""Isolation of failures: an exception affects the reservation that was being changed, and nothing else.

A change that an exception has cut short leaves a record and its indexes in any state. So the record is
dropped everywhere and rebuilt from the stored object, as another process would do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from msgspec.structs import replace as replace_meta

from tidelock.cluster.columns import Columns
from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.failures import Attempt, OnFailure, failure_note, failure_text
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.reservation import Reservation
from tidelock.model.unusable import unusable


class Recovery:
    """Rebuilds records after a change that was cut short.

    Args:
        records: the reservations.
        columns: the nodes' amounts.
        placement: displaces a reservation whose capacity is no longer free.
        upsert: adds an object as a new one.
        on_failure: called with each isolated exception. Returns the seconds to wait before a new attempt.

    """

    def __init__(
        self,
        records: Records,
        columns: Columns,
        placement: Placement,
        upsert: Callable[[Reservation, float], None],
        on_failure: OnFailure,
    ) -> None:
        self.on_failure = on_failure
        self._records = records
        self._columns = columns
        self._placement = placement
        self._upsert = upsert
        self._retries: Timers[Key] = Timers()
        self._unmade: dict[Key, Reservation] = {}  # as stored, until their records are rebuilt

    def checkpoint(self) -> None:
        """Note that all changes that have begun are complete."""
        self._records.in_change.clear()

    def recover(self, now: float) -> None:
        """Rebuild the records with a change that an exception has cut short, from their stored objects.

        Another process would come to the same records, with one exception: a rebuilt reservation gets only
        capacity back that is still free, so no other reservation loses any.
        """
        cut_short = dict(self._records.in_change)
        self._records.in_change.clear()
        for entry in cut_short.values():
            known = self._records.find(entry.key)
            if known is None or known is entry:
                self.rebuild(entry, entry.reservation if known is not None else None, now)
        self.checkpoint()

    def rebuild(
        self, entry: ReservationInfo, reservation: Reservation | None, now: float, *, judge: bool = True
    ) -> None:
        """Drop a record from every index, and rebuild it from a version of its object, if there is one.

        Args:
            entry: the record.
            reservation: the version of its object.
            now: the present time.
            judge: whether it gets only capacity back that is free. Otherwise its node is judged later.

        """
        self._forget(entry)
        if reservation is None:
            return
        error = self._make(reservation, now, judge=judge)
        if error is None:
            return
        pause = self.on_failure("rebuild", "Reservation", reservation.meta, error)
        self._make(unusable(reservation, f"the operator failed: {failure_text(error)}"), now)
        if not reservation.failure:  # otherwise the caller that reported the failure tries again
            self._unmade[entry.key] = reservation
            self._retries.set(entry.key, now + pause)

    def next_due(self) -> float | None:
        """Return when to rebuild a record for which that has failed."""
        return self._retries.next()

    def rebuild_due(self, now: float) -> None:
        """Rebuild the records for which that has failed, once their pause is over."""
        for key in self._retries.pop_due(now):
            entry, reservation = self._records.find(key), self._unmade.pop(key)
            if entry is None or entry.uid != reservation.meta.uid or not entry.reservation.failure:
                continue
            known = entry.reservation
            meta = replace_meta(reservation.meta, resource_version=known.meta.resource_version)
            self.checkpoint()
            self.rebuild(entry, replace(reservation, meta=meta, status=known.status), now)

    @contextmanager
    def isolated(
        self, step: str, kind: str, meta: ObjectMeta, now: float, suspect: ReservationInfo | None = None
    ) -> Iterator[Attempt]:
        """Isolate a step. If it fails, `suspect` and the records that the step was changing are rebuilt."""
        self.checkpoint()
        with Attempt(partial(self.on_failure, step, kind, meta)) as attempt:
            yield attempt
        if attempt.error is not None:
            if suspect is not None:
                self._records.in_change[suspect.key] = suspect
            self.recover(now)

    @contextmanager
    def undone(self, now: float) -> Iterator[None]:
        """Rebuild the records that a step was changing when it raises, and let the exception pass."""
        self.checkpoint()
        try:
            yield
        except Exception:
            self.recover(now)
            raise

    def run_due(self, entry: ReservationInfo, now: float, work: Callable[[], object]) -> None:
        """Do work that is due for a reservation. If it fails, the record is rebuilt and due again later."""
        with self.isolated("due", "Reservation", entry.reservation.meta, now, entry) as attempt:
            work()
        if attempt.error is not None:
            self.note_fault(entry.key, attempt.error)
            if entry.key in self._records.entries:
                self._records.due.postpone(entry.key, now + attempt.pause)

    def note_fault(self, key: Key, error: Exception | None) -> None:
        """Show in a status that a step about its reservation failed, until another step succeeds."""
        entry, fault = self._records.entries.get(key), "" if error is None else failure_note(error)
        if entry is not None and entry.fault != fault:
            entry.fault = fault
            self._records.publish(key)

    def _make(self, reservation: Reservation, now: float, *, judge: bool = True) -> Exception | None:
        """Make a record from an object. Return the error if that fails."""
        with Attempt(lambda _error: 0.0) as attempt:
            self._upsert(reservation, now)
            made = self._records.entries.get(reservation.key) if judge else None
            if made is not None and made.reserved and not made.ahead and self._placement.taken(made):
                text = f"{made.node} has no capacity left for it"
                self._placement.displace(made, reasons.INSUFFICIENT_CAPACITY, text, now)
        half_made = self._records.find(reservation.key)
        if attempt.error is not None and half_made is not None:
            self._forget(half_made)
        return attempt.error

    def _forget(self, entry: ReservationInfo) -> None:
        """Remove a record from each index separately, because only some of them may know it."""
        self._records.entries.pop(entry.key, None)
        self._records.leaving.pop(entry.key, None)
        for index in self._records.indexes:
            with suppress(Exception):  # the exception before is the one to report
                index.remove(entry)
