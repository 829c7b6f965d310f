"""The record of a lock's life: who asked, how long it waited, was idle and was used, and how it ended."""

from builders import NOW, encode, pod, reservation_json
from tidelock.ledger import reasons
from tidelock.ledger.output.audit import Record, record
from tidelock.ledger.restore import restore
from tidelock.model.reservation import decode_reservation
from unit.ledger.ledger import LedgerScene


def told(ledger: LedgerScene, at: float = NOW) -> Record:
    """Give the record of the one lock that has ended."""
    (entry,) = ledger.ledger.effects.ended
    return record(entry, at)


def test_a_lock_that_its_owner_takes() -> None:
    ledger = LedgerScene()
    ledger.admit(ledger.reservation(created=NOW, resources={"cpu": "2"}), at=NOW + 3)
    ledger.consume(pod("web-0"), at=NOW + 13)
    life = told(ledger, NOW + 99)
    assert (life.reservation, life.owner, life.node) == ("shop/lock", "pod/web-0", "node-a")
    assert (life.waited, life.idle, life.occupied) == (3.0, 10.0, 0.0)
    assert (life.outcome, life.reason, life.pod, life.used) == ("Consumed", reasons.CONSUMED, "web-0", True)
    assert (life.asked_at, life.resources) == ("2027-01-15T08:00:00Z", {"cpu": "2"})
    assert life.text == "waited 3s, idle 10s"


def test_waiting_counts_from_the_moment_in_which_the_lock_was_seen() -> None:
    """It counted from the creation, which is told in whole seconds: up to a second too much."""
    ledger = LedgerScene()
    ledger.active(at=NOW + 0.9, created=NOW, ttlSeconds=60)
    ledger.ledger.advance(NOW + 61)
    assert told(ledger).text == "waited 0s, idle 60.1s"


def test_a_lock_that_another_process_saw_first_waited_since_it_was_made() -> None:
    ledger = LedgerScene()
    ledger.active(at=NOW + 30, created=NOW, ttlSeconds=60)
    ledger.ledger.advance(NOW + 90)
    assert told(ledger).waited == 29.0


def test_a_lock_that_nobody_takes() -> None:
    ledger = LedgerScene()
    ledger.active(ttlSeconds=60)
    ledger.ledger.advance(NOW + 60)
    life = told(ledger)
    assert (life.outcome, life.idle, life.pod, life.used) == ("Expired", 60.0, "", False)


def test_a_lock_that_never_had_room_was_never_idle() -> None:
    ledger = LedgerScene()
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "no room", NOW + 2)
    life = told(ledger)
    assert (life.outcome, life.waited, life.idle, life.active_at) == ("Rejected", 2.0, 0.0, "")
    assert life.text == "waited 2s"


def test_a_lock_that_is_deleted_before_its_end() -> None:
    ledger = LedgerScene()
    entry = ledger.active()
    ledger.ledger.remove(entry.reservation)
    life = told(ledger, NOW + 5)
    assert (life.outcome, life.idle, life.ended_at) == ("Deleted", 5.0, "2027-01-15T08:00:05Z")


def test_a_lock_that_has_ended_is_told_of_once() -> None:
    ledger = LedgerScene()
    entry = ledger.active()
    ledger.consume(pod("web-0"))
    ledger.ledger.remove(entry.reservation)
    assert told(ledger).outcome == "Consumed"


def test_a_lock_that_a_next_process_finds_ended_is_not_told_of_again() -> None:
    ledger = LedgerScene()
    ledger.active(retention="Retain")
    ledger.consume(pod("web-0"))
    successor, _ = ledger.succeeded()
    assert successor.ledger.effects.ended == []


def test_who_asked_is_the_first_that_wrote_the_spec() -> None:
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
