"""Decisions of clients: the commit of a reservation in two phases, and the choice among alternatives.

Both are read from the objects, in an order that every process can reproduce. So they are carried out in the
next `advance`, when all objects of an event are known.
"""

from tidelock.ledger.lifecycle.alternatives import Alternatives
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.transitions import GIVEN, SETTLED, Event
from tidelock.ledger.lifecycle.two_phase import commit_token
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.work_queue import WorkQueue


class Choices:
    """Carries out commits and choices.

    Attributes:
        undecided: reservations that are new or edited since they were last looked at.

    """

    def __init__(self, records: Records, endings: Endings, alternatives: Alternatives) -> None:
        self.undecided = WorkQueue[ReservationInfo]()
        self._records = records
        self._endings = endings
        self._alternatives = alternatives

    def look_later(self, entry: ReservationInfo) -> None:
        """Look at a reservation in the next `advance`, if it has a second phase or alternatives."""
        self._alternatives.update(entry)
        if entry.hold is not None or entry.key in self._alternatives:
            self.undecided.add(entry)

    def take_undecided(self) -> list[ReservationInfo]:
        """Return the reservations to look at, in an order that every process can reproduce."""
        undecided = self.undecided.take()
        known = (entry for entry in undecided if self._records.entries.get(entry.key) is entry)
        return sorted(known, key=lambda entry: entry.order)

    def decide(self, entry: ReservationInfo, now: float) -> None:
        """Commit a reservation if its spec has the token of its hold, and end those that it supersedes."""
        self._end_superseded(entry, now)
        if entry.hold is None or entry.phase not in GIVEN:
            return
        before, entry.hold = entry.hold, entry.hold.committed(commit_token(entry.reservation), now)
        if entry.hold is not before:
            text = f"hold {entry.hold.number}, on {entry.node}, was committed"
            self._records.note(entry, Event.COMMIT, reasons.COMMITTED, text, now, now)
            self._records.commit(entry)
            self._end_superseded(entry, now)

    def _end_superseded(self, entry: ReservationInfo, now: float) -> None:
        """End all other reservations of a set. One that is being claimed ends only if the claim fails."""
        chosen = self._alternatives.chosen(entry)
        if chosen is None:
            return
        for other in self._alternatives.others(chosen):
            if other.phase not in SETTLED:
                other.superseded_by = chosen.key.name
                if other.phase is not Phase.BOUND:
                    self._endings.expire_if_over(other, now)
