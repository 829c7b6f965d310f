"""Waiting reservations: admission, refusals, the order of the queue, and deadlines."""

import pytest

from builders import NOW, pod
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.messages import holding_text, no_capacity_text
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.queue import waiting
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import EPOCH, LedgerScene

FULL = (reasons.INSUFFICIENT_CAPACITY, "0/2 nodes fit")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_new_reservation_waits_and_holds_nothing(ledger: LedgerScene) -> None:
    entry = ledger.reservation()
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.WAITING)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]
    assert ledger.reserved() == 0
    assert ledger.ledger.effects.transitions == []


def test_an_admitted_reservation_holds_its_capacity_until_its_expiry(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "1500m", "memory": "1Gi"}, ttlSeconds=60, at=NOW)
    assert (entry.phase, entry.reason) == (Phase.ACTIVE, reasons.ADMITTED)
    assert entry.message == holding_text("cpu 1500m, memory 1Gi", "node-a")
    assert (entry.node, entry.node_uid, entry.epoch) == ("node-a", "uid-node-a", EPOCH)
    assert (entry.activated_at, entry.expires_at) == (NOW, NOW + 60)
    assert ledger.columns.named(ledger.columns.reserved[0]) == {"cpu": 1500, "memory": 2**30, "pods": 1}
    assert not ledger.ledger.waiting_reservations.waiting
    assert list(ledger.ledger.holdings.held_on("node-a")) == [entry]
    assert ledger.ledger.holdings.nodes_with_reservations() == ["node-a"]


def test_the_change_is_recorded_for_events_and_metrics(ledger: LedgerScene) -> None:
    ledger.active(at=NOW + 1)
    (change,) = ledger.ledger.effects.transitions
    assert (change.event, change.phase, change.reason) == (Event.ADMIT, Phase.ACTIVE, reasons.ADMITTED)
    assert (change.meta.name, change.at, change.due) == ("lock", NOW + 1, NOW + 1)


def test_expire_at_is_the_end_whenever_the_reservation_is_admitted(ledger: LedgerScene) -> None:
    entry = ledger.active(ttlSeconds=None, expireAt=format_instant(NOW + 90), at=NOW + 30)
    assert (entry.activated_at, entry.expires_at) == (NOW + 30, NOW + 90)


def test_a_reservation_without_amounts_holds_one_pod(ledger: LedgerScene) -> None:
    entry = ledger.active(resources=None, template={"spec": {"containers": [{"name": "main"}]}})
    assert entry.message == holding_text("a place for a pod", "node-a")
    assert ledger.columns.named(ledger.columns.reserved[0]) == {"pods": 1}


def test_the_queue_is_ordered_by_priority_then_age_then_name(ledger: LedgerScene) -> None:
    ledger.reservation("young", created=NOW + 1)
    ledger.reservation("b")
    ledger.reservation("a")
    ledger.reservation("important", created=NOW + 2, priority=1)
    line = ledger.ledger.waiting_reservations.take(untried_only=False)
    assert [entry.key.name for entry in line] == ["important", "a", "b", "young"]


def test_only_new_and_edited_reservations_are_untried(ledger: LedgerScene) -> None:
    first = ledger.reservation("first")
    ledger.ledger.waiting_reservations.take(untried_only=True)
    second = ledger.reservation("second")
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [second]
    ledger.edit("first", resources={"cpu": "500m"})
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [first]
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == []


def refuse(ledger: LedgerScene, *entries: ReservationInfo) -> None:
    for entry in entries:
        ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)


def test_the_first_of_equivalent_reservations_is_tried_for_all_when_capacity_is_freed(
    ledger: LedgerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_RENEWED", 0)
    first, second, third = (ledger.reservation(name) for name in ("a", "b", "c"))
    larger = ledger.reservation("d", resources={"cpu": "2"})
    assert len(ledger.ledger.waiting_reservations.take(untried_only=True)) == 4
    refuse(ledger, first, second, third, larger)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == []
    assert ledger.ledger.waiting_reservations.take(untried_only=False) == [first, larger]
    refuse(ledger, first, larger)
    assert ledger.ledger.waiting_reservations.take(untried_only=False) == [first, larger]

    ledger.ledger.placement.admit(first, ledger.node(), NOW)  # so there may be capacity for the next one
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [second]
    ledger.edit("b", resources={"cpu": "3"})  # so it is no longer tried on behalf of the others
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [second, third]


def test_each_attempt_renews_the_numbers_of_some_equivalent_reservations(
    ledger: LedgerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_RENEWED", 2)
    entries = [ledger.reservation(f"lock-{number}") for number in range(7)]
    ledger.ledger.waiting_reservations.take(untried_only=True)
    refuse(ledger, *entries)
    seen = set()
    for _ in range(4):
        line = ledger.ledger.waiting_reservations.take(untried_only=False)
        assert len(line) <= 3
        seen.update(line)
        refuse(ledger, *line)
    assert seen == set(entries)


def test_a_refused_reservation_shows_the_reason_and_continues_to_wait(ledger: LedgerScene) -> None:
    entry = ledger.reservation()
    ledger.ledger.effects.statuses.clear()
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    assert (entry.phase, entry.reason, entry.message) == (Phase.PENDING, *FULL)
    assert entry.key in ledger.ledger.waiting_reservations.waiting
    assert entry.key in ledger.ledger.effects.statuses


def test_the_numbers_of_a_refusal_are_renewed_from_time_to_time(ledger: LedgerScene) -> None:
    entry = ledger.reservation()
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.ledger.effects.statuses.clear()
    ledger.ledger.admission.refuse(entry, FULL[0], "newer", NOW + REFUSAL_RENEWAL - 0.001)
    assert entry.message == FULL[1]
    assert not ledger.ledger.effects.statuses
    ledger.ledger.admission.refuse(entry, FULL[0], "newer", NOW + REFUSAL_RENEWAL)
    assert entry.message == "newer"
    assert entry.key in ledger.ledger.effects.statuses


def test_another_reason_is_shown_at_once(ledger: LedgerScene) -> None:
    entry = ledger.reservation()
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.ledger.admission.refuse(entry, reasons.NODE_NOT_FOUND, "no such node", NOW + 0.1)
    assert (entry.reason, entry.message) == (reasons.NODE_NOT_FOUND, "no such node")


def test_an_overcommitted_reservation_keeps_its_reason_and_has_a_deadline(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"}, pendingDeadlineSeconds=60)
    ledger.store()
    ledger.put_node(cpu="1", at=NOW + 10)
    message = entry.message
    ledger.ledger.admission.refuse(entry, *FULL, NOW + 30)
    assert (entry.reason, entry.message) == (reasons.OVERCOMMITTED, message)
    ledger.ledger.advance(NOW + 30)
    assert ledger.ledger.next_deadline() == NOW + 70


def test_a_deadline_of_zero_never_rejects_before_the_first_attempt(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.advance(NOW + 1000)
    assert entry.phase is Phase.PENDING


@pytest.mark.parametrize(("deadline", "seen_late"), [(0, 2.1), (1, 2.1), (5, 6.1), (60, 61.1)])
def test_a_reservation_that_is_first_seen_after_its_deadline_is_rejected(
    ledger: LedgerScene, deadline: int, seen_late: float
) -> None:
    """Guard against an admission long after the deadline.

    Reservations became active 58 s after their creation, when the operator started. Their manager had given
    up long before. Creation times are in whole seconds, and a deadline of 0 means within one second.
    """
    at = NOW + seen_late
    entry = ledger.reservation(pendingDeadlineSeconds=deadline, at=at)
    assert ledger.ledger.next_deadline() is not None
    ledger.ledger.advance(at)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)
    passed = f"spec.pendingDeadlineSeconds ({deadline}) had passed when the operator saw it"
    assert entry.message == f"{passed} at {format_instant(at)}: it waits since {format_instant(NOW)}"
    assert not ledger.ledger.waiting_reservations.untried
    assert ledger.reservation("timely", pendingDeadlineSeconds=deadline, at=at - 0.2).phase is Phase.PENDING
    ledger.ledger.advance(at - 0.2)
    assert ledger.entry("timely").phase is Phase.PENDING


def test_a_reservation_that_is_not_tried_before_its_deadline_is_rejected(ledger: LedgerScene) -> None:
    """Guard against a first attempt after the deadline.

    Behind many others in the queue, a reservation was still tried once, and became active after its deadline.
    """
    entry = ledger.reservation(pendingDeadlineSeconds=5)
    assert ledger.ledger.next_deadline() == NOW + 6
    ledger.ledger.advance(NOW + 6)
    assert entry.phase is Phase.REJECTED
    waits = f"it waits since {format_instant(NOW)}"
    assert entry.message == f"spec.pendingDeadlineSeconds (5) had passed before it was tried: {waits}"


def test_an_edit_can_extend_a_deadline_that_had_passed_at_first_sight(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=5, at=NOW + 60)
    ledger.edit(pendingDeadlineSeconds=600, at=NOW + 60)
    ledger.ledger.advance(NOW + 60)
    assert (entry.phase, ledger.ledger.next_deadline()) == (Phase.PENDING, NOW + 601)


def test_a_deadline_of_zero_rejects_with_the_first_refusal(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)
    assert entry.message == f"{no_capacity_text(0)}: 0/2 nodes fit"


def test_a_reservation_is_rejected_at_its_deadline(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=60)
    ledger.ledger.admission.refuse(entry, *FULL, NOW + 1)
    ledger.ledger.advance(NOW + 1)
    assert ledger.ledger.next_deadline() == NOW + 60
    ledger.ledger.advance(NOW + 59.999)
    assert entry.phase is Phase.PENDING
    ledger.ledger.advance(NOW + 60)
    assert (entry.phase, entry.finished_at) == (Phase.REJECTED, NOW + 60)
    assert entry.message == f"{no_capacity_text(60)}: 0/2 nodes fit"
    assert not ledger.ledger.waiting_reservations.waiting
    assert ledger.ledger.ownership.of(pod()) == []


def test_a_waiting_reservation_expires_at_its_expire_at(ledger: LedgerScene) -> None:
    entry = ledger.reservation(ttlSeconds=None, expireAt=format_instant(NOW + 30))
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.ledger.advance(NOW + 30)
    assert (entry.phase, entry.reason) == (Phase.EXPIRED, reasons.EXPIRED)
    assert entry.message == "spec.expireAt has passed"


def test_an_edited_deadline_counts_from_the_original_start_of_the_wait(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=60)
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.edit(pendingDeadlineSeconds=600, at=NOW + 30)
    ledger.ledger.advance(NOW + 30)
    assert ledger.ledger.next_deadline() == NOW + 600


def test_an_edit_lets_a_rejected_reservation_wait_again(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=0)
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.edit(pendingDeadlineSeconds=10, status=render_reservation(entry, NOW), at=NOW + 100)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.WAITING)
    assert (entry.pending_since, entry.finished_at, entry.tried) == (NOW + 100, None, False)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]
    assert ledger.ledger.ownership.of(pod()) == [entry]
    ledger.ledger.admission.refuse(entry, *FULL, NOW + 100)
    ledger.ledger.advance(NOW + 100)
    assert ledger.ledger.next_deadline() == NOW + 110


def test_an_edit_from_before_the_published_rejection_does_not_revive_a_reservation(
    ledger: LedgerScene,
) -> None:
    """Guard against an edit that restarts the deadline although its author could not see the rejection.

    The operator's watch was silent, so it could not publish the rejection, and saw an edit late. The
    reservation waited again and became active 12 s after its deadline, when its manager had given up.
    """
    entry = ledger.reservation(pendingDeadlineSeconds=5)
    waiting = render_reservation(entry, NOW)
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.ledger.advance(NOW + 5)
    assert entry.phase is Phase.REJECTED
    ledger.edit(resources={"cpu": "1"}, status=waiting, at=NOW + 20)
    ledger.ledger.advance(NOW + 20)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)
    assert not ledger.ledger.waiting_reservations.untried


def test_an_edit_from_before_the_published_rejection_can_extend_the_deadline(ledger: LedgerScene) -> None:
    entry = ledger.reservation(pendingDeadlineSeconds=5)
    waiting = render_reservation(entry, NOW)
    ledger.ledger.admission.refuse(entry, *FULL, NOW)
    ledger.ledger.advance(NOW + 5)
    ledger.edit(pendingDeadlineSeconds=600, status=waiting, at=NOW + 20)
    ledger.ledger.advance(NOW + 20)
    assert (entry.phase, ledger.ledger.next_deadline()) == (Phase.PENDING, NOW + 601)
