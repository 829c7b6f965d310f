from collections import Counter

import msgspec
import pytest

from bench.audit import of_pods, overcommitted
from bench.scenarios import (
    Scenario,
    Sizes,
    anti_affinity_faults,
    anti_affinity_pod,
    gated_pod,
    mixed_node,
    node_affinity_faults,
    node_affinity_pod,
    node_name,
    pod_object,
    scenarios,
    spread_faults,
)
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.registry import REGISTRY

_SIZES = Sizes(drain_nodes=[40, 80], pods=100, gated=30, reservations=20, placed=10, open_loop_seconds=2)
_ALL = scenarios(_SIZES)


def _pod(scenario: Scenario, number: int) -> Pod:
    body = pod_object("pod", "mine", scenario.pod(number))
    return decode_pod(msgspec.json.encode(body))


def _named(name: str) -> Scenario:
    (scenario,) = [scenario for scenario in _ALL if scenario.name == name]
    return scenario


def test_every_node_count_has_a_drain_and_other_scenarios_use_the_first() -> None:
    assert [scenario.nodes for scenario in _ALL if scenario.name == "drain"] == [40, 80]
    assert {scenario.nodes for scenario in _ALL if scenario.name != "drain"} == {40}


def test_titles_of_scenarios_are_distinct() -> None:
    titles = [scenario.title for scenario in _ALL]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("scenario", _ALL, ids=lambda scenario: scenario.title)
def test_objects_are_the_same_each_time_and_can_be_read(scenario: Scenario) -> None:
    for number in range(5):
        assert scenario.node(number) == scenario.node(number)
        node = decode_node(msgspec.json.encode(scenario.node(number)))
        assert (node.name, node.ready) == (node_name(number), True)
        assert _pod(scenario, number).spec.scheduler_name == "mine"
        assert scenario.pod(number) == scenario.pod(number)


@pytest.mark.parametrize("scenario", _ALL, ids=lambda scenario: scenario.title)
def test_placed_pods_fit_on_their_nodes(scenario: Scenario) -> None:
    nodes = [scenario.node(number) for number in range(scenario.nodes)]
    placed = [{"spec": {**shape["spec"], "nodeName": node_name(node)}} for node, shape in scenario.placed]
    assert overcommitted(nodes, of_pods(placed), "taken") == []


def test_open_loops_have_enough_pods_for_their_time() -> None:
    assert [(s.rate, s.pods) for s in _ALL if s.rate is not None] == [(50, 100), (100, 200), (200, 400)]


def test_full_nodes_have_no_capacity_for_the_preempting_pod() -> None:
    scenario = _named("preemption")
    shapes = [*(shape for node, shape in scenario.placed if node == 0), scenario.pod(0)]
    pods = [{"spec": {**shape["spec"], "nodeName": node_name(0)}} for shape in shapes]
    assert overcommitted([scenario.node(0)], of_pods(pods), "taken") == [
        "node-00000 has 20000 cpu taken and 16000 allocatable"
    ]


def test_no_group_of_pods_with_anti_affinity_has_more_members_than_nodes() -> None:
    groups = Counter(anti_affinity_pod(number, group_size=20)["labels"]["group"] for number in range(100))
    assert set(groups.values()) == {20}


def test_gated_pods_have_a_gate() -> None:
    pod = decode_pod(msgspec.json.encode(pod_object("pod", "mine", gated_pod(0))))
    assert len(pod.spec.scheduling_gates) == 1


def test_missing_plugins_are_named() -> None:
    assert _named("spread").missing({"NodeResourcesFit"}) == ["PodTopologySpread"]
    assert _named("spread").missing({"PodTopologySpread"}) == []
    assert _named("gated").missing(REGISTRY) == []


def test_zones_may_differ_by_one_pod() -> None:
    assert spread_faults({0: 0, 1: 1, 2: 2, 3: 3}) == []
    assert spread_faults({0: 0, 1: 1, 2: 2, 3: 3, 4: 6}) == ["zone-0 has 3 pods, another 1"]
    assert spread_faults({0: 1, 1: 1}) == ["zone-1 has 2 pods, another 0"]


def test_pods_with_anti_affinity_share_a_host_with_other_groups_only() -> None:
    assert anti_affinity_faults({0: 5, 1: 6, 2: 5}, group_size=2) == []
    assert anti_affinity_faults({0: 5, 1: 5}, group_size=2) == ["node-00005 has 2 pods of group-0"]


def test_every_pod_with_node_affinity_has_nodes_to_choose_from() -> None:
    choices = [[node for node in range(12) if not node_affinity_faults({pod: node})] for pod in range(6)]
    assert [len(nodes) for nodes in choices] == [4, 8, 4, 8, 4, 8]


def test_violations_of_node_affinity_are_found() -> None:
    assert node_affinity_faults({0: 2, 1: 3}) == []
    assert node_affinity_faults({0: 1}) == ["pod 0 is on node-00001"]  # dedicated
    assert node_affinity_faults({1: 4}) == ["pod 1 is on node-00004"]  # the zone that it excludes


def test_check_of_node_affinity_agrees_with_the_affinity_itself() -> None:
    nodes = [decode_node(msgspec.json.encode(mixed_node(number))) for number in range(12)]
    for number in range(6):
        affinity = decode_pod(
            msgspec.json.encode(pod_object("pod", "mine", node_affinity_pod(number)))
        ).spec.affinity
        assert affinity is not None
        assert affinity.node_affinity is not None
        required = affinity.node_affinity.required
        assert required is not None
        for place, node in enumerate(nodes):
            allowed = required.matches(node.name, node.meta.labels) and (number % 2 == 1 or not node.taints)
            assert allowed == (node_affinity_faults({number: place}) == [])
