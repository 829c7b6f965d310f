"""Histories that keep or break the rules of windows and schedules."""

from typing import Any

import pytest

from faults.histories import START, HistoryBuilder, at, broken
from faults.observations import Delivery, Passed

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
    assert broken(history.check(), "lock", "given after its deadline")


def test_the_first_status_of_a_window_planned_in_time_may_be_active(history: HistoryBuilder) -> None:
    waiting(history, startAt=at(8))
    tried = Passed("status", "lock", start=history.clock + 3)
    history.clock = START + 9
    history.reservation(also={"pendingDeadlineSeconds": 5, "startAt": at(8)}, activatedAt=at(8))
    assert history.check(asked=[tried]) == []
    tried.start = history.clock
    assert broken(history.check(asked=[tried]), "given after its deadline")


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
    assert bool(history.check()) == late


def planned(history: HistoryBuilder, starts: float = 60, phase: str = "Planned", **status: Any) -> None:
    also = {"startAt": at(starts)}
    history.reservation(
        reason=phase, also=also, phase=phase, observedGeneration=1, activatedAt=None, **status
    )


def test_a_window_begins_at_its_start(history: HistoryBuilder) -> None:
    planned(history)
    assert history.check_at_rest() == []
    history.clock = START + 60
    assert broken(history.check_at_rest(), "lock is Planned")
    history.reservation(also={"startAt": at(60)}, activatedAt=at(60))
    assert history.check_at_rest() == []


def test_a_window_that_begins_at_another_time_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    history.reservation(also={"startAt": at(60)}, activatedAt=at(70))
    assert broken(history.check(), "active before its window", "it began at")


def test_an_edited_window_begins_when_it_is_placed_again(history: HistoryBuilder) -> None:
    planned(history)
    planned(history)
    history.changes[-1].state["metadata"]["generation"] = 2
    history.clock = START + 70
    history.reservation(also={"startAt": at(60)}, activatedAt=at(70), observedGeneration=2)
    history.changes[-1].state["metadata"]["generation"] = 2
    assert history.check() == []


def test_a_lasting_pod_in_planned_capacity_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    history.bound("db", cpu="1")
    assert history.check() == []
    history.bound("web", cpu="1")
    assert broken(history.check(), "lock planned on a, which will lack")


def test_a_window_given_up_without_a_reason_is_a_violation(history: HistoryBuilder) -> None:
    planned(history)
    planned(history, phase="Pending")
    assert broken(history.check(), "no reason is known")


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
    assert history.check_at_rest() == []
    history.clock = START + 60
    window(history, phase="Admitted", activatedAt=at(60))
    window(history, 2)
    assert history.check_at_rest() == []
    history.clock = START + 110
    window(history, phase="Expired", activatedAt=at(60))
    history.gone()
    assert history.check_at_rest() == []


def test_a_window_created_twice_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.clock = START + 70
    window(history, phase="Expired")
    history.gone()
    window(history)
    assert broken(history.check(), "it was made before", "no reason", "deleted")
    assert history.check(peaks=[(history.clock, START + 500)]) == [], "the clock was set back"


@pytest.mark.parametrize(("minute", "clock"), [(2, 0), (1, 115), (1, 125)], ids=["early", "over", "missed"])
def test_a_window_created_out_of_its_turn_is_a_violation(
    history: HistoryBuilder, minute: int, clock: float
) -> None:
    schedule(history, durationSeconds=50 if clock < 120 else 90)
    history.clock = START + clock
    window(history, minute, length=50 if clock < 120 else 90)
    assert broken(history.check(), "it is not its turn")


def test_a_window_may_be_created_late(history: HistoryBuilder) -> None:
    schedule(history)
    history.clock = START + 90
    window(history)
    assert history.check() == []


def test_a_window_may_be_created_by_the_clock_before_or_after_a_jump(history: HistoryBuilder) -> None:
    schedule(history)
    history.clock = START + 1000
    window(history)
    asked = Passed("member", "", start=START + 950)
    assert broken(history.check(asked=[asked]), "it is not its turn")
    assert history.check(asked=[asked], peaks=[(START + 960, START + 100)]) == []
    history.changes.pop()
    history.clock = START + 1000
    window(history, 16)
    assert history.check(asked=[asked], peaks=[(START + 960, START + 100)]) == []


def test_a_window_that_differs_from_its_schedule_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history, durationSeconds=60)
    window(history)
    assert broken(history.check(), "not what its schedule asks for")


def test_a_window_of_a_suspended_schedule_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    schedule(history, suspend=True)
    told = Delivery("reservationschedules", 3, listed=False, at=history.clock)
    history.clock += 20
    window(history)
    assert broken(history.check(deliveries=[told]), "it is not its turn")
    assert history.check() == [], "the operator had not received the suspension"
    assert broken(history.check_at_rest(), "are to come, and ought to be []")


def test_only_a_window_that_has_left_the_schedule_may_be_deleted(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.gone()
    assert broken(history.check(), "deleted by the operator")
    schedule(history, schedule="*/2 * * * *")
    history.changes[2:] = [history.changes[4], *history.changes[2:4]]
    assert history.check() == []


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
    assert broken(history.check(), "deleted by the operator while it was Active")


def test_a_missing_window_is_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    assert broken(history.check_at_rest(), "[] are to come, and ought to be")
    history.clock = START + 70
    window(history, 2)
    assert broken(history.check_at_rest(), "was not made")


def test_windows_that_outlive_their_schedule_are_a_violation(history: HistoryBuilder) -> None:
    schedule(history)
    window(history)
    history.tell("reservationschedules", history.changes[1].state, gone=True)
    assert broken(history.check_at_rest(), "the schedule of daily-30000001 is gone")
