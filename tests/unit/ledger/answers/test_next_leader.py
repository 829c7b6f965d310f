"""The next leader holds the capacity that its predecessor granted."""

from typing import Any

from builders import NOW, Json
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.answered import Scene
from unit.ledger.ledger import EPOCH


def restarted(annotations: dict[str, str], *names: str, at: float = NOW, **fields: Any) -> Scene:
    """Start the next leader, which lists one reservation with an answer and no status."""
    successor = Scene(*names, epoch=EPOCH + 1)
    successor.reservation(annotations=annotations, at=at, **fields)
    return successor


# The next leader.


def test_the_next_leader_holds_a_grant_before_its_first_decision(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "3"})
    granted = ledger.unseen().reservation.status
    successor = restarted(annotations, resources={"cpu": "3"}, at=NOW + 9)
    assert (successor.entry().phase, successor.reserved()) == (Phase.PENDING, 0)
    successor.ledger.resume(NOW + 9)
    entry = successor.entry()
    assert (entry.phase, successor.reserved(), entry.epoch) == (Phase.ACTIVE, 3000, EPOCH)
    assert render_reservation(entry, NOW + 9) == granted
    assert not successor.ledger.waiting_reservations.waiting


def test_the_next_leader_repeats_a_refusal(ledger: Scene) -> None:
    spec: Json = {"pendingDeadlineSeconds": 0}
    ledger.ledger.admission.refuse(ledger.propose(**spec), reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    successor = restarted(ledger.answer(), **spec)
    successor.ledger.resume(NOW)
    assert successor.entry().phase is Phase.REJECTED


def test_of_several_objects_with_one_answer_the_oldest_has_it(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations, created=NOW + 2, priority=5)
    successor.reservation("lock-2", annotations=annotations, created=NOW + 1)
    successor.reservation("lock-3", annotations=annotations, created=NOW + 3)
    successor.ledger.resume(NOW + 3)
    phases = [successor.entry(f"lock-{number}").phase for number in (1, 2, 3)]
    assert (phases, successor.reserved()) == ([Phase.PENDING, Phase.ACTIVE, Phase.PENDING], 1000)


def test_an_answer_of_an_object_with_a_status_is_spent(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    stored = render_reservation(ledger.reservation("lock-9", annotations=annotations), NOW)
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations, created=NOW - 1)
    successor.reservation("lock-9", annotations=annotations, status=stored)
    successor.ledger.resume(NOW)
    assert (successor.entry("lock-1").phase, successor.entry("lock-9").phase) == (Phase.PENDING, Phase.ACTIVE)


def test_a_copy_with_a_status_does_not_spend_the_answer(ledger: Scene) -> None:
    """Guard against a copy that waits, and has its status before the original has one."""
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    ledger.reservation("lock-1", annotations=annotations)
    copy = ledger.reservation("lock-2", annotations=annotations, resources={"cpu": "9"})
    ledger.ledger.admission.refuse(copy, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    successor = Scene(epoch=EPOCH + 1)
    successor.reservation("lock-1", annotations=annotations)
    successor.reservation("lock-2", annotations=annotations, status=render_reservation(copy, NOW))
    successor.ledger.resume(NOW)
    assert (successor.entry("lock-1").phase, successor.reserved()) == (Phase.ACTIVE, 1000)


def test_a_grant_on_a_node_that_is_full_by_now_waits_again(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "3"})
    successor = restarted(annotations, resources={"cpu": "3"})
    successor.use("node-a", 2000)
    successor.ledger.resume(NOW)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    entry = successor.entry()
    assert (entry.phase, successor.reserved()) == (Phase.PENDING, 0)
    assert entry.reason in (reasons.INSUFFICIENT_CAPACITY, reasons.OVERCOMMITTED)


def test_a_grant_is_kept_beside_a_reservation_whose_bound_owner_is_not_known_yet(ledger: Scene) -> None:
    """Guard against a node that is judged before the bound owners have ended their reservations."""
    annotations = ledger.grant()
    owned = ledger.active("owned", resources={"cpu": "3"})
    successor = restarted(annotations)
    successor.reservation("owned", resources={"cpu": "3"}, status=render_reservation(owned, NOW))
    successor.use("node-a", 3000)
    successor.ledger.resume(NOW)
    successor.ledger.remove(successor.entry("owned").reservation)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    assert (successor.entry().phase, successor.reserved()) == (Phase.ACTIVE, 1000)


def test_capacity_that_a_status_shows_is_kept_before_a_grant(ledger: Scene) -> None:
    """Another leader may have given it away before the object was stored."""
    annotations = ledger.grant(resources={"cpu": "3"})
    between = Scene(epoch=EPOCH + 1)
    stored = render_reservation(between.active("other", resources={"cpu": "3"}, at=NOW + 5), NOW + 5)
    successor = Scene(epoch=EPOCH + 2)
    successor.reservation(annotations=annotations, resources={"cpu": "3"}, priority=5)
    successor.reservation("other", resources={"cpu": "3"}, status=stored)
    successor.ledger.resume(NOW + 6)
    successor.ledger.placement.settle_unseen("node-a", NOW + 6)
    assert (successor.entry().phase, successor.entry("other").phase) == (Phase.PENDING, Phase.ACTIVE)


def test_a_grant_on_a_node_that_is_gone_is_lost(ledger: Scene) -> None:
    successor = restarted(ledger.grant(), "node-b")
    successor.ledger.resume(NOW)
    successor.ledger.placement.settle_unseen("node-a", NOW)
    assert (successor.entry().phase, successor.entry().reason) == (Phase.PENDING, reasons.NODE_LOST)


def test_a_grant_that_is_over_ends(ledger: Scene) -> None:
    successor = restarted(ledger.grant(ttlSeconds=30), ttlSeconds=30, at=NOW + 40)
    successor.ledger.resume(NOW + 40)
    successor.ledger.advance(NOW + 40)
    assert (successor.entry().phase, successor.reserved()) == (Phase.EXPIRED, 0)


# Two phases, leases and quotas.


def test_the_token_of_an_answer_stays_the_same(ledger: Scene) -> None:
    commit = {"withinSeconds": 30}
    annotations = ledger.grant(commit=commit)
    granted = ledger.unseen().reservation.status
    assert granted["commit"]["token"] == "once.1"  # noqa: S105
    entry = ledger.reservation(annotations=annotations, commit=commit, at=NOW + 5)
    assert render_reservation(entry, NOW + 5)["commit"] == granted["commit"]
    successor = restarted(annotations, commit=commit, at=NOW + 6)
    successor.ledger.resume(NOW + 6)
    assert render_reservation(successor.entry(), NOW + 6)["commit"] == granted["commit"]
    ledger.store(at=NOW + 6)
    assert ledger.readopted(at=NOW + 7).hold == entry.hold
    ledger.edit(commit=commit | {"token": "once.1"}, at=NOW + 8)
    ledger.ledger.advance(NOW + 8)
    assert entry.hold is not None
    assert entry.hold.committed_at == NOW + 8


def test_a_token_after_the_first_one_is_the_same_in_each_process(ledger: Scene) -> None:
    """Guard against tokens with the nonce in one process and with the UID in the next."""
    commit = {"withinSeconds": 30}
    entry = ledger.reservation(annotations=ledger.grant(commit=commit), commit=commit)
    ledger.ledger.placement.preempt(entry, "shop/urgent", NOW + 1)
    ledger.store(at=NOW + 1)
    successor, restored = ledger.succeeded(at=NOW + 2)
    assert restored.hold == entry.hold
    ledger.admit(entry, at=NOW + 3)
    successor.admit(restored, at=NOW + 3)
    assert restored.hold == entry.hold
    assert entry.hold is not None
    assert entry.hold.token == "uid-lock.2"  # noqa: S105


def test_a_lease_counts_from_the_answer(ledger: Scene) -> None:
    lease = {"durationSeconds": 30}
    annotations = ledger.grant(lease=lease)
    entry = ledger.reservation(annotations=annotations, lease=lease, at=NOW + 20)
    assert entry.lease is not None
    assert entry.lease.renew_by == NOW + 30
    successor = restarted(annotations, lease=lease, at=NOW + 25)
    successor.ledger.resume(NOW + 25)
    assert successor.entry().lease == entry.lease
