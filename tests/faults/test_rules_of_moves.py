"""Histories that break what is promised of locks for which pods may be moved, and histories that do not."""

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
    """A node of 4 cores with two pods of a controller, each of 1 core; a lock asks for 3."""
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
    """Tell of a lock with a plan, or without one, be it that it says why."""
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
    """Tell of a plan that is shown, approved, and begun."""
    reservation(tale, plan(*pods), may_move={"maxPods": may_move["maxPods"]})
    reservation(tale, plan(*pods), may_move=may_move)
    reservation(tale, plan(*pods, begun=True), may_move=may_move)


def heard(tale: Tale, kind: str) -> Told:
    """Have the operator be told of what happened last."""
    return Told(kind, len(tale.happenings), listed=False, at=tale.clock)


def budget(tale: Tale, allowed: int, name: str = "budget") -> Told:
    """Tell of a budget for the parts, and the operator of it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "part"}}}
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    meta = {"name": name, "uid": name, "generation": 1}
    tale.tell(BUDGETS.plural, {"metadata": meta, "spec": spec, "status": status})
    return heard(tale, BUDGETS.plural)


def broken(found: Sequence[str], *words: str) -> bool:
    """Whether anything is found, and all of it says so."""
    return bool(found) and all(any(word in each for word in words) for each in found)


@pytest.mark.parametrize("may_move", [APPROVED, {"maxPods": 1, "automatically": True}])
def test_what_was_shown_and_approved_is_carried_out(tale: Tale, may_move: Json) -> None:
    begun(tale, may_move=may_move)
    part(tale, "one", EVICTED)
    tale.gone()
    active = [{"type": "Active", "status": "True", "reason": "Admitted"}]
    tale.reservation(also={"mayMove": may_move}, moved=1, conditions=active)
    assert tale.judged_at_rest() == []


# Plans.


@pytest.mark.parametrize("may_move", [{"maxPods": 1}, {"maxPods": 1, "approve": "another"}])
def test_what_nobody_has_approved_is_begun(tale: Tale, may_move: Json) -> None:
    begun(tale, may_move=may_move)
    assert broken(tale.judged(), "it began what nobody has approved")


def test_an_approval_that_was_taken_back_counts_until_that_is_heard(tale: Tale) -> None:
    reservation(tale, plan(), may_move=APPROVED)
    reservation(tale, plan())
    told = heard(tale, "reservations")
    tale.clock += 20
    reservation(tale, plan(begun=True))
    assert broken(tale.judged(told=[told]), "it began what nobody has approved")
    assert tale.judged() == []


@pytest.mark.parametrize("other", [plan(named="u"), plan("two")])
def test_what_was_not_shown_is_begun(tale: Tale, other: Json) -> None:
    reservation(tale, other, may_move=APPROVED)
    reservation(tale, plan(begun=True), may_move=APPROVED)
    assert broken(tale.judged(), "it began what was not shown")


def test_a_plan_is_of_too_many_pods(tale: Tale) -> None:
    reservation(tale, plan("one", "two"))
    assert broken(tale.judged(), "its plan is of too many pods")
    reservation(tale, plan(), moved=1)
    assert broken(tale.judged(), "its plan is of too many pods")


def test_a_plan_is_of_a_pod_that_nobody_makes_anew(tale: Tale) -> None:
    part(tale, "alone", controller=False)
    reservation(tale, plan("alone"))
    assert broken(tale.judged(), "alone is in a plan, and not to be moved")


def test_a_pod_is_to_stay(tale: Tale) -> None:
    part(tale, "one", stays=True)
    told = [heard(tale, "pods")]
    tale.clock += 20
    begun(tale)
    part(tale, "one", EVICTED, stays=True)
    assert broken(tale.judged(told=told), "one is in a plan, and is to stay", "it was to stay")
    assert tale.judged() == [], "nobody has told the operator"


def test_a_budget_lets_fewer_go(tale: Tale) -> None:
    told = [budget(tale, 1)]
    tale.clock += 20
    reservation(tale, plan("one", "two"), may_move={"maxPods": 2})
    assert broken(tale.judged(told=told), "its plan is of more pods than budget lets go")
    assert tale.judged() == [], "nobody has told the operator of the budget"


def test_a_budget_lets_none_go_that_is_not_settled(tale: Tale) -> None:
    told = budget(tale, 1)
    tale.happenings[-1].state["metadata"]["generation"] = 2
    tale.clock += 20
    reservation(tale, plan())
    assert broken(tale.judged(told=[told]), "more pods than budget lets go")


def test_a_pod_of_two_budgets_is_in_no_plan(tale: Tale) -> None:
    told = [budget(tale, 2, name) for name in ("this", "that")]
    tale.clock += 20
    reservation(tale, plan())
    assert broken(tale.judged(told=told), "of a pod of two budgets")


def test_a_plan_is_given_up_in_silence(tale: Tale) -> None:
    begun(tale)
    reservation(tale, may_move=APPROVED, why="on no node room would come of it")
    assert broken(tale.judged(), "does not say why its plan was given up")
    tale.happenings.pop()
    reservation(tale, may_move=APPROVED, why="given up: its node is gone")
    assert tale.judged() == []


# Evictions.


def test_a_pod_is_evicted_for_nobody(tale: Tale) -> None:
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_a_pod_is_evicted_before_its_plan_is_begun(tale: Tale) -> None:
    reservation(tale, plan(), may_move=APPROVED)
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_a_pod_is_evicted_that_is_in_no_plan(tale: Tale) -> None:
    begun(tale)
    part(tale, "two", EVICTED)
    assert broken(tale.judged(), "it is in no plan that is under way")


def test_a_pod_is_evicted_when_its_plan_is_over(tale: Tale) -> None:
    begun(tale)
    reservation(tale, may_move=APPROVED, why="given up: its node is gone")
    over = tale.clock
    tale.clock += 20
    part(tale, "one", EVICTED)
    assert broken(tale.judged(), "its plan was over")
    assert tale.judged(asked=[Passed("evict", "one", start=over)]) == [], "it was asked for before"


def test_a_pod_is_evicted_though_the_approval_was_taken_back(tale: Tale) -> None:
    begun(tale)
    reservation(tale, plan(begun=True))
    told = [heard(tale, "reservations")]
    tale.clock += 20
    part(tale, "one", EVICTED)
    assert broken(tale.judged(told=told), "its plan is not approved any more")
    assert tale.judged() == [], "nobody has told the operator"


def test_more_pods_are_evicted_than_may_be_in_all(tale: Tale) -> None:
    for name in ("one", "two"):
        begun(tale, name)
        part(tale, name, EVICTED)
        reservation(tale, may_move=APPROVED, why="given up: its room is taken")
    assert broken(tale.judged(), "2 went for lock")


def test_a_pod_is_to_go_in_another_way(tale: Tale) -> None:
    begun(tale)
    part(tale, "one", PREEMPTED)
    assert broken(tale.judged(), "it was to go by PreemptionByScheduler")


# Room.


def test_a_pod_takes_what_is_being_made_free(tale: Tale) -> None:
    begun(tale)
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="2")
    assert broken(tale.judged(asked=[asked]), "lock lacks", "I1: a is overcommitted")
    written = Passed("status", "lock", start=tale.clock - 1)
    assert tale.judged(asked=[asked, written]) == [], "the plan may have been over by then"
    asked.start = tale.clock - 10
    assert tale.judged(asked=[asked]) == [], "it was decided before"
    assert tale.judged(asked=[asked], crashes=[tale.clock - 1]) == []


def test_an_owner_comes_into_its_own_lock_beside_it(tale: Tale) -> None:
    """The checker said that the owner took what was being made free, though its own lock had held it."""
    room: dict[str, Any] = {"resources": {"cpu": "1"}}
    tale.reservation("own", owner="db", also=room, **room)
    begun(tale)
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="1")
    assert tale.judged(asked=[asked]) == []
    tale.happenings[-1].state["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert broken(tale.judged(asked=[asked]), "lock lacks", "I1: a is overcommitted")


def test_a_pod_takes_what_is_left_beside_it(tale: Tale) -> None:
    begun(tale)
    for happening in tale.happenings[-3:]:
        happening.state["spec"]["resources"] = {"cpu": "1"}
    asked = Passed("bind", "db", start=tale.clock + 2)
    tale.bound("db", cpu="1")
    assert tale.judged(asked=[asked]) == []


@pytest.mark.parametrize(("priority", "found"), [(0, True), (1, False)])
def test_a_lock_takes_what_is_being_made_free(tale: Tale, priority: int, found: bool) -> None:
    begun(tale)
    room: dict[str, Any] = {"resources": {"cpu": "2"}}
    waits: dict[str, Any] = {"phase": "Pending", "activatedAt": None}
    also = {"priority": priority} | room
    tale.reservation("rival", "InsufficientCapacity", owner="db", also=also, **room, **waits)
    tale.reservation("rival", owner="db", also=also, activatedAt=format_instant(tale.clock + 1), **room)
    assert broken(tale.judged(), "lock lacks") == found


# Rest.


def test_a_plan_is_under_way_and_nobody_is_leaving(tale: Tale) -> None:
    begun(tale)
    assert broken(tale.judged_at_rest(), "the plan of lock is under way")
    part(tale, "one", EVICTED)
    assert tale.judged_at_rest() == []


def test_an_approval_is_not_heard(tale: Tale) -> None:
    reservation(tale, plan())
    assert tale.judged_at_rest() == []
    reservation(tale, plan(), may_move=APPROVED)
    assert broken(tale.judged_at_rest(), "the approval of lock is not heard")


def test_a_lock_that_waits_for_no_room_has_a_plan(tale: Tale) -> None:
    reservation(tale, plan(), phase="Rejected")
    assert broken(tale.judged_at_rest(), "it has a plan, and waits for no room", "lock has a plan")


def test_a_lock_does_not_tell_how_its_plan_stands(tale: Tale) -> None:
    reservation(tale, conditions=[{"type": "Active", "status": "False", "reason": "InsufficientCapacity"}])
    assert broken(tale.judged_at_rest(), "lock does not tell how its plan stands")


def test_an_eviction_is_not_counted(tale: Tale) -> None:
    begun(tale)
    part(tale, "one", EVICTED)
    reservation(tale, may_move=APPROVED, why="given up: its room is taken")
    assert broken(tale.judged_at_rest(), "1 were evicted for lock, which tells of 0")
