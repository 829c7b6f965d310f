"""DefaultPreemption: its choice of victims and node, and its message if no eviction helps."""

from typing import Any

import numpy as np
import pytest

from builders import NOW, budget, node, pod
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Filter, FilterResult, PostFilterResult, PreFilter, Victims
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.rejections import nodes_by_reason
from tidelock.framework.whatif import WhatIf, filter_with_nominated_pods
from tidelock.model.instants import format_instant
from tidelock.model.pods import REQUIRE_RESERVATION, Pod
from tidelock.model.quantities import CPU
from tidelock.plugins.default_preemption.plugin import (
    NEVER_PREEMPTS,
    PREEMPTION_NOT_HELPFUL,
    VICTIM_TERMINATING,
    DefaultPreemption,
)
from tidelock.plugins.default_preemption.trial import NO_VICTIMS
from tidelock.plugins.node_resources_fit import NodeResourcesFit, insufficient
from tidelock.plugins.reservation.plugin import ReservationPlugin, insufficient_beside
from unit.plugins.scene import Scene

BOTH = "preemption: 0/2 nodes are available: "
PREEMPTED_CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def crowd(*nodes: str) -> Scene:
    """Return nodes of 4 cpu."""
    return Scene(*(node(name, cpu="4") for name in nodes or ("node-a",)))


def put(
    scene: Scene, name: str, cpu: str, priority: int = 0, node_name: str = "node-a", **fields: Any
) -> Pod:
    """Bind a pod to a node."""
    bound = pod(name, requests={"cpu": cpu}, node_name=node_name, priority=priority, **fields)
    scene.cache.upsert(bound)
    return bound


def since(seconds: float) -> dict[str, Any]:
    return {"startTime": format_instant(NOW - seconds)}


def preempt(
    scene: Scene,
    wanting: Pod,
    kinds: tuple[type[Filter], ...] = (NodeResourcesFit, ReservationPlugin),
    *,
    enough: int = 100,
) -> PostFilterResult:
    """Run PostFilter for a pod that these filters have refused."""
    scene.columns.vector(wanting.requests)
    snapshot, state = Snapshot.of(scene.columns), CycleState()
    filters = tuple(kind(scene.handle, {}) for kind in kinds)
    for plugin in filters:
        if isinstance(plugin, PreFilter):
            plugin.pre_filter(state, wanting, snapshot)
    filter_result = WhatIf(filters, state, wanting, snapshot, np.arange(len(snapshot))).judge()
    filter_result = filter_with_nominated_pods(filter_result, scene.cache.nominator, state, wanting, snapshot)
    assert not filter_result.fits.any(), "preemption is for pods that no node fits"
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": enough}
    return DefaultPreemption(scene.handle, args).post_filter(state, wanting, snapshot, filter_result)


def victims(result: PostFilterResult) -> tuple[str | None, list[str], list[str]]:
    """Return the node and the names of the pods and reservations that are victims."""
    assert result.victims is not None, result.status
    return (
        result.nominated_node_name,
        [placed.pod.meta.name for placed in result.victims.pods],
        [entry.key.name for entry in result.victims.reservations],
    )


def high(cpu: str = "2", **fields: Any) -> Pod:
    return pod(requests={"cpu": cpu}, priority=10, **fields)


def test_victims_are_no_more_than_needed_and_the_least_important() -> None:
    scene = crowd()
    put(scene, "low", "2", 0)
    put(scene, "middle", "1", 5)
    put(scene, "equal", "1", 10)

    assert victims(preempt(scene, high("2"))) == ("node-a", ["low"], [])
    assert victims(preempt(scene, high("3"))) == ("node-a", ["middle", "low"], [])


def test_of_pods_with_equal_priority_the_youngest_is_the_victim() -> None:
    scene = crowd()
    put(scene, "old", "2", status=since(100))
    put(scene, "young", "2", status=since(1))
    assert victims(preempt(scene, high())) == ("node-a", ["young"], [])

    put(scene, "not-started", "0", status={})
    scene.cache.remove("uid-old")
    put(scene, "starting", "2")
    assert victims(preempt(scene, high())) == ("node-a", ["starting"], [])


def test_the_message_says_why_no_eviction_helps() -> None:
    scene = crowd("node-a", "node-b")
    put(scene, "equal", "3", 10, "node-a")
    put(scene, "low", "1", 0, "node-b")
    put(scene, "higher", "3", 20, "node-b")

    result = preempt(scene, high())

    assert result.message == BOTH + f"1 {insufficient(CPU)}, 1 {NO_VICTIMS}."
    assert result.nominated_node_name == ""
    assert not result.status.ok


def test_a_node_without_pods_of_lower_priority_has_no_victims() -> None:
    scene = crowd("node-a", "node-b")
    put(scene, "equal", "3", 10, "node-a")
    put(scene, "higher", "3", 20, "node-b")
    nobody = BOTH + f"2 {NO_VICTIMS}."
    assert preempt(scene, high()).message == nobody

    scene.reservation("equal", "node-b", resources={"cpu": "1"}, owner="other", priority=10)
    assert preempt(scene, high()).message == nobody

    scene.reservation("low", "node-a", resources={"cpu": "1"}, owner="other", priority=9)
    assert victims(preempt(scene, high("1"))) == ("node-a", [], ["low"])


def test_nodes_that_no_eviction_can_change_are_not_tried() -> None:
    scene = crowd("node-a", "node-b")
    scene.reservation("mine", "node-a", resources={"cpu": "1"}, nodeName="node-a")
    put(scene, "equal", "3", 10, "node-a")
    put(scene, "low", "1", 0, "node-b")
    wanting = high("2", annotations={REQUIRE_RESERVATION: "true"})

    assert preempt(scene, wanting).message == BOTH + f"1 {NO_VICTIMS}, 1 {PREEMPTION_NOT_HELPFUL}."


def test_a_pod_may_evict_to_reach_the_reservation_that_it_requires() -> None:
    scene = crowd("node-a", "node-b")
    scene.reservation("mine", "node-a", resources={"cpu": "1"}, nodeName="node-a")
    put(scene, "low", "3", 0, "node-a")
    wanting = high("2", annotations={REQUIRE_RESERVATION: "true"})

    assert victims(preempt(scene, wanting)) == ("node-a", ["low"], [])


def test_with_preemption_policy_never_no_pod_is_evicted_and_the_nomination_stays() -> None:
    scene = crowd()
    put(scene, "low", "4")
    result = preempt(scene, high(preemptionPolicy="Never"))

    assert result.status.reasons == (f"preemption: {NEVER_PREEMPTS}",)
    assert result.nominated_node_name is None


@pytest.mark.parametrize("way", ["told", "decided"])
def test_a_pod_waits_for_victims_that_are_terminating(way: str) -> None:
    scene = crowd("node-a", "node-b")
    put(scene, "low", "4", deleted=way == "told", status={"conditions": [PREEMPTED_CONDITION]})
    put(scene, "other", "4", 0, "node-b")
    scene.cache.evicting.update({"uid-low"} if way == "decided" else ())
    scene.cache.nominator.nominate(high(), "node-a")

    result = preempt(scene, high())

    assert result.status.reasons == (f"preemption: {VICTIM_TERMINATING}",)
    assert result.nominated_node_name is None


@pytest.mark.parametrize(
    "fields",
    [
        {"deleted": True},
        {"status": {"conditions": [PREEMPTED_CONDITION]}},
        {"deleted": True, "priority": 10, "status": {"conditions": [PREEMPTED_CONDITION]}},
        {"deleted": True, "status": {"conditions": [PREEMPTED_CONDITION | {"status": "False"}]}},
    ],
    ids=["deleted by others", "not deleted", "not below", "condition is false"],
)
def test_a_pod_does_not_wait_for_other_terminating_pods(fields: dict[str, Any]) -> None:
    scene = crowd("node-a", "node-b")
    put(scene, "low", "4", **fields)
    put(scene, "other", "4", 0, "node-b")
    scene.cache.nominator.nominate(high(), "node-a")

    assert preempt(scene, high()).victims is not None


def test_a_pod_does_not_wait_for_a_removed_node() -> None:
    scene = crowd()
    put(scene, "low", "4")
    scene.cache.nominator.nominate(high(), "node-z")
    assert victims(preempt(scene, high())) == ("node-a", ["low"], [])


def test_a_pod_that_a_disruption_budget_protects_is_spared_first() -> None:
    scene = crowd()
    put(scene, "protected", "2", 0, labels={"app": "db"})
    put(scene, "other", "2", 5)
    scene.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "db"}))

    assert victims(preempt(scene, high())) == ("node-a", ["other"], [])


def test_a_disruption_budget_counts_each_eviction() -> None:
    scene = crowd()
    for name in ("db-0", "db-1"):
        put(scene, name, "2", labels={"app": "db"})
    scene.objects.pod_disruption_budgets.upsert(None, budget(allowed=1, labels={"app": "db"}))

    result = preempt(scene, high("4"))

    assert result.victims is not None
    assert (len(result.victims.pods), result.victims.violations) == (2, 1)


@pytest.mark.parametrize("order", ["both", "toob"])
def test_an_eviction_uses_up_every_budget_of_its_pod(order: str) -> None:
    """Not in kube-scheduler 1.37, which stops at the first violated budget, in no particular order."""
    scene = crowd()
    put(scene, "first", "2", 1, labels={"app": "db", "tier": "x"})
    put(scene, "second", "2", 0, labels={"app": "db"})
    budgets = {"b": budget("none", labels={"tier": "x"}), "t": budget("one", allowed=1, labels={"app": "db"})}
    for letter in order:
        if letter in budgets:
            scene.objects.pod_disruption_budgets.upsert(None, budgets[letter])

    result = preempt(scene, high("4"))

    assert result.victims is not None
    assert (len(result.victims.pods), result.victims.violations) == (2, 2)


@pytest.mark.parametrize(
    "limit",
    [
        budget(labels=None),
        budget(labels={}),
        budget(labels={"app": "web"}),
        budget(labels={"app": "db"}, namespace="elsewhere"),
        budget(labels={"app": "db"}, disrupted={"low": "2027-01-15T08:00:00Z"}),
        budget(labels={"app": "db"}, allowed=1),
    ],
    ids=["no selector", "empty selector", "others", "other namespace", "granted already", "allowed"],
)
def test_a_budget_that_does_not_apply_is_not_violated(limit: Any) -> None:
    scene = crowd()
    put(scene, "low", "4", labels={"app": "db"})
    scene.objects.pod_disruption_budgets.upsert(None, limit)

    result = preempt(scene, high())

    assert result.victims is not None
    assert result.victims.violations == 0


def test_the_node_is_chosen_by_budget_violations_then_by_its_victims() -> None:
    """Each node is better than the one before it by the next criterion."""
    scene = Scene(*(node(f"node-{name}", cpu="4") for name in "abcdef"))
    put(scene, "a", "4", -5, "node-a", labels={"app": "db"})
    put(scene, "b", "4", 3, "node-b")
    for name in ("c-0", "c-1"):
        put(scene, name, "2", 2, "node-c")
    put(scene, "d-0", "2", 2, "node-d")
    put(scene, "d-1", "2", 1, "node-d")
    put(scene, "e", "4", 2, "node-e", status=since(100))
    put(scene, "f", "4", 2, "node-f", status=since(10))
    scene.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "db"}))

    order = []
    for _ in range(6):
        result = preempt(scene, high("4"))
        order.append(result.nominated_node_name)
        scene.cache.drop_node(str(result.nominated_node_name))

    assert order == ["node-f", "node-e", "node-d", "node-c", "node-b", "node-a"]


def test_many_victims_of_negative_priority_are_worse_than_few() -> None:
    scene = crowd("node-a", "node-b")
    for name in ("a-0", "a-1"):
        put(scene, name, "2", -5, "node-a")
    put(scene, "b", "4", -5, "node-b")

    assert preempt(scene, high("4")).nominated_node_name == "node-b"


def test_the_choice_among_equal_nodes_depends_on_the_pod_and_is_deterministic() -> None:
    names = [f"node-{index}" for index in range(8)]

    def chosen(order: list[str], uid: str) -> str | None:
        scene = crowd(*order)
        for name in names:
            put(scene, f"low-{name}", "4", 0, name)
        return preempt(scene, high(uid=uid)).nominated_node_name

    picked = {uid: chosen(names, uid) for uid in map(str, range(20))}

    assert picked == {uid: chosen(names[::-1], uid) for uid in picked}
    assert len(set(picked.values())) > 1


def test_the_search_ends_with_enough_candidates() -> None:
    """The search ends after the first candidate, unless that candidate violates a budget."""
    scene = crowd("node-a", "node-b")
    put(scene, "a", "4", 1, "node-a")
    put(scene, "b", "4", 1, "node-b")
    first = preempt(scene, high("4"), enough=1).nominated_node_name
    better = "node-b" if first == "node-a" else "node-a"

    put(scene, better[-1], "4", 0, better)
    assert preempt(scene, high("4"), enough=1).nominated_node_name == first
    assert preempt(scene, high("4")).nominated_node_name == better

    put(scene, str(first)[-1], "4", -1, str(first), labels={"app": "db"})
    scene.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "db"}))
    assert preempt(scene, high("4"), enough=1).nominated_node_name == better


def test_of_candidates_that_violate_budgets_only_enough_are_compared() -> None:
    """As long as no candidate violates none, the search goes on, and the surplus ones are dropped."""
    names = [f"node-{index:02}" for index in range(40)]
    scene = crowd(*names)
    for index, name in enumerate(names):
        put(scene, name, "4", -index, name, labels={"app": "db"})
    scene.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "db"}))

    def compared(enough: int) -> dict[str, Victims]:
        found = preempt(scene, high("4"), enough=enough)
        assert found.candidates is not None
        candidates = found.candidates()
        assert found.nominated_node_name == max(candidates)
        return candidates

    tried = list(compared(40))
    assert sorted(tried) == names
    for enough in (1, 3, 30):
        assert list(compared(enough)) == tried[:enough]

    put(scene, tried[-1], "4", 9, tried[-1])
    clean = preempt(scene, high("4"), enough=3)
    assert clean.candidates is not None
    assert list(clean.candidates()) == [*tried[:3], tried[-1]]
    assert clean.nominated_node_name == tried[-1]


def test_reservations_of_lower_priority_are_preempted_before_pods() -> None:
    scene = crowd()
    put(scene, "low", "1", -3)
    scene.reservation("newest", resources={"cpu": "1"}, priority=1, owner="db-0")
    scene.reservation("dear", resources={"cpu": "2"}, priority=2, owner="db-1")

    assert victims(preempt(scene, high("1"))) == ("node-a", [], ["newest"])
    assert victims(preempt(scene, high("2"))) == ("node-a", [], ["dear"])
    assert victims(preempt(scene, high("4"))) == ("node-a", ["low"], ["dear", "newest"])


def test_a_reservation_is_preempted_on_a_node_without_pods_if_budgets_exist() -> None:
    """The attempt once failed because the node had no pod to compare with the budgets."""
    scene = crowd("node-a", "node-b")
    scene.reservation("low", resources={"cpu": "4"}, priority=1, owner="db-0")
    scene.reservation("high", "node-b", resources={"cpu": "4"}, priority=11, owner="db-1")
    scene.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "db"}))

    assert victims(preempt(scene, high("2"))) == ("node-a", [], ["low"])


def test_a_reservation_of_equal_or_higher_priority_is_never_preempted() -> None:
    scene = crowd()
    put(scene, "low", "1")
    scene.reservation("equal", resources={"cpu": "1"}, priority=10, owner="db-0")
    scene.reservation("higher", resources={"cpu": "2"}, priority=11, owner="db-1")

    assert victims(preempt(scene, high("1"))) == ("node-a", ["low"], [])
    assert (
        preempt(scene, high("2")).message
        == f"preemption: {nodes_by_reason(1, {insufficient_beside(CPU): 1})}"
    )


def test_a_reservation_of_the_pod_itself_is_no_victim() -> None:
    scene = crowd()
    scene.reservation("mine", resources={"cpu": "2"}, owner="web-0")
    put(scene, "low", "2")
    assert victims(preempt(scene, high("3"))) == ("node-a", ["low"], [])


def test_reservations_are_no_victims_if_no_active_plugin_filters_by_them() -> None:
    scene = crowd()
    put(scene, "low", "3")
    scene.reservation("idle", resources={"cpu": "1"}, owner="db-0")
    assert victims(preempt(scene, high("2"), (NodeResourcesFit,))) == ("node-a", ["low"], [])


def test_capacity_of_a_nominated_pod_is_not_taken_by_pods_of_equal_priority() -> None:
    scene = crowd()
    put(scene, "low", "4")
    scene.cache.nominator.nominate(pod("first", requests={"cpu": "3"}, priority=10), "node-a")

    assert preempt(scene, high("2")).message == f"preemption: {nodes_by_reason(1, {insufficient(CPU): 1})}"
    assert victims(preempt(scene, high("1"))) == ("node-a", ["low"], [])
    above = pod("web-1", requests={"cpu": "2"}, priority=11)
    assert victims(preempt(scene, above)) == ("node-a", ["low"], [])


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"minCandidateNodesPercentage": "10"}, "Expected `int`, got `str`"),
        ({"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage is not in the range"),
        ({"minCandidateNodesPercentage": -1}, "minCandidateNodesPercentage is not in the range"),
        ({"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute is not in the range"),
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "are both 0"),
        ({"typo": 1}, "unknown args"),
    ],
)
def test_invalid_args_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^pluginConfig of DefaultPreemption: .*{problem}"):
        DefaultPreemption(Scene().handle, args)


def test_a_pod_that_no_filter_refused_gets_no_victims() -> None:
    """PreFilter has refused the pod."""
    scene = crowd()
    snapshot = Snapshot.of(scene.columns)
    nowhere = FilterResult(np.zeros(1, np.bool_), (), ())
    result = DefaultPreemption(scene.handle, {}).post_filter(CycleState(), high(), snapshot, nowhere)

    assert result.message == f"preemption: {nodes_by_reason(1, {PREEMPTION_NOT_HELPFUL: 1})}"
