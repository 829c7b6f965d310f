"""Times without contact to the API server: lost watches, and a process that stood still."""

from tidelock.shadow.results import Gap

# Gaps with their own times in the report. Others are only counted.
_MOST = 100
STANDSTILL = 30.0
"""Seconds between two looks from which on the process counts as having stood still."""


class Gaps:
    """The gaps so far.

    Attributes:
        seconds: their time in all, without a gap that goes on.
        count: their number.
        first: the first ones.
        open: the gap that goes on, if there is one, ended so far.

    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0
        self.first: list[Gap] = []
        self.open: Gap | None = None

    def look(self, now: float, looked: float, lost_since: float | None, reason: str) -> bool:
        """Note the state of the watches, and return whether there is no gap since the last look.

        Args:
            now: the instant of this look.
            looked: the instant of the last one.
            lost_since: when the last response came if a watch is lost now, or None.
            reason: why it is lost.

        """
        if self.open is None and lost_since is None and now - looked <= STANDSTILL:
            return True
        if self.open is None:
            begun = looked if lost_since is None else min(lost_since, looked)
            self.open = Gap(begun, now, reason or "the process stood still")
        self.open = Gap(self.open.begun, now, self.open.reason)
        if lost_since is None:
            self._close(self.open)
        return False

    def _close(self, gap: Gap) -> None:
        self.seconds += gap.ended - gap.begun
        self.count += 1
        if len(self.first) < _MOST:
            self.first.append(gap)
        self.open = None
