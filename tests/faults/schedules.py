"""Rules of schedules: each window is created once, in its turn, and is deleted with its schedule."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf

from faults.history import Change, Json
from faults.reading import phase_of
from faults.world import SLACK, World
from tidelock.model.instants import parse_instant

_MINUTE = 60
_STEPS = {"* * * * *": 1, "*/2 * * * *": 2, "*/3 * * * *": 3}
"""Schedules that can be read, with the number of minutes between two starts."""

Window = tuple[str, float]
"""Uid of the schedule, and start of the window."""


@dataclass(slots=True)
class _Version:
    """The spec of a schedule, or an empty one once it is gone, and the loop time until which it was valid."""

    spec: Json
    until: float = inf

    @property
    def readable(self) -> bool:
        """Whether the operator can read the schedule."""
        return not self.spec or self.spec["schedule"] in _STEPS

    def after(self, clock: float) -> Iterator[float]:
        """Yield the starts of windows after an instant, in order, without end."""
        step = _STEPS[self.spec["schedule"]] * _MINUTE  # hours are a multiple of each
        start = clock // step * step
        while True:
            start += step
            yield start

    def to_come(self, clock: float) -> list[float]:
        """Return the starts of the windows that must be planned."""
        if not self.spec or not self.readable or self.spec["suspend"]:
            return []
        return list(islice(self.after(clock), self.spec["ahead"]))

    def latest(self, clock: float) -> float:
        """Return the start of the last window that has begun."""
        return next(self.after(clock)) - _STEPS[self.spec["schedule"]] * _MINUTE

    def may_begin_late(self, start: float, clock: float) -> bool:
        """Return whether a missed window may still be created: the last one, if neither over nor late."""
        if not self.spec or not self.readable or self.spec["suspend"]:
            return False
        late = min(self.spec["durationSeconds"], self.spec.get("startingDeadlineSeconds", inf))
        return self.latest(start) == start == self.latest(clock) and clock < start + late

    def is_made_into(self, reservation: Json) -> bool:
        """Return whether a reservation is as a window of this version must be."""
        if not self.spec:
            return False
        begin, end = (parse_instant(reservation["spec"][name]) for name in ("startAt", "expireAt"))
        asked, length = self.spec["template"]["spec"], float(self.spec["durationSeconds"])
        return asked.items() <= reservation["spec"].items() and end - begin == length


class Schedules:
    """The rules of schedules."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._versions: defaultdict[str, list[_Version]] = defaultdict(list)  # by uid
        self._made: set[Window] = set()
        self._over: dict[Window, Change] = {}  # removals of windows that had begun

    def see(self, each: Change, before: Json | None) -> None:
        """Follow the schedules, and check which windows are created and deleted."""
        if each.kind == "reservationschedules":
            self._follow(each, before)
        elif each.kind == "reservations" and (window := _window(each.state)) is not None:
            if each.gone:
                self._note_gone(window, each)
            elif before is None:
                self._check_made(window, each)

    def _follow(self, each: Change, before: Json | None) -> None:
        versions, spec = self._versions[each.uid], {} if each.gone else each.state["spec"]
        if before is not None and versions and versions[-1].spec == spec:
            return
        told = self._world.delivered_at(each)
        if versions:
            versions[-1].until = inf if told is None else told + SLACK
        versions.append(_Version(spec))

    def _valid(self, uid: str, since: float) -> list[_Version]:
        """Return the versions that the operator may have used at a loop time or later."""
        return [version for version in self._versions[uid] if version.until >= since]

    def _check_made(self, window: Window, each: Change) -> None:
        """Check that a window is created once, in its turn."""
        uid, start = window
        self._made.add(window)
        sent = self._world.sent_at("member", each)
        valid = self._valid(uid, sent)
        asked_for = any(version.is_made_into(each.state) for version in valid)
        self._world.expect(asked_for, f"I2: {each}: that is not what its schedule asks for")
        named = each.name.endswith(f"-{int(start) // _MINUTE}")
        self._world.expect(named, f"I2: {each}: it has not the name of its window")
        if self._world.was_set_back(each.clock, each.at):
            return
        shown = (self._world.clock_at(sent, each), each.clock)  # the clock may have jumped in between
        has_turn = any(
            start in version.to_come(clock) or version.may_begin_late(start, clock)
            for version in valid
            for clock in (*shown, *(clock - SLACK for clock in shown))
        )
        self._world.expect(has_turn, f"I2: {each}: it is not its turn")
        over = self._over.get(window)
        again = over is not None and not self._may_be_late(over, each)
        self._world.expect(not again, f"I2: {each}: it was made before, and went as {over}")

    def _may_be_late(self, over: Change, each: Change) -> bool:
        """Return whether the request that created a window came before the window was deleted."""
        return self._world.sent_at("member", each) <= over.at

    def _note_gone(self, window: Window, each: Change) -> None:
        """Note the end of a window that has begun, which must not be created again.

        A window that another client deleted before a status could report its start may come again.
        """
        uid, start = window
        sent = self._world.clock_at(self._world.sent_at("delete", each), each)
        if sent < start + SLACK and phase_of(each.state) not in {"Active", "Consumed"}:
            return
        if each.uid in self._world.circumstances.deleted and not self._is_told(uid, start, each):
            return
        self._over[window] = each

    def _is_told(self, uid: str, start: float, each: Change) -> bool:
        for schedule in self._world.objects["reservationschedules"].values():
            if schedule["metadata"]["uid"] == uid:
                status = schedule.get("status", {})
                told = [status.get("lastStart"), *(one["startAt"] for one in status.get("windows", ()))]
                return any(text and start <= parse_instant(text) <= each.clock for text in told)
        return True

    def see_rest(self, now: float) -> None:
        """Check that all windows to come exist, and no others, and that the one under way was created."""
        schedules = {
            state["metadata"]["uid"]: state for state in self._world.objects["reservationschedules"].values()
        }
        ahead = defaultdict[str, set[float]](set)
        for name, reservation in self._world.reservations.items():
            if (window := _window(reservation)) is not None:
                uid, start = window
                self._world.expect(uid in schedules, f"I5: the schedule of {name} is gone")
                ahead[uid] |= {start} if start > now else set()
        for uid, schedule in schedules.items():
            name, version = schedule["metadata"]["name"], _Version(schedule["spec"])
            if not version.readable:
                continue
            wanted, found = version.to_come(now), sorted(ahead[uid])
            self._world.expect(
                found == wanted, f"I5: of {name} {found} are to come, and ought to be {wanted}"
            )
            self._check_under_way(uid, schedule, now)

    def _check_under_way(self, uid: str, schedule: Json, now: float) -> None:
        version, name = _Version(schedule["spec"]), schedule["metadata"]["name"]
        latest, created = version.latest(now), parse_instant(schedule["metadata"]["creationTimestamp"])
        late = "startingDeadlineSeconds" in version.spec or not version.may_begin_late(latest, now + SLACK)
        if latest > created and not late and not self._world.was_set_back(now):
            made = any(latest <= start <= now for maker, start in self._made if maker == uid)
            self._world.expect(made, f"I5: the window of {name} at {latest} was not made")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether a window that has not begun was deleted because it left its schedule."""
        window = _window(before)
        if reason != "Deleted" or window is None:
            return False
        uid, start = window
        sent = self._world.sent_at("delete", each)
        clock = self._world.clock_at(sent, each) - SLACK
        readable = (version for version in self._valid(uid, sent - SLACK) if version.readable)
        unwanted = any(
            not version.is_made_into(before) or start not in version.to_come(clock) for version in readable
        )
        return start > clock and unwanted


def _window(reservation: Json) -> Window | None:
    """Return the schedule's uid and the start of a reservation that is a window, or None."""
    for owner in reservation["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "ReservationSchedule":
            return owner["uid"], parse_instant(reservation["spec"]["startAt"])
    return None
