"""Bugs of the ledger that were found once, each with its story."""

import pytest

from builders import NOW, pod, reservation
from tidelock.ledger import reasons
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.output.status import render_reservation
from tidelock.model.api.reservation import Phase
from unit.ledger.ledger import MOVE_AFTER, LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


def test_a_lock_adopted_after_its_node_holds_its_room(ledger: LedgerScene) -> None:
    """Adoption took the held amounts away before it counted them: after a restart in which the nodes were
    listed first, all locks were Active and none held anything.
    """
    status = render_reservation(ledger.active(resources={"cpu": "3"}), NOW)
    successor = LedgerScene()
    successor.reservation(resources={"cpu": "3"}, status=status)
    assert successor.reserved() == 3000


def test_a_lock_without_requests_is_adopted(ledger: LedgerScene) -> None:
    """A template without requests holds a place for one pod; its empty `resources` read as a lock that was
    never given.
    """
    template = {"spec": {"containers": [{"name": "main"}]}}
    status = render_reservation(ledger.active(resources=None, template=template), NOW)
    entry = LedgerScene().reservation(resources=None, template=template, status=status)
    assert (entry.phase, entry.held) == (Phase.ACTIVE, {"pods": 1})
    assert entry.message == "a place for a pod held on node-a"


def test_a_status_without_an_expiry_is_not_believed(ledger: LedgerScene) -> None:
    """An Active status whose expiresAt had been taken out became a lock that never ended."""
    status = render_reservation(ledger.active(), NOW)
    del status["expiresAt"]
    assert LedgerScene().reservation(status=status).phase is Phase.PENDING


def test_a_waiting_lock_is_adopted_with_its_reason_and_its_deadline(ledger: LedgerScene) -> None:
    """A restart wrote "Waiting" over the numbers of every lock in line."""
    entry = ledger.reservation(created=NOW - 20)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "0/2 nodes are available", NOW)
    adopted = ledger.readopted(at=NOW + 5)
    assert (adopted.reason, adopted.message) == (entry.reason, entry.message)
    assert adopted.pending_since == NOW - 20


def test_an_expiry_that_is_put_off_after_a_restart_counts(ledger: LedgerScene) -> None:
    """The expireAt of a lock that was never active was adopted as if it had been given: a later edit was
    shown, and the lock expired at the old instant.
    """
    ledger.reservation(ttlSeconds=None, expireAt="2027-01-15T09:00:00Z")
    successor = LedgerScene()
    status = render_reservation(ledger.entry(), NOW)
    successor.reservation(ttlSeconds=None, expireAt="2027-01-15T09:00:00Z", status=status)
    successor.edit(expireAt="2027-01-15T10:00:00Z")
    assert render_reservation(successor.entry(), NOW)["expiresAt"] == "2027-01-15T10:00:00Z"


def test_a_rejected_lock_that_is_edited_waits_from_then_on(ledger: LedgerScene) -> None:
    """After a restart the time before the rejection counted, so that the lock was given up at once."""
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    assert ledger.entry().phase is Phase.REJECTED
    ledger.edit(resources={"cpu": "2"}, status=render_reservation(ledger.entry(), NOW - 900))
    assert ledger.entry().pending_since == NOW
    assert ledger.readopted(at=NOW + 5).pending_since == NOW


def test_a_rejected_lock_that_was_edited_while_nobody_looked_waits_from_now_on(ledger: LedgerScene) -> None:
    """The same, with the edit made while the operator was down."""
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    render_reservation(ledger.entry(), NOW - 900)
    adopted = ledger.readopted(at=NOW, generation=2)
    assert (adopted.phase, adopted.pending_since) == (Phase.PENDING, NOW)


def test_a_rejected_lock_that_was_edited_waits_no_longer_for_being_written_late(ledger: LedgerScene) -> None:
    """Edited while the operator was down, it waited in its status since that was written, not since the edit
    was seen: another restart put its deadline off.
    """
    ledger.reservation(created=NOW - 1000)
    ledger.ledger.admission.refuse(ledger.entry(), reasons.NO_MATCHING_NODE, "none", NOW - 1000)
    ledger.ledger.advance(NOW - 900)
    render_reservation(ledger.entry(), NOW - 900)
    status = render_reservation(ledger.readopted(at=NOW, generation=2), NOW + 30)
    assert LedgerScene().reservation(generation=2, status=status).pending_since == NOW


def test_a_displaced_lock_waits_since_it_was_displaced(ledger: LedgerScene) -> None:
    """Active for less than a second, the lock seemed to have waited all along."""
    ledger.active(created=NOW - 1000)
    ledger.store()
    ledger.put_node("node-a", cpu="0", at=NOW)
    assert ledger.entry().phase is Phase.PENDING
    assert ledger.readopted(at=NOW + 5).pending_since == NOW


def test_a_displaced_lock_that_was_not_told_to_be_active_waits_as_before(ledger: LedgerScene) -> None:
    """Its deadline began anew with each room that it lost before the status was written, to no end."""
    ledger.active(created=NOW - 10)
    ledger.put_node("node-a", cpu="0", at=NOW)
    assert ledger.entry().pending_since == NOW - 10
    assert ledger.ledger.next_deadline() == NOW - 10 + 61
    assert ledger.readopted(at=NOW + 5).pending_since == NOW - 10


def test_a_late_answer_does_not_hide_a_newer_version(ledger: LedgerScene) -> None:
    """A user's edit came before the answer to our write of the version below. The answer then put that
    version's number and status back: the next write was refused, and nothing came any more to repeat it.
    """
    entry = ledger.reservation(version=1)
    ledger.ledger.upsert(reservation(version=3, generation=2, resources={"cpu": "2"}), NOW)
    ledger.ledger.acknowledge(reservation(version=2, status={"phase": "Pending"}))
    assert entry.reservation.meta.resource_version == "3"


def test_the_echo_of_an_older_write_is_ignored(ledger: LedgerScene) -> None:
    """Each echo of a write before the last one cost a write that was refused."""
    entry = ledger.reservation(version=1)
    ledger.ledger.acknowledge(reservation(version=3, status={"phase": "Active"}))
    ledger.ledger.upsert(reservation(version=2, status={"phase": "Pending"}), NOW)
    assert entry.reservation.status == {"phase": "Active"}


def test_a_lock_whose_owners_change_while_it_is_claimed_goes_back(ledger: LedgerScene) -> None:
    """The pod was bound, but did not own the lock any more: the lock stayed Bound for ever."""
    entry = ledger.active(owner="web-0")
    ledger.ledger.claims.claim(pod("web-0"), "node-a", NOW)
    ledger.edit(owners=[{"pod": {"name": "web-1"}}])
    ledger.ledger.claims.owner_bound(pod("web-0", node_name="node-a"), "node-a", NOW)
    assert (entry.phase, entry.bound_pod) == (Phase.ACTIVE, None)
    assert ledger.reserved() == 1000


def test_a_lock_that_shrank_while_it_was_claimed_goes_back_at_its_new_size(ledger: LedgerScene) -> None:
    """It went back at the size that it had been claimed with."""
    ledger.active(resources={"cpu": "3"})
    ledger.ledger.claims.claim(pod(), "node-a", NOW)
    ledger.edit(resources={"cpu": "1"})
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    assert ledger.reserved() == 1000


def test_a_lock_that_comes_back_to_no_room_is_tried_elsewhere(ledger: LedgerScene) -> None:
    """It counted as tried from before it was given, so that it could be given up before it was looked at."""
    entry = ledger.reservation(resources={"cpu": "3"}, pendingDeadlineSeconds=5)
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "none", NOW)
    ledger.admit(entry)
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.use("node-a", cpu=4000)
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    ledger.ledger.advance(NOW + 5)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_a_lock_that_comes_back_to_no_node_may_wait_anew(ledger: LedgerScene) -> None:
    """The same where the node had gone meanwhile."""
    entry = ledger.active(created=NOW - 1000)
    ledger.store()
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.drop_node("node-a")
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    ledger.ledger.advance(NOW)
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.NODE_LOST)
    assert entry.pending_since == NOW


def test_an_unreadable_lock_that_loses_its_room_is_rejected(ledger: LedgerScene) -> None:
    """It waited for room that nobody could tell the size of, which ended the decision loop."""
    entry = ledger.active(resources={"cpu": "3"})
    adopted = ledger.readopted(generation=2, resources={"cpu": "three"})
    assert (adopted.phase, adopted.reservation.pinned) == (Phase.ACTIVE, False)
    ledger.edit(resources={"cpu": "three"})
    ledger.put_node("node-a", cpu="2")
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)


def test_a_lock_with_an_unreadable_spec_keeps_its_owners_through_a_restart(ledger: LedgerScene) -> None:
    """The owners went with the rest of a spec that could not be read: after a restart the room was locked for
    nobody, against its own owner too, and a bound owner did not end the lock.
    """
    ledger.active(resources={"cpu": "2"}, priority=3)
    ledger.edit(resources={"cpu": "two"})
    successor, adopted = ledger.succeeded()
    assert (adopted.phase, adopted.priority) == (Phase.ACTIVE, 3)
    assert successor.ledger.ownership.of(pod()) == [adopted]
    successor.consume(pod())
    assert adopted.phase is Phase.CONSUMED


def test_an_unreadable_lock_stays_on_a_node_with_a_problem(ledger: LedgerScene) -> None:
    """It was to move, and nobody could tell for what room to look: that ended the decision loop."""
    entry = ledger.active()
    ledger.edit(resources={"cpu": "two"})
    ledger.put_node("node-a", cordoned=True)
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert (entry.moving, entry.phase, ledger.ledger.waiting_reservations.waiting) == (True, Phase.ACTIVE, {})
    ledger.edit(resources={"cpu": "1"})
    assert list(ledger.ledger.waiting_reservations.waiting.values()) == [entry]


def test_an_unreadable_edit_of_a_claimed_lock_leaves_it_its_size(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2"})
    ledger.ledger.claims.claim(pod(), "node-b", NOW)
    ledger.edit(resources={"cpu": "two"}, ttlSeconds=1)
    ledger.ledger.claims.unclaim("uid-web-0", NOW + 5)
    assert (entry.phase, ledger.reserved(), entry.expires_at) == (Phase.ACTIVE, 2000, NOW + 600)
    assert ledger.readopted(at=NOW + 5).expires_at == NOW + 600


def test_an_unreadable_lock_that_comes_back_unplaced_is_rejected(ledger: LedgerScene) -> None:
    """The same for a lock that was claimed before it had any room."""
    entry = ledger.reservation()
    ledger.ledger.claims.claim(pod(), "node-a", NOW)
    ledger.edit(resources={"cpu": "three"})
    ledger.ledger.claims.unclaim("uid-web-0", NOW)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.INVALID_SPEC)


def test_a_second_bad_edit_is_told(ledger: LedgerScene) -> None:
    """The message of the first bad edit stayed in the condition Active."""
    entry = ledger.reservation(resources={"cpu": "two"})
    ledger.edit(resources={"cpu": "three"})
    assert "'three'" in entry.message


def test_an_ended_lock_is_not_stalled_by_a_bad_edit(ledger: LedgerScene) -> None:
    """The object of a consumed lock stayed for ever if its spec was spoilt before its end was written."""
    entry = ledger.active()
    ledger.consume(pod(node_name="node-a"), "node-a")
    ledger.edit(resources={"cpu": "two"})
    assert deadlines.removable_at(entry) == NOW
    assert "Stalled" not in {condition["type"] for condition in render_reservation(entry, NOW)["conditions"]}


def test_a_lock_that_ends_at_the_beginning_of_time_ends(ledger: LedgerScene) -> None:
    """An expireAt of 0 seconds since the epoch read as none."""
    entry = ledger.reservation(ttlSeconds=None, expireAt="1970-01-01T00:00:00Z")
    ledger.ledger.advance(NOW)
    assert entry.phase is Phase.EXPIRED


def test_a_lock_given_on_a_node_that_is_not_ready_moves_in_the_end(ledger: LedgerScene) -> None:
    """Only a node that became unready under a lock started the grace time, so such a lock stayed for ever."""
    ledger.put_node("node-a", ready=False)
    entry = ledger.active()
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert entry.moving


def test_another_problem_of_the_node_does_not_prolong_the_grace_time(ledger: LedgerScene) -> None:
    """A cordon on top of an unready node started the wait anew, and ended a move under way."""
    entry = ledger.active()
    ledger.put_node("node-a", ready=False, at=NOW)
    ledger.put_node("node-a", ready=False, cordoned=True, at=NOW + 200)
    assert entry.node_problem == (reasons.NODE_CORDONED, "node node-a is cordoned")
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert entry.moving


def test_overcommitment_stays_the_reason_while_the_lock_waits(ledger: LedgerScene) -> None:
    """The next refusal overwrote it before it was ever written."""
    entry = ledger.active(resources={"cpu": "3"})
    ledger.put_node("node-a", cpu="2")
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "0/2 nodes are available", NOW)
    assert (entry.reason, entry.message) == (reasons.OVERCOMMITTED, "node-a is overcommitted by cpu 1")
    assert ledger.readopted().reason == reasons.OVERCOMMITTED


def test_a_violated_lock_that_cannot_be_read_after_a_restart_is_violated_no_more(ledger: LedgerScene) -> None:
    """It was rejected with its violation, which the next process then did not find."""
    entry = ledger.active(resources={"cpu": "2"}, onViolation="Move")
    ledger.use("node-a", cpu=3000)
    ledger.ledger.placement.settle_node("node-a", NOW, pod("stranger"))
    assert (entry.phase, bool(entry.violation)) == (Phase.PENDING, True)
    rejected = ledger.readopted(generation=2, resources={"cpu": "two"})
    assert (rejected.phase, rejected.violation) == (Phase.REJECTED, "")
