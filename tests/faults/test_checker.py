"""Histories that keep or break the rules of plain reservations."""

from collections.abc import Sequence

from faults.histories import START, HistoryBuilder
from faults.observations import Passed
from tidelock.model.instants import format_instant


def _only(found: Sequence[str], *words: str) -> bool:
    return len(found) == 1 and all(word in found[0] for word in words)


def test_the_regular_life_of_a_reservation_has_no_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("web")
    history.reservation(reason="Consumed", boundPod={"name": "web", "uid": "web"})
    history.gone()
    assert history.check() == history.check_at_rest() == []


def test_two_reservations_in_the_capacity_of_one_are_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation("other", owner="db")
    assert _only(history.check(), "I1", "'cpu': Decimal('2')", "other")


def test_another_pod_in_reserved_capacity_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("db")
    assert _only(history.check(), "I1", "pod db")


def test_two_pods_in_the_capacity_of_one_are_a_violation(history: HistoryBuilder) -> None:
    history.bound("web")
    history.bound("db")
    assert _only(history.check(), "I1", "pod db")


def test_an_expired_reservation_holds_no_capacity_even_if_its_status_is_active(
    history: HistoryBuilder,
) -> None:
    history.reservation()
    history.clock = START + 601
    history.bound("db")
    assert history.check() == []
    assert any("I3: lock is Active after its expiry" in each for each in history.check_at_rest())


def test_a_reservation_has_expired_once_the_clock_has_shown_its_end_even_if_set_back_later(
    history: HistoryBuilder,
) -> None:
    history.reservation()
    history.bound("db")
    assert history.check(peaks=[(history.clock, START + 601)]) == []
    assert history.check(peaks=[(START - 100, START + 601)]), (
        "the clock jumped before the reservation existed"
    )


def test_a_reservation_keeps_its_capacity_until_its_owner_is_bound(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("db")
    under_way = Passed("bind", "web", start=history.clock - 1)
    assert history.check(asked=[under_way])


def test_a_reservation_that_was_smaller_for_a_moment_may_have_lost_capacity(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(also={"resources": {"cpu": "1"}})
    history.reservation(also={"resources": {"cpu": "3"}})
    history.bound("db")
    assert history.check() == []
    history.reservation(also={"resources": {"cpu": "3"}}, resources={"cpu": "2"})
    assert history.check(), "its status reports 2 cores"


def test_a_reusable_reservation_in_use_takes_no_capacity_beside_a_foreign_pod(
    history: HistoryBuilder,
) -> None:
    history.bound("web")
    history.reservation(also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    history.pod("static", "a", cpu="2")
    assert not any("overcommitted" in each for each in history.check_at_rest())
    history.reservation("second")
    assert any("overcommitted at rest" in each for each in history.check_at_rest())


def test_a_node_with_a_pod_of_another_binder_is_checked_only_at_rest(history: HistoryBuilder) -> None:
    history.reservation()
    history.pod("static", "a")
    assert history.check() == []
    assert _only(history.check_at_rest(), "I1", "overcommitted at rest")


def test_a_node_that_shrinks_is_checked_only_at_rest(history: HistoryBuilder) -> None:
    history.reservation()
    history.node("2")
    assert history.check() == []
    history.reservation(reason="Overcommitted", phase="Pending")
    assert history.check_at_rest() == []


def test_an_end_of_active_without_a_known_reason_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(reason="Overcommitted", phase="Pending")
    assert _only(history.check(), "I1", "no reason")


def test_an_end_before_the_expiry_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(reason="Expired")
    assert _only(history.check(), "I1", "no reason")


def test_a_deletion_of_an_active_reservation_by_the_operator_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.gone()
    assert _only(history.check(), "I2", "deleted by the operator")
    assert history.check(deleted={"lock"}) == []


def test_a_reservation_consumed_by_a_former_pod_of_the_same_name_is_a_violation(
    history: HistoryBuilder,
) -> None:
    history.bound("web", uid="old")
    history.gone()
    history.reservation()
    history.reservation(reason="Consumed", boundPod={"name": "web", "uid": "old"})
    assert any("I2" in each and "not been bound" in each for each in history.check())


def test_a_reservation_consumed_twice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    for uid in ("one", "two"):
        history.bound("web", cpu="1", uid=uid)
        history.reservation(reason="Consumed", boundPod={"name": "web", "uid": uid})
        history.tell("pods", history.changes[-2].state, gone=True)
    assert any("consumed by" in each and "and then by" in each for each in history.check())


def test_a_return_from_expired_to_active_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.clock = START + 601
    history.reservation(reason="Expired")
    history.reservation()
    assert any("I2" in each and "from Expired to Active" in each for each in history.check())


def test_a_second_activation_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(activatedAt=format_instant(START + 5))
    assert any("I2" in each and "was given at" in each for each in history.check())


def test_a_reservation_active_beside_its_bound_owner_at_rest_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("web", cpu="1")
    assert any("I3: lock is Active beside its bound owner" in each for each in history.check_at_rest())


def test_a_reservation_on_a_node_that_was_replaced_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.tell("nodes", history.changes[0].state, gone=True)
    history.node(uid="another")
    assert _only(history.check_at_rest(), "I1", "another or gone")
