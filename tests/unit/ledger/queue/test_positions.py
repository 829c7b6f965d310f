"""The published queue positions of reservations, and how often they are published."""

from typing import Any

import pytest

from builders import NOW, encode, reservation
from tidelock.cluster.lister import Lister
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.queue import positions
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL, RENEWALS_A_SECOND
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.instants import format_instant
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from unit.ledger.ledger import LedgerScene

TWO = {"cpu": "2"}


@pytest.fixture
def ledger() -> LedgerScene:
    """Return a ledger with one node of 4 cpu, which reservations fill."""
    ledger = LedgerScene("node-a")
    ledger.active("first", resources={"cpu": "3"}, ttlSeconds=60, owner="nobody")
    ledger.active("second", resources={"cpu": "1"}, ttlSeconds=90, owner="nobody")
    return ledger


def refused(
    ledger: LedgerScene,
    name: str,
    *,
    at: float = NOW,
    reason: str = reasons.INSUFFICIENT_CAPACITY,
    **fields: Any,
) -> ReservationInfo:
    """Add a reservation and refuse it."""
    plan = {"resources": TWO, "pendingDeadlineSeconds": 3600}
    entry = ledger.reservation(name, at=at, **plan | fields)
    ledger.ledger.admission.refuse(entry, reason, "0/1 nodes are available", at)
    return entry


def told(entry: ReservationInfo, at: float = NOW) -> Any:
    return render_reservation(entry, at).get("queue")


def test_a_waiting_reservation_has_a_position_and_an_estimated_start(ledger: LedgerScene) -> None:
    small, large = refused(ledger, "a"), refused(ledger, "b", resources={"cpu": "4"})
    assert ledger.ledger.next_deadline() is not None
    ledger.ledger.advance(NOW)
    assert told(small) == {
        "position": 1,
        "length": 2,
        "place": "1/2",
        "estimatedStart": format_instant(NOW + 60),
    }
    assert told(large)["estimatedStart"] == format_instant(NOW + 90)


def test_no_start_is_estimated_without_a_known_end(ledger: LedgerScene) -> None:
    never = refused(ledger, "never", resources={"cpu": "8"})
    nowhere = refused(ledger, "nowhere", reason=reasons.NO_MATCHING_NODE)
    ledger.ledger.advance(NOW)
    assert told(never) == {"position": 1, "length": 2, "place": "1/2"}
    assert told(nowhere) == {"position": 2, "length": 2, "place": "2/2"}


def test_an_untried_reservation_has_no_position_and_does_not_count_for_others(ledger: LedgerScene) -> None:
    ledger.reservation("new", resources=TWO, priority=9)
    entry = refused(ledger, "lock")
    ledger.ledger.advance(NOW)
    assert told(entry)["place"] == "1/1"
    assert told(ledger.entry("new")) is None


def test_positions_change_with_arrivals_and_departures_at_the_rate_of_refusals(
    ledger: LedgerScene,
) -> None:
    entry = refused(ledger, "lock")
    ledger.ledger.advance(NOW)
    urgent = refused(ledger, "urgent", at=NOW + 1, priority=1)
    ledger.ledger.effects.statuses.clear()
    ledger.ledger.advance(NOW + 1)
    assert (told(urgent)["place"], told(entry)["place"]) == ("1/2", "1/1")
    assert ledger.ledger.next_deadline() == NOW + REFUSAL_RENEWAL
    ledger.ledger.advance(NOW + REFUSAL_RENEWAL)
    assert told(entry)["place"] == "2/2"
    ledger.ledger.remove(urgent.reservation)
    ledger.ledger.advance(NOW + 2 * REFUSAL_RENEWAL)
    assert told(entry)["place"] == "1/1"
    ledger.ledger.effects.statuses.clear()
    ledger.ledger.advance(NOW + 5 * REFUSAL_RENEWAL)
    assert not ledger.ledger.effects.statuses


def test_an_estimate_is_renewed_with_the_numbers_of_a_refusal(ledger: LedgerScene) -> None:
    entry = refused(ledger, "lock")
    ledger.ledger.advance(NOW)
    ledger.edit("first", ttlSeconds=80)
    later = NOW + REFUSAL_RENEWAL
    ledger.ledger.admission.refuse(entry, reasons.INSUFFICIENT_CAPACITY, "newer", later)
    ledger.ledger.advance(later)
    assert told(entry)["estimatedStart"] == format_instant(NOW + 80)


def test_a_limited_number_of_positions_is_published_each_second(ledger: LedgerScene) -> None:
    for number in range(2 * RENEWALS_A_SECOND + 1):
        refused(ledger, f"lock-{number:03}", owner="nobody")
    ledger.ledger.effects.statuses.clear()
    counts = []
    for second in range(4):
        ledger.ledger.advance(NOW + second)
        counts.append(len(ledger.ledger.effects.statuses))
        ledger.ledger.effects.statuses.clear()
    assert counts == [RENEWALS_A_SECOND, RENEWALS_A_SECOND, 1, 0]


@pytest.fixture
def long_queue(ledger: LedgerScene, monkeypatch: pytest.MonkeyPatch) -> list[ReservationInfo]:
    """Refuse three reservations, and compute the positions of so many in slices."""
    monkeypatch.setattr(positions, "_COMPUTED_A_SECOND", 2)
    return [refused(ledger, f"lock-{number}", owner="nobody") for number in range(3)]


def test_positions_of_a_long_queue_are_computed_in_several_steps(
    ledger: LedgerScene, long_queue: list[ReservationInfo]
) -> None:
    for _ in range(2):
        ledger.ledger.advance(NOW)
        assert [told(entry) for entry in long_queue] == [None] * 3
        assert ledger.ledger.next_deadline() == NOW
    ledger.ledger.advance(NOW)
    assert [told(entry)["place"] for entry in long_queue] == ["1/3", "2/3", "3/3"]
    assert ledger.ledger.queue_positions.due is None


def test_a_reservation_that_leaves_during_a_computation_gets_no_position(
    ledger: LedgerScene, long_queue: list[ReservationInfo]
) -> None:
    first, *others = long_queue
    ledger.ledger.advance(NOW)
    ledger.admit(first)
    for _ in range(2):
        ledger.ledger.advance(NOW)
    assert told(first) is None
    for _ in range(3):
        ledger.ledger.advance(NOW + REFUSAL_RENEWAL)
    assert [told(entry)["place"] for entry in others] == ["1/2", "2/2"]


def test_positions_that_hold_are_not_computed_again_to_publish_them(
    ledger: LedgerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = [refused(ledger, f"lock-{number:03}", owner="nobody") for number in range(RENEWALS_A_SECOND + 1)]
    ledger.ledger.advance(NOW)
    assert told(queue[-1]) is None
    monkeypatch.setattr(ledger.ledger.shares, "sort", None)
    ledger.ledger.advance(NOW + 1)
    assert told(queue[-1])["position"] == len(queue)


def test_a_computation_that_fails_is_repeated(ledger: LedgerScene, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = refused(ledger, "lock")
    with monkeypatch.context() as broken:
        broken.setattr(ledger.ledger.shares, "sort", None)
        with pytest.raises(TypeError):
            ledger.ledger.queue_positions.renew(NOW)
    ledger.ledger.advance(NOW)
    assert told(entry)["place"] == "1/1"


def test_a_reservation_with_capacity_has_no_position(ledger: LedgerScene) -> None:
    entry = refused(ledger, "lock")
    ledger.ledger.advance(NOW)
    ledger.admit(entry)
    assert told(entry) is None


def test_the_next_process_restores_a_position(ledger: LedgerScene) -> None:
    refused(ledger, "lock")
    ledger.ledger.advance(NOW)
    adopted = ledger.readopted("lock", at=NOW + 5)
    assert told(adopted) == told(ledger.entry("lock"))


def test_the_queue_is_ordered_by_priority_then_by_fair_share_then_by_age() -> None:
    """Check that a quarter of the cluster with twice the weight counts as an eighth with the usual weight."""
    quotas: Lister[ReservationQuota] = Lister()
    plain = {"metadata": {"name": "team", "namespace": "shop"}, "spec": {"weight": 2, "maxPriority": 1}}
    quotas.upsert(None, decode_reservation_quota(encode(plain)))
    ledger = LedgerScene("node-a", quotas=Quotas(quotas, Lister()))
    ledger.put_node("node-a", cpu="16")
    ledger.active("held", resources={"cpu": "4"}, owner="nobody")
    names = ["shop-0", "wares-0", "shop-1", "wares-1", "shop-2", "wares-2", "shop-urgent"]
    for created, name in enumerate(names):
        namespace, _, number = name.partition("-")
        lock = reservation(
            name,
            namespace=namespace,
            uid=name,
            created=NOW + created // 2,
            resources={"cpu": "2"},
            pendingDeadlineSeconds=60,
            priority=int(number == "urgent"),
        )
        ledger.ledger.upsert(lock, NOW)
        ledger.ledger.admission.refuse(
            ledger.ledger.entries[lock.key], reasons.INSUFFICIENT_CAPACITY, "full", NOW
        )
    order = [entry.key.name for entry in ledger.ledger.queue_positions.in_order()]
    assert order == ["shop-urgent", "wares-0", "wares-1", "shop-0", "shop-1", "wares-2", "shop-2"]
    waiting, shares = list(ledger.ledger.waiting_reservations.waiting.values()), ledger.ledger.shares
    while waiting:
        first = shares.first(waiting)
        assert first is shares.in_order(waiting)[0]
        waiting.remove(first)
    assert shares.first(waiting) is None
