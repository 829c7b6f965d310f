"""Pods of PodGroups as victims. Scenarios as in the tests of kube-scheduler 1.37 (defaultpreemption)."""

from typing import Any

import pytest

from builders import NOW, budget, node, pod
from tidelock.model.instants import format_instant
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from unit.scheduler.machinery import Core
from unit.scheduler.pod_groups import deliver, grouping, member, pod_group

MODES = [("all", True), ("single", False), ("", False)]


def two_nodes() -> tuple[Node, Node]:
    return node("node-a", cpu="4"), node("node-b", cpu="4")


def group(core: Core, name: str, disruption: str = "all", priority: int = 0) -> None:
    """Deliver a PodGroup whose pods are bound one by one."""
    deliver(core, pod_group(name, None, disruption=disruption, priority=priority))


def put(core: Core, name: str, of: str, node_name: str = "node-a", cpu: str = "2", **fields: Any) -> None:
    """Deliver a bound pod, of a group if `of` names one."""
    fields = {"node_name": node_name, "requests": {"cpu": cpu}, **fields}
    core.add(member(name, of, **fields) if of else pod(name, **fields))


def preempt(core: Core, cpu: str = "4", priority: int = 10, **fields: Any) -> tuple[str, list[str]]:
    """Decide a pod of this priority. Return its node, and the names of its victims."""
    core.add(pod("urgent", requests={"cpu": cpu}, priority=priority, **fields))
    core.decide()
    (attempt,) = core.take_preemptions()
    return attempt.node_name, [each.meta.name for each in attempt.victims]


def with_port(cpu: str) -> list[dict[str, Any]]:
    """Return a container with a host port."""
    return [
        {
            "name": "main",
            "resources": {"requests": {"cpu": cpu}},
            "ports": [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize(("disruption", "together"), MODES)
def test_the_pods_of_a_group_go_together_if_its_mode_is_all(disruption: str, together: bool) -> None:
    core = grouping(*two_nodes())
    group(core, "train", disruption)
    put(core, "here", "train", "node-a", "4")
    put(core, "there", "train", "node-b", "1")
    put(core, "safe", "", "node-b", "3", priority=20)

    assert preempt(core) == ("node-a", ["here", "there"] if together else ["here"])


@pytest.mark.parametrize(("disruption", "together"), MODES)
def test_no_pod_of_a_group_is_spared_on_the_node_itself(disruption: str, together: bool) -> None:
    core = grouping(node("node-a", cpu="4"))
    group(core, "train", disruption)
    put(core, "first", "train")
    put(core, "second", "train")
    assert len(preempt(core, "2")[1]) == (2 if together else 1)


@pytest.mark.parametrize("disruption", ["all", "single"])
def test_a_single_pod_goes_before_a_group_of_equal_priority(disruption: str) -> None:
    core = grouping(node("node-a", cpu="4"))
    group(core, "train", disruption)
    put(core, "member", "train", status={"startTime": format_instant(NOW)})
    put(core, "older", "", status={"startTime": format_instant(NOW - 100)})
    assert preempt(core, "2") == ("node-a", ["older"])


@pytest.mark.parametrize(("of_group", "alone", "victim"), [(0, 5, "member"), (5, 0, "single")])
def test_the_lower_priority_goes_first(of_group: int, alone: int, victim: str) -> None:
    core = grouping(node("node-a", cpu="4"))
    group(core, "train", priority=of_group)
    put(core, "member", "train", priority=of_group)
    put(core, "single", "", priority=alone)
    assert preempt(core, "2") == ("node-a", [victim])


@pytest.mark.parametrize(("cpu", "victims"), [("2", ["young-0"]), ("4", ["old-0", "young-0"])])
def test_of_equal_groups_the_smaller_one_goes_and_then_the_younger_one(cpu: str, victims: list[str]) -> None:
    core = grouping(node("node-a", cpu="6"), node("node-b", cpu="1"))
    for name in ("large", "old", "young"):
        group(core, name)
    put(core, "large-0", "large", status={"startTime": format_instant(NOW)})
    put(core, "large-1", "large", "node-b", "1")
    put(core, "old-0", "old", status={"startTime": format_instant(NOW - 100)})
    put(core, "young-0", "young", status={"startTime": format_instant(NOW - 10)})
    assert preempt(core, cpu) == ("node-a", victims)


@pytest.mark.parametrize(("priority", "victims"), [(20, []), (5, ["member"])])
def test_a_pod_has_the_priority_of_its_group(priority: int, victims: list[str]) -> None:
    core = grouping(node("node-a", cpu="2"))
    group(core, "train", priority=priority)
    put(core, "member", "train", priority=10 if victims else 0)
    assert preempt(core, "2")[1] == victims


@pytest.mark.parametrize("disruption", ["all", "single"])
def test_a_group_that_a_budget_protects_goes_last(disruption: str) -> None:
    core = grouping(node("node-a", cpu="4"))
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "a"}))
    group(core, "protected", disruption)
    group(core, "more-important", disruption, priority=5)
    put(core, "low", "protected", labels={"app": "a"})
    put(core, "middle", "more-important", priority=5)
    assert preempt(core, "2") == ("node-a", ["middle"])


@pytest.mark.parametrize(("disruption", "node_name"), [("all", "node-b"), ("single", "node-a")])
def test_budgets_count_the_pods_on_other_nodes(disruption: str, node_name: str) -> None:
    core = grouping(*two_nodes(), node("node-c", cpu="4"))
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(allowed=1, labels={"app": "a"}))
    group(core, "train", disruption)
    put(core, "here", "train", "node-a", "4", labels={"app": "a"})
    put(core, "far", "train", "node-c", "1", labels={"app": "a"})
    put(core, "safe", "", "node-c", "3", priority=20)
    put(core, "single", "", "node-b", "4", priority=5)
    assert preempt(core)[0] == node_name


@pytest.mark.parametrize(("disruption", "node_name"), [("all", "node-b"), ("single", "node-a")])
def test_every_pod_that_violates_a_budget_counts(disruption: str, node_name: str) -> None:
    core = grouping(*two_nodes(), node("node-c", cpu="1"))
    core.decider.objects.pod_disruption_budgets.upsert(None, budget(labels={"app": "a"}))
    group(core, "train", disruption)
    put(core, "here", "train", "node-a", "4", labels={"app": "a"})
    put(core, "far", "train", "node-c", "1", labels={"app": "a"})
    put(core, "single", "", "node-b", "4", priority=5, labels={"app": "a"})
    assert preempt(core)[0] == node_name


@pytest.mark.parametrize(("disruption", "node_name"), [("all", "node-b"), ("single", "node-a")])
def test_the_node_is_chosen_by_all_pods_that_go(disruption: str, node_name: str) -> None:
    core = grouping(*two_nodes(), node("node-c", cpu="4"))
    group(core, "train", disruption)
    put(core, "here", "train", "node-a", "4")
    for number in range(2):
        put(core, f"far-{number}", "train", "node-c", "500m")
        put(core, f"single-{number}", "", "node-b")
    put(core, "safe", "", "node-c", "3", priority=20)
    assert preempt(core)[0] == node_name


@pytest.mark.parametrize(("label", "victims"), [("noisy", ["here", "there"]), ("quiet", [])])
@pytest.mark.parametrize("node_name", ["node-a", "node-b"])
def test_a_pod_on_another_node_is_noticed_by_filters_that_look_there(
    label: str, victims: list[str], node_name: str
) -> None:
    core = grouping(*(node(f"node-{name}", labels={"zone": "a", "name": f"node-{name}"}) for name in "ab"))
    group(core, "train")
    put(core, "here", "train", "node-a", "1")
    put(core, "there", "train", "node-b", "1", labels={"app": "noisy"})
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    core.add(
        pod(
            "urgent",
            priority=10,
            affinity=affinity,
            nodeSelector={"name": node_name},
        )
    )
    core.decide()
    attempts = core.take_preemptions()
    assert [each.meta.name for attempt in attempts for each in attempt.victims] == victims


def test_filters_of_one_node_do_not_notice_pods_on_others() -> None:
    core = grouping(*two_nodes())
    group(core, "train")
    for name in ("a", "b"):
        put(core, f"member-{name}", "train", f"node-{name}", "1", containers=with_port("1"))
        put(core, f"own-{name}", "", f"node-{name}", "3", priority=20)
    node_name, victims = preempt(core, "1", containers=with_port("1"))
    assert node_name in ("node-a", "node-b")
    assert victims == ["member-a", "member-b"]


def test_pods_that_are_going_already_are_not_evicted_again() -> None:
    core = grouping(*two_nodes())
    group(core, "train")
    put(core, "here", "train", "node-a", "4")
    put(core, "there", "train", "node-b", "4", deleted=True)
    core.add(pod("blocker", node_name="node-b", requests={"cpu": "0"}, priority=20))
    assert "there" not in preempt(core)[1]


def test_a_gang_evicts_a_group_once() -> None:
    core = grouping(*two_nodes())
    group(core, "victims")
    put(core, "here", "victims", "node-a", "4")
    put(core, "there", "victims", "node-b", "4")
    deliver(core, pod_group("train", 2, priority=10))
    core.add(*(member(f"train-{each}", requests={"cpu": "4"}, priority=10) for each in range(2)))
    core.decide()
    evicted = [each.meta.name for attempt in core.take_preemptions() for each in attempt.victims]
    assert sorted(evicted) == ["here", "there"]
    assert {core.cache.nominator.node_of(f"uid-train-{each}") for each in range(2)} == {"node-a", "node-b"}


@pytest.mark.parametrize(("priority", "victims"), [(10, []), (9, ["here", "there"])])
def test_a_group_with_a_pod_in_a_reservation_is_as_safe_as_that(priority: int, victims: list[str]) -> None:
    core = grouping(*two_nodes())
    group(core, "train")
    resources = {"cpu": "4"}
    core.reservation(nodeName="node-b", resources=resources, owner="there", priority=priority, reuse="Always")
    core.step()
    core.add(member("there", "train", requests=resources))
    core.decide()
    put(core, "here", "train", "node-a", "4")
    assert preempt(core)[1] == victims


def test_without_gang_scheduling_the_mode_has_no_effect() -> None:
    core = Core(*two_nodes())
    here: Pod = member("here", node_name="node-a", requests={"cpu": "4"})
    core.add(here, member("there", node_name="node-b", requests={"cpu": "4"}, priority=20))
    assert preempt(core) == ("node-a", ["here"])
