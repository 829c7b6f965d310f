"""Migration plans: the fewest pods that may move, and for which other nodes have capacity."""

from typing import Any

import pytest

from builders import NOW, Json, budget, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import ObjectMeta
from tidelock.model.namespaces import Namespace
from tidelock.scheduler.defrag.movable import MOVABLE, SAFE_TO_EVICT
from unit.scheduler.machinery import Core
from unit.scheduler.moves import ask, fragmented, move_planned, plan_of, planned, web


def crowded(**fields: Any) -> Core:
    """Build a node of 4 CPU with a pod of 2 CPU that fits on another node.

    A request of 3 CPU fits on none.
    """
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="2"))
    core.add(web("a-0", "node-a", "2", **fields))
    return core


def test_without_permission_no_plan_is_made() -> None:
    core = fragmented()
    entry = core.reservation(resources={"cpu": "3"})
    core.step()
    assert entry.phase is Phase.PENDING
    assert entry.plan is None
    assert core.decider.moving.next_due() is None


def test_the_fewest_pods_move_and_each_to_a_node_with_capacity() -> None:
    core = fragmented()
    entry = ask(core)
    assert planned(entry) == [("a-0", "node-b")]
    status, reason, message = move_planned(core, entry)
    assert (status, reason) == ("True", "MovePlanned")
    token = plan_of(entry).token
    assert message == (
        "capacity would be freed by moving 1 pod of node-a: shop/a-0 to node-b; "
        f"approved with spec.mayMove.approve {token}"
    )


def test_of_many_nodes_the_one_with_the_smallest_shortfall_is_considered() -> None:
    names = [f"node-{number:02}" for number in range(40)]
    core = Core(*(node(name, cpu="4") for name in names), node("spare", cpu="2"))
    core.add(*(web(f"fixed-{name}", name, "3", controller="") for name in names[:-1]))
    core.add(web("movable", names[-1], "2"))
    assert planned(ask(core)) == [("movable", "spare")]


def test_two_pods_of_a_plan_do_not_use_the_same_capacity() -> None:
    core = Core(*(node(f"node-{place}", cpu="4") for place in "abc"))
    core.add(*(web(f"a-{number}", "node-a") for number in range(4)))
    core.add(web("b", "node-b", "3"), web("c", "node-c", "3"))
    entry = ask(core, resources={"cpu": "2"})
    assert planned(entry) == [("a-0", "node-b"), ("a-1", "node-c")]
    core.add(web("d", "node-c"))
    assert ask(core, name="next", resources={"cpu": "2"}).plan is None


@pytest.mark.parametrize(("most", "moves"), [(1, []), (2, ["a-0", "a-1"])])
def test_a_plan_has_at_most_the_permitted_number_of_pods(most: int, moves: list[str]) -> None:
    core = fragmented()
    entry = ask(core, may_move={"maxPods": most}, resources={"cpu": "4"})
    assert [name for name, _ in planned(entry)] == moves
    if not moves:
        assert move_planned(core, entry)[:2] == ("False", "NoMoves")


def test_a_plan_can_have_as_many_pods_as_a_spec_can_permit() -> None:
    core = Core(node("node-a", cpu="8"), node("node-b", cpu="4"), node("node-c", cpu="4"))
    core.add(*(web(f"a-{number}", "node-a") for number in range(8)))
    entry = ask(core, may_move={"maxPods": 8}, resources={"cpu": "8"})
    assert [name for name, _ in planned(entry)] == [f"a-{number}" for number in range(8)]


def test_among_plans_of_equal_size_the_least_important_and_then_the_smallest_pods_move() -> None:
    core = Core(node("node-a", cpu="6"), node("node-b", cpu="2"))
    core.add(web("high", "node-a", priority=5), web("large", "node-a", "2"), web("small", "node-a"))
    entry = ask(core, priority=9)
    assert planned(entry) == [("small", "node-b")]
    core.add(web("small", "node-a", priority=6))
    core.clock.advance(10)
    assert planned(ask(core, name="next", priority=9)) == [("large", "node-b")]


@pytest.mark.parametrize(
    "kept",
    [
        {"controller": ""},
        {"controller": "apps/v1/DaemonSet/web"},
        {"controller": "v1/Node/node-a"},
        {"controller": "batch/v1/Job/web"},
        {"namespace": "kube-system"},
        {"namespace": "another"},
        {"priority": 1},
        {"annotations": {MOVABLE: "false"}},
        {"annotations": {SAFE_TO_EVICT: "false"}},
        {"annotations": {"tidelock.dev/borrows": "true"}},
        {"activeDeadlineSeconds": 3600},
    ],
)
def test_a_pod_that_may_not_be_moved_stays(kept: dict[str, Any]) -> None:
    assert ask(crowded(**kept)).plan is None


@pytest.mark.parametrize(
    "movable",
    [
        {"controller": "apps/v1/StatefulSet/web"},
        {"controller": "v1/ReplicationController/web"},
        {"controller": "batch/v1/Job/web", "annotations": {MOVABLE: "true"}},
        {"namespace": "another", "annotations": {MOVABLE: "true"}},
        {"namespace": "willing"},
    ],
)
def test_a_pod_that_may_be_moved_moves(movable: dict[str, Any]) -> None:
    core = crowded(**movable)
    willing = Namespace(ObjectMeta("willing", annotations={MOVABLE: "true"}))
    core.decider.objects.namespaces.upsert(None, willing)
    assert planned(ask(core)) == [("a-0", "node-b")]


def test_an_owner_of_a_reservation_stays() -> None:
    core = crowded(labels={"app": "other"})
    owners = [{"selector": {"matchLabels": {"app": "other"}}}]
    core.reservation("theirs", owners=owners, reuse="Always", resources={"cpu": "2"})
    core.step()
    assert core.reserved() == 0
    assert ask(core).plan is None


def test_a_pod_that_was_bound_before_the_window_of_the_reservation_it_uses_stays() -> None:
    """Otherwise it would move in vain, because its reservation would hold the capacity that comes free."""
    core = crowded(labels={"app": "other"}, bound_at=NOW - 60)
    owners = [{"selector": {"matchLabels": {"app": "other"}}}]
    window = {"startAt": format_instant(NOW + 60), "nodeName": "node-a"}
    theirs = core.reservation("theirs", owners=owners, reuse="Always", resources={"cpu": "2"}, **window)
    core.step()
    core.clock.advance(60)
    core.step()
    assert (theirs.phase, core.reserved()) == (Phase.ACTIVE, 0)
    assert ask(core).plan is None


def test_a_pod_beside_an_occupied_reservation_moves() -> None:
    core = fragmented()
    core.add(web("a-1", "node-a", labels={"app": "other"}))
    owners = [{"selector": {"matchLabels": {"app": "other"}}}]
    core.reservation("theirs", owners=owners, reuse="Always", nodeName="node-a")
    core.step()
    assert planned(ask(core, nodeName="node-a")) == [("a-0", "node-b")]


@pytest.mark.parametrize(("allowed", "moves"), [(0, []), (1, [("a-0", "node-b")])])
def test_a_plan_never_exceeds_a_disruption_budget(allowed: int, moves: list[tuple[str, str]]) -> None:
    core = crowded(labels={"app": "web"})
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(allowed=allowed, labels={"app": "web"}))
    assert planned(ask(core)) == moves


def test_two_pods_of_a_budget_that_allows_one_disruption_do_not_move_together() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="3"))
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(allowed=1, labels={"app": "web"}))
    core.add(*(web(f"a-{number}", "node-a", labels={"app": "web"}) for number in range(4)))
    assert ask(core, resources={"cpu": "2"}, nodeName="node-a").plan is None
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(allowed=2, labels={"app": "web"}))
    entry = ask(core, name="next", resources={"cpu": "2"}, nodeName="node-a")
    assert planned(entry) == [("a-0", "node-b"), ("a-1", "node-b")]


def test_a_pod_with_two_budgets_stays_as_the_eviction_api_refuses_it() -> None:
    core = crowded(labels={"app": "web"})
    for name in "xy":
        each = budget(name, allowed=5, labels={"app": "web"})
        core.decider.objects.pod_disruption_budgets.upsert(None, each)
    assert ask(core).plan is None


def test_reserved_capacity_is_not_used_for_moved_pods() -> None:
    core = crowded()
    assert core.reservation("other", resources={"cpu": "1"}, nodeName="node-b").phase is Phase.PENDING
    entry = ask(core)
    assert core.reserved("node-b") == 1000
    assert entry.plan is None


def test_the_capacity_of_a_nominated_pod_is_not_used_for_moved_pods() -> None:
    core = crowded()
    core.cache.nominator.nominate(pod("urgent", requests={"cpu": "1"}, priority=-1), "node-b")
    assert ask(core).plan is None


def test_a_replacement_goes_to_a_node_that_meets_its_own_constraints() -> None:
    core = fragmented(a={"zone": "x"}, b={"zone": "y"})
    for name in ("a-0", "a-1"):
        core.add(web(name, "node-a", nodeSelector={"zone": "x"}))
    assert planned(ask(core)) == [("b-0", "node-a")]


def test_pods_with_anti_affinity_to_each_other_do_not_move_together() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"}
            ]
        }
    }
    core = fragmented(a={"host": "a"}, b={"host": "b"})
    for place in "ab":
        core.add(web(f"{place}-0", f"node-{place}", labels={"app": "web"}, affinity=apart))
    for place in "ab":
        core.add(web(f"{place}-1", f"node-{place}", annotations={MOVABLE: "false"}))
    assert ask(core).plan is None


def test_a_pod_with_anti_affinity_to_its_kind_may_move_within_its_zone() -> None:
    """Otherwise the pod would be counted beside its own replacement."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }
    core = fragmented(a={"zone": "x"}, b={"zone": "x"})
    core.add(web("a-0", "node-a", labels={"app": "web"}, affinity=apart))
    assert planned(ask(core)) == [("a-0", "node-b")]


def test_no_pod_moves_for_capacity_that_comes_free_by_itself() -> None:
    core = fragmented()
    core.add(web("a-0", "node-a", deleted=True))
    assert ask(core).plan is None


def test_a_plan_is_made_for_a_reservation_with_a_host_port_too() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="2"))
    container: Json = {"name": "main", "image": "x", "ports": [{"hostPort": 80, "containerPort": 80}]}
    core.add(web("a-0", "node-a", containers=[container]))
    template = {"spec": {"containers": [container | {"resources": {"requests": {"cpu": "3"}}}]}}
    assert planned(ask(core, resources=None, template=template)) == [("a-0", "node-b")]


def test_the_same_plan_has_the_same_token_in_any_process() -> None:
    first, second = (plan_of(ask(fragmented())) for _ in range(2))
    assert first == second
    other = fragmented()
    other.add(web("a-0", "node-a", uid="another"))
    other.event_handlers.pods.remove(web("a-0", "node-a"))
    assert plan_of(ask(other)).token != first.token


def test_searches_for_a_plan_have_a_pause_however_often_the_reservation_is_refused() -> None:
    core = fragmented()
    entry = ask(core, may_move={"maxPods": 1}, resources={"cpu": "4"})
    assert entry.plan is None
    due = core.decider.moving.next_due()
    assert due == NOW + 10
    for number in range(2):
        core.add(web(f"b-{number}", "node-b", deleted=True))
        core.event_handlers.pods.remove(web(f"b-{number}", "node-b"))
    core.add(web("c", "node-b"))
    core.step()
    assert (entry.plan, core.decider.moving.next_due()) == (None, due)
    core.clock.advance(10)
    core.step()
    assert planned(entry) == [("c", "node-a")]
