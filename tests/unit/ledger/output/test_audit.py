"""The audit record of a reservation: requester, outcome, and the times of waiting, idleness and use."""

from builders import NOW, encode, pod, reservation_json
from tidelock.ledger.output.audit import Record, record
from tidelock.ledger.restore import restore
from tidelock.model import reasons
from tidelock.model.reservation import decode_reservation
from unit.ledger.ledger import LedgerScene


def ended_record(ledger: LedgerScene, at: float = NOW) -> Record:
    """Return the record of the only reservation that has ended."""
    (entry,) = ledger.ledger.effects.ended
    return record(entry, at)


def test_a_consumed_reservation_records_its_wait_its_idle_time_and_its_pod() -> None:
    ledger = LedgerScene()
    ledger.admit(ledger.reservation(created=NOW, resources={"cpu": "2"}), at=NOW + 3)
    ledger.consume(pod("web-0"), at=NOW + 13)
    life = ended_record(ledger, NOW + 99)
    assert (life.reservation, life.owner, life.node) == ("shop/lock", "pod/web-0", "node-a")
    assert (life.waited, life.idle, life.occupied) == (3.0, 10.0, 0.0)
    assert (life.outcome, life.reason, life.pod, life.used) == ("Consumed", reasons.CONSUMED, "web-0", True)
    assert (life.asked_at, life.resources) == ("2027-01-15T08:00:00Z", {"cpu": "2"})
    assert life.text == "waited 3s, idle 10s"


def test_the_wait_counts_from_when_the_reservation_was_seen() -> None:
    """Guard against a wait since the creation time, which is rounded down to whole seconds."""
    ledger = LedgerScene()
    ledger.active(at=NOW + 0.9, created=NOW, ttlSeconds=60)
    ledger.ledger.advance(NOW + 61)
    assert ended_record(ledger).text == "waited 0s, idle 60.1s"


def test_the_wait_of_a_reservation_from_before_a_restart_counts_from_its_creation() -> None:
    ledger = LedgerScene()
    ledger.active(at=NOW + 30, created=NOW, ttlSeconds=60)
    ledger.ledger.advance(NOW + 90)
    assert ended_record(ledger).waited == 29.0


def test_a_reservation_without_an_owner_is_recorded_as_unused() -> None:
    ledger = LedgerScene()
    ledger.active(ttlSeconds=60)
    ledger.ledger.advance(NOW + 60)
    life = ended_record(ledger)
    assert (life.outcome, life.idle, life.pod, life.used) == ("Expired", 60.0, "", False)


def test_a_reservation_without_capacity_was_never_idle() -> None:
    ledger = LedgerScene()
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "no room", NOW + 2)
    life = ended_record(ledger)
    assert (life.outcome, life.waited, life.idle, life.active_at) == ("Rejected", 2.0, 0.0, "")
    assert life.text == "waited 2s"


def test_a_reservation_that_is_deleted_before_its_end_is_recorded_as_deleted() -> None:
    ledger = LedgerScene()
    entry = ledger.active()
    ledger.ledger.remove(entry.reservation)
    life = ended_record(ledger, NOW + 5)
    assert (life.outcome, life.idle, life.ended_at) == ("Deleted", 5.0, "2027-01-15T08:00:05Z")


def test_an_ended_reservation_is_recorded_once() -> None:
    ledger = LedgerScene()
    entry = ledger.active()
    ledger.consume(pod("web-0"))
    ledger.ledger.remove(entry.reservation)
    assert ended_record(ledger).outcome == "Consumed"


def test_the_next_process_does_not_record_an_ended_reservation_again() -> None:
    ledger = LedgerScene()
    ledger.active(retention="Retain")
    ledger.consume(pod("web-0"))
    successor, _ = ledger.succeeded()
    assert successor.ledger.effects.ended == []


def test_the_requester_is_the_first_manager_that_wrote_the_spec() -> None:
    plain = reservation_json()
    plain["metadata"]["managedFields"] = [
        {"manager": "tidelock-3", "subresource": "status", "time": "2027-01-15T08:00:00Z"},
        {"manager": "kubectl-edit", "time": "2027-01-15T08:02:00Z"},
        {"manager": "dispatcher", "time": "2027-01-15T08:00:01Z"},
    ]
    reservation = decode_reservation(encode(plain))
    assert reservation.asked_by == "dispatcher"
    assert record(restore(reservation, NOW), NOW).text.endswith(", asked for by dispatcher")
    assert decode_reservation(encode(reservation_json())).asked_by == ""
