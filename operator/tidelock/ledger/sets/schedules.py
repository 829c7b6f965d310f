"""Windows of schedules: the reservations that a schedule has created, by their owner references."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key, OwnerReference
from tidelock.model.reservation_schedule import SCHEDULE_KIND


class Schedules:
    """All schedules with reservations, by UID."""

    def __init__(self) -> None:
        self._windows: defaultdict[str, dict[Key, ReservationInfo]] = defaultdict(dict)
        self._schedule_of: dict[Key, OwnerReference] = {}
        self._listeners: list[Callable[[OwnerReference, ReservationInfo], None]] = []

    def on_change(self, listener: Callable[[OwnerReference, ReservationInfo], None]) -> None:
        """Call a function with a schedule and its reservation, if that reservation has changed or goes."""
        self._listeners.append(listener)

    def windows(self, uid: str) -> list[ReservationInfo]:
        """Return the reservations that a schedule has created."""
        return list(self._windows[uid].values()) if uid in self._windows else []

    def update(self, entry: ReservationInfo) -> None:
        """Add a reservation to the schedule that has created it, if one has, and report the change."""
        schedule = entry.reservation.meta.controller
        if entry.key not in self._schedule_of and schedule is not None and schedule.kind == SCHEDULE_KIND:
            self._schedule_of[entry.key] = schedule
            self._windows[schedule.uid][entry.key] = entry
        self.note(entry)

    def contents(self) -> Mapping[Any, object]:
        """Return the windows of each schedule."""
        return {uid: sorted(windows) for uid, windows in self._windows.items()}

    def remove(self, entry: ReservationInfo) -> None:
        """Remove a reservation that is gone from its schedule."""
        if entry.key in self._schedule_of:
            self.note(entry)
            uid = self._schedule_of.pop(entry.key).uid
            del self._windows[uid][entry.key]
            if not self._windows[uid]:
                del self._windows[uid]

    def note_all(self) -> None:
        """Call the listeners with the reservations of all schedules."""
        for windows in tuple(self._windows.values()):
            for entry in windows.values():
                self.note(entry)

    def note(self, entry: ReservationInfo) -> None:
        """Call the listeners with a reservation that has changed."""
        schedule = self._schedule_of.get(entry.key)
        if schedule is not None:
            for listener in self._listeners:
                listener(schedule, entry)
