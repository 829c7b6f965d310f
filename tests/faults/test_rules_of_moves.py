"""Histories that break the rules of reservations that allow moves, and histories that keep them."""

from collections.abc import Sequence
from typing import Any

import pytest

from faults.histories import START, HistoryBuilder
from faults.history import BUDGETS, Json
from faults.observations import Delivery, Passed
from tidelock.model.instants import format_instant

BEGUN = format_instant(START + 5)
EVICTED, PREEMPTED = "EvictionByEvictionAPI", "PreemptionByScheduler"


@pytest.fixture
def history() -> HistoryBuilder:
    """Begin a history with a node of 4 cores and two pods of a controller, each of 1 core.

    Reservations that a test adds ask for 3 cores.
    """
    made = HistoryBuilder()
    made.node()
    for name in ("one", "two"):
        part(made, name)
    return made


def part(
    history: HistoryBuilder, name: str, mark: str = "", *, controller: bool = True, stays: bool = False
) -> None:
    notes = {"tidelock.dev/movable": "false"} if stays else {}
    owners = [{"kind": "StatefulSet", "name": "part", "uid": "part", "controller": controller}]
    meta = {"name": name, "uid": name, "labels": {"app": "part"}, "annotations": notes}
    leaving = {"deletionTimestamp": BEGUN} if mark else {}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": mark}] if mark else []
    for node_name in ("a",) if mark else ("", "a"):
        history.tell(
            "pods",
            {
                "metadata": meta | leaving | {"ownerReferences": owners},
                "spec": {"nodeName": node_name, "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
                "status": {"conditions": conditions},
            },
        )


def plan(*pods: str, named: str = "t", begun: bool = False) -> Json:
    evictions = [{"namespace": "shop", "name": name, "uid": name, "to": "b"} for name in pods or ("one",)]
    told = {"token": named, "nodeName": "a", "evictions": evictions}
    return told | ({"begunAt": BEGUN} if begun else {})


def reservation(
    history: HistoryBuilder,
    plan: Json | None = None,
    *,
    why: str = "",
    phase: str = "Pending",
    may_move: Json | None = None,
    **status: Any,
) -> None:
    """Add a reservation with or without a plan. `why` is the message about the plan."""
    active = {"type": "Active", "status": str(phase == "Active"), "reason": "InsufficientCapacity"}
    planned = {"type": "MovePlanned", "status": str(plan is not None), "reason": "NoMoves", "message": why}
    told: dict[str, Any] = {
        "phase": phase,
        "plan": plan,
        "conditions": [active, planned],
        "activatedAt": None,
    }
    also = {"mayMove": {"maxPods": 1} if may_move is None else may_move}
    history.reservation(reason="InsufficientCapacity", also=also, **told | status)


APPROVED = {"maxPods": 1, "approve": "t"}


def begun(history: HistoryBuilder, *pods: str, may_move: Json = APPROVED) -> None:
    """Add a plan that is shown, approved, and begun."""
    reservation(history, plan(*pods), may_move={"maxPods": may_move["maxPods"]})
    reservation(history, plan(*pods), may_move=may_move)
    reservation(history, plan(*pods, begun=True), may_move=may_move)


def heard(history: HistoryBuilder, kind: str) -> Delivery:
    """Return the delivery of the last event to the operator."""
    return Delivery(kind, len(history.changes), listed=False, at=history.clock)


def budget(history: HistoryBuilder, allowed: int, name: str = "budget") -> Delivery:
    """Add a budget for the parts, and return its delivery to the operator."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "part"}}}
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    meta = {"name": name, "uid": name, "generation": 1}
    history.tell(BUDGETS.plural, {"metadata": meta, "spec": spec, "status": status})
    return heard(history, BUDGETS.plural)


def broken(found: Sequence[str], *words: str) -> bool:
    """Return whether there are violations, and each of them contains one of the words."""
    return bool(found) and all(any(word in each for word in words) for each in found)


@pytest.mark.parametrize("may_move", [APPROVED, {"maxPods": 1, "automatically": True}])
def test_a_plan_that_was_shown_and_approved_has_no_violation(history: HistoryBuilder, may_move: Json) -> None:
    begun(history, may_move=may_move)
    part(history, "one", EVICTED)
    history.gone()
    active = [{"type": "Active", "status": "True", "reason": "Admitted"}]
    history.reservation(also={"mayMove": may_move}, moved=1, conditions=active)
    assert history.check_at_rest() == []


# Plans.


@pytest.mark.parametrize("may_move", [{"maxPods": 1}, {"maxPods": 1, "approve": "another"}])
def test_a_plan_begun_without_approval_is_a_violation(history: HistoryBuilder, may_move: Json) -> None:
    begun(history, may_move=may_move)
    assert broken(history.check(), "it began what nobody has approved")


def test_a_withdrawn_approval_counts_until_the_operator_receives_the_withdrawal(
    history: HistoryBuilder,
) -> None:
    reservation(history, plan(), may_move=APPROVED)
    reservation(history, plan())
    told = heard(history, "reservations")
    history.clock += 20
    reservation(history, plan(begun=True))
    assert broken(history.check(deliveries=[told]), "it began what nobody has approved")
    assert history.check() == []


@pytest.mark.parametrize("other", [plan(named="u"), plan("two")])
def test_a_plan_begun_without_being_shown_is_a_violation(history: HistoryBuilder, other: Json) -> None:
    reservation(history, other, may_move=APPROVED)
    reservation(history, plan(begun=True), may_move=APPROVED)
    assert broken(history.check(), "it began what was not shown")


def test_a_plan_of_too_many_pods_is_a_violation(history: HistoryBuilder) -> None:
    reservation(history, plan("one", "two"))
    assert broken(history.check(), "its plan is of too many pods")
    reservation(history, plan(), moved=1)
    assert broken(history.check(), "its plan is of too many pods")


def test_a_plan_with_a_pod_without_a_controller_is_a_violation(history: HistoryBuilder) -> None:
    part(history, "alone", controller=False)
    reservation(history, plan("alone"))
    assert broken(history.check(), "alone is in a plan, and not to be moved")


def test_a_plan_with_a_pod_that_must_not_move_is_a_violation(history: HistoryBuilder) -> None:
    part(history, "one", stays=True)
    told = [heard(history, "pods")]
    history.clock += 20
    begun(history)
    part(history, "one", EVICTED, stays=True)
    assert broken(history.check(deliveries=told), "one is in a plan, and is to stay", "it was to stay")
    assert history.check() == [], "the operator had not received the annotation"


def test_a_plan_of_more_pods_than_a_budget_allows_is_a_violation(history: HistoryBuilder) -> None:
    told = [budget(history, 1)]
    history.clock += 20
    reservation(history, plan("one", "two"), may_move={"maxPods": 2})
    assert broken(history.check(deliveries=told), "its plan is of more pods than budget lets go")
    assert history.check() == [], "the operator had not received the budget"


def test_a_budget_with_an_outdated_status_allows_no_eviction(history: HistoryBuilder) -> None:
    told = budget(history, 1)
    history.changes[-1].state["metadata"]["generation"] = 2
    history.clock += 20
    reservation(history, plan())
    assert broken(history.check(deliveries=[told]), "more pods than budget lets go")


def test_a_plan_with_a_pod_of_two_budgets_is_a_violation(history: HistoryBuilder) -> None:
    told = [budget(history, 2, name) for name in ("this", "that")]
    history.clock += 20
    reservation(history, plan())
    assert broken(history.check(deliveries=told), "of a pod of two budgets")


def test_a_plan_given_up_without_a_message_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    reservation(history, may_move=APPROVED, why="on no node room would come of it")
    assert broken(history.check(), "does not say why its plan was given up")
    history.changes.pop()
    reservation(history, may_move=APPROVED, why="given up: its node is gone")
    assert history.check() == []


# Evictions.


def test_an_eviction_without_a_plan_is_a_violation(history: HistoryBuilder) -> None:
    part(history, "one", EVICTED)
    assert broken(history.check(), "it is in no plan that is under way")


def test_an_eviction_before_the_plan_begins_is_a_violation(history: HistoryBuilder) -> None:
    reservation(history, plan(), may_move=APPROVED)
    part(history, "one", EVICTED)
    assert broken(history.check(), "it is in no plan that is under way")


def test_an_eviction_of_a_pod_outside_the_plan_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    part(history, "two", EVICTED)
    assert broken(history.check(), "it is in no plan that is under way")


def test_an_eviction_requested_after_the_end_of_the_plan_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    reservation(history, may_move=APPROVED, why="given up: its node is gone")
    over = history.clock
    history.clock += 20
    part(history, "one", EVICTED)
    assert broken(history.check(), "its plan was over")
    assert history.check(asked=[Passed("evict", "one", start=over)]) == [], (
        "the eviction was requested before"
    )


def test_an_eviction_after_the_withdrawal_of_the_approval_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    reservation(history, plan(begun=True))
    told = [heard(history, "reservations")]
    history.clock += 20
    part(history, "one", EVICTED)
    assert broken(history.check(deliveries=told), "its plan is not approved any more")
    assert history.check() == [], "the operator had not received the withdrawal"


def test_more_evictions_than_allowed_over_all_plans_are_a_violation(history: HistoryBuilder) -> None:
    for name in ("one", "two"):
        begun(history, name)
        part(history, name, EVICTED)
        reservation(history, may_move=APPROVED, why="given up: its room is taken")
    assert broken(history.check(), "2 went for lock")


def test_a_preemption_of_a_pod_of_a_plan_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    part(history, "one", PREEMPTED)
    assert broken(history.check(), "it was to go by PreemptionByScheduler")


# Capacity.


def test_a_pod_in_capacity_that_is_being_freed_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    asked = Passed("bind", "db", start=history.clock + 2)
    history.bound("db", cpu="2")
    assert broken(history.check(asked=[asked]), "lock lacks", "I1: a is overcommitted")
    written = Passed("status", "lock", start=history.clock - 1)
    assert history.check(asked=[asked, written]) == [], "the plan may have been over by then"
    asked.start = history.clock - 10
    assert history.check(asked=[asked]) == [], "the binding was requested before the plan began"
    assert history.check(asked=[asked], crashes=[history.clock - 1]) == []


def test_an_owner_may_use_its_own_reservation_beside_a_plan(history: HistoryBuilder) -> None:
    """The checker reported that an owner took the freed capacity, though its own reservation had held it."""
    room: dict[str, Any] = {"resources": {"cpu": "1"}}
    history.reservation("own", owner="db", also=room, **room)
    begun(history)
    asked = Passed("bind", "db", start=history.clock + 2)
    history.bound("db", cpu="1")
    assert history.check(asked=[asked]) == []
    history.changes[-1].state["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert broken(history.check(asked=[asked]), "lock lacks", "I1: a is overcommitted")


def test_a_pod_may_take_capacity_that_a_plan_does_not_need(history: HistoryBuilder) -> None:
    begun(history)
    for change in history.changes[-3:]:
        change.state["spec"]["resources"] = {"cpu": "1"}
    asked = Passed("bind", "db", start=history.clock + 2)
    history.bound("db", cpu="1")
    assert history.check(asked=[asked]) == []


@pytest.mark.parametrize(("priority", "found"), [(0, True), (1, False)])
def test_only_a_reservation_of_higher_priority_may_take_capacity_that_is_being_freed(
    history: HistoryBuilder, priority: int, found: bool
) -> None:
    begun(history)
    room: dict[str, Any] = {"resources": {"cpu": "2"}}
    waits: dict[str, Any] = {"phase": "Pending", "activatedAt": None}
    also = {"priority": priority} | room
    history.reservation("rival", "InsufficientCapacity", owner="db", also=also, **room, **waits)
    history.reservation("rival", owner="db", also=also, activatedAt=format_instant(history.clock + 1), **room)
    assert broken(history.check(), "lock lacks") == found


# Rest.


def test_a_plan_under_way_at_rest_without_a_leaving_pod_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    assert broken(history.check_at_rest(), "the plan of lock is under way")
    part(history, "one", EVICTED)
    assert history.check_at_rest() == []


def test_an_ignored_approval_is_a_violation(history: HistoryBuilder) -> None:
    reservation(history, plan())
    assert history.check_at_rest() == []
    reservation(history, plan(), may_move=APPROVED)
    assert broken(history.check_at_rest(), "the approval of lock is not heard")


def test_a_plan_of_a_reservation_that_does_not_wait_is_a_violation(history: HistoryBuilder) -> None:
    reservation(history, plan(), phase="Rejected")
    assert broken(history.check_at_rest(), "it has a plan, and waits for no room", "lock has a plan")


def test_a_missing_condition_about_the_plan_is_a_violation(history: HistoryBuilder) -> None:
    reservation(history, conditions=[{"type": "Active", "status": "False", "reason": "InsufficientCapacity"}])
    assert broken(history.check_at_rest(), "lock does not tell how its plan stands")


def test_an_eviction_that_the_status_does_not_count_is_a_violation(history: HistoryBuilder) -> None:
    begun(history)
    part(history, "one", EVICTED)
    reservation(history, may_move=APPROVED, why="given up: its room is taken")
    assert broken(history.check_at_rest(), "1 were evicted for lock, which tells of 0")
