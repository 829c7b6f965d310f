"""The object of an answered creation takes over the granted capacity."""

import pytest

from builders import NOW, Json
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from unit.ledger.answered import OWNER, Scene
from unit.ledger.ledger import EPOCH

# Objects.


@pytest.mark.parametrize("spec", [{}, {"borrowable": True}, {"reuse": "Always"}, {"runSeconds": 30}])
def test_the_object_takes_over_what_was_granted(ledger: Scene, spec: Json) -> None:
    annotations = ledger.grant(resources={"cpu": "2"}, **spec)
    granted = ledger.unseen().reservation.status
    entry = ledger.reservation(annotations=annotations, resources={"cpu": "2"}, at=NOW + 3, **spec)
    assert (entry.phase, entry.node, entry.node_uid) == (Phase.ACTIVE, "node-a", "uid-node-a")
    assert (entry.activated_at, entry.expires_at, entry.epoch) == (NOW, NOW + 600, EPOCH)
    assert (ledger.reserved(), ledger.answers.find("once")) == (2000, None)
    assert render_reservation(entry, NOW + 3) == granted
    assert ledger.ledger.ownership.of(OWNER) == [entry]
    assert ledger.effects() == ([Event.ADMIT], [], {entry.key})


def test_a_handover_frees_nothing_and_wakes_no_waiting_reservation(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "4"})
    waiting = ledger.reservation("other")
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.admission.refuse(waiting, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    ledger.ledger.holdings.changes.take()
    freed = ledger.columns.freed

    entry = ledger.reservation(annotations=annotations, resources={"cpu": "4"})

    changes = ledger.ledger.holdings.changes.take()
    assert [(each.entry, each.before, each.after) for each in changes] == [(entry, {}, entry.held)]
    assert (ledger.columns.freed, ledger.ledger.waiting_reservations.untried) == (freed, {})


def test_an_object_that_asks_for_less_by_now_frees_the_rest(ledger: Scene) -> None:
    annotations = ledger.grant(resources={"cpu": "4"})
    freed = ledger.columns.freed
    ledger.reservation(annotations=annotations, resources={"cpu": "1"}, generation=2)
    assert (ledger.reserved(), ledger.columns.freed > freed) == (1000, True)


@pytest.mark.parametrize("after", ["Rejected", "Pending"])
def test_a_refusal_of_this_leadership_counts(ledger: Scene, after: str) -> None:
    spec: Json = {"pendingDeadlineSeconds": 0 if after == "Rejected" else 600}
    ledger.ledger.admission.refuse(ledger.propose(**spec), reasons.INSUFFICIENT_CAPACITY, "full", NOW)
    entry = ledger.reservation(annotations=ledger.answer(), at=NOW + 1, **spec)
    assert (entry.phase, entry.reason) == (Phase(after), reasons.INSUFFICIENT_CAPACITY) or (
        entry.phase is Phase.REJECTED and entry.reason == reasons.DEADLINE_EXCEEDED
    )
    assert not entry.promised


def test_a_grant_counts_for_one_object(ledger: Scene) -> None:
    ledger.admit(ledger.propose())
    annotations = ledger.answer(name="", generate_name="lock")
    original = ledger.reservation("lock-1", annotations=annotations)
    copy = ledger.reservation("lock-2", annotations=annotations)
    assert (original.phase, copy.phase, ledger.reserved()) == (Phase.ACTIVE, Phase.PENDING, 1000)
    ledger.ledger.remove(original.reservation)
    assert ledger.reservation("lock-3", annotations=annotations).phase is Phase.PENDING
    assert ledger.reserved() == 0


def test_a_forged_grant_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    ledger.answers.keys.use(b"another key")
    assert ledger.reservation(annotations=annotations).phase is Phase.PENDING
    assert ledger.reserved() == 1000


def test_an_answer_beside_a_status_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    status = render_reservation(ledger.unseen(), NOW) | {"nodeName": "node-b", "nodeUID": "uid-node-b"}
    assert ledger.reservation(annotations=annotations, status=status).node == "node-b"
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (1000, 1000)


def test_a_grant_of_an_earlier_leadership_that_comes_later_counts_for_nothing(ledger: Scene) -> None:
    annotations = ledger.grant()
    successor = Scene(epoch=EPOCH + 1)
    successor.ledger.resume(NOW)
    assert successor.reservation(annotations=annotations).phase is Phase.PENDING
