"""Time as a parameter: the serving process passes the system's clock, tests and simulations another."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Return the seconds since the epoch, in whole milliseconds, which is the precision of a status."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never jump, for durations."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds since the epoch, in whole milliseconds."""
        return round(time.time(), 3)

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()
