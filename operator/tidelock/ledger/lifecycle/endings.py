"""The end of a reservation, and the lease that may end it."""

from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle.expiry import Ending, ending
from tidelock.ledger.lifecycle.leases import lease_followed
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import given_up_text
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import NOTHING


class Endings:
    """Ends reservations, and follows the leases that keep them alive."""

    def __init__(self, records: Records, holdings: Holdings) -> None:
        self._records = records
        self._holdings = holdings

    def expire_if_over(self, entry: ReservationInfo, now: float) -> bool:
        """End a reservation if its time is over. Return whether it was."""
        over = ending(entry, now)
        if over is not None:
            self._expire(entry, over, now)
        return over is not None

    def give_up(self, entry: ReservationInfo, now: float) -> None:
        """Reject a reservation that has waited until its deadline."""
        self._records.end(entry, Event.GIVE_UP, reasons.DEADLINE_EXCEEDED, given_up_text(entry), now)

    def reject_if_unreadable(self, entry: ReservationInfo, now: float) -> None:
        """Reject a waiting reservation with an unreadable spec. One with capacity keeps it."""
        if entry.reservation.failure:
            return
        if entry.problem and entry.phase is Phase.PENDING:
            self._records.end(entry, Event.GIVE_UP, reasons.INVALID_SPEC, entry.problem, now)
        elif entry.problem and entry.phase is Phase.REJECTED:
            entry.reason, entry.message = reasons.INVALID_SPEC, entry.problem

    def follow_lease(self, entry: ReservationInfo, now: float) -> None:
        """Apply the lease of an edited spec. In most cases its holder has renewed it."""
        if entry.phase is Phase.REJECTED:
            return
        before, entry.lease = entry.lease, lease_followed(entry.lease, entry.reservation, now)
        had_lapsed = before is not None and before.lost_at is not None
        if had_lapsed and (entry.lease is None or entry.lease.lost_at is None):
            self._records.note(entry, Event.RENEW, reasons.RENEWED, "the lease was renewed", now, now)

    def lapse(self, entry: ReservationInfo, now: float) -> None:
        """Begin the grace period of a lease that was not renewed. The reservation stays meanwhile."""
        if entry.lease is not None:
            due, entry.lease = entry.lease.due, entry.lease.lapsed()
            self._records.note(entry, Event.LAPSE, reasons.NOT_RENEWED, entry.lease.text, now, due)
            self._records.commit(entry)

    def _expire(self, entry: ReservationInfo, over: Ending, now: float) -> None:
        self._holdings.hold(entry, NOTHING)
        self._records.end(entry, over.event, over.reason, over.message, now, over.due)
