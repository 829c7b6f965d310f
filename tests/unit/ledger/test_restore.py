"""Reservations that a process sees for the first time, such as after a start."""

from typing import Any

import pytest

from builders import NOW, Json, pod
from tidelock.ledger.messages import holding_text
from tidelock.ledger.output.status import render_reservation
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.instants import format_instant
from unit.ledger.ledger import EPOCH, LedgerScene

LATER = NOW + 100
OWNER = pod("web-0")


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


@pytest.mark.parametrize("status", [None, {}, {"phase": None}])
def test_a_reservation_without_a_status_has_waited_since_its_creation(
    ledger: LedgerScene, status: Json | None
) -> None:
    entry = ledger.reservation(status=status, at=LATER)
    assert (entry.phase, entry.seen_waiting_at, entry.pending_since) == (Phase.PENDING, LATER, NOW)
    assert entry.transition_times == {"Active": ("False", NOW), "Reconciling": ("True", NOW)}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Sleeping"},
        {"phase": "Active", "nodeName": "node-a", "activatedAt": "yesterday"},
        {"phase": "Active", "conditions": [{"type": "Active"}]},
    ],
)
def test_a_status_that_no_version_of_the_operator_wrote_is_ignored(ledger: LedgerScene, status: Json) -> None:
    entry = ledger.reservation(status=status, at=LATER)
    assert (entry.phase, entry.pending_since, ledger.reserved()) == (Phase.PENDING, NOW, 0)


def test_an_active_reservation_keeps_its_capacity(ledger: LedgerScene) -> None:
    before = ledger.active(resources={"cpu": "2"})
    status = render_reservation(before, NOW)
    successor, entry = ledger.succeeded(at=LATER)
    assert (entry.phase, entry.node, entry.node_uid, entry.epoch) == (
        Phase.ACTIVE,
        "node-a",
        "uid-node-a",
        EPOCH,
    )
    assert (entry.activated_at, entry.expires_at, successor.reserved()) == (NOW, NOW + 600, 2000)
    assert successor.ledger.ownership.of(OWNER) == [entry]
    assert successor.ledger.next_deadline() == NOW + 600
    assert not successor.ledger.waiting_reservations.waiting
    assert render_reservation(entry, LATER) == status


def test_an_active_reservation_that_expired_during_a_downtime_ends_with_the_first_advance(
    ledger: LedgerScene,
) -> None:
    ledger.active(ttlSeconds=60)
    successor, entry = ledger.succeeded(at=LATER)
    successor.ledger.advance(LATER)
    assert (entry.phase, entry.finished_at, successor.reserved()) == (Phase.EXPIRED, LATER, 0)


def test_a_bound_reservation_is_restored_as_active_with_its_capacity(ledger: LedgerScene) -> None:
    status = render_reservation(ledger.active(), NOW)
    entry = ledger.readopted(at=LATER, status=status | {"phase": "Bound"})
    assert (entry.phase, entry.held) == (Phase.ACTIVE, {"cpu": 1000, "pods": 1})


def test_a_refused_growth_is_restored(ledger: LedgerScene) -> None:
    before = ledger.active(resources={"cpu": "1"})
    ledger.edit(resources={"cpu": "9"})
    ledger.ledger.admission.refuse(before, reasons.INSUFFICIENT_CAPACITY, "cpu 5 missing", NOW)
    successor, entry = ledger.succeeded(at=LATER)
    assert (entry.phase, entry.resize_problem, successor.reserved()) == (Phase.ACTIVE, "cpu 5 missing", 1000)
    assert entry.key in successor.ledger.waiting_reservations.waiting


def test_a_reservation_that_shrank_during_a_downtime_holds_and_shows_less(ledger: LedgerScene) -> None:
    """Guard against a reservation that holds the smaller amount and still shows the larger one."""
    ledger.active(resources={"cpu": "2"})
    entry = ledger.readopted(at=LATER, generation=2, resources={"cpu": "1"})
    assert (entry.held, entry.message) == ({"cpu": 1000, "pods": 1}, holding_text("cpu 1", "node-a"))


def test_a_reservation_that_grew_during_a_downtime_waits_for_more(ledger: LedgerScene) -> None:
    ledger.active(resources={"cpu": "1"})
    entry = ledger.readopted(at=LATER, generation=2, resources={"cpu": "2"})
    assert (entry.phase, entry.held["cpu"], entry.wanting) == (Phase.ACTIVE, 1000, True)


def test_an_expiry_that_was_edited_during_a_downtime_counts(ledger: LedgerScene) -> None:
    ledger.active(ttlSeconds=600)
    entry = ledger.readopted(at=LATER, generation=2, ttlSeconds=60)
    assert (entry.activated_at, entry.expires_at) == (NOW, NOW + 60)


def test_a_published_expiry_is_kept_while_the_spec_is_unchanged(ledger: LedgerScene) -> None:
    status = render_reservation(ledger.active(ttlSeconds=600), NOW) | {"expiresAt": format_instant(NOW + 900)}
    assert ledger.readopted(at=LATER, status=status).expires_at == NOW + 900


@pytest.mark.parametrize(
    "changed",
    [
        {"resources": {"cpu": "much"}},
        {"resources": None},
        {"nodeName": None},
        {"activatedAt": None},
        {"expiresAt": None},
    ],
)
def test_a_reservation_with_an_incomplete_status_waits(ledger: LedgerScene, changed: Json) -> None:
    status = render_reservation(ledger.active(), NOW) | changed
    successor, entry = ledger.succeeded(at=LATER, status=status)
    assert (entry.phase, successor.reserved()) == (Phase.PENDING, 0)
    assert entry.key in successor.ledger.waiting_reservations.waiting


def test_a_waiting_reservation_keeps_its_deadline(ledger: LedgerScene) -> None:
    before = ledger.reservation(pendingDeadlineSeconds=60)
    ledger.ledger.admission.refuse(before, reasons.INSUFFICIENT_CAPACITY, "full", NOW + 1)
    successor, entry = ledger.succeeded(at=NOW + 30)
    assert (entry.phase, entry.reason, entry.message) == (
        Phase.PENDING,
        reasons.INSUFFICIENT_CAPACITY,
        "full",
    )
    successor.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW + 30)
    successor.ledger.advance(NOW + 30)
    assert successor.ledger.next_deadline() == entry.pending_since + 60


def test_a_reservation_that_lost_its_capacity_has_waited_since_then(ledger: LedgerScene) -> None:
    before = ledger.active()
    ledger.store()
    ledger.put_node("node-a", cpu="0", at=NOW + 50)
    render_reservation(before, NOW + 50)
    entry = ledger.readopted(at=LATER)
    assert (entry.phase, entry.reason, entry.pending_since) == (
        Phase.PENDING,
        reasons.OVERCOMMITTED,
        NOW + 50,
    )
    assert (entry.activated_at, entry.expires_at) == (NOW, NOW + 600)


@pytest.mark.parametrize("refused", [True, False])
def test_a_waiting_reservation_is_rejected_at_first_sight_if_its_deadline_has_passed(
    ledger: LedgerScene, refused: bool
) -> None:
    """Guard against one more attempt, which may succeed long after the manager has given up."""
    before = ledger.reservation(pendingDeadlineSeconds=60)
    if refused:
        ledger.ledger.admission.refuse(before, reasons.INSUFFICIENT_CAPACITY, "full", NOW + 1)
    successor, entry = ledger.succeeded(at=NOW + 62)
    successor.ledger.advance(NOW + 62)
    assert (entry.phase, entry.reason) == (Phase.REJECTED, reasons.DEADLINE_EXCEEDED)
    assert entry.message.endswith("; full" if refused else format_instant(NOW))
    assert not successor.ledger.waiting_reservations.waiting


def test_a_reservation_that_lost_its_capacity_has_its_whole_deadline_after_a_restart(
    ledger: LedgerScene,
) -> None:
    ledger.active(pendingDeadlineSeconds=60)
    ledger.store()
    ledger.put_node("node-a", cpu="0", at=NOW + 50)
    for at, phase in ((NOW + 110, Phase.PENDING), (NOW + 112, Phase.REJECTED)):
        successor, entry = ledger.succeeded(at=at)
        successor.ledger.advance(at)
        assert entry.phase is phase


@pytest.mark.parametrize(
    ("edited_at", "phase"), [(LATER - 61, Phase.REJECTED), (LATER - 59, Phase.PENDING), (None, Phase.PENDING)]
)
def test_a_rejected_reservation_that_was_edited_during_a_downtime_waits_since_the_edit(
    ledger: LedgerScene, edited_at: float | None, phase: Phase
) -> None:
    """Guard against a deadline that counts from the restart, by which time the manager has given up."""
    end(ledger, Phase.REJECTED)
    writes = [{"manager": "kubectl", "time": format_instant(NOW)}]
    if edited_at is not None:
        writes.append({"manager": "kubectl-edit", "time": format_instant(edited_at)})
    writes.append({"manager": "tidelock-7", "subresource": "status", "time": format_instant(LATER)})
    fields: Json = {"generation": 2, "pendingDeadlineSeconds": 59}
    if edited_at is not None:
        fields["writes"] = writes
    successor, entry = ledger.succeeded(at=LATER, **fields)
    successor.ledger.advance(LATER)
    assert entry.phase is phase


def test_a_waiting_reservation_without_conditions_has_waited_since_its_creation(ledger: LedgerScene) -> None:
    entry = ledger.reservation(status={"phase": "Pending"}, at=LATER)
    assert (entry.pending_since, entry.reason) == (NOW, reasons.WAITING)


def end(ledger: LedgerScene, phase: Phase) -> None:
    entry = ledger.reservation(nodeName="node-a", pendingDeadlineSeconds=0, retention="Retain")
    if phase is Phase.REJECTED:
        ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "full", NOW)
        return
    ledger.admit(entry)
    match phase:
        case Phase.CONSUMED:
            ledger.consume(OWNER, "node-a")
        case Phase.EXPIRED:
            ledger.ledger.advance(NOW + 600)
        case _:
            ledger.drop_node("node-a")


ENDED = [Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED]


@pytest.mark.parametrize("phase", ENDED)
def test_an_ended_reservation_stays_as_it_was(ledger: LedgerScene, phase: Phase) -> None:
    end(ledger, phase)
    before = ledger.entry()
    status = render_reservation(before, NOW)
    successor, entry = ledger.succeeded(at=NOW + 700)
    assert (entry.phase, entry.finished_at, entry.bound_pod) == (phase, before.finished_at, before.bound_pod)
    assert not successor.ledger.waiting_reservations.waiting
    assert successor.ledger.ownership.of(OWNER) == []
    assert render_reservation(entry, NOW + 700) == status


@pytest.mark.parametrize("phase", ENDED)
def test_an_end_without_its_time_is_dated_to_the_restart(ledger: LedgerScene, phase: Phase) -> None:
    end(ledger, phase)
    status = render_reservation(ledger.entry(), NOW)
    del status["finishedAt"]
    assert ledger.readopted(at=LATER, status=status).finished_at == LATER


def test_a_consumed_reservation_keeps_its_bound_pod(ledger: LedgerScene) -> None:
    end(ledger, Phase.CONSUMED)
    assert ledger.readopted().bound_pod == BoundPod(name="web-0", uid="uid-web-0")


@pytest.mark.parametrize(
    ("changed", "phase", "reason"),
    [
        ({"resources": {"cpu": "1"}}, Phase.PENDING, reasons.WAITING),
        ({"resources": {"cpu": "much"}}, Phase.REJECTED, reasons.INVALID_SPEC),
    ],
)
def test_a_rejected_reservation_that_was_edited_during_a_downtime_starts_again(
    ledger: LedgerScene, changed: dict[str, Any], phase: Phase, reason: str
) -> None:
    end(ledger, Phase.REJECTED)
    entry = ledger.readopted(at=LATER, generation=2, **changed)
    assert (entry.phase, entry.reason, entry.pending_since) == (phase, reason, LATER)


def test_a_final_reservation_that_was_edited_during_a_downtime_stays_final(ledger: LedgerScene) -> None:
    end(ledger, Phase.EXPIRED)
    entry = ledger.readopted(at=NOW + 700, generation=2, ttlSeconds=None, expireAt=format_instant(NOW + 9000))
    assert entry.phase is Phase.EXPIRED


def test_an_active_reservation_on_a_lost_node_is_lost(ledger: LedgerScene) -> None:
    status = render_reservation(ledger.active(nodeName="node-a"), NOW)
    successor = LedgerScene("node-b")
    entry = successor.reservation(nodeName="node-a", status=status, at=LATER)
    assert successor.ledger.holdings.nodes_with_reservations() == ["node-a"]
    successor.ledger.placement.settle_node("node-a", LATER)
    assert entry.phase is Phase.LOST
