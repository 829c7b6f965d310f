"""Reservations that are answered in the response to their own creation, before any watch shows them.

    proposed --decided--> answered --the watch shows it--> an ordinary record
        |                    |
        +--no answer in time-+--never stored: its capacity is free again after `UNSEEN_SECONDS`

A proposed reservation is decided like any other, in the same queue. Its key is one that no object can have,
because two creations may ask for one name. When the watch shows the object, its record takes over the state
as a status, like a restart would.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from tidelock.cluster.columns import Columns
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.records import Records
from tidelock.ledger.recovery import Recovery
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.answer import UNSEEN_SECONDS, AnswerKeys
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import Resources, covers
from tidelock.model.reservation import Reservation


class _Handover(NamedTuple):
    """Capacity that passes from the record of a creation to that of the object in the same step."""

    before: ReservationInfo
    node: str
    held: Resources
    freed: int
    """The count of freed capacity before."""


class FirstStatus(NamedTuple):
    """The status with which a record begins, as its object has none.

    Attributes:
        status: the status as plain JSON values, or empty if there was no answer.
        answered: the phase in the answer.
        handover: the capacity that passes from the creation to the object.

    """

    status: dict[str, Any]
    answered: str = ""
    handover: _Handover | None = None


_NO_STATUS = FirstStatus({})


class Answers:
    """The answered creations.

    Args:
        records: the reservations.
        holdings: the held amounts.
        columns: the nodes' amounts.
        steady: the clock of pauses.
        recovery: rebuilds records from their objects.

    Attributes:
        keys: the keys of signatures. Without any, no answer is accepted.

    """

    def __init__(
        self,
        records: Records,
        holdings: Holdings,
        columns: Columns,
        steady: SteadyClock,
        recovery: Recovery,
    ) -> None:
        self.keys = AnswerKeys()
        self._records = records
        self._holdings = holdings
        self._columns = columns
        self._steady = steady
        self._recovery = recovery
        self._unseen: dict[str, ReservationInfo] = {}  # by nonce
        self._lapses: Timers[str] = Timers()  # by nonce, in steady time
        # Nonces of answers, by UIDs of the objects without a status that took them.
        self._taken: dict[str, str] = {}

    def proposed(self, reservation: Reservation) -> bool:
        """Return whether this is a creation, and no object."""
        return reservation.meta.uid in self._unseen

    def add(self, entry: ReservationInfo, now: float) -> None:
        """Add the record of a creation, or the one that was rebuilt after a fault."""
        if entry.uid not in self._unseen:
            self._lapses.set(entry.uid, self._steady.at(now) + UNSEEN_SECONDS)
        self._unseen[entry.uid] = entry

    def find(self, nonce: str) -> ReservationInfo | None:
        """Return the record of a creation that no watch has shown yet."""
        return self._unseen.get(nonce)

    def conclude(self, nonce: str, now: float, *, stored: bool) -> dict[str, Any] | None:
        """Return the first status of a creation, or None if it is not decided. Only a grant is kept.

        Args:
            nonce: identifies the creation.
            now: the present time.
            stored: whether the object will be stored.

        """
        entry, status = self._unseen.get(nonce), None
        if entry is not None and is_decided(entry):
            status = render_reservation(entry, now)
        if entry is not None and status is not None and entry.phase is Phase.ACTIVE and stored:
            entry.reservation = replace(entry.reservation, status=status)  # as a rebuild would need it
        else:
            self.withdraw(nonce)
        return status

    def withdraw(self, nonce: str) -> None:
        """Forget a creation without a grant, or one that can't be stored any more."""
        self._lapses.set(nonce, None)
        entry = self._unseen.get(nonce)
        if entry is not None and self._records.entries.get(entry.key) is entry:  # else its rebuild has failed
            self._records.drop(entry)
        self._unseen.pop(nonce, None)

    def next_lapse(self) -> float | None:
        """Return when the next creation lapses."""
        lapses_at = self._lapses.next()
        return None if lapses_at is None else self._steady.instant(lapses_at)

    def lapsed(self, now: float) -> list[ReservationInfo]:
        """Return the creations that can't be stored any more, each once."""
        return [self._unseen[nonce] for nonce in self._lapses.pop_due(self._steady.at(now))]

    def take(self, reservation: Reservation, now: float) -> FirstStatus:
        """Return the status with which the record of a new object begins, if the object has none.

        An answer counts once. That of an earlier leadership counts only if `resume` has found it, as the API
        server refuses one that comes later.
        """
        answer = None if reservation.decided else self.keys.read(reservation.meta, at_any_time=True)
        if answer is None:
            return _NO_STATUS
        nonce, uid, answered = answer.nonce, reservation.meta.uid, answer.status.get("phase", "")
        if (entry := self._unseen.get(nonce)) is not None:
            handover = _Handover(entry, entry.node, entry.held, self._columns.freed)
            status = render_reservation(entry, now)
            self.withdraw(nonce)
            self._taken[uid] = nonce
            return FirstStatus(status, answered, handover)
        if not answer.is_timely(reservation.meta):
            return _NO_STATUS
        refused = answered != Phase.ACTIVE and answer.leadership == self._records.epoch
        if self._taken.get(uid) == nonce or refused:
            return FirstStatus(answer.status, answered)
        return _NO_STATUS

    def complete(self, first: FirstStatus, heir: ReservationInfo) -> None:
        """Note that an object holds the capacity that its creation held, so nothing was freed."""
        handover = first.handover
        if handover is None:
            return
        if heir.node == handover.node and covers(heir.held, handover.held):
            changes = self._holdings.changes
            for key in [key for key, change in changes.items() if change.entry is handover.before]:
                del changes[key]
            self._columns.freed = handover.freed
        self._records.note_seen(heir)

    def resume(self, now: float) -> None:
        """Hold, before the first decision, the capacity in answers of earlier leaders that no status shows.

        The API server refuses answers of earlier leaders from now on. Each answer counts for one object: the
        one with a status that repeats it, or the oldest one, as a copy is younger. The nodes are judged when
        the owners of all reservations are known. On an overcommitted node, a grant that no status shows is
        lost first: another leader may have given the capacity to others before the object was stored.
        """
        found = []
        for reservation in [entry.reservation for entry in self._records.entries.values()]:
            with self._recovery.isolated("answer", "Reservation", reservation.meta, now):
                if (answer := self.keys.read(reservation.meta)) is not None:
                    found.append((answer, reservation))
        spent = {answer.nonce for answer, reservation in found if _repeats(reservation.status, answer.status)}
        for answer, reservation in sorted(found, key=lambda each: _age(each[1])):
            entry = self._records.entries[reservation.key]
            if not reservation.decided and answer.nonce not in spent:
                spent.add(answer.nonce)
                self._taken[entry.uid] = answer.nonce
                self._recovery.rebuild(entry, reservation, now, judge=False)

    def note_stored(self, entry: ReservationInfo) -> None:
        """Forget the answer of an object that is gone, or that has a status."""
        self._taken.pop(entry.uid, None)


def _repeats(status: dict[str, Any], answered: dict[str, Any]) -> bool:
    """Return whether a status goes back to an answer: a reservation keeps the instant of its activation."""
    activated_at = answered.get("activatedAt")
    return activated_at is not None and status.get("activatedAt") == activated_at


def _age(reservation: Reservation) -> tuple[float, int]:
    """Sort key: older objects first, whatever priority their authors have asked for."""
    return reservation.meta.created, reservation.meta.version


def is_decided(entry: ReservationInfo) -> bool:
    """Return whether there is an answer for a creation."""
    return entry.phase is Phase.ACTIVE or entry.phase in SETTLED or entry.tried
