"""The queue positions of reservations: how many others come before each, and when it may get capacity.

A position assumes that each reservation before it gets capacity. A refused one leaves the share of its
namespace as it is, so the next of that namespace comes sooner than published. It is not known in advance
which of them fit.

Positions change with each reservation that comes or goes, and each published position is a write. So they
are computed at most once a second, in slices, and only after a change. Each reservation gets a new one at
most every ten seconds, and a limited number of reservations gets one each second.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import inf

from tidelock.ledger.capacity.forecast import Forecast
from tidelock.ledger.queue.fair_share import FairShares
from tidelock.ledger.queue.waiting import RENEWALS_A_SECOND, WaitingReservations
from tidelock.ledger.reservation_info import QueuePosition, ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase

# Seconds between two computations of at most this many positions. More take longer: 10,000 take 20 ms.
# Changed positions are published as often.
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
        self._slices: Iterator[None] | None = None  # the computation that is under way
        self._incomplete = False  # so it is after a failure, too
        self._length = 0  # of the queue
        # Changed positions, those first that were published the longest time ago.
        self._news: deque[tuple[ReservationInfo, int]] = deque()
        self._compute_from = self._publish_from = 0.0  # by the steady clock of the waiting reservations

    @property
    def due(self) -> float | None:
        """When positions must be computed or published, or None if all published ones hold."""
        instants = [self._compute_from] if self._outdated else []
        if self._news:
            instants.append(self._publish_from)
        return self._waiting_reservations.steady.instant(min(instants)) if instants else None

    def in_order(self) -> list[ReservationInfo]:
        """Return the tried reservations that wait for their first capacity, in the order of the queue."""
        return self._shares.in_order(self._tried())

    def _tried(self) -> list[ReservationInfo]:
        waiting = self._waiting_reservations.waiting.values()
        return [entry for entry in waiting if _has_position(entry)]

    def renew(self, now: float) -> None:
        """Do a slice of the computation if that is due, or publish some changed positions."""
        if self.due is None or now < self.due:
            return
        at = self._waiting_reservations.steady.at(now)
        if self._outdated and at >= self._compute_from:
            slices, self._slices = self._slices or self._compute(at), None
            for _ in slices:
                self._slices = slices
                return
        if self._news and at >= self._publish_from:
            self._publish_some(now, at)

    @property
    def _outdated(self) -> bool:
        """Whether positions must be computed, or are being computed, or that has failed."""
        return self._waiting_reservations.positions_changed or self._incomplete

    def _compute(self, at: float) -> Iterator[None]:
        """Compute all positions, in slices. A change in between counts for the next computation."""
        self._waiting_reservations.positions_changed, self._incomplete = False, True
        self._news.clear()
        queue = self._tried()
        for _ in self._shares.sort(queue):
            if len(queue) > _COMPUTED_A_SECOND:
                yield
        self._length = len(queue)
        self._news.extend(sorted(_news(queue), key=lambda each: each[0].positioned_at))
        self._incomplete = False
        self._compute_from = at + max(_PAUSE, len(queue) / _COMPUTED_A_SECOND)

    def _publish_some(self, now: float, at: float) -> None:
        """Publish the positions that were published the longest time ago, unless they are too new."""
        forecast = self._forecast(now)
        waiting, renewal = self._waiting_reservations.waiting, self._waiting_reservations.renewal
        for _ in range(RENEWALS_A_SECOND):
            if not self._news or at < self._news[0][0].positioned_at + renewal:
                break
            entry, position = self._news.popleft()
            if waiting.get(entry.key) is not entry or not _has_position(entry):
                continue  # it has left the queue since the computation
            new = QueuePosition(position, self._length, _estimate(entry, forecast))
            entry.positioned_at = at
            if new != entry.queue_position:
                entry.queue_position = new
                self._publish(entry)
        oldest = self._news[0][0].positioned_at if self._news else -inf
        self._publish_from = max(at + _PAUSE, oldest + renewal)


def _has_position(entry: ReservationInfo) -> bool:
    return entry.tried and entry.phase is Phase.PENDING


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
