"""Time as a parameter: the serving process passes the system's clock, tests and simulations their own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since the epoch, in whole milliseconds: what a status carries and nothing finer."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never jump, for durations."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since the epoch, in whole milliseconds."""
        return round(time.time(), 3)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()
