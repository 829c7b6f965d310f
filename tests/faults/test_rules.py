"""Histories that break the rules of leases, groups and other kinds, and histories that keep them."""

from typing import Any

import pytest

from faults.history import Json
from faults.proxy import Passed, Told
from faults.test_checker import START, HistoryBuilder
from tidelock.model.instants import format_instant

LEASE = {"durationSeconds": 5, "graceSeconds": 2}
COMMIT = {"withinSeconds": 5}
_SMALL: dict[str, Any] = {"resources": {"cpu": "1"}}
GROUP = {"name": "gang", "uid": "g", "members": 2, "minMembers": 2}


@pytest.fixture
def history() -> HistoryBuilder:
    made = HistoryBuilder()
    made.node()
    return made


def at(seconds: float) -> str:
    return format_instant(START + seconds)


def broken(found: list[str], *words: str) -> bool:
    """Return whether there are violations, and each of them contains one of the words."""
    return bool(found) and all(any(word in each for word in words) for each in found)


# Edits of owners.


def test_a_reservation_ended_by_a_former_owner_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(reason="InsufficientCapacity", phase="Pending")
    history.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    known = history.clock
    history.clock += 20
    history.bound("web")
    history.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    history.gone()
    heard, late = (Told("reservations", 3, listed=False, at=at) for at in (known, history.clock))
    assert broken(history.judged(told=[heard]), "deleted by the operator")
    assert history.judged(told=[late]) == [], "the operator had not received the edit"


# Leases.


def leased(renew_by: float, lost_at: float | None = None) -> Json:
    lost = {} if lost_at is None else {"lostAt": at(lost_at)}
    return {"renewedAt": at(renew_by - 5), "renewBy": at(renew_by), **lost}


def test_a_lease_that_is_not_renewed_ends_its_reservation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 10
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 9), finishedAt=at(10)
    )
    assert history.judged() == []


def test_a_lease_lost_before_the_end_of_its_grace_period_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 10
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 8), finishedAt=at(10)
    )
    assert broken(history.judged(), "lost before its time")


def test_a_lease_lost_after_a_renewal_is_a_violation(history: HistoryBuilder) -> None:
    long, renewed = LEASE | {"durationSeconds": 30}, LEASE | {"durationSeconds": 30, "renewTime": at(0)}
    told = {"renewedAt": at(2), "renewBy": at(32)}
    history.reservation(also={"lease": long}, lease=told)
    history.reservation(also={"lease": renewed}, lease=told)
    heard = Told("reservations", 3, listed=False, at=history.clock)
    history.clock = START + 35
    lost = told | {"lostAt": at(34)}
    history.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": renewed}, lease=lost, finishedAt=at(34)
    )
    assert broken(history.judged(told=[heard]), "after it was renewed")
    assert history.judged(told=[heard], crashes=[history.clock - 1]) == []
    assert history.judged() == [], "the operator had not received the renewal"


def test_a_lease_kept_after_its_end_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE}, lease=leased(7))
    history.clock = START + 20
    assert broken(history.judged_at_rest(), "the lease of lock was due")


def test_an_ignored_renewal_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"lease": LEASE | {"renewTime": at(1)}}, lease=leased(50))
    assert broken(history.judged_at_rest(), "nobody has heard")


# Two phases.


def committed(*, number: int = 1, by: float | None = None) -> dict[str, Any]:
    """Return fields of a status with the state of a hold that is due after 5 s."""
    told = {"holds": number, "token": f"lock.{number}", "dueAt": at(5)}
    if by is not None:
        told["committedAt"] = at(by)
    return {"commit": told, "conditions": [_told("Active", True), _told("Committed", by is not None)]}


def _told(kind: str, holds: bool, reason: str = "Admitted") -> Json:
    return {"type": kind, "status": str(holds), "reason": reason}


def test_a_hold_committed_in_time_has_no_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"commit": COMMIT}, **committed())
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed())
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed(by=3))
    history.clock = START + 60
    assert history.judged_at_rest() == []


@pytest.mark.parametrize(("token", "by"), [("lock.0", 3), ("lock.1", 6)])
def test_a_hold_committed_with_an_old_token_or_too_late_is_a_violation(
    history: HistoryBuilder, token: str, by: float
) -> None:
    history.reservation(also={"commit": COMMIT | {"token": token}}, **committed(by=by))
    assert broken(history.judged(), "it was not committed in time")


def test_a_commit_taken_back_is_a_violation_unless_its_node_has_shrunk(history: HistoryBuilder) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    history.reservation(also=spec, **committed(by=3))
    history.reservation(also=spec, **committed(number=2))
    assert broken(history.judged(), "it was committed, and is so no more")
    history.changes.insert(2, history.changes[2])
    history.node("3")
    history.changes.insert(2, history.changes.pop())
    assert history.judged() == [], "its node has shrunk"


def test_a_committed_reservation_that_ends_as_uncommitted_is_a_violation(history: HistoryBuilder) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    history.reservation(also=spec, **committed(by=3))
    history.clock = START + 10
    end = committed() | {"conditions": [_told("Active", False, "NotCommitted")]}
    history.reservation(reason="NotCommitted", also=spec, finishedAt=at(9), **end | {"phase": "Expired"})
    assert broken(history.judged(), "it was told to be committed", "its hold was", "no reason")


def test_an_ignored_commit_in_time_is_a_violation(history: HistoryBuilder) -> None:
    due: dict[str, Any] = {"commit": {"holds": 1, "token": "lock.1", "dueAt": at(60)}}
    active: dict[str, Any] = {"conditions": [_told("Active", True), _told("Committed", False)]}
    history.reservation(also={"commit": COMMIT}, **due, **active)
    history.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **due, **active)
    assert broken(history.judged_at_rest(), "the commit of lock is not heard")
    heard = Told("reservations", 3, listed=False, at=history.clock)
    history.clock = START + 60
    over: dict[str, Any] = {
        "conditions": [_told("Active", False, "NotCommitted")],
        "finishedAt": at(60),
        "phase": "Expired",
    }
    history.reservation(reason="NotCommitted", also={"commit": COMMIT | {"token": "lock.1"}}, **due, **over)
    assert broken(history.judged(told=[heard]), "before it was due")


def test_an_uncommitted_reservation_that_stays_active_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"commit": COMMIT}, **committed())
    history.clock = START + 60
    assert broken(history.judged_at_rest(), "was not committed in time")


# Alternatives.


def test_two_chosen_alternatives_of_a_set_are_a_violation(history: HistoryBuilder) -> None:
    for name in ("one", "other"):
        history.reservation(name, owner=name, also={"anyOf": "set"}, resources={"cpu": "1"})
    assert broken(history.judged(), "['one', 'other'] of one set are chosen")


def test_an_alternative_that_waits_beside_the_choice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation("one", also={"anyOf": "set"})
    history.reservation("other", "InsufficientCapacity", owner="db", also={"anyOf": "set"}, phase="Pending")
    assert broken(history.judged_at_rest(), "of the set set one is chosen")


def test_an_alternative_that_ends_without_a_choice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation("one", "InsufficientCapacity", also={"anyOf": "set"}, phase="Pending")
    history.reservation("other", "AnotherChosen", owner="db", also={"anyOf": "set"}, phase="Expired")
    assert broken(history.judged_at_rest(), "no other of its set was chosen")


# Groups.


def member(history: HistoryBuilder, name: str, reason: str = "Admitted", **status: Any) -> None:
    history.reservation(name, reason, also={"group": GROUP}, **_SMALL | status)


def stored(history: HistoryBuilder, name: str) -> None:
    """Add a member that has its capacity, which no status reports as active yet."""
    member(history, name, "GroupIncomplete", phase="Pending")


def group(history: HistoryBuilder, *, active: bool) -> None:
    state = {"metadata": {"name": "gang", "uid": "g"}, "spec": {}}
    history.tell("reservationgroups", state | {"status": {"conditions": [_told("Active", active)]}})


def test_a_group_reported_active_once_its_members_are_stored_has_no_violation(
    history: HistoryBuilder,
) -> None:
    for tell in (stored, stored, member, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    assert history.judged_at_rest() == []


def test_a_stored_group_may_be_reported_active_long_afterwards(history: HistoryBuilder) -> None:
    for tell in (stored, stored):
        tell(history, f"gang-{len(history.changes) % 2}")
    history.clock += 60
    group(history, active=True)
    assert history.judged() == []


def test_a_member_reported_active_before_the_others_are_stored_is_a_violation(
    history: HistoryBuilder,
) -> None:
    stored(history, "gang-0")
    member(history, "gang-0")
    assert broken(history.judged(), "too few of its group are stored")


def test_an_active_member_of_an_incomplete_group_is_a_violation_at_rest(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    assert broken(history.judged_at_rest(), "too few of a group are left")


def test_a_member_that_gives_up_its_capacity_without_a_reason_is_a_violation(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member, stored):
        tell(history, f"gang-{len(history.changes) % 2}")
    stored(history, "gang-1")
    assert broken(history.judged(), "no reason for an end of Active (GroupIncomplete)")


def test_only_a_member_of_a_group_that_was_given_up_may_be_deleted(history: HistoryBuilder) -> None:
    stored(history, "gang-0")
    history.gone()
    assert broken(history.judged(), "deleted by the operator while it was Pending")
    state = {"metadata": {"name": "gang", "uid": GROUP["uid"]}, "spec": {}}
    history.tell("reservationgroups", state | {"status": {"phase": "Rejected", "conditions": []}})
    history.changes.insert(0, history.changes.pop())
    assert history.judged() == []


def test_a_pod_that_takes_two_members_is_a_violation(history: HistoryBuilder) -> None:
    history.bound("web", cpu="1")
    for name in ("gang-0", "gang-1"):
        member(history, name, "Consumed", boundPod={"name": "web", "uid": "web"})
    assert broken(history.judged(), "took two of its group", "")


def test_a_group_with_enough_consumed_members_is_active_while_others_wait(history: HistoryBuilder) -> None:
    for name in ("gang-0", "gang-1"):
        history.bound(name, cpu="1")
        history.reservation(
            name, "Consumed", owner=name, also={"group": GROUP}, boundPod={"name": name, "uid": name}
        )
    waits: dict[str, Any] = {"phase": "Pending", "nodeName": None}
    history.reservation("gang-2", "InsufficientCapacity", owner="other", also={"group": GROUP}, **waits)
    group(history, active=True)
    assert history.judged_at_rest() == []
    group(history, active=False)
    assert broken(history.judged_at_rest(), "says Active=False")


def test_members_that_outlive_their_group_are_a_violation(history: HistoryBuilder) -> None:
    member(history, "gang-0", "Rejected")
    assert broken(history.judged_at_rest(), "is gone")


def test_an_active_member_beside_a_pod_that_has_taken_none_is_a_violation(history: HistoryBuilder) -> None:
    for tell in (stored, stored, member, member):
        tell(history, f"gang-{len(history.changes) % 2}")
    group(history, active=True)
    history.bound("web", cpu="1")
    assert broken(history.judged_at_rest(), "is held beside ['web']")


# Shared reservations.


def test_a_reusable_reservation_counts_once_and_stays_active(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    inside: dict[str, Any] = {"boundPod": {"name": "web", "uid": "web"}, "used": {"cpu": "3"}}
    conditions = [_told("Active", True), _told("Occupied", True)]
    history.reservation(also={"reuse": "Always"}, conditions=conditions, **inside)
    assert history.judged_at_rest() == []


def test_another_pod_in_an_unused_reusable_reservation_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("db")
    assert broken(history.judged(), "I1: a is overcommitted")


def test_a_reusable_reservation_consumed_by_an_owner_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    history.reservation(reason="Consumed", also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    assert broken(history.judged(), "it is for reuse")


def test_a_reusable_reservation_that_misreports_its_user_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"reuse": "Always"})
    history.bound("web")
    assert broken(history.judged_at_rest(), "of locks on a is used, and {} told")
    gone = {"name": "web", "uid": "gone"}
    history.reservation(also={"reuse": "Always"}, boundPod=gone, used={"cpu": "3"})
    assert broken(history.judged_at_rest(), "says who is in it", "gone is not in lock")


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
    assert history.judged_at_rest() == []
    history.reservation(also={"borrowable": True}, lent={"cpu": "1"})
    assert broken(history.judged_at_rest(), "is used, and")
    history.bound("db", cpu="2")
    assert broken(history.judged(), "I1: a is overcommitted")


def test_an_owner_that_waits_for_a_borrower_at_rest_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation(also={"borrowable": True})
    borrower(history)
    history.reservation(also={"borrowable": True}, lent={"cpu": "3"})
    history.pod("web", "")
    assert broken(history.judged_at_rest(), "web waits, though lock is its own")


# Quotas and quotes.


def quota(history: HistoryBuilder, **spec: Any) -> None:
    history.tell("reservationquotas", {"metadata": {"name": "team", "uid": "q"}, "spec": spec, "status": {}})


@pytest.mark.parametrize(
    "limits", [{"hard": {"cpu": "2"}}, {"hard": {"pods": "1"}}, {"hardSeconds": {"cpu": "900"}}]
)
def test_reservations_beyond_a_quota_are_a_violation(history: HistoryBuilder, limits: Json) -> None:
    quota(history, **limits)
    told = [Told("reservationquotas", 2, listed=False, at=START)]
    history.clock = START + 60
    for number in range(3):
        given: dict[str, Any] = {"activatedAt": at(60), "resources": {"cpu": "1"}}
        history.reservation(f"lock-{number}", owner=f"web-{number}", **given)
    assert broken(history.judged(told=told), "more than team allows")
    assert history.judged() == [], "the operator had not received the quota"


def test_reservations_that_are_older_than_a_quota_stay(history: HistoryBuilder) -> None:
    history.reservation()
    quota(history, hard={"cpu": "1"})
    told = [Told("reservationquotas", 3, listed=False, at=history.clock)]
    history.clock = START + 60
    history.reservation()
    assert history.judged(told=told) == []


def quote(history: HistoryBuilder, **status: Any) -> None:
    spec = {"resources": {"cpu": "1"}, "ttlSeconds": 5}
    history.tell(
        "reservationquotes", {"metadata": {"name": "quote", "uid": "q"}, "spec": spec, "status": status}
    )


def test_a_quote_is_answered_once_and_deleted_after_its_time(history: HistoryBuilder) -> None:
    quote(history)
    assert broken(history.judged_at_rest(), "quote is not answered")
    quote(history, answeredAt=at(3))
    assert history.judged_at_rest() == []
    quote(history, answeredAt=at(4))
    assert broken(history.judged(), "it was answered otherwise")
    history.clock = START + 60
    assert any("was to go" in each for each in history.judged_at_rest())


def test_a_quote_beyond_the_capacity_of_the_nodes_is_a_violation(history: HistoryBuilder) -> None:
    quote(history, answeredAt=at(3), count=5, conditions=[_told("Feasible", True)])
    assert broken(history.judged(), "more than there is")


# Windows.


def waiting(history: HistoryBuilder, generation: int = 1, **spec: Any) -> None:
    since = {"type": "Reconciling", "status": "True", "lastTransitionTime": at(0)}
    deadline = {"pendingDeadlineSeconds": 5}
    history.reservation(reason="Pending", also=deadline | spec, activatedAt=None, conditions=[since])
    history.changes[-1].state["metadata"]["generation"] = generation


def test_a_reservation_active_after_its_deadline_is_a_violation(history: HistoryBuilder) -> None:
    waiting(history)
    history.clock = START + 9
    history.reservation(also={"pendingDeadlineSeconds": 5}, activatedAt=at(9))
    assert broken(history.judged(), "lock", "given after its deadline")


def test_the_first_status_of_a_window_planned_in_time_may_be_active(history: HistoryBuilder) -> None:
    waiting(history, startAt=at(8))
    tried = Passed("status", "lock", start=history.clock + 3)
    history.clock = START + 9
    history.reservation(also={"pendingDeadlineSeconds": 5, "startAt": at(8)}, activatedAt=at(8))
    assert history.judged(asked=[tried]) == []
    tried.start = history.clock
    assert broken(history.judged(asked=[tried]), "given after its deadline")


@pytest.mark.parametrize(("edited", "late"), [(3, True), (8, False)])
def test_an_edit_after_the_deadline_lets_a_reservation_wait_again(
    history: HistoryBuilder, edited: float, late: bool
) -> None:
    waiting(history)
    history.clock = START + edited
    waiting(history, generation=2)
    history.clock = START + 9
    history.reservation(also={"pendingDeadlineSeconds": 5}, activatedAt=at(9), observedGeneration=2)
    history.changes[-1].state["metadata"]["generation"] = 2
    assert bool(history.judged()) == late


def planned(history: HistoryBuilder, starts: float = 60, phase: str = "Planned", **status: Any) -> None:
    also = {"startAt": at(starts)}
    history.reservation(
        reason=phase, also=also, phase=phase, observedGeneration=1, activatedAt=None, **status
    )


def test_a_window_begins_at_its_start(history: HistoryBuilder) -> None:
    planned(history)
    assert history.judged_at_rest() == []
    history.clock = START + 60
    assert broken(history.judged_at_rest(), "lock is Planned")
    history.reservation(also={"startAt": at(60)}, activatedAt=at(60))
    assert history.judged_at_rest() == []


def test_a_window_that_begins_at_another_time_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    history.reservation(also={"startAt": at(60)}, activatedAt=at(70))
    assert broken(history.judged(), "active before its window", "it began at")


def test_an_edited_window_begins_when_it_is_placed_again(history: HistoryBuilder) -> None:
    planned(history)
    planned(history)
    history.changes[-1].state["metadata"]["generation"] = 2
    history.clock = START + 70
    history.reservation(also={"startAt": at(60)}, activatedAt=at(70), observedGeneration=2)
    history.changes[-1].state["metadata"]["generation"] = 2
    assert history.judged() == []


def test_a_lasting_pod_in_planned_capacity_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    history.bound("db", cpu="1")
    assert history.judged() == []
    history.bound("web", cpu="1")
    assert broken(history.judged(), "lock planned on a, which will lack")


def test_a_window_given_up_without_a_reason_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    planned(history, phase="Pending")
    assert broken(history.judged(), "no reason is known")


# Schedules.


def schedule(history: HistoryBuilder, **spec: Any) -> None:
    """Add a schedule that has a window of 50 s each minute."""
    asked = {"schedule": "* * * * *", "durationSeconds": 50, "ahead": 1, "suspend": False}
    template = {"spec": {"resources": {"cpu": "3"}}}
    meta = {"name": "daily", "uid": "s", "creationTimestamp": at(0)}
    history.tell("reservationschedules", {"metadata": meta, "spec": asked | {"template": template} | spec})


def window(
    history: HistoryBuilder, minute: int = 1, phase: str = "Planned", length: float = 50, **status: Any
) -> None:
    """Add the reservation of the schedule's window that begins at a minute."""
    begin = START + 60 * minute
    also = {"startAt": at(60 * minute), "expireAt": at(60 * minute + length)}
    told = {"activatedAt": None, "expiresAt": also["expireAt"], "observedGeneration": 1} | status
    history.reservation(f"daily-{int(begin) // 60}", phase, also=also, **told)
    state = history.changes.pop().state
    owner = {"kind": "ReservationSchedule", "name": "daily", "uid": "s"}
    history.tell("reservations", state | {"metadata": state["metadata"] | {"ownerReferences": [owner]}})


def test_windows_created_one_after_the_other_have_no_violation(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    assert history.judged_at_rest() == []
    history.clock = START + 60
    window(history, phase="Admitted", activatedAt=at(60))
    window(history, 2)
    assert history.judged_at_rest() == []
    history.clock = START + 110
    window(history, phase="Expired", activatedAt=at(60))
    history.gone()
    assert history.judged_at_rest() == []


def test_a_window_created_twice_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.clock = START + 70
    window(history, phase="Expired")
    history.gone()
    window(history)
    assert broken(history.judged(), "it was made before", "no reason", "deleted")
    assert history.judged(peaks=[(history.clock, START + 500)]) == [], "the clock was set back"


@pytest.mark.parametrize(("minute", "clock"), [(2, 0), (1, 115), (1, 125)], ids=["early", "over", "missed"])
def test_a_window_created_out_of_its_turn_is_a_violation(
    history: HistoryBuilder, minute: int, clock: float
) -> None:
    schedule(history, durationSeconds=50 if clock < 120 else 90)
    history.clock = START + clock
    window(history, minute, length=50 if clock < 120 else 90)
    assert broken(history.judged(), "it is not its turn")


def test_a_window_may_be_created_late(history: HistoryBuilder) -> None:
    schedule(history)
    history.clock = START + 90
    window(history)
    assert history.judged() == []


def test_a_window_may_be_created_by_the_clock_before_or_after_a_jump(history: HistoryBuilder) -> None:
    schedule(history)
    history.clock = START + 1000
    window(history)
    asked = Passed("member", "", start=START + 950)
    assert broken(history.judged(asked=[asked]), "it is not its turn")
    assert history.judged(asked=[asked], peaks=[(START + 960, START + 100)]) == []
    history.changes.pop()
    history.clock = START + 1000
    window(history, 16)
    assert history.judged(asked=[asked], peaks=[(START + 960, START + 100)]) == []


def test_a_window_that_differs_from_its_schedule_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history, durationSeconds=60)
    window(history)
    assert broken(history.judged(), "not what its schedule asks for")


def test_a_window_of_a_suspended_schedule_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    schedule(history, suspend=True)
    told = Told("reservationschedules", 3, listed=False, at=history.clock)
    history.clock += 20
    window(history)
    assert broken(history.judged(told=[told]), "it is not its turn")
    assert history.judged() == [], "the operator had not received the suspension"
    assert broken(history.judged_at_rest(), "are to come, and ought to be []")


def test_only_a_window_that_has_left_the_schedule_may_be_deleted(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.gone()
    assert broken(history.judged(), "deleted by the operator")
    schedule(history, schedule="*/2 * * * *")
    history.changes[2:] = [history.changes[4], *history.changes[2:4]]
    assert history.judged() == []


def test_a_deletion_of_a_begun_window_after_an_edit_of_its_schedule_is_a_violation(
    history: HistoryBuilder,
) -> None:
    schedule(history)
    window(history)
    history.clock = START + 60
    window(history, phase="Admitted", activatedAt=at(60))
    schedule(history, suspend=True)
    history.clock = START + 70
    history.tell("reservations", history.changes[-2].state, gone=True)
    assert broken(history.judged(), "deleted by the operator while it was Active")


def test_a_missing_window_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    assert broken(history.judged_at_rest(), "[] are to come, and ought to be")
    history.clock = START + 70
    window(history, 2)
    assert broken(history.judged_at_rest(), "was not made")


def test_windows_that_outlive_their_schedule_are_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.tell("reservationschedules", history.changes[1].state, gone=True)
    assert broken(history.judged_at_rest(), "the schedule of daily-30000001 is gone")


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_pod_takes_a_reservation_on_another_node_only_if_that_node_shrank(
    history: HistoryBuilder, shrinks: bool
) -> None:
    """The reservation may have moved from a node that shrank, before its status could be written."""
    for cpu in ("4", "2" if shrinks else "4"):
        status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}
        history.tell("nodes", {"metadata": {"name": "b", "uid": "m"}, "spec": {}, "status": status})
    for_any = {"owners": [{"selector": {"matchLabels": {"app": "web"}}}], "nodeName": None}
    history.reservation(also=for_any, nodeName="b", nodeUID="m")
    history.pod("web", "", cpu="1")
    pod = history.changes[-1].state
    metadata = pod["metadata"] | {"annotations": {"tidelock.dev/claimed-locks": "lock"}}
    history.tell("pods", pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": "a"}})
    assert ("it took a lock on b" in str(history.judged())) is not shrinks
