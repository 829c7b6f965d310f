"""Invariants of leases: none is lost too early, and none is kept after its end."""

from datetime import datetime

from property.process import Process, reported_status
from tidelock.ledger.lifecycle.transitions import SETTLED, Event
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import from_datetime, parse_instant
from tidelock.model.reservation import Reservation


class LeaseObserver:
    """An observer with its own record of leases, from the renewals that operators saw, across restarts."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}
        self._patience: dict[str, tuple[int, int]] = {}

    def check(self, process: Process) -> None:
        """Check that a reservation is lost after its lease and grace period, neither sooner nor later."""
        now = process.clock.now()
        for entry in process.ledger.entries.values():
            self._follow(process, entry.reservation, now)
            if process.event_handlers.ready and entry.reserved and entry.lease is not None:
                lost_at = entry.lease.lost_at
                assert lost_at is None or lost_at > process.decided_at, (
                    f"{entry.key} is held beyond its lease"
                )
        for change in process.effects.transitions:
            if change.event is Event.FORFEIT and change.meta.uid in self._seen:
                _, seen_at = self._seen[change.meta.uid]
                assert change.at >= seen_at + sum(self._patience[change.meta.uid]), change.meta.key

    def _follow(self, process: Process, reservation: Reservation, now: float) -> None:
        asked, uid = reservation.spec.lease if reservation.spec is not None else None, reservation.meta.uid
        if asked is None:
            self._seen.pop(uid, None)
            return
        if uid not in self._seen or self._seen[uid][0] != asked.renew_time:
            self._seen[uid] = asked.renew_time, _told_since(process, reservation, asked.renew_time) or now
        duration, grace = self._patience.get(uid, (asked.duration_seconds, asked.grace_seconds))
        self._patience[uid] = min(duration, asked.duration_seconds), min(grace, asked.grace_seconds)


def _told_since(process: Process, reservation: Reservation, renew_time: datetime | None) -> float | None:
    """Return since when the stored status, or the answer, counts a renewal, if it has this one.

    The next process does not know a renewal that was reverted before it was stored.
    """
    told = reported_status(process, reservation).get("lease")
    if told is None:
        return None
    known = parse_instant(told["renewTime"]) if "renewTime" in told else None
    asked = from_datetime(renew_time) if renew_time is not None else None
    return parse_instant(told["renewedAt"]) if known == asked else None


def check_stored_leases(process: Process) -> None:
    """Check that the stored objects alone show the state of each lease, and when it is due next."""
    for reservation in process.api.reservations.decoded.values():
        lease = reservation.status.get("lease")
        if Phase(reservation.status["phase"]) in SETTLED or reservation.spec is None:
            continue
        assert (lease is not None) == (reservation.spec.lease is not None), reservation.key
        if lease is None or reservation.spec.lease is None:
            continue
        asked = reservation.spec.lease.renew_time
        assert ("renewTime" in lease) == (asked is not None), reservation.key
        assert asked is None or parse_instant(lease["renewTime"]) == from_datetime(asked), reservation.key
        due = parse_instant(lease.get("lostAt", lease["renewBy"]))
        assert due > process.clock.now(), f"{reservation.key} was due at {due}"
        lapsed = any(each["type"] == "LeaseLapsed" for each in reservation.status["conditions"])
        assert lapsed == ("lostAt" in lease), reservation.key
