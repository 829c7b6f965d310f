"""Effects of changed and lost nodes on their reservations."""

from typing import Any

import pytest

from builders import NOW, encode, node_json
from tidelock.ledger.messages import cordoned_text, gone_text, holding_text, overcommitted_text
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.nodes import decode_node
from unit.ledger.ledger import MOVE_AFTER, LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    return LedgerScene()


UNSOUND = [
    ({"cordoned": True}, (reasons.NODE_CORDONED, cordoned_text("node-a"))),
    ({"ready": False}, (reasons.NODE_NOT_READY, "node node-a is not ready")),
    (
        {"taints": ["node.kubernetes.io/unreachable:NoExecute"]},
        (reasons.NODE_NOT_READY, "node node-a is not ready"),
    ),
]


@pytest.mark.parametrize(("fields", "problem"), UNSOUND)
def test_a_reservation_stays_active_on_a_node_that_takes_no_pods(
    ledger: LedgerScene, fields: dict[str, Any], problem: tuple[str, str]
) -> None:
    entry = ledger.active(nodeName="node-a")
    ledger.ledger.effects.statuses.clear()
    ledger.put_node("node-a", **fields)
    assert (entry.phase, entry.node_problem, ledger.reserved()) == (Phase.ACTIVE, problem, 1000)
    assert entry.move_at is None
    assert entry.key in ledger.ledger.effects.statuses


def test_a_reservation_that_is_placed_on_a_cordoned_node_reports_the_problem(ledger: LedgerScene) -> None:
    ledger.put_node("node-a", cordoned=True)
    entry = ledger.active(nodeName="node-a")
    assert entry.node_problem == (reasons.NODE_CORDONED, cordoned_text("node-a"))


@pytest.mark.parametrize("uid", [7, None, "", ["uid-node-a"]])
def test_a_node_with_an_unreadable_uid_keeps_its_reservations(ledger: LedgerScene, uid: object) -> None:
    """Guard against an unreadable UID that counts as another node of the same name.

    The reservations were lost with the former node.
    """
    entry = ledger.active(nodeName="node-a")
    odd = node_json("node-a")
    odd["metadata"]["uid"] = uid
    for each in (odd, node_json("node-a")):
        ledger.columns.put(decode_node(encode(each)))
        ledger.ledger.placement.settle_node("node-a", NOW)
        assert (entry.phase, entry.node_uid, ledger.reserved()) == (Phase.ACTIVE, "uid-node-a", 1000)

    ledger.put_node("node-a", uid="another")
    assert entry.phase is Phase.LOST


def test_an_event_of_an_unchanged_node_changes_nothing(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.ledger.effects.statuses.clear()
    ledger.put_node("node-a", version=2)
    assert not ledger.ledger.effects.statuses


def test_a_reservation_for_any_node_moves_after_a_grace_period(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.put_node("node-a", cordoned=True)
    ledger.put_node("node-a", ready=False, at=NOW + 100)
    assert ledger.ledger.next_deadline() == NOW + MOVE_AFTER
    ledger.ledger.waiting_reservations.take(untried_only=True)
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert (entry.phase, ledger.reserved("node-a")) == (Phase.ACTIVE, 1000)
    assert ledger.ledger.waiting_reservations.take(untried_only=True) == [entry]

    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "0/2 nodes fit", NOW + 301)
    assert (entry.phase, entry.reason, entry.resize_problem) == (Phase.ACTIVE, reasons.ADMITTED, "")

    ledger.admit(entry, "node-b", at=NOW + 302)
    assert (entry.node, entry.reason, entry.message) == (
        "node-b",
        reasons.MOVED,
        holding_text("cpu 1", "node-b"),
    )
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (0, 1000)
    assert (entry.node_problem, entry.moving, entry.expires_at) == (None, False, NOW + 600)
    assert not ledger.ledger.waiting_reservations.waiting


def test_a_reservation_stays_if_its_node_recovers(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.put_node("node-a", cordoned=True)
    ledger.ledger.advance(NOW + MOVE_AFTER)
    assert entry.moving
    ledger.put_node("node-a", at=NOW + 301)
    assert (entry.moving, entry.move_at, entry.node_problem) == (False, None, None)
    assert not ledger.ledger.waiting_reservations.waiting


@pytest.mark.parametrize("recreated", [False, True])
def test_a_reservation_for_one_node_is_lost_with_it(ledger: LedgerScene, recreated: bool) -> None:
    entry = ledger.active(nodeName="node-a")
    if recreated:
        ledger.put_node("node-a", uid="another", at=NOW + 1)
    else:
        ledger.drop_node("node-a", at=NOW + 1)
    assert (entry.phase, entry.reason, entry.finished_at) == (Phase.LOST, reasons.NODE_LOST, NOW + 1)
    assert entry.message == gone_text("node-a", "uid-node-a")
    assert ledger.ledger.holdings.nodes_with_reservations() == []


@pytest.mark.parametrize("recreated", [False, True])
def test_a_reservation_for_any_node_is_placed_again_when_its_node_is_lost(
    ledger: LedgerScene, recreated: bool
) -> None:
    entry = ledger.active(ttlSeconds=60)
    ledger.store()
    if recreated:
        ledger.put_node("node-a", uid="another", at=NOW + 1)
    else:
        ledger.drop_node("node-a", at=NOW + 1)
    assert (entry.phase, entry.reason, entry.node, entry.node_uid) == (
        Phase.PENDING,
        reasons.NODE_LOST,
        "",
        "",
    )
    assert (entry.pending_since, entry.tried) == (NOW + 1, False)
    ledger.admit(entry, "node-b", at=NOW + 2)
    assert (entry.phase, ledger.reserved("node-b")) == (Phase.ACTIVE, 1000)
    assert (entry.activated_at, entry.expires_at) == (NOW, NOW + 60)


def test_reservations_count_on_a_node_that_is_seen_after_them(ledger: LedgerScene) -> None:
    ledger.active()
    ledger.columns.drop("node-a")
    ledger.columns.put(ledger.node("node-b"))
    again = LedgerScene("node-a")
    ledger.columns.put(again.node("node-a"))
    assert ledger.reserved("node-a") == 0
    ledger.ledger.holdings.recount("node-a")
    ledger.ledger.holdings.recount("node-b")
    assert (ledger.reserved("node-a"), ledger.reserved("node-b")) == (1000, 0)


def test_a_node_that_shrinks_keeps_the_reservations_that_fit(ledger: LedgerScene) -> None:
    first, second = ledger.active("first"), ledger.active("second", at=NOW + 1)
    ledger.store("second", at=NOW + 1)
    ledger.put_node("node-a", cpu="1", at=NOW + 2)
    assert (first.phase, second.phase, ledger.reserved()) == (Phase.ACTIVE, Phase.PENDING, 1000)
    assert (second.reason, second.message) == (reasons.OVERCOMMITTED, overcommitted_text("node-a", "cpu 1"))
    assert second.pending_since == NOW + 2


def test_the_lowest_priority_is_displaced_first_then_the_newest_then_the_last_by_name(
    ledger: LedgerScene,
) -> None:
    ledger.active("important", at=NOW + 9, priority=5)
    ledger.active("new", at=NOW + 2)
    ledger.active("a", at=NOW + 1)
    ledger.active("b", at=NOW + 1)
    order = []
    for cpu in ("3", "2", "1", "0"):
        ledger.ledger.effects.transitions.clear()
        ledger.put_node("node-a", cpu=cpu)
        order += [change.meta.name for change in ledger.ledger.effects.transitions]
    assert order == ["new", "b", "a", "important"]


def test_pods_that_overcommit_a_node_displace_reservations(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"cpu": "2", "memory": "1Gi"})
    ledger.use("node-a", 3000)
    ledger.ledger.placement.settle_node("node-a", NOW)
    assert (entry.phase, entry.message) == (Phase.PENDING, overcommitted_text("node-a", "cpu 1"))


def test_a_reservation_without_the_missing_resource_stays(ledger: LedgerScene) -> None:
    entry = ledger.active(resources={"memory": "1Gi"})
    ledger.use("node-a", 5000)
    ledger.ledger.placement.settle_node("node-a", NOW)
    assert entry.phase is Phase.ACTIVE


def test_a_displaced_reservation_clears_the_problem_of_its_node(ledger: LedgerScene) -> None:
    entry = ledger.active()
    ledger.put_node("node-a", cordoned=True)
    ledger.put_node("node-a", cordoned=True, cpu="0", at=NOW + 1)
    assert entry.phase is Phase.PENDING
    assert (entry.node_problem, entry.move_at) == (None, None)
