"""Invariants of reservations that were answered in the response to their creation."""

from builders import Json
from property.creations import Creation, answer_in, nonce_in
from property.process import Process
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.answer import UNSEEN_SECONDS
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant, parse_instant
from tidelock.model.quantities import covers, parse_resources
from tidelock.model.reservation import Reservation

# Reasons for which a reservation with capacity has to give it back, whatever its answer has said.
_LOSSES = frozenset({reasons.PREEMPTED, reasons.OVERCOMMITTED, reasons.VIOLATED, reasons.NODE_LOST})
_ENDS = frozenset({reasons.LEASE_EXPIRED, reasons.NOT_RENEWED, reasons.NOT_COMMITTED, reasons.NODE_LOST})
_SAME = ("activatedAt", "expiresAt", "nodeName", "nodeUID", "resources", "commit")


class AnswerObserver:
    """An observer of each granted answer, until the status of the object shows another state."""

    def __init__(self) -> None:
        self._fulfilled: set[str] = set()

    def check(self, process: Process, disturbed: set[str]) -> None:
        """Check that the capacity in each answer is held until a status says otherwise, across crashes."""
        for change in process.effects.transitions:
            assert "~" not in change.meta.name, f"{change.meta.key} is reported, and is not stored"
        assert not any(entry.unseen for entry in process.effects.ended)
        for uid, creation in process.api.answered.items():
            if (
                creation.granted
                and creation.fate != "dry run"
                and uid not in self._fulfilled
                and self._is_over(process, creation, disturbed)
            ):
                self._fulfilled.add(uid)

    def _is_over(self, process: Process, creation: Creation, disturbed: set[str]) -> bool:
        """Return whether an answer binds the operator no longer, and check that it is kept until then."""
        api, answer = process.api, creation.answer
        assert answer is not None
        stored = api.reservations.decoded.get(creation.key)
        if stored is None or stored.meta.uid != creation.uid:
            over = creation not in api.creations or answer.leadership < api.leadership
        elif stored.decided:
            _check_reported(stored, answer.status)
            over = True
        else:
            over = stored.meta.generation > 1 or not answer_in(api.reservations.objects[creation.key])
            # The author of a copy may have the capacity at the cost of the original.
            over = over or nonce_in_others(process, creation)
        if over or not process.event_handlers.ready:
            return over
        entry = process.ledger.entries.get(creation.key)
        if entry is None or entry.uid != creation.uid:
            entry = process.ledger.answers.find(answer.nonce)
        if entry is None:
            late = process.clock.now() >= creation.asked_at + UNSEEN_SECONDS
            assert late, f"{creation.key} was granted, and nothing is held for it"
            return True
        return not _is_kept(process, entry, answer.status, disturbed)


def _is_kept(process: Process, entry: ReservationInfo, granted: Json, disturbed: set[str]) -> bool:
    """Return whether a reservation has the granted capacity. Otherwise check that there is a reason."""
    asked = parse_resources(granted["resources"])
    if entry.phase is Phase.ACTIVE and (entry.node, entry.node_uid) == (
        granted["nodeName"],
        granted["nodeUID"],
    ):
        assert entry.activated_at is not None
        assert entry.expires_at is not None
        told = granted["activatedAt"], granted["expiresAt"]
        assert (format_instant(entry.activated_at), format_instant(entry.expires_at)) == told, entry.key
        assert entry.hold is None or entry.hold.token == granted["commit"]["token"], entry.key
        taken = entry.violation or granted["nodeName"] in disturbed
        assert taken or covers(entry.reserved, asked), f"{entry.key} has less than its answer says"
        return True
    lost = entry.phase in (Phase.BOUND, Phase.CONSUMED) or granted["nodeName"] in disturbed
    lost = lost or entry.reason in _LOSSES | _ENDS | {reasons.MOVED}
    lost = lost or entry.fault != "" or (entry.phase is Phase.PENDING and entry.node_problem is not None)
    if entry.phase is Phase.EXPIRED and entry.reason == reasons.EXPIRED:
        lost = process.clock.now() >= parse_instant(granted["expiresAt"])
    assert lost, (
        f"{entry.key} was granted {granted['nodeName']}: {entry.phase} {entry.reason} {entry.message}"
    )
    return False


def _check_reported(stored: Reservation, granted: Json) -> None:
    """Check that the first status repeats the answer, if the reservation has kept its capacity."""
    status = stored.status
    if status["phase"] == Phase.ACTIVE and status["nodeName"] == granted["nodeName"]:
        violated = any(each["type"] == "Violated" for each in status["conditions"])
        same = [name for name in _SAME if name != "resources" or not violated]
        said = {name: status.get(name) for name in same}
        if stored.meta.generation == 1:
            assert said == {name: granted.get(name) for name in same}, stored.key


def nonce_in_others(process: Process, creation: Creation) -> bool:
    """Return whether other objects have a copy of an answer."""
    objects = process.api.reservations.objects
    others = (plain for key, plain in objects.items() if key != creation.key)
    return any(nonce_in(plain) == creation.nonce for plain in others)
