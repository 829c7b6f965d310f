"""A clock for durations, computed from the times of day that callers pass."""

from math import inf


class SteadyClock:
    """A clock that goes on when the system clock is set back.

    It is ahead of the time of day by all seconds by which the system clock was set back. Pauses of some
    seconds are measured by it: otherwise a system clock that is set back by an hour would add an hour to each
    pause. It follows the instants that callers pass, and reads no other clock. When the system clock is set
    forward, pauses are over at once, as in a process that has slept.

    Attributes:
        ahead: seconds by which the steady time is ahead of the time of day.

    """

    def __init__(self) -> None:
        self._last = self._at = -inf
        self.ahead = 0.0

    @property
    def last(self) -> float:
        """The steady time of the instant that was passed last."""
        return self._at

    def at(self, now: float) -> float:
        """Return the steady time of the present instant. Both are seconds, in whole milliseconds."""
        if now < self._last:
            self.ahead = round(self.ahead + self._last - now, 3)
        if now != self._last:
            self._last, self._at = now, round(now + self.ahead, 3)
        return self._at

    def instant(self, at: float) -> float:
        """Return the time of day at which a steady time comes, unless the system clock is set before that."""
        return at - self.ahead
