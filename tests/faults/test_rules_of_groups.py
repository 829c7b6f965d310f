"""Histories that keep or break the rules of groups and of shared reservations."""

from typing import Any

from faults.histories import HistoryBuilder, broken, condition_of

_SMALL: dict[str, Any] = {"resources": {"cpu": "1"}}
GROUP = {"name": "gang", "uid": "g", "members": 2, "minMembers": 2}


# Groups.


def member(history: HistoryBuilder, name: str, reason: str = "Admitted", **status: Any) -> None:
    history.reservation(name, reason, also={"group": GROUP}, **_SMALL | status)


def stored(history: HistoryBuilder, name: str) -> None:
    """Add a member that has its capacity, which no status reports as active yet."""
    member(history, name, "GroupIncomplete", phase="Pending")


def group(history: HistoryBuilder, *, active: bool) -> None:
    state = {"metadata": {"name": "gang", "uid": "g"}, "spec": {}}
    history.tell("reservationgroups", state | {"status": {"conditions": [condition_of("Active", active)]}})


def test_a_group_reported_active_once_its_members_are_stored_has_no_violation(
    history: HistoryBuilder,
) -> None:
    for tell in (stored, stored, member, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    assert history.check_at_rest() == []


def test_a_stored_group_may_be_reported_active_long_afterwards(history: HistoryBuilder) -> None:
    for tell in (stored, stored):
        tell(history, f"gang-{len(history.changes) % 2}")
    history.clock += 60
    group(history, active=True)
    assert history.check() == []


def test_a_member_reported_active_before_the_others_are_stored_is_a_violation(
    history: HistoryBuilder,
) -> None:
    stored(history, "gang-0")
    member(history, "gang-0")
    assert broken(history.check(), "too few of its group are stored")


def test_an_active_member_of_an_incomplete_group_is_a_violation_at_rest(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    assert broken(history.check_at_rest(), "too few of a group are left")


def test_a_member_that_gives_up_its_capacity_without_a_reason_is_a_violation(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member, stored):
        tell(history, f"gang-{len(history.changes) % 2}")
    stored(history, "gang-1")
    assert broken(history.check(), "no reason for an end of Active (GroupIncomplete)")


def test_only_a_member_of_a_group_that_was_given_up_may_be_deleted(history: HistoryBuilder) -> None:
    stored(history, "gang-0")
    history.gone()
    assert broken(history.check(), "deleted by the operator while it was Pending")
    state = {"metadata": {"name": "gang", "uid": GROUP["uid"]}, "spec": {}}
    history.tell("reservationgroups", state | {"status": {"phase": "Rejected", "conditions": []}})
    history.changes.insert(0, history.changes.pop())
    assert history.check() == []


def test_a_pod_that_takes_two_members_is_a_violation(history: HistoryBuilder) -> None:
    history.bound("web", cpu="1")
    for name in ("gang-0", "gang-1"):
        member(history, name, "Consumed", boundPod={"name": "web", "uid": "web"})
    assert broken(history.check(), "took two of its group", "")


def test_a_group_with_enough_consumed_members_is_active_while_others_wait(history: HistoryBuilder) -> None:
    for name in ("gang-0", "gang-1"):
        history.bound(name, cpu="1")
        history.reservation(
            name, "Consumed", owner=name, also={"group": GROUP}, boundPod={"name": name, "uid": name}
        )
    waits: dict[str, Any] = {"phase": "Pending", "nodeName": None}
    history.reservation("gang-2", "InsufficientCapacity", owner="other", also={"group": GROUP}, **waits)
    group(history, active=True)
    assert history.check_at_rest() == []
    group(history, active=False)
    assert broken(history.check_at_rest(), "says Active=False")


def test_members_that_outlive_their_group_are_a_violation(history: HistoryBuilder) -> None:
    member(history, "gang-0", "Rejected")
    assert broken(history.check_at_rest(), "is gone")


def test_an_active_member_beside_a_pod_that_has_taken_none_is_a_violation(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    history.bound("web", cpu="1")
    assert broken(history.check_at_rest(), "is held beside ['web']")


# Shared reservations.


def test_a_reusable_reservation_counts_once_and_stays_active(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    inside: dict[str, Any] = {"boundPod": {"name": "web", "uid": "web"}, "used": {"cpu": "3"}}
    conditions = [condition_of("Active", True), condition_of("Occupied", True)]
    history.reservation(also={"reuse": "Always"}, conditions=conditions, **inside)
    assert history.check_at_rest() == []


def test_another_pod_in_an_unused_reusable_reservation_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("db")
    assert broken(history.check(), "I1: a is overcommitted")


def test_a_reusable_reservation_consumed_by_an_owner_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    history.reservation(reason="Consumed", also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    assert broken(history.check(), "it is for reuse")


def test_a_reusable_reservation_that_misreports_its_user_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    assert broken(history.check_at_rest(), "of locks on a is used, and {} told")
    gone = {"name": "web", "uid": "gone"}
    history.reservation(also={"reuse": "Always"}, boundPod=gone, used={"cpu": "3"})
    assert broken(history.check_at_rest(), "says who is in it", "gone is not in lock")


def borrower(history: HistoryBuilder, cpu: str = "3") -> None:
    history.pod("batch", "", cpu)
    meta = {"name": "batch", "uid": "batch", "annotations": {"tidelock.dev/borrows": "true"}}
    state = history.changes.pop().state | {"metadata": meta}
    for node in ("", "a"):
        history.tell("pods", state | {"spec": state["spec"] | {"nodeName": node}})


def test_lent_capacity_counts_once(history: HistoryBuilder) -> None:
    history.reservation(also={"borrowable": True})
    borrower(history)
    history.reservation(also={"borrowable": True}, lent={"cpu": "3"})
    assert history.check_at_rest() == []
    history.reservation(also={"borrowable": True}, lent={"cpu": "1"})
    assert broken(history.check_at_rest(), "is used, and")
    history.bound("db", cpu="2")
    assert broken(history.check(), "I1: a is overcommitted")


def test_an_owner_that_waits_for_a_borrower_at_rest_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"borrowable": True})
    borrower(history)
    history.reservation(also={"borrowable": True}, lent={"cpu": "3"})
    history.pod("web", "")
    assert broken(history.check_at_rest(), "web waits, though lock is its own")
