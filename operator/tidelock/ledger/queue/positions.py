"""The queue positions of reservations: how many others come before each, and when it may get capacity.

A position assumes that each reservation before it gets capacity. A refused one leaves the share of its
namespace as it is, so the next of that namespace comes sooner than published. It is not known in advance
which of them fit.

Positions change with each reservation that comes or goes, and each published position is a write. So they
are computed at most once a second. Each reservation gets a new one at most every ten seconds, and a limited
number of reservations gets one each second.
"""

from collections.abc import Callable, Iterator

from tidelock.ledger.capacity.forecast import Forecast
from tidelock.ledger.queue.fair_share import FairShares
from tidelock.ledger.queue.waiting import RENEWALS_A_SECOND, WaitingReservations
from tidelock.ledger.reservation_info import QueuePosition, ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase

# Seconds between two computations of at most this many positions. More take longer: 10,000 take 20 ms.
_PAUSE = 1.0
_COMPUTED_A_SECOND = 2000

# Only for reservations with these reasons, the free amounts alone decide when they get capacity.
_FOR_CAPACITY = frozenset(
    {reasons.INSUFFICIENT_CAPACITY, reasons.OVERCOMMITTED, reasons.PREEMPTED, reasons.VIOLATED}
)


class QueuePositions:
    """Publishes the queue positions of waiting reservations.

    Args:
        waiting_reservations: the waiting reservations.
        shares: their order.
        forecast: returns the known ends of capacity in use.
        publish: called with each reservation that has another position than the published one.

    """

    def __init__(
        self,
        waiting_reservations: WaitingReservations,
        shares: FairShares,
        forecast: Callable[[float], Forecast],
        publish: Callable[[ReservationInfo], None],
    ) -> None:
        self._waiting_reservations = waiting_reservations
        self._shares = shares
        self._forecast = forecast
        self._publish = publish
        self._next = 0.0  # by the steady clock of the waiting reservations

    @property
    def due(self) -> float | None:
        """When positions must be computed again, or None if nothing has changed."""
        return (
            self._waiting_reservations.steady.instant(self._next)
            if self._waiting_reservations.positions_changed
            else None
        )

    def in_order(self) -> list[ReservationInfo]:
        """Return the tried reservations that wait for their first capacity, in the order of the queue."""
        waiting = self._waiting_reservations.waiting.values()
        return self._shares.in_order(
            [entry for entry in waiting if entry.tried and entry.phase is Phase.PENDING]
        )

    def renew(self, now: float) -> None:
        """Compute the positions if that is due, and publish those that have changed."""
        if self.due is None or now < self.due:
            return
        queue, at = self.in_order(), self._waiting_reservations.steady.at(now)
        pause = max(_PAUSE, len(queue) / _COMPUTED_A_SECOND)
        news = list(_news(queue))
        due = [
            (entry, position)
            for entry, position in news
            if at >= entry.positioned_at + self._waiting_reservations.renewal
        ]
        due.sort(key=lambda each: each[0].positioned_at)
        published = due[: int(pause * RENEWALS_A_SECOND)]
        forecast = self._forecast(now) if published else None
        for entry, position in published:
            start = None if forecast is None else _estimate(entry, forecast)
            published_position = QueuePosition(position, len(queue), start)
            entry.positioned_at = at
            if published_position != entry.queue_position:
                entry.queue_position = published_position
                self._publish(entry)
        self._waiting_reservations.positions_changed = len(published) < len(news)
        self._next = at + pause


def waits_for_capacity(entry: ReservationInfo) -> bool:
    """Return whether a reservation without a group or a later window waits for free amounts alone."""
    waits = entry.phase is Phase.PENDING and not entry.ahead and entry.reservation.membership is None
    return waits and entry.reason in _FOR_CAPACITY


def _news(queue: list[ReservationInfo]) -> Iterator[tuple[ReservationInfo, int]]:
    """Yield reservations with another position than the published one, or with a newer refusal."""
    for position, entry in enumerate(queue, 1):
        known = entry.queue_position
        if known is None or known[:2] != (position, len(queue)) or entry.refused_at > entry.positioned_at:
            yield entry, position


def _estimate(entry: ReservationInfo, forecast: Forecast) -> float | None:
    """Return when a reservation may get capacity at the earliest, if the amounts alone decide that."""
    pod = entry.reservation.pod
    if pod is None or not waits_for_capacity(entry):
        return None
    return forecast.to_come(pod.requests, entry.earmark or pod.spec.node_name)
