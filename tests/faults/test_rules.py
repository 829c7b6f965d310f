"""Histories that break the rules of leases, groups and other kinds, and histories that keep them."""

from typing import Any

import pytest

from faults.history import Json
from faults.proxy import Passed, Told
from faults.test_checker import START, Tale
from tidelock.model.instants import format_instant

LEASE = {"durationSeconds": 5, "graceSeconds": 2}
COMMIT = {"withinSeconds": 5}
_SMALL: dict[str, Any] = {"resources": {"cpu": "1"}}
GROUP = {"name": "gang", "uid": "g", "members": 2, "minMembers": 2}


@pytest.fixture
def tale() -> Tale:
    made = Tale()
    made.node()
    return made


def at(seconds: float) -> str:
    return format_instant(START + seconds)


def broken(found: list[str], *words: str) -> bool:
    """Return whether there are violations, and each of them contains one of the words."""
    return bool(found) and all(any(word in each for word in words) for each in found)


# Edits of owners.


def test_a_reservation_ended_by_a_former_owner_is_a_violation(tale: Tale) -> None:
    tale.reservation(reason="InsufficientCapacity", phase="Pending")
    tale.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    known = tale.clock
    tale.clock += 20
    tale.bound("web")
    tale.reservation(reason="InsufficientCapacity", phase="Pending", owner="other")
    tale.gone()
    heard, late = (Told("reservations", 3, listed=False, at=at) for at in (known, tale.clock))
    assert broken(tale.judged(told=[heard]), "deleted by the operator")
    assert tale.judged(told=[late]) == [], "the operator had not received the edit"


# Leases.


def leased(renew_by: float, lost_at: float | None = None) -> Json:
    lost = {} if lost_at is None else {"lostAt": at(lost_at)}
    return {"renewedAt": at(renew_by - 5), "renewBy": at(renew_by), **lost}


def test_a_lease_that_is_not_renewed_ends_its_reservation(tale: Tale) -> None:
    tale.reservation(also={"lease": LEASE}, lease=leased(7))
    tale.clock = START + 10
    tale.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 9), finishedAt=at(10)
    )
    assert tale.judged() == []


def test_a_lease_lost_before_the_end_of_its_grace_period_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"lease": LEASE}, lease=leased(7))
    tale.clock = START + 10
    tale.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": LEASE}, lease=leased(7, 8), finishedAt=at(10)
    )
    assert broken(tale.judged(), "lost before its time")


def test_a_lease_lost_after_a_renewal_is_a_violation(tale: Tale) -> None:
    long, renewed = LEASE | {"durationSeconds": 30}, LEASE | {"durationSeconds": 30, "renewTime": at(0)}
    told = {"renewedAt": at(2), "renewBy": at(32)}
    tale.reservation(also={"lease": long}, lease=told)
    tale.reservation(also={"lease": renewed}, lease=told)
    heard = Told("reservations", 3, listed=False, at=tale.clock)
    tale.clock = START + 35
    lost = told | {"lostAt": at(34)}
    tale.reservation(
        reason="LeaseExpired", phase="Expired", also={"lease": renewed}, lease=lost, finishedAt=at(34)
    )
    assert broken(tale.judged(told=[heard]), "after it was renewed")
    assert tale.judged(told=[heard], crashes=[tale.clock - 1]) == []
    assert tale.judged() == [], "the operator had not received the renewal"


def test_a_lease_kept_after_its_end_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"lease": LEASE}, lease=leased(7))
    tale.clock = START + 20
    assert broken(tale.judged_at_rest(), "the lease of lock was due")


def test_an_ignored_renewal_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"lease": LEASE | {"renewTime": at(1)}}, lease=leased(50))
    assert broken(tale.judged_at_rest(), "nobody has heard")


# Two phases.


def committed(*, number: int = 1, by: float | None = None) -> dict[str, Any]:
    """Return fields of a status with the state of a hold that is due after 5 s."""
    told = {"holds": number, "token": f"lock.{number}", "dueAt": at(5)}
    if by is not None:
        told["committedAt"] = at(by)
    return {"commit": told, "conditions": [_told("Active", True), _told("Committed", by is not None)]}


def _told(kind: str, holds: bool, reason: str = "Admitted") -> Json:
    return {"type": kind, "status": str(holds), "reason": reason}


def test_a_hold_committed_in_time_has_no_violation(tale: Tale) -> None:
    tale.reservation(also={"commit": COMMIT}, **committed())
    tale.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed())
    tale.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **committed(by=3))
    tale.clock = START + 60
    assert tale.judged_at_rest() == []


@pytest.mark.parametrize(("token", "by"), [("lock.0", 3), ("lock.1", 6)])
def test_a_hold_committed_with_an_old_token_or_too_late_is_a_violation(
    tale: Tale, token: str, by: float
) -> None:
    tale.reservation(also={"commit": COMMIT | {"token": token}}, **committed(by=by))
    assert broken(tale.judged(), "it was not committed in time")


def test_a_commit_taken_back_is_a_violation_unless_its_node_has_shrunk(tale: Tale) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    tale.reservation(also=spec, **committed(by=3))
    tale.reservation(also=spec, **committed(number=2))
    assert broken(tale.judged(), "it was committed, and is so no more")
    tale.happenings.insert(2, tale.happenings[2])
    tale.node("3")
    tale.happenings.insert(2, tale.happenings.pop())
    assert tale.judged() == [], "its node has shrunk"


def test_a_committed_reservation_that_ends_as_uncommitted_is_a_violation(tale: Tale) -> None:
    spec = {"commit": COMMIT | {"token": "lock.1"}}
    tale.reservation(also=spec, **committed(by=3))
    tale.clock = START + 10
    end = committed() | {"conditions": [_told("Active", False, "NotCommitted")]}
    tale.reservation(reason="NotCommitted", also=spec, finishedAt=at(9), **end | {"phase": "Expired"})
    assert broken(tale.judged(), "it was told to be committed", "its hold was", "no reason")


def test_an_ignored_commit_in_time_is_a_violation(tale: Tale) -> None:
    due: dict[str, Any] = {"commit": {"holds": 1, "token": "lock.1", "dueAt": at(60)}}
    active: dict[str, Any] = {"conditions": [_told("Active", True), _told("Committed", False)]}
    tale.reservation(also={"commit": COMMIT}, **due, **active)
    tale.reservation(also={"commit": COMMIT | {"token": "lock.1"}}, **due, **active)
    assert broken(tale.judged_at_rest(), "the commit of lock is not heard")
    heard = Told("reservations", 3, listed=False, at=tale.clock)
    tale.clock = START + 60
    over: dict[str, Any] = {
        "conditions": [_told("Active", False, "NotCommitted")],
        "finishedAt": at(60),
        "phase": "Expired",
    }
    tale.reservation(reason="NotCommitted", also={"commit": COMMIT | {"token": "lock.1"}}, **due, **over)
    assert broken(tale.judged(told=[heard]), "before it was due")


def test_an_uncommitted_reservation_that_stays_active_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"commit": COMMIT}, **committed())
    tale.clock = START + 60
    assert broken(tale.judged_at_rest(), "was not committed in time")


# Alternatives.


def test_two_chosen_alternatives_of_a_set_are_a_violation(tale: Tale) -> None:
    for name in ("one", "other"):
        tale.reservation(name, owner=name, also={"anyOf": "set"}, resources={"cpu": "1"})
    assert broken(tale.judged(), "['one', 'other'] of one set are chosen")


def test_an_alternative_that_waits_beside_the_choice_is_a_violation(tale: Tale) -> None:
    tale.reservation("one", also={"anyOf": "set"})
    tale.reservation("other", "InsufficientCapacity", owner="db", also={"anyOf": "set"}, phase="Pending")
    assert broken(tale.judged_at_rest(), "of the set set one is chosen")


def test_an_alternative_that_ends_without_a_choice_is_a_violation(tale: Tale) -> None:
    tale.reservation("one", "InsufficientCapacity", also={"anyOf": "set"}, phase="Pending")
    tale.reservation("other", "AnotherChosen", owner="db", also={"anyOf": "set"}, phase="Expired")
    assert broken(tale.judged_at_rest(), "no other of its set was chosen")


# Groups.


def member(tale: Tale, name: str, reason: str = "Admitted", **status: Any) -> None:
    tale.reservation(name, reason, also={"group": GROUP}, **_SMALL | status)


def stored(tale: Tale, name: str) -> None:
    """Add a member that has its capacity, which no status reports as active yet."""
    member(tale, name, "GroupIncomplete", phase="Pending")


def group(tale: Tale, *, active: bool) -> None:
    state = {"metadata": {"name": "gang", "uid": "g"}, "spec": {}}
    tale.tell("reservationgroups", state | {"status": {"conditions": [_told("Active", active)]}})


def test_a_group_reported_active_once_its_members_are_stored_has_no_violation(tale: Tale) -> None:
    for tell in (stored, stored, member, member):
        tell(tale, f"gang-{len(tale.happenings) % 2}")
    group(tale, active=True)
    assert tale.judged_at_rest() == []


def test_a_stored_group_may_be_reported_active_long_afterwards(tale: Tale) -> None:
    for tell in (stored, stored):
        tell(tale, f"gang-{len(tale.happenings) % 2}")
    tale.clock += 60
    group(tale, active=True)
    assert tale.judged() == []


def test_a_member_reported_active_before_the_others_are_stored_is_a_violation(tale: Tale) -> None:
    stored(tale, "gang-0")
    member(tale, "gang-0")
    assert broken(tale.judged(), "too few of its group are stored")


def test_an_active_member_of_an_incomplete_group_is_a_violation_at_rest(tale: Tale) -> None:
    for tell in (stored, stored, member):
        tell(tale, f"gang-{len(tale.happenings) % 2}")
    group(tale, active=True)
    assert broken(tale.judged_at_rest(), "too few of a group are left")


def test_a_member_that_gives_up_its_capacity_without_a_reason_is_a_violation(tale: Tale) -> None:
    for tell in (stored, stored, member, stored):
        tell(tale, f"gang-{len(tale.happenings) % 2}")
    stored(tale, "gang-1")
    assert broken(tale.judged(), "no reason for an end of Active (GroupIncomplete)")


def test_only_a_member_of_a_group_that_was_given_up_may_be_deleted(tale: Tale) -> None:
    stored(tale, "gang-0")
    tale.gone()
    assert broken(tale.judged(), "deleted by the operator while it was Pending")
    state = {"metadata": {"name": "gang", "uid": GROUP["uid"]}, "spec": {}}
    tale.tell("reservationgroups", state | {"status": {"phase": "Rejected", "conditions": []}})
    tale.happenings.insert(0, tale.happenings.pop())
    assert tale.judged() == []


def test_a_pod_that_takes_two_members_is_a_violation(tale: Tale) -> None:
    tale.bound("web", cpu="1")
    for name in ("gang-0", "gang-1"):
        member(tale, name, "Consumed", boundPod={"name": "web", "uid": "web"})
    assert broken(tale.judged(), "took two of its group", "")


def test_a_group_with_enough_consumed_members_is_active_while_others_wait(tale: Tale) -> None:
    for name in ("gang-0", "gang-1"):
        tale.bound(name, cpu="1")
        tale.reservation(
            name, "Consumed", owner=name, also={"group": GROUP}, boundPod={"name": name, "uid": name}
        )
    waits: dict[str, Any] = {"phase": "Pending", "nodeName": None}
    tale.reservation("gang-2", "InsufficientCapacity", owner="other", also={"group": GROUP}, **waits)
    group(tale, active=True)
    assert tale.judged_at_rest() == []
    group(tale, active=False)
    assert broken(tale.judged_at_rest(), "says Active=False")


def test_members_that_outlive_their_group_are_a_violation(tale: Tale) -> None:
    member(tale, "gang-0", "Rejected")
    assert broken(tale.judged_at_rest(), "is gone")


def test_an_active_member_beside_a_pod_that_has_taken_none_is_a_violation(tale: Tale) -> None:
    for tell in (stored, stored, member, member):
        tell(tale, f"gang-{len(tale.happenings) % 2}")
    group(tale, active=True)
    tale.bound("web", cpu="1")
    assert broken(tale.judged_at_rest(), "is held beside ['web']")


# Shared reservations.


def test_a_reusable_reservation_counts_once_and_stays_active(tale: Tale) -> None:
    tale.reservation(also={"reuse": "Always"})
    tale.bound("web")
    inside: dict[str, Any] = {"boundPod": {"name": "web", "uid": "web"}, "used": {"cpu": "3"}}
    conditions = [_told("Active", True), _told("Occupied", True)]
    tale.reservation(also={"reuse": "Always"}, conditions=conditions, **inside)
    assert tale.judged_at_rest() == []


def test_another_pod_in_an_unused_reusable_reservation_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"reuse": "Always"})
    tale.bound("db")
    assert broken(tale.judged(), "I1: a is overcommitted")


def test_a_reusable_reservation_consumed_by_an_owner_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"reuse": "Always"})
    tale.bound("web")
    tale.reservation(reason="Consumed", also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    assert broken(tale.judged(), "it is for reuse")


def test_a_reusable_reservation_that_misreports_its_user_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"reuse": "Always"})
    tale.bound("web")
    assert broken(tale.judged_at_rest(), "of locks on a is used, and {} told")
    gone = {"name": "web", "uid": "gone"}
    tale.reservation(also={"reuse": "Always"}, boundPod=gone, used={"cpu": "3"})
    assert broken(tale.judged_at_rest(), "says who is in it", "gone is not in lock")


def borrower(tale: Tale, cpu: str = "3") -> None:
    tale.pod("batch", "", cpu)
    meta = {"name": "batch", "uid": "batch", "annotations": {"tidelock.dev/borrows": "true"}}
    state = tale.happenings.pop().state | {"metadata": meta}
    for node in ("", "a"):
        tale.tell("pods", state | {"spec": state["spec"] | {"nodeName": node}})


def test_lent_capacity_counts_once(tale: Tale) -> None:
    tale.reservation(also={"borrowable": True})
    borrower(tale)
    tale.reservation(also={"borrowable": True}, lent={"cpu": "3"})
    assert tale.judged_at_rest() == []
    tale.reservation(also={"borrowable": True}, lent={"cpu": "1"})
    assert broken(tale.judged_at_rest(), "is used, and")
    tale.bound("db", cpu="2")
    assert broken(tale.judged(), "I1: a is overcommitted")


def test_an_owner_that_waits_for_a_borrower_at_rest_is_a_violation(tale: Tale) -> None:
    tale.reservation(also={"borrowable": True})
    borrower(tale)
    tale.reservation(also={"borrowable": True}, lent={"cpu": "3"})
    tale.pod("web", "")
    assert broken(tale.judged_at_rest(), "web waits, though lock is its own")


# Quotas and quotes.


def quota(tale: Tale, **spec: Any) -> None:
    tale.tell("reservationquotas", {"metadata": {"name": "team", "uid": "q"}, "spec": spec, "status": {}})


@pytest.mark.parametrize(
    "limits", [{"hard": {"cpu": "2"}}, {"hard": {"pods": "1"}}, {"hardSeconds": {"cpu": "900"}}]
)
def test_reservations_beyond_a_quota_are_a_violation(tale: Tale, limits: Json) -> None:
    quota(tale, **limits)
    told = [Told("reservationquotas", 2, listed=False, at=START)]
    tale.clock = START + 60
    for number in range(3):
        given: dict[str, Any] = {"activatedAt": at(60), "resources": {"cpu": "1"}}
        tale.reservation(f"lock-{number}", owner=f"web-{number}", **given)
    assert broken(tale.judged(told=told), "more than team allows")
    assert tale.judged() == [], "the operator had not received the quota"


def test_reservations_that_are_older_than_a_quota_stay(tale: Tale) -> None:
    tale.reservation()
    quota(tale, hard={"cpu": "1"})
    told = [Told("reservationquotas", 3, listed=False, at=tale.clock)]
    tale.clock = START + 60
    tale.reservation()
    assert tale.judged(told=told) == []


def quote(tale: Tale, **status: Any) -> None:
    spec = {"resources": {"cpu": "1"}, "ttlSeconds": 5}
    tale.tell(
        "reservationquotes", {"metadata": {"name": "quote", "uid": "q"}, "spec": spec, "status": status}
    )


def test_a_quote_is_answered_once_and_deleted_after_its_time(tale: Tale) -> None:
    quote(tale)
    assert broken(tale.judged_at_rest(), "quote is not answered")
    quote(tale, answeredAt=at(3))
    assert tale.judged_at_rest() == []
    quote(tale, answeredAt=at(4))
    assert broken(tale.judged(), "it was answered otherwise")
    tale.clock = START + 60
    assert any("was to go" in each for each in tale.judged_at_rest())


def test_a_quote_beyond_the_capacity_of_the_nodes_is_a_violation(tale: Tale) -> None:
    quote(tale, answeredAt=at(3), count=5, conditions=[_told("Feasible", True)])
    assert broken(tale.judged(), "more than there is")


# Windows.


def waiting(tale: Tale, generation: int = 1, **spec: Any) -> None:
    since = {"type": "Reconciling", "status": "True", "lastTransitionTime": at(0)}
    deadline = {"pendingDeadlineSeconds": 5}
    tale.reservation(reason="Pending", also=deadline | spec, activatedAt=None, conditions=[since])
    tale.happenings[-1].state["metadata"]["generation"] = generation


def test_a_reservation_active_after_its_deadline_is_a_violation(tale: Tale) -> None:
    waiting(tale)
    tale.clock = START + 9
    tale.reservation(also={"pendingDeadlineSeconds": 5}, activatedAt=at(9))
    assert broken(tale.judged(), "lock", "given after its deadline")


def test_the_first_status_of_a_window_planned_in_time_may_be_active(tale: Tale) -> None:
    waiting(tale, startAt=at(8))
    tried = Passed("status", "lock", start=tale.clock + 3)
    tale.clock = START + 9
    tale.reservation(also={"pendingDeadlineSeconds": 5, "startAt": at(8)}, activatedAt=at(8))
    assert tale.judged(asked=[tried]) == []
    tried.start = tale.clock
    assert broken(tale.judged(asked=[tried]), "given after its deadline")


@pytest.mark.parametrize(("edited", "late"), [(3, True), (8, False)])
def test_an_edit_after_the_deadline_lets_a_reservation_wait_again(
    tale: Tale, edited: float, late: bool
) -> None:
    waiting(tale)
    tale.clock = START + edited
    waiting(tale, generation=2)
    tale.clock = START + 9
    tale.reservation(also={"pendingDeadlineSeconds": 5}, activatedAt=at(9), observedGeneration=2)
    tale.happenings[-1].state["metadata"]["generation"] = 2
    assert bool(tale.judged()) == late


def planned(tale: Tale, starts: float = 60, phase: str = "Planned", **status: Any) -> None:
    also = {"startAt": at(starts)}
    tale.reservation(reason=phase, also=also, phase=phase, observedGeneration=1, activatedAt=None, **status)


def test_a_window_begins_at_its_start(tale: Tale) -> None:
    planned(tale)
    assert tale.judged_at_rest() == []
    tale.clock = START + 60
    assert broken(tale.judged_at_rest(), "lock is Planned")
    tale.reservation(also={"startAt": at(60)}, activatedAt=at(60))
    assert tale.judged_at_rest() == []


def test_a_window_that_begins_at_another_time_is_a_violation(tale: Tale) -> None:
    planned(tale)
    tale.reservation(also={"startAt": at(60)}, activatedAt=at(70))
    assert broken(tale.judged(), "active before its window", "it began at")


def test_an_edited_window_begins_when_it_is_placed_again(tale: Tale) -> None:
    planned(tale)
    planned(tale)
    tale.happenings[-1].state["metadata"]["generation"] = 2
    tale.clock = START + 70
    tale.reservation(also={"startAt": at(60)}, activatedAt=at(70), observedGeneration=2)
    tale.happenings[-1].state["metadata"]["generation"] = 2
    assert tale.judged() == []


def test_a_lasting_pod_in_planned_capacity_is_a_violation(tale: Tale) -> None:
    planned(tale)
    tale.bound("db", cpu="1")
    assert tale.judged() == []
    tale.bound("web", cpu="1")
    assert broken(tale.judged(), "lock planned on a, which will lack")


def test_a_window_given_up_without_a_reason_is_a_violation(tale: Tale) -> None:
    planned(tale)
    planned(tale, phase="Pending")
    assert broken(tale.judged(), "no reason is known")


# Schedules.


def schedule(tale: Tale, **spec: Any) -> None:
    """Add a schedule that has a window of 50 s each minute."""
    asked = {"schedule": "* * * * *", "durationSeconds": 50, "ahead": 1, "suspend": False}
    template = {"spec": {"resources": {"cpu": "3"}}}
    meta = {"name": "daily", "uid": "s", "creationTimestamp": at(0)}
    tale.tell("reservationschedules", {"metadata": meta, "spec": asked | {"template": template} | spec})


def window(tale: Tale, minute: int = 1, phase: str = "Planned", length: float = 50, **status: Any) -> None:
    """Add the reservation of the schedule's window that begins at a minute."""
    begin = START + 60 * minute
    also = {"startAt": at(60 * minute), "expireAt": at(60 * minute + length)}
    told = {"activatedAt": None, "expiresAt": also["expireAt"], "observedGeneration": 1} | status
    tale.reservation(f"daily-{int(begin) // 60}", phase, also=also, **told)
    state = tale.happenings.pop().state
    owner = {"kind": "ReservationSchedule", "name": "daily", "uid": "s"}
    tale.tell("reservations", state | {"metadata": state["metadata"] | {"ownerReferences": [owner]}})


def test_windows_created_one_after_the_other_have_no_violation(tale: Tale) -> None:
    schedule(tale)
    window(tale)
    assert tale.judged_at_rest() == []
    tale.clock = START + 60
    window(tale, phase="Admitted", activatedAt=at(60))
    window(tale, 2)
    assert tale.judged_at_rest() == []
    tale.clock = START + 110
    window(tale, phase="Expired", activatedAt=at(60))
    tale.gone()
    assert tale.judged_at_rest() == []


def test_a_window_created_twice_is_a_violation(tale: Tale) -> None:
    schedule(tale)
    window(tale)
    tale.clock = START + 70
    window(tale, phase="Expired")
    tale.gone()
    window(tale)
    assert broken(tale.judged(), "it was made before", "no reason", "deleted")
    assert tale.judged(peaks=[(tale.clock, START + 500)]) == [], "the clock was set back"


@pytest.mark.parametrize(("minute", "clock"), [(2, 0), (1, 115), (1, 125)], ids=["early", "over", "missed"])
def test_a_window_created_out_of_its_turn_is_a_violation(tale: Tale, minute: int, clock: float) -> None:
    schedule(tale, durationSeconds=50 if clock < 120 else 90)
    tale.clock = START + clock
    window(tale, minute, length=50 if clock < 120 else 90)
    assert broken(tale.judged(), "it is not its turn")


def test_a_window_may_be_created_late(tale: Tale) -> None:
    schedule(tale)
    tale.clock = START + 90
    window(tale)
    assert tale.judged() == []


def test_a_window_may_be_created_by_the_clock_before_or_after_a_jump(tale: Tale) -> None:
    schedule(tale)
    tale.clock = START + 1000
    window(tale)
    asked = Passed("member", "", start=START + 950)
    assert broken(tale.judged(asked=[asked]), "it is not its turn")
    assert tale.judged(asked=[asked], peaks=[(START + 960, START + 100)]) == []
    tale.happenings.pop()
    tale.clock = START + 1000
    window(tale, 16)
    assert tale.judged(asked=[asked], peaks=[(START + 960, START + 100)]) == []


def test_a_window_that_differs_from_its_schedule_is_a_violation(tale: Tale) -> None:
    schedule(tale, durationSeconds=60)
    window(tale)
    assert broken(tale.judged(), "not what its schedule asks for")


def test_a_window_of_a_suspended_schedule_is_a_violation(tale: Tale) -> None:
    schedule(tale)
    schedule(tale, suspend=True)
    told = Told("reservationschedules", 3, listed=False, at=tale.clock)
    tale.clock += 20
    window(tale)
    assert broken(tale.judged(told=[told]), "it is not its turn")
    assert tale.judged() == [], "the operator had not received the suspension"
    assert broken(tale.judged_at_rest(), "are to come, and ought to be []")


def test_only_a_window_that_has_left_the_schedule_may_be_deleted(tale: Tale) -> None:
    schedule(tale)
    window(tale)
    tale.gone()
    assert broken(tale.judged(), "deleted by the operator")
    schedule(tale, schedule="*/2 * * * *")
    tale.happenings[2:] = [tale.happenings[4], *tale.happenings[2:4]]
    assert tale.judged() == []


def test_a_deletion_of_a_begun_window_after_an_edit_of_its_schedule_is_a_violation(tale: Tale) -> None:
    schedule(tale)
    window(tale)
    tale.clock = START + 60
    window(tale, phase="Admitted", activatedAt=at(60))
    schedule(tale, suspend=True)
    tale.clock = START + 70
    tale.tell("reservations", tale.happenings[-2].state, gone=True)
    assert broken(tale.judged(), "deleted by the operator while it was Active")


def test_a_missing_window_is_a_violation(tale: Tale) -> None:
    schedule(tale)
    assert broken(tale.judged_at_rest(), "[] are to come, and ought to be")
    tale.clock = START + 70
    window(tale, 2)
    assert broken(tale.judged_at_rest(), "was not made")


def test_windows_that_outlive_their_schedule_are_a_violation(tale: Tale) -> None:
    schedule(tale)
    window(tale)
    tale.tell("reservationschedules", tale.happenings[1].state, gone=True)
    assert broken(tale.judged_at_rest(), "the schedule of daily-30000001 is gone")


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_pod_takes_a_reservation_on_another_node_only_if_that_node_shrank(
    tale: Tale, shrinks: bool
) -> None:
    """The reservation may have moved from a node that shrank, before its status could be written."""
    for cpu in ("4", "2" if shrinks else "4"):
        status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}
        tale.tell("nodes", {"metadata": {"name": "b", "uid": "m"}, "spec": {}, "status": status})
    for_any = {"owners": [{"selector": {"matchLabels": {"app": "web"}}}], "nodeName": None}
    tale.reservation(also=for_any, nodeName="b", nodeUID="m")
    tale.pod("web", "", cpu="1")
    pod = tale.happenings[-1].state
    metadata = pod["metadata"] | {"annotations": {"tidelock.dev/claimed-locks": "lock"}}
    tale.tell("pods", pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": "a"}})
    assert ("it took a lock on b" in str(tale.judged())) is not shrinks
