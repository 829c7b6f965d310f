"""Rules of deadlines: a waiting reservation becomes active by its deadline, or never."""

from faults.history import Change, Json
from faults.reading import condition, phase_of
from faults.world import SLACK, World
from tidelock.model.instants import parse_instant

_ROUNDED = 0.01


class Deadlines:
    """The rule of `pendingDeadlineSeconds`.

    A deadline of 0 is not checked, as it allows for one decision of any length. A rejected reservation that
    is edited waits from the time of the edit.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[str, float] = {}  # start of the wait, by uid and the operator's clock
        self._made_at: dict[str, float] = {}  # creation by the loop's time, until a status reports the wait
        self._told_at: dict[str, float] = {}  # when a status first reported the start of the wait

    def see(self, each: Change, before: Json | None) -> None:
        """Check a reservation that is active for the first time, and was not rejected before."""
        if each.kind != "reservations" or each.gone:
            return
        status, phase = each.state.get("status", {}), phase_of(each.state)
        if each.uid not in self._since:
            self._since[each.uid], self._made_at[each.uid] = each.clock + SLACK, each.at
        if phase == "Pending" and (told := condition(each.state, "Reconciling")):
            since = parse_instant(told["lastTransitionTime"])
            if self._since[each.uid] != since:
                self._told_at[each.uid] = each.at
            self._since[each.uid] = since
            self._made_at.pop(each.uid, None)
        seconds = each.state["spec"].get("pendingDeadlineSeconds")
        if seconds and before is not None and self._revives(each, before, self._since[each.uid] + seconds):
            self._since[each.uid] = each.clock + SLACK
        if seconds and phase == "Active" and before is not None and phase_of(before) in ("", "Pending"):
            first = "activatedAt" not in before.get("status", {})
            late = self._since[each.uid] + seconds + 1
            in_time = not first or parse_instant(status["activatedAt"]) <= late + _ROUNDED
            in_time |= self._was_told_late(each) or self._may_have_been_planned(each, seconds)
            self._world.expect(in_time, f"I2: {each}: given after its deadline, which was at {late}")

    def _revives(self, each: Change, before: Json, late: float) -> bool:
        """Return whether an edit came after the deadline, even if the status is not Rejected yet."""
        edited = before["metadata"].get("generation") != each.state["metadata"].get("generation")
        return edited and each.clock >= late

    def _was_told_late(self, each: Change) -> bool:
        """Return whether the clock jumped before the operator received a reservation, which hides its age."""
        made_at = self._made_at.get(each.uid)
        jumps = (at for at, _ in self._world.circumstances.peaks)
        return made_at is not None and any(made_at < at <= each.at for at in jumps)

    def _may_have_been_planned(self, each: Change, seconds: float) -> bool:
        """Return whether a window may have been planned by its deadline, with no status before it began."""
        delivered_at = self._told_at.get(each.uid)
        if delivered_at is None or "startAt" not in each.state["spec"]:
            return False
        asked = self._world.circumstances.asked
        tried = (one.start for one in asked if (one.point, one.name) == ("status", each.name))
        return any(delivered_at < at <= delivered_at + seconds + 1 for at in tried)

    def see_rest(self, now: float) -> None:
        """Check that nothing waits at rest for longer than its deadline."""
        for name, reservation in self._world.reservations.items():
            seconds = reservation["spec"].get("pendingDeadlineSeconds")
            if phase_of(reservation) == "Pending" and seconds:
                late = self._since[reservation["metadata"]["uid"]] + seconds + 1
                self._world.expect(now < late, f"I5: {name} waits after its deadline, which was at {late}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: a reservation that waits is not active."""
        del reason, before, each
        return False
