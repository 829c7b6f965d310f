"""Rules of leases: a renewed lease lasts, and one that is not renewed ends as announced."""

from dataclasses import dataclass
from math import inf

from faults.history import Change, Json
from faults.reading import SETTLED, answer_of, phase_of, reason_of, says
from faults.world import SLACK, World
from tidelock.model.instants import parse_instant

_ROUNDED = 0.01


@dataclass(slots=True)
class _Renewal:
    """The last renewal of a lease."""

    mark: str
    seen: Change


class Leases:
    """The rules of leases."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._renewals: dict[str, _Renewal] = {}

    def see(self, each: Change, before: Json | None) -> None:
        """Follow renewals, and check that a reservation ends only after its full time without a renewal."""
        if each.kind != "reservations" or each.gone or "lease" not in each.state["spec"]:
            return
        mark = each.state["spec"]["lease"].get("renewTime", "")
        known = self._renewals.get(each.uid)
        if known is None or known.mark != mark:
            self._renewals[each.uid] = _Renewal(mark, each)
        ended = phase_of(each.state) == "Expired" and (before is None or phase_of(before) != "Expired")
        if ended and reason_of(each.state) == "LeaseExpired":
            self._check_loss(each)

    def _check_loss(self, each: Change) -> None:
        status, asked = each.state["status"], each.state["spec"]["lease"]
        lease = {name: parse_instant(text) for name, text in status["lease"].items()}
        lasts = lease["renewBy"] - lease["renewedAt"] >= asked["durationSeconds"] - _ROUNDED
        lasts = lasts and lease["lostAt"] - lease["renewBy"] >= asked["graceSeconds"] - _ROUNDED
        finished = parse_instant(status["finishedAt"])
        over = finished >= lease["lostAt"] - _ROUNDED
        self._world.expect(lasts and over, f"I2: {each}: lost before its time: {status['lease']}, {finished}")
        renewal = self._renewals[each.uid].seen
        told = self._world.delivered_at(renewal)
        if told is not None and self._world.went_on(renewal.at, each.at):
            heard = min(self._world.clock_at(told, each), _answered_at(renewal))
            patience = asked["durationSeconds"] + asked["graceSeconds"]
            kept = not heard + SLACK < finished < heard + patience - _ROUNDED
            self._world.expect(kept, f"I2: {each}: lost {finished - heard:g} s after it was renewed")

    def see_rest(self, now: float) -> None:
        """Check that each status reports the state of its lease, and that no lease is over."""
        for name, reservation in self._world.reservations.items():
            asked, lease = reservation["spec"].get("lease"), reservation.get("status", {}).get("lease")
            if asked is None or phase_of(reservation) in SETTLED:
                continue
            self._world.expect(lease is not None, f"I5: {name} tells nothing of its lease")
            if lease is None:
                continue
            marks = [parse_instant(each["renewTime"]) for each in (asked, lease) if "renewTime" in each]
            heard = len(marks) in (0, 2) and len(set(marks)) <= 1
            self._world.expect(heard, f"I5: {name} was renewed at {asked}, and nobody has heard: {lease}")
            due = parse_instant(lease.get("lostAt", lease["renewBy"]))
            self._world.expect(due > now, f"I3: the lease of {name} was due at {due}")
            lapsed = says(reservation, "LeaseLapsed") == ("lostAt" in lease)
            self._world.expect(lapsed, f"I5: {name} does not tell that its lease lapsed, or has not: {lease}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether a reservation ended because its lease was not renewed."""
        del before
        return reason == "LeaseExpired" and self._world.is_due(each.state, each)


def _answered_at(renewal: Change) -> float:
    """Return when a lease began with the answer to its reservation's creation, or infinity."""
    if renewal.state["spec"]["lease"].get("renewTime"):
        return inf
    lease = (answer_of(renewal.state) or {}).get("lease")
    return inf if lease is None else parse_instant(lease["renewedAt"])
