"""Histories that break the rules of reservations that allow moves, and histories that keep them."""

from collections.abc import Sequence
from typing import Any

import pytest

from faults.history import BUDGETS, Json
from faults.proxy import Passed, Told
from faults.test_checker import START, Tale
from tidelock.model.instants import format_instant

BEGUN = format_instant(START + 5)
EVICTED, PREEMPTED = "EvictionByEvictionAPI", "PreemptionByScheduler"


@pytest.fixture
def tale() -> Tale:
    """Begin a history with a node of 4 cores and two pods of a controller, each of 1 core.

    Reservations that a test adds ask for 3 cores.
    """
    made = Tale()
    made.node()
    for name in ("one", "two"):
        part(made, name)
    return made


def part(tale: Tale, name: str, mark: str = "", *, controller: bool = True, stays: bool = False) -> None:
    notes = {"tidelock.dev/movable": "false"} if stays else {}
    owners = [{"kind": "StatefulSet", "name": "part", "uid": "part", "controller": controller}]
    meta = {"name": name, "uid": name, "labels": {"app": "part"}, "annotations": notes}
    leaving = {"deletionTimestamp": BEGUN} if mark else {}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": mark}] if mark else []
    for node_name in ("a",) if mark else ("", "a"):
        tale.tell(
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
    tale: Tale,
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
    tale.reservation(reason="InsufficientCapacity", also=also, **told | status)


APPROVED = {"maxPods": 1, "approve": "t"}


def begun(tale: Tale, *pods: str, may_move: Json = APPROVED) -> None:
    """Add a plan that is shown, approved, and begun."""
    reservation(tale, plan(*pods), may_move={"maxPods": may_move["maxPods"]})
    reservation(tale, plan(*pods), may_move=may_move)
    reservation(tale, plan(*pods, begun=True), may_move=may_move)


def heard(tale: Tale, kind: str) -> Told:
    """Return the delivery of the last event to the operator."""
    return Told(kind, len(tale.happenings), listed=False, at=tale.clock)


def budget(tale: Tale, allowed: int, name: str = "budget") -> Told:
    """Add a budget for the parts, and return its delivery to the operator."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "part"}}}
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    meta = {"name": name, "uid": name, "generation": 1}
    tale.tell(BUDGETS.plural, {"metadata": meta, "spec": spec, "status": status})
    return heard(tale, BUDGETS.plural)


def broken(found: Sequence[str], *words: str) -> bool:
    """Return whether there are violations, and each of them contains one of the words."""
    return bool(found) and all(any(word in each for word in words) for each in found)


@pytest.mark.parametrize("may_move", [APPROVED, {"maxPods": 1, "automatically": True}])
def test_a_plan_that_was_shown_and_approved_has_no_violation(tale: Tale, may_move: Json) -> None:
    begun(tale, may_move=may_move)
    part(tale, "one", EVICTED)
    tale.gone()
    active = [{"type": "Active", "status": "True", "reason": "Admitted"}]
    tale.reservation(also={"mayMove": may_move}, moved=1, conditions=active)
    assert tale.judged_at_rest() == []


# Plans.


@pytest.mark.parametrize("may_move", [{"maxPods": 1}, {"maxPods": 1, "approve": "another"}])
def test_a_plan_begun_without_approval_is_a_violation(tale: Tale, may_move: Json) -> None:
    begun(tale, may_move=may_move)
    assert broken(tale.judged(), "it began what nobody has approved")


def test_a_withdrawn_approval_counts_until_the_operator_receives_the_withdrawal(tale: Tale) -> None:
    reservation(tale, plan(), may_move=APPROVED)
    reservation(tale, plan())
    told = heard(tale, "reservations")
    tale.clock += 20
    reservation(tale, plan(begun=True))
    assert broken(tale.judged(told=[told]), "it began what nobody has approved")
    assert tale.judged() == []


@pytest.mark.parametrize("other", [plan(named="u"), plan("two")])
def test_a_plan_begun_without_being_shown_is_a_violation(tale: Tale, other: Json) -> None:
    reservation(tale, other, may_move=APPROVED)
    reservation(tale, plan(begun=True), may_move=APPROVED)
    assert broken(tale.judged(), "it began what was not shown")


def test_a_plan_of_too_many_pods_is_a_violation(tale: Tale) -> None:
    reservation(tale, plan("one", "two"))
    assert broken(tale.judged(), "its plan is of too many pods")
    reservation(tale, plan(), moved=1)
    assert broken(tale.judged(), "its plan is of too many pods")


def test_a_plan_with_a_pod_without_a_controller_is_a_violation(tale: Tale) -> None:
    part(tale, "alone", controller=False)
    reservation(tale, plan("alone"))
    assert broken(tale.judged(), "alone is in a plan, and not to be moved")


def test_a_plan_with_a_pod_that_must_not_move_is_a_violation(tale: Tale) -> None:
    part(tale, "one", stays=True)
    told = [heard(tale, "pods")]
    tale.clock += 20
    begun(tale)
    part(tale, "one", EVICTED, stays=True)
    assert broken(tale.judged(told=told), "one is in a plan, and is to stay", "it was to stay")
    assert tale.judged() == [], "the operator had not received the annotation"


def test_a_plan_of_more_pods_than_a_budget_allows_is_a_violation(tale: Tale) -> None:
    told = [budget(tale, 1)]
    tale.clock += 20
    reservation(tale, plan("one", "two"), may_move={"maxPods": 2})
    assert broken(tale.judged(told=told), "its plan is of more pods than budget lets go")
    assert tale.judged() == [], "the operator had not received the budget"


def test_a_budget_with_an_outdated_status_allows_no_eviction(tale: Tale) -> None:
    told = budget(tale, 1)
    tale.happenings[-1].state["metadata"]["generation"] = 2
    tale.clock += 20
    reservation(tale, plan())
    assert broken(tale.judged(told=[told]), "more pods than budget lets go")


def test_a_plan_with_a_pod_of_two_budgets_is_a_violation(tale: Tale) -> None:
    told = [budget(tale, 2, name) for name in ("this", "that")]
    tale.clock += 20
    reservation(tale, plan())
    assert broken(tale.judged(told=told), "of a pod of two budgets")


def test_a_plan_given_up_without_a_message_is_a_violation(tale: Tale) -> None:
    begun(tale)
    reservation(tale, may_move=APPROVED, why="on no node room would come of it")
    assert broken(tale.judged(), "does not say why its plan was given up")
    tale.happenings.pop()
    reservation(tale, may_move=APPROVED, why="given up: its node is gone")
    assert tale.judged() == []


# Evictions.


def test_an_eviction_without_a_plan_is_a_violation(tale: Tale) -> None:
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_an_eviction_before_the_plan_begins_is_a_violation(tale: Tale) -> None:
    reservation(tale, plan(), may_move=APPROVED)
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_an_eviction_of_a_pod_outside_the_plan_is_a_violation(tale: Tale) -> None:
    begun(tale)
    part(tale, "two", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_an_eviction_requested_after_the_end_of_the_plan_is_a_violation(tale: Tale) -> None:
    begun(tale)
    reservation(tale, may_move=APPROVED, why="given up: its node is gone")
    over = tale.clock
    tale.clock += 20
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "its plan was over")
    assert tale.judged(asked=[Passed("evict", "one", start=over)]) == [], "the eviction was requested before"


def test_an_eviction_after_the_withdrawal_of_the_approval_is_a_violation(tale: Tale) -> None:
    begun(tale)
    reservation(tale, plan(begun=True))
    told = [heard(tale, "reservations")]
    tale.clock += 20
    part(tale, "one", EVICTED)
    assert broken(tale.judged(told=told), "its plan is not approved any more")
    assert tale.judged() == [], "the operator had not received the withdrawal"


def test_more_evictions_than_allowed_over_all_plans_are_a_violation(tale: Tale) -> None:
    for name in ("one", "two"):
        begun(tale, name)
        part(tale, name, EVICTED)
        reservation(tale, may_move=APPROVED, why="given up: its room is taken")
    assert broken(tale.judged(), "2 went for lock")


def test_a_preemption_of_a_pod_of_a_plan_is_a_violation(tale: Tale) -> None:
    begun(tale)
    part(tale, "one", PREEMPTED)
    assert broken(tale.judged(), "it was to go by PreemptionByScheduler")


# Capacity.


def test_a_pod_in_capacity_that_is_being_freed_is_a_violation(tale: Tale) -> None:
    begun(tale)
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="2")
    assert broken(tale.judged(asked=[asked]), "lock lacks", "I1: a is overcommitted")
    written = Passed("status", "lock", start=tale.clock - 1)
    assert tale.judged(asked=[asked, written]) == [], "the plan may have been over by then"
    asked.start = tale.clock - 10
    assert tale.judged(asked=[asked]) == [], "the binding was requested before the plan began"
    assert tale.judged(asked=[asked], crashes=[tale.clock - 1]) == []


def test_an_owner_may_use_its_own_reservation_beside_a_plan(tale: Tale) -> None:
    """The checker reported that an owner took the freed capacity, though its own reservation had held it."""
    room: dict[str, Any] = {"resources": {"cpu": "1"}}
    tale.reservation("own", owner="db", also=room, **room)
    begun(tale)
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="1")
    assert tale.judged(asked=[asked]) == []
    tale.happenings[-1].state["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert broken(tale.judged(asked=[asked]), "lock lacks", "I1: a is overcommitted")


def test_a_pod_may_take_capacity_that_a_plan_does_not_need(tale: Tale) -> None:
    begun(tale)
    for happening in tale.happenings[-3:]:
        happening.state["spec"]["resources"] = {"cpu": "1"}
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="1")
    assert tale.judged(asked=[asked]) == []


@pytest.mark.parametrize(("priority", "found"), [(0, True), (1, False)])
def test_only_a_reservation_of_higher_priority_may_take_capacity_that_is_being_freed(
    tale: Tale, priority: int, found: bool
) -> None:
    begun(tale)
    room: dict[str, Any] = {"resources": {"cpu": "2"}}
    waits: dict[str, Any] = {"phase": "Pending", "activatedAt": None}
    also = {"priority": priority} | room
    tale.reservation("rival", "InsufficientCapacity", owner="db", also=also, **room, **waits)
    tale.reservation("rival", owner="db", also=also, activatedAt=format_instant(tale.clock + 1), **room)
    assert broken(tale.judged(), "lock lacks") == found


# Rest.


def test_a_plan_under_way_at_rest_without_a_leaving_pod_is_a_violation(tale: Tale) -> None:
    begun(tale)
    assert broken(tale.judged_at_rest(), "the plan of lock is under way")
    part(tale, "one", EVICTED)
    assert tale.judged_at_rest() == []


def test_an_ignored_approval_is_a_violation(tale: Tale) -> None:
    reservation(tale, plan())
    assert tale.judged_at_rest() == []
    reservation(tale, plan(), may_move=APPROVED)
    assert broken(tale.judged_at_rest(), "the approval of lock is not heard")


def test_a_plan_of_a_reservation_that_does_not_wait_is_a_violation(tale: Tale) -> None:
    reservation(tale, plan(), phase="Rejected")
    assert broken(tale.judged_at_rest(), "it has a plan, and waits for no room", "lock has a plan")


def test_a_missing_condition_about_the_plan_is_a_violation(tale: Tale) -> None:
    reservation(tale, conditions=[{"type": "Active", "status": "False", "reason": "InsufficientCapacity"}])
    assert broken(tale.judged_at_rest(), "lock does not tell how its plan stands")


def test_an_eviction_that_the_status_does_not_count_is_a_violation(tale: Tale) -> None:
    begun(tale)
    part(tale, "one", EVICTED)
    reservation(tale, may_move=APPROVED, why="given up: its room is taken")
    assert broken(tale.judged_at_rest(), "1 were evicted for lock, which tells of 0")
