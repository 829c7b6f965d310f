"""ReservationSchedules' side of the API: makes the locks of windows, and tells of them in the status."""

from functools import partial
from typing import Any

from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.ledger.book import Book
from tidelock.ledger.entry import Entry
from tidelock.ledger.schedulestatus import plan_windows, render_schedule
from tidelock.model.lockschedules import ReservationSchedule, decode_schedule
from tidelock.model.meta import Key, OwnerReference
from tidelock.scheduler.keeping import Demand, Keeper
from tidelock.scheduler.tools import Tools


class ScheduleKeeper(Keeper[ReservationSchedule]):
    """Takes schedules in, and makes each what it ought to be."""

    def __init__(self, tools: Tools, book: Book) -> None:
        super().__init__(tools, book, RESERVATIONSCHEDULES, decode_schedule)
        self._begun: dict[str, float] = {}  # by uid; the status may be behind, and the lock be gone
        self._listed = False
        book.schedules.on_change(self._hear)

    def remove(self, last: ReservationSchedule) -> None:
        """Forget a schedule."""
        super().remove(last)
        self._begun.pop(last.meta.uid, None)

    def synced(self) -> None:
        """All schedules are known."""
        self._listed = True

    def _hear(self, schedule: OwnerReference, entry: Entry) -> None:
        """Note that a window has changed, and which one was the last to begin."""
        key, start = Key(entry.key.namespace, schedule.name), entry.reservation.start_at
        if self._listed and key not in self._kept:
            return  # it is gone, and so will be its windows
        if start is not None and start <= self._clock.now():
            self._begun[schedule.uid] = max(start, self._begun.get(schedule.uid, 0.0))
        self._note(key)

    def _demand(self, kept: ReservationSchedule) -> Demand:
        windows, now = self._book.schedules.windows(kept.meta.uid), self._clock.now()
        plan = plan_windows(kept, windows, self._begun.get(kept.meta.uid, 0.0), now)
        return Demand(
            names=plan.wanted,
            there=[entry.key for entry in windows],
            status=partial(render_schedule, kept, windows, plan, now),
            next_look=plan.next,
            surplus=plan.surplus,
        )

    def _manifest(self, kept: ReservationSchedule, name: str) -> dict[str, Any]:
        return kept.manifest(kept.start_of(name))
