"""A time for durations, made of the times of day that a caller passes in."""

from math import inf


class SteadyClock:
    """The time of day, which goes on where the clock is set back: ahead of it by all that it lost so.

    Pauses of some seconds are counted by it, or a clock that is set back by an hour adds an hour to each. It
    is no clock of its own: it follows the instants that it is asked with. Where the clock is set forward,
    pauses are over at once, as they are in a process that has slept.

    Attributes:
        ahead: seconds by which it is ahead of the time of day.

    """

    def __init__(self) -> None:
        self._last = self._at = -inf
        self.ahead = 0.0

    @property
    def last(self) -> float:
        """The steady time of the instant that it was asked with last."""
        return self._at

    def at(self, now: float) -> float:
        """Return the steady time of an instant, which is now. Both are seconds, in whole milliseconds."""
        if now < self._last:
            self.ahead = round(self.ahead + self._last - now, 3)
        if now != self._last:
            self._last, self._at = now, round(now + self.ahead, 3)
        return self._at

    def instant(self, at: float) -> float:
        """Return the time of day at which a steady time comes, unless the clock is set before."""
        return at - self.ahead
