"""Creates the Reservation of each window of a ReservationSchedule, and writes the schedules' statuses."""

from functools import partial
from typing import Any

from tidelock.kube.client import RESERVATIONSCHEDULES
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.output.schedule_status import plan_windows, render_leaving_schedule, render_schedule
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key, OwnerReference
from tidelock.model.reservation_schedule import ReservationSchedule, decode_schedule
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.controllers.base import DesiredState, Reconciler


class ScheduleController(Reconciler[ReservationSchedule]):
    """Takes schedules in, and reconciles each."""

    def __init__(self, context: WriterContext, ledger: Ledger) -> None:
        super().__init__(context, ledger, RESERVATIONSCHEDULES, decode_schedule)
        self._begun: dict[str, float] = {}  # by uid; the status may be behind, and the reservation gone
        self._listed = False
        ledger.schedules.on_change(self._note_window)

    def upsert(self, old: ReservationSchedule | None, new: ReservationSchedule) -> None:
        """Take over a schedule's newest version, and the windows that its status names."""
        super().upsert(old, new)
        self._look_at_windows(new)

    def remove(self, last: ReservationSchedule) -> None:
        """Forget a schedule."""
        super().remove(last)
        self._begun.pop(last.meta.uid, None)
        self._look_at_windows(last)

    def synced(self) -> None:
        """Take note that all schedules are known."""
        self._listed = True
        self._ledger.schedules.note_all()

    def _note_window(self, schedule: OwnerReference, entry: ReservationInfo) -> None:
        """Note that a window has changed, and which window was the last to begin."""
        key, start = Key(entry.key.namespace, schedule.name), entry.reservation.start_at
        self._ledger.note_start(entry, unacknowledged=self._is_unacknowledged(schedule, entry))
        if self._listed and key not in self._kept:
            return  # the schedule is gone, and its windows will be
        if start is not None and start <= self._clock.now():
            self._begun[schedule.uid] = max(start, self._begun.get(schedule.uid, 0.0))
        self._compare_later(key)

    def _look_at_windows(self, schedule: ReservationSchedule) -> None:
        for entry in self._ledger.schedules.windows(schedule.meta.uid):
            self._ledger.schedules.note(entry)

    def _is_unacknowledged(self, schedule: OwnerReference, entry: ReservationInfo) -> bool:
        """Return whether a window would be created again if its reservation and then this process ended.

        Each window might be before all schedules, and their statuses, are known.
        """
        start, now = entry.reservation.start_at, self._clock.now()
        kept = self._kept.get(Key(entry.key.namespace, schedule.name))
        if start is None or start > now:
            return False
        if kept is None or kept.meta.uid != schedule.uid:
            return not self._listed
        if kept.meta.deletion_timestamp is not None:
            return False
        return kept.last_start(now) < start

    def _desired_state(self, kept: ReservationSchedule) -> DesiredState:
        windows, now = self._ledger.schedules.windows(kept.meta.uid), self._clock.now()
        plan = plan_windows(kept, windows, self._begun.get(kept.meta.uid, 0.0), now)
        starts = (plan.next, *(entry.reservation.start_at for entry in windows))
        return DesiredState(
            names=plan.wanted,
            there=[entry.key for entry in windows],
            status=partial(render_schedule, kept, windows, plan, now),
            next_look=min((start for start in starts if start is not None and start > now), default=None),
            surplus=plan.surplus,
        )

    def _final_status(self, kept: ReservationSchedule) -> dict[str, Any]:
        return render_leaving_schedule(kept, self._clock.now())

    def _manifest(self, kept: ReservationSchedule, name: str) -> dict[str, Any]:
        return kept.manifest(kept.start_of(name))
