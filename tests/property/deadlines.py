"""Invariants of deadlines: no reservation gets capacity after its deadline, whatever happened before."""

from builders import Json
from property.process import Process, reported_status
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import parse_instant
from tidelock.model.reservation import Reservation

_HAS_ROOM = (Phase.ACTIVE, Phase.PLANNED)


class DeadlineObserver:
    """An observer of the reservations that a process has seen, decided and granted, with the times."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._seen: dict[str, float] = {}
        self._decided: dict[str, float] = {}
        self._given: set[str] = set()

    def check(self) -> None:
        """Check that a reservation gets capacity by its deadline, unless its status shows capacity already.

        With a deadline of 0 the process must have seen it in time. Otherwise it must have decided it in time.
        """
        now = self._process.clock.now()
        for entry in self._process.ledger.entries.values():
            self._seen.setdefault(entry.uid, now)
            if entry.phase is Phase.BOUND:
                continue  # if the binding fails, it keeps the capacity that it had before
            if entry.phase not in _HAS_ROOM:
                self._decided.pop(entry.uid, None)
                self._given.discard(entry.uid)
                continue
            self._decided.setdefault(entry.uid, now)
            if entry.group_committed and entry.uid not in self._given:
                self._given.add(entry.uid)
                self._check_given(entry)

    def _check_given(self, entry: ReservationInfo) -> None:
        stored, spec = self._process.api.reservations.decoded.get(entry.key), entry.reservation.spec
        if stored is None or stored.meta.uid != entry.uid or spec is None:
            return
        reported = reported_status(self._process, stored)
        if reported.get("phase", Phase.PENDING) != Phase.PENDING:
            return  # its status shows capacity already, or it was rejected and edited just now
        seconds = spec.pending_deadline_seconds
        late = _waits_since(stored, reported) + max(seconds, 1) + 1
        timely = self._seen[entry.uid] if not seconds else self._decided[entry.uid]
        assert timely <= late, f"{entry.key} gets capacity {timely - late:g} s after its deadline"


def _waits_since(stored: Reservation, reported: Json) -> float:
    conditions = reported.get("conditions", ())
    told = [each["lastTransitionTime"] for each in conditions if each["type"] == "Reconciling"]
    return parse_instant(told[0]) if told else stored.meta.created
