"""The instants at which reservations are due: to expire, to begin, to lapse, to be given up or removed."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key


class DueTimes:
    """An index of the ledger: when each reservation is due next, in seconds since the epoch."""

    def __init__(self) -> None:
        self._timers: Timers[Key] = Timers()

    def update(self, entry: ReservationInfo) -> None:
        """Set when a reservation is due next."""
        self._timers.set(entry.key, deadlines.next_due(entry))

    def remove(self, entry: ReservationInfo) -> None:
        """Forget a reservation that is gone."""
        self._timers.set(entry.key, None)

    def of(self, key: Key) -> float | None:
        """Return when a reservation is due next, or None."""
        return self._timers.get(key)

    def contents(self) -> Mapping[Any, object]:
        """Return when each reservation is due."""
        return dict(self._timers.items())

    def postpone(self, key: Key, instant: float) -> None:
        """Set another instant for a reservation that could not be handled when it was due."""
        self._timers.set(key, instant)

    def next(self) -> float | None:
        """Return the earliest instant, or None."""
        return self._timers.next()

    def pop_due(self, now: float) -> Iterator[Key]:
        """Take out the reservations that are due, earliest first."""
        return self._timers.pop_due(now)
