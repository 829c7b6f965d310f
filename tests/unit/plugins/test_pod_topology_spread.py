from typing import Any

import msgspec
import pytest

from builders import node, pod
from tidelock.framework.api import Code, Plugin
from tidelock.model.pods import Pod
from tidelock.model.workloads import Service, Workload
from tidelock.plugins.pod_topology_spread.plugin import SPREAD_MISMATCH, SPREAD_NO_LABEL, PodTopologySpread
from unit.plugins.scene import Judgement, Scene

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def scene(*homes: str, **fields: Any) -> Scene:
    """Return two nodes in zone a, one in zone b and one without a zone, with a pod of app web per home."""
    zones = {"a-1": "a", "a-2": "a", "b-1": "b", "far": None}
    there = [
        node(name, labels={HOSTNAME: name} | ({ZONE: zone} if zone else {})) for name, zone in zones.items()
    ]
    small = Scene(*there)
    for index, home in enumerate(homes):
        small.cache.upsert(pod(f"other-{index}", node_name=home, labels={"app": "web"}, **fields))
    return small


def spreading(*keys: str, action: str = "DoNotSchedule", **constraint: Any) -> Pod:
    constraints = [
        {"maxSkew": 1, "whenUnsatisfiable": action, "labelSelector": WEB, "topologyKey": key} | constraint
        for key in keys
    ]
    return pod(labels={"app": "web", "version": "2"}, topologySpreadConstraints=constraints)


def judge(small: Scene, wanting: Pod, **args: Any) -> Judgement:
    return small.judge(PodTopologySpread, wanting, **args)


def test_a_domain_with_too_many_pods_is_ruled_out() -> None:
    judgement = judge(scene("a-1"), spreading(ZONE))

    assert judgement.fitting == {"b-1"}
    assert judgement.reasons("a-2") == (SPREAD_MISMATCH,)
    assert judgement.preemption_may_help("a-2")


def test_evictions_do_not_help_on_a_node_without_the_topology_label() -> None:
    judgement = judge(scene(), spreading(ZONE))

    assert judgement.fitting == {"a-1", "a-2", "b-1"}
    assert judgement.reasons("far") == (SPREAD_NO_LABEL,)
    assert not judgement.preemption_may_help("far")


def test_a_node_must_satisfy_all_constraints() -> None:
    assert judge(scene("a-1", "b-1"), spreading(ZONE, HOSTNAME)).fitting == {"a-2"}


@pytest.mark.parametrize("skew", [2, 3])
def test_a_larger_skew_allows_more_domains(skew: int) -> None:
    assert judge(scene("a-1"), spreading(ZONE, maxSkew=skew)).fitting == {"a-1", "a-2", "b-1"}


def test_fewer_domains_than_min_domains_count_as_an_empty_domain() -> None:
    assert judge(scene("a-1", "b-1"), spreading(ZONE, minDomains=2)).fitting == {"a-1", "a-2", "b-1"}
    assert judge(scene("a-1", "b-1"), spreading(ZONE, minDomains=3)).fitting == set()


def test_terminating_pods_and_pods_of_other_namespaces_do_not_count() -> None:
    assert judge(scene("a-1", deleted=True), spreading(ZONE)).fitting == {"a-1", "a-2", "b-1"}
    assert judge(scene("a-1", namespace="bank"), spreading(ZONE)).fitting == {"a-1", "a-2", "b-1"}


def test_match_label_keys_take_the_pods_own_values() -> None:
    """The placed pods have another version, so this pod is the first of its version."""
    wanting = spreading(ZONE, matchLabelKeys=["version", "absent"])
    assert judge(scene("a-1"), wanting).fitting == {"a-1", "a-2", "b-1"}


def test_a_pod_without_required_constraints_is_skipped() -> None:
    for wanting in (pod(), spreading(ZONE, action="ScheduleAnyway")):
        assert judge(scene("a-1"), wanting).status.code is Code.SKIP


def test_emptier_zones_score_higher_and_nodes_without_a_zone_are_not_scored() -> None:
    scores = judge(scene("a-1", "a-2", "b-1"), spreading(ZONE, action="ScheduleAnyway")).scores
    assert scores == {"a-1": 33, "a-2": 33, "b-1": 100, "far": 0}


def test_without_pods_all_nodes_score_alike() -> None:
    scores = judge(scene(), spreading(HOSTNAME, action="ScheduleAnyway")).scores
    assert set(scores.values()) == {100}


def owned(kind: str) -> Pod:
    return pod(labels={"app": "web"}, controller=f"{kind}/web")


def add(small: Scene, resource: str, selector: Any, kind: type[Any]) -> None:
    plain = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": selector}}
    getattr(small.objects, resource).upsert(None, msgspec.convert(plain, kind))


@pytest.mark.parametrize(
    ("resource", "selector", "kind", "wanting"),
    [
        ("services", {"app": "web"}, Service, pod(labels={"app": "web"})),
        ("replication_controllers", {"app": "web"}, Service, owned("v1/ReplicationController")),
        ("replica_sets", WEB, Workload, owned("apps/v1/ReplicaSet")),
        ("stateful_sets", WEB, Workload, owned("apps/v1/StatefulSet")),
    ],
)
def test_by_default_pods_of_one_service_or_controller_are_spread(
    resource: str, selector: Any, kind: type[Any], wanting: Pod
) -> None:
    """The sums are 2 for the host name and 4 for a zone, plus ln 6 on the pod's node and ln 5 in its zone."""
    small = scene("a-1")
    assert set(judge(small, wanting).scores.values()) == {0}

    add(small, resource, selector, kind)

    assert judge(small, wanting).scores == {"a-1": 22, "a-2": 33, "b-1": 55, "far": 100}


def test_a_controller_selector_beyond_the_limit_is_ignored() -> None:
    small = scene("a-1")
    for count, spread in ((512, True), (513, False)):
        expressions = [
            {"key": f"none-{number}", "operator": "DoesNotExist", "values": []} for number in range(count)
        ]
        add(small, "replica_sets", {"matchExpressions": expressions}, Workload)
        assert (set(judge(small, owned("apps/v1/ReplicaSet")).scores.values()) != {0}) is spread


def test_by_default_a_node_without_a_zone_shares_the_zone_without_a_name() -> None:
    """The sums are 2 + 4, 2 + 4 + ln 4 by the pod on the node without a zone, and 2 + ln 5 on that node."""
    zones = {"a": {ZONE: "a"}, "blank": {ZONE: ""}, "none": {}}
    small = Scene(*(node(name, labels={HOSTNAME: name} | zone) for name, zone in zones.items()))
    small.cache.upsert(pod("other", node_name="none", labels={"app": "web"}))
    add(small, "services", {"app": "web"}, Service)

    assert judge(small, pod(labels={"app": "web"})).scores == {"a": 71, "blank": 57, "none": 100}


@pytest.mark.parametrize(
    "wanting", [pod(labels={"app": "db"}), owned("batch/v1/Job"), owned("apps/v1/ReplicaSet")]
)
def test_a_pod_that_no_service_or_controller_selects_has_no_defaults(wanting: Pod) -> None:
    small = scene("a-1")
    add(small, "services", {"app": "shop"}, Service)
    add(small, "stateful_sets", WEB, Workload)
    assert set(judge(small, wanting).scores.values()) == {0}


def test_listed_default_constraints_replace_those_of_the_system() -> None:
    small = scene("a-1")
    add(small, "services", {"app": "web"}, Service)
    listed = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    wanting = pod(labels={"app": "web"})

    judgement = judge(small, wanting, defaultingType="List", defaultConstraints=listed)
    assert judgement.fitting == {"b-1"}
    assert judge(small, wanting, defaultingType="List").status.code is Code.SKIP


CONSTRAINT = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"defaultingType": "Some"}, "Invalid enum value 'Some'"),
        ({"defaultConstraints": [CONSTRAINT]}, "defaultConstraints need the defaultingType List"),
        ({"maxSkew": 0}, r"defaultConstraints\[0\].maxSkew must be greater than 0"),
        ({"topologyKey": ""}, r"defaultConstraints\[0\].topologyKey must be a valid label key"),
        ({"whenUnsatisfiable": "Never"}, r"defaultConstraints\[0\].whenUnsatisfiable must be"),
        ({"labelSelector": {}}, r"defaultConstraints\[0\].labelSelector must not be set"),
        (
            {"defaultingType": "List", "defaultConstraints": [CONSTRAINT, CONSTRAINT]},
            r"defaultConstraints\[1\] repeats an earlier one",
        ),
    ],
)
def test_invalid_args_are_refused(args: dict[str, Any], problem: str) -> None:
    if not {"defaultingType", "defaultConstraints"} & args.keys():
        args = {"defaultingType": "List", "defaultConstraints": [CONSTRAINT | args]}
    plugin: type[Plugin] = PodTopologySpread
    with pytest.raises(ValueError, match=f"^pluginConfig of PodTopologySpread: {problem}"):
        plugin(Scene().handle, args)
