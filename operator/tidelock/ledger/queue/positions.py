"""The places of locks in line: how many others are to be given room before each, and when it may have room.

A place assumes that each lock before it is given room. One that is refused leaves the share of its namespace
as it is, and the next of that namespace comes sooner than it was told. Which of them fit is not known before.

They change with each lock that comes or goes, and each place that is told is a write. So they are found anew
at most once a second, and told as refusals are: to each lock at most every ten seconds, and to so many locks
a second.
"""

from collections.abc import Callable, Iterator

from tidelock.ledger import reasons
from tidelock.ledger.capacity.forecast import Forecast
from tidelock.ledger.queue.fair_share import FairShares
from tidelock.ledger.queue.waiting import RENEWALS_A_SECOND, WaitingReservations
from tidelock.ledger.reservation_info import QueuePosition, ReservationInfo
from tidelock.model.api.reservation import Phase

# Seconds between two looks, and how many locks may wait for each second of it: a look at 10,000 takes 20 ms.
_PAUSE = 1.0
_LOOKED_AT_A_SECOND = 2000

# Only who waits for room alone can have an estimate that goes by room alone.
_FOR_ROOM = frozenset(
    {reasons.INSUFFICIENT_CAPACITY, reasons.OVERCOMMITTED, reasons.PREEMPTED, reasons.VIOLATED}
)


class QueuePositions:
    """Keeps the places that locks have been told.

    Args:
        waitlist: who waits.
        shares: in which order.
        forecast: gives what is known of the time from now on.
        tell: called with each lock whose place is another than it was told.

    """

    def __init__(
        self,
        waiting_reservations: WaitingReservations,
        shares: FairShares,
        forecast: Callable[[float], Forecast],
        tell: Callable[[ReservationInfo], None],
    ) -> None:
        self._waiting_reservations = waiting_reservations
        self._shares = shares
        self._forecast = forecast
        self._tell = tell
        self._next = 0.0  # by the waitlist's steady time

    @property
    def due(self) -> float | None:
        """When places are to be found anew, if they are."""
        return (
            self._waiting_reservations.steady.instant(self._next)
            if self._waiting_reservations.moved
            else None
        )

    def line(self) -> list[ReservationInfo]:
        """Give all that have been tried and wait for their first room, as they would be given it."""
        waiting = self._waiting_reservations.waiting.values()
        return self._shares.in_order(
            [entry for entry in waiting if entry.tried and entry.phase is Phase.PENDING]
        )

    def renew(self, now: float) -> None:
        """Find the places anew if that is due, and tell those that are others than they were told."""
        if self.due is None or now < self.due:
            return
        line, at = self.line(), self._waiting_reservations.steady.at(now)
        pause = max(_PAUSE, len(line) / _LOOKED_AT_A_SECOND)
        news = list(_news(line))
        due = [
            (entry, place)
            for entry, place in news
            if at >= entry.placed_at + self._waiting_reservations.renewal
        ]
        due.sort(key=lambda each: each[0].placed_at)
        told = due[: int(pause * RENEWALS_A_SECOND)]
        forecast = self._forecast(now) if told else None
        for entry, position in told:
            start = None if forecast is None else _estimate(entry, forecast)
            place = QueuePosition(position, len(line), start)
            entry.placed_at = at
            if place != entry.place:
                entry.place = place
                self._tell(entry)
        self._waiting_reservations.moved = len(told) < len(news)
        self._next = at + pause


def waits_for_capacity(entry: ReservationInfo) -> bool:
    """Whether a lock waits for its first room, from now on and by itself, and for nothing else."""
    waits = entry.phase is Phase.PENDING and not entry.ahead and entry.reservation.membership is None
    return waits and entry.reason in _FOR_ROOM


def _news(line: list[ReservationInfo]) -> Iterator[tuple[ReservationInfo, int]]:
    """Give those whose place is another than they were told, or was told before their last refusal."""
    for position, entry in enumerate(line, 1):
        known = entry.place
        if known is None or known[:2] != (position, len(line)) or entry.refused_at > entry.placed_at:
            yield entry, position


def _estimate(entry: ReservationInfo, forecast: Forecast) -> float | None:
    """Tell when a lock may have room at the earliest, if that can be told by amounts alone."""
    pod = entry.reservation.pod
    if pod is None or not waits_for_capacity(entry):
        return None
    return forecast.to_come(pod.requests, entry.earmark or pod.spec.node_name)
