"""Regression tests of the ledger. Each docstring describes the bug."""

import pytest

from builders import NOW, pod, reservation
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.messages import cordoned_text, holding_text, overcommitted_text
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import MOVE_AFTER, LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_reservation_restored_after_its_node_holds_its_capacity(ledger: LedgerScene) -> None:
    """Guard against a restore that subtracts the held amounts before it counts them.

    After a restart in which the nodes were listed first, all reservations were Active and held nothing.
    """
    status = render_reservation(ledger.active(resources={"cpu": "3"}), NOW)
    successor = LedgerScene()
    successor.reservation(resources={"cpu": "3"}, status=status)
    assert successor.reserved() == 3000


def test_a_reservation_without_requests_is_restored(ledger: LedgerScene) -> None:
    """Guard against an empty `resources` that counts as a reservation without capacity.

    The status of a template without requests has empty `resources`, because it only holds one pod.
    """
    template = {"spec": {"containers": [{"name": "main"}]}}
    status = render_reservation(ledger.active(resources=None, template=template), NOW)
    entry = LedgerScene().reservation(resources=None, template=template, status=status)
    assert (entry.phase, entry.held) == (Phase.ACTIVE, {"pods": 1})
    assert entry.message == holding_text("a place for a pod", "node-a")


def test_a_status_without_an_expiry_is_not_restored(ledger: LedgerScene) -> None:
    """Guard against an Active status without expiresAt, which became a reservation that never ended."""
    status = render_reservation(ledger.active(), NOW)
    del status["expiresAt"]
    assert LedgerScene().reservation(status=status).phase is Phase.PENDING


def test_a_waiting_reservation_is_restored_with_its_reason_and_its_deadline(ledger: LedgerScene) -> None:
    """Guard against a restart that replaces the numbers of every waiting reservation with "Waiting"."""
    entry = ledger.reservation(created=NOW - 20)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "0/2 nodes are available", NOW)
    adopted = ledger.readopted(at=NOW + 5)
    assert (adopted.reason, adopted.message) == (entry.reason, entry.message)
    assert adopted.pending_since == NOW - 20


def test_an_expiry_that_is_extended_after_a_restart_counts(ledger: LedgerScene) -> None:
    """Guard against a restore that counts the expireAt of a never active reservation as granted.

    A later edit was shown, but the reservation expired at the old instant.
    """
    ledger.reservation(ttlSeconds=None, expireAt="2027-01-15T09:00:00Z")
    successor = LedgerScene()
    status = render_reservation(ledger.entry(), NOW)
    successor.reservation(ttlSeconds=None, expireAt="2027-01-15T09:00:00Z", status=status)
    successor.edit(expireAt="2027-01-15T10:00:00Z")
    assert render_reservation(successor.entry(), NOW)["expiresAt"] == "2027-01-15T10:00:00Z"


def test_a_rejected_reservation_waits_since_its_edit(ledger: LedgerScene) -> None:
    """Guard against a deadline that includes the time before the edit, and passes at once after a restart."""
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    assert ledger.entry().phase is Phase.REJECTED
    ledger.edit(resources={"cpu": "2"}, status=render_reservation(ledger.entry(), NOW - 900))
    assert ledger.entry().pending_since == NOW
    assert ledger.readopted(at=NOW + 5).pending_since == NOW


def test_a_rejected_reservation_that_was_edited_during_a_downtime_waits_since_the_restart(
    ledger: LedgerScene,
) -> None:
    """Guard against a deadline that includes the time before an edit that was made during a downtime."""
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    render_reservation(ledger.entry(), NOW - 900)
    adopted = ledger.readopted(at=NOW, generation=2)
    assert (adopted.phase, adopted.pending_since) == (Phase.PENDING, NOW)


def test_a_late_status_write_does_not_extend_the_deadline_of_an_edited_reservation(
    ledger: LedgerScene,
) -> None:
    """Guard against a status with the time of its write as the start of the wait.

    The wait begins when the operator sees an edit that was made while it was down. Another restart extended
    the deadline.
    """
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    render_reservation(ledger.entry(), NOW - 900)
    status = render_reservation(ledger.readopted(at=NOW, generation=2), NOW + 30)
    assert LedgerScene().reservation(generation=2, status=status).pending_since == NOW


def test_a_displaced_reservation_waits_since_its_displacement(ledger: LedgerScene) -> None:
    """Guard against a wait that goes on although the reservation was active, for less than a second."""
    ledger.active(created=NOW - 1000)
    ledger.store()
    ledger.put_node("node-a", cpu="0", at=NOW)
    assert ledger.entry().phase is Phase.PENDING
    assert ledger.readopted(at=NOW + 5).pending_since == NOW


def test_a_displaced_reservation_that_was_never_published_as_active_keeps_its_deadline(
    ledger: LedgerScene,
) -> None:
    """Guard against a deadline that restarts with every loss of capacity before the status is written."""
    ledger.active(created=NOW - 10)
    ledger.put_node("node-a", cpu="0", at=NOW)
    assert ledger.entry().pending_since == NOW - 10
    assert ledger.ledger.next_deadline() == NOW - 10 + 61
    assert ledger.readopted(at=NOW + 5).pending_since == NOW - 10


def test_a_late_answer_does_not_hide_a_newer_version(ledger: LedgerScene) -> None:
    """Guard against a late answer that restores an older version.

    A user's edit was seen before the answer to the operator's write of an older version. The answer put that
    version's number and status back. The next write was refused, and no event came to repeat it.
    """
    entry = ledger.reservation(version=1)
    ledger.ledger.upsert(reservation(version=3, generation=2, resources={"cpu": "2"}), NOW)
    ledger.ledger.acknowledge(reservation(version=2, status={"phase": "Pending"}))
    assert entry.reservation.meta.resource_version == "3"


def test_the_watch_event_of_an_older_write_is_ignored(ledger: LedgerScene) -> None:
    """Guard against a watch event of a write before the last one, which caused a write that was refused."""
    entry = ledger.reservation(version=1)
    ledger.ledger.acknowledge(reservation(version=3, status={"phase": "Active"}))
    ledger.ledger.upsert(reservation(version=2, status={"phase": "Pending"}), NOW)
    assert entry.reservation.status == {"phase": "Active"}


def test_a_reservation_is_active_again_if_its_owners_change_during_a_claim(ledger: LedgerScene) -> None:
    """Guard against a reservation that stays Bound for ever because the bound pod no longer owns it."""
    entry = ledger.active(owner="web-0")
    ledger.ledger.claims.claim(pod("web-0"), "node-a", NOW)
    ledger.edit(owners=[{"pod": {"name": "web-1"}}])
    ledger.ledger.claims.owner_bound(pod("web-0", node_name="node-a"), "node-a", NOW)
    assert (entry.phase, entry.bound_pod) == (Phase.ACTIVE, None)
    assert ledger.reserved() == 1000


def test_a_reservation_that_shrank_during_a_claim_returns_at_its_new_size(ledger: LedgerScene) -> None:
    """Guard against a reservation that returns from a claim at the size that it had at its beginning."""
    ledger.active(resources={"cpu": "3"})
    ledger.ledger.claims.claim(pod(), "node-a", NOW)
    ledger.edit(resources={"cpu": "1"})
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    assert ledger.reserved() == 1000


def test_a_reservation_that_returns_to_a_full_node_is_tried_elsewhere(ledger: LedgerScene) -> None:
    """Guard against an attempt from before the admission that still counts.

    A reservation could then be given up before it was tried again.
    """
    entry = ledger.reservation(resources={"cpu": "3"}, pendingDeadlineSeconds=5)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "none", NOW)
    ledger.admit(entry)
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.use("node-a", cpu=4000)
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    ledger.ledger.advance(NOW + 5)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_a_reservation_that_returns_to_a_lost_node_waits_again(ledger: LedgerScene) -> None:
    """Guard against an early attempt that still counts if the node was lost during the claim."""
    entry = ledger.active(created=NOW - 1000)
    ledger.store()
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.drop_node("node-a")
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    ledger.ledger.advance(NOW)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.NODE_LOST)
    assert entry.pending_since == NOW


def test_a_reservation_with_an_unreadable_spec_is_rejected_when_it_loses_its_capacity(
    ledger: LedgerScene,
) -> None:
    """Guard against a wait for an unknown amount of capacity, which ended the decision loop."""
    entry = ledger.active(resources={"cpu": "3"})
    adopted = ledger.readopted(generation=2, resources={"cpu": "three"})
    assert (adopted.phase, adopted.reservation.pinned) == (Phase.ACTIVE, False)
    ledger.edit(resources={"cpu": "three"})
    ledger.put_node("node-a", cpu="2")
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)


def test_a_reservation_with_an_unreadable_spec_keeps_its_owners_through_a_restart(
    ledger: LedgerScene,
) -> None:
    """Guard against the loss of the owners with an unreadable part of the spec.

    After a restart no pod could use the capacity, not even the owner, and a bound owner did not end the
    reservation.
    """
    ledger.active(resources={"cpu": "2"}, priority=3)
    ledger.edit(resources={"cpu": "two"})
    successor, adopted = ledger.succeeded()
    assert (adopted.phase, adopted.priority) == (Phase.ACTIVE, 3)
    assert successor.ledger.ownership.of(pod()) == [adopted]
    successor.consume(pod())
    assert adopted.phase is Phase.CONSUMED


def test_a_reservation_with_an_unreadable_spec_stays_on_a_node_with_a_problem(ledger: LedgerScene) -> None:
    """Guard against a move with an unknown amount of capacity, which ended the decision loop."""
    entry = ledger.active()
    ledger.edit(resources={"cpu": "two"})
    ledger.put_node("node-a", cordoned=True)
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert (entry.moving, entry.phase, ledger.ledger.waiting_reservations.waiting) == (True, Phase.ACTIVE, {})
    ledger.edit(resources={"cpu": "1"})
    assert list(ledger.ledger.waiting_reservations.waiting.values()) == [entry]


def test_an_unreadable_edit_of_a_claimed_reservation_does_not_change_its_size(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.edit(resources={"cpu": "two"}, ttlSeconds=1)
    ledger.ledger.claims.unclaim("uid-web-0", NOW + 5)
    assert (entry.phase, ledger.reserved(), entry.expires_at) == (Phase.ACTIVE, 2000, NOW + 600)
    assert ledger.readopted(at=NOW + 5).expires_at == NOW + 600


def test_an_unplaced_reservation_with_an_unreadable_spec_is_rejected_after_a_claim(
    ledger: LedgerScene,
) -> None:
    """Guard against a wait for an unknown amount if the reservation was claimed before it had capacity."""
    entry = ledger.reservation()
    ledger.ledger.claims.claim(pod(), "node-a", NOW)
    ledger.edit(resources={"cpu": "three"})
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)


def test_the_message_is_that_of_the_last_unreadable_edit(ledger: LedgerScene) -> None:
    """Guard against the message of the first unreadable edit that stays in the condition Active."""
    entry = ledger.reservation(resources={"cpu": "two"})
    ledger.edit(resources={"cpu": "three"})
    assert "'three'" in entry.message


def test_an_ended_reservation_is_not_stalled_by_an_unreadable_edit(ledger: LedgerScene) -> None:
    """Guard against an object that stays for ever because its spec was broken before its end was written."""
    entry = ledger.active()
    ledger.consume(pod(node_name="node-a"), "node-a")
    ledger.edit(resources={"cpu": "two"})
    assert deadlines.removable_at(entry) == NOW
    assert "Stalled" not in {condition["type"] for condition in render_reservation(entry, NOW)["conditions"]}


def test_an_expire_at_of_zero_seconds_since_the_epoch_counts(ledger: LedgerScene) -> None:
    """Guard against an expireAt of 0 seconds since the epoch that counts as no expireAt."""
    entry = ledger.reservation(ttlSeconds=None, expireAt="1970-01-01T00:00:00Z")
    ledger.ledger.advance(NOW)
    assert entry.phase is Phase.EXPIRED


def test_a_reservation_that_is_placed_on_an_unready_node_moves_after_the_grace_period(
    ledger: LedgerScene,
) -> None:
    """Guard against a grace period that never starts.

    It started only when a node became unready under a reservation, so one that was placed later never moved.
    """
    ledger.put_node("node-a", ready=False)
    entry = ledger.active()
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert entry.moving


def test_another_problem_of_the_node_does_not_extend_the_grace_period(ledger: LedgerScene) -> None:
    """Guard against a cordon of an unready node that restarts the grace period and ends a move under way."""
    entry = ledger.active()
    ledger.put_node("node-a", ready=False, at=NOW)
    ledger.put_node("node-a", ready=False, cordoned=True, at=NOW + 200)
    assert entry.node_problem == (reasons.NODE_CORDONED, cordoned_text("node-a"))
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert entry.moving


def test_overcommitment_stays_the_reason_while_the_reservation_waits(ledger: LedgerScene) -> None:
    """Guard against a refusal that replaces the reason before it is written."""
    entry = ledger.active(resources={"cpu": "3"})
    ledger.put_node("node-a", cpu="2")
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "0/2 nodes are available", NOW)
    assert (entry.reason, entry.message) == (reasons.OVERCOMMITTED, overcommitted_text("node-a", "cpu 1"))
    assert ledger.readopted().reason == reasons.OVERCOMMITTED


def test_a_violated_reservation_with_an_unreadable_spec_is_restored_without_the_violation(
    ledger: LedgerScene,
) -> None:
    """Guard against a rejection that keeps the violation, which the next process does not find."""
    entry = ledger.active(resources={"cpu": "2"}, onViolation="Move")
    ledger.use("node-a", cpu=3000)
    ledger.ledger.placement.settle_node("node-a", NOW, pod("stranger"))
    assert (entry.phase, bool(entry.violation)) == (Phase.PENDING, True)
    rejected = ledger.readopted(generation=2, resources={"cpu": "two"})
    assert (rejected.phase, rejected.violation) == (Phase.REJECTED, "")
