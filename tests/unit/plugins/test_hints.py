"""The pods, nodes and namespaces that wake pods which the plugins for ports and neighbours refused.

Most cases are those of kube-scheduler's own tests.
"""

from typing import Any

import msgspec
import pytest

from builders import Json, encode, node, pod
from tidelock.framework.api import Plugin
from tidelock.model.namespaces import Namespace
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.node_ports import NodePorts
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from unit.plugins.hinting import change_wakes
from unit.plugins.scene import Scene


def exists(label: str) -> Json:
    return {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def among(label: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]}


def spread(*topology: str, **fields: Any) -> Json:
    """Build constraints over these keys, by the labels `foo` and `bar` in turn."""
    selectors = [exists("foo"), exists("bar")]
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": by,
                **fields,
            }
            for key, by in zip(topology, selectors, strict=False)
        ]
    }


def terms(*selectors: Json, key: str = "region", **fields: Any) -> list[Json]:
    return [{"topologyKey": key, "labelSelector": each, **fields} for each in selectors]


def near(*selectors: Json, **fields: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms(*selectors, **fields)}
    return {"affinity": {"podAffinity": required}}


def far(*selectors: Json, **fields: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms(*selectors, **fields)}
    return {"affinity": {"podAntiAffinity": required}}


def other(*labels: str, **fields: Any) -> Pod:
    """Build a bound pod. A label without a value has an empty one."""
    pairs = (label.partition("=") for label in labels)
    return pod("other", labels={key: value for key, _, value in pairs}, node_name="node-a", **fields)


def on(**labels: str) -> Any:
    return node(labels=labels)


def port(number: int) -> Json:
    return {"containers": [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (other(**port(80)), None, True),
        (other(**port(81)), None, False),
        (other(), None, False),
        (None, other(), False),
        (None, node(), True),
    ],
)
def test_a_pod_waits_for_its_host_ports(old: Any, new: Any, helps: bool) -> None:
    assert change_wakes(NodePorts, pod("web-0", **port(80)), old, new) is helps


ONE, TWO = spread("zone"), spread("zone", "node")


@pytest.mark.parametrize(
    ("wants", "old", "new", "helps"),
    [
        (ONE, None, other("foo"), True),
        (ONE, None, other("foo", namespace="elsewhere"), False),
        (ONE, None, other("bar"), False),
        (ONE, None, other("foo", deleted=True), False),
        (ONE, other("foo"), None, True),
        (ONE, other("foo", namespace="elsewhere"), None, False),
        (ONE, other("bar"), None, False),
        (ONE, other("foo"), other("foo", deleted=True), True),
        (ONE, other("bar"), other("bar", deleted=True), False),
        (ONE, other("foo", deleted=True), None, False),
        (ONE, other("foo", "bar=1"), other("foo", "bar=2"), False),
        (ONE, other(), other("foo"), True),
        (ONE, other("foo"), other(), True),
        (ONE, other("foo=1"), other("foo=2"), False),
        (TWO, other("foo"), other("foo", "bar=2"), True),
        (TWO, other("foo"), other("foo", "baz"), False),
        (TWO, other("foo", "bar"), other("foo", "bar=2"), False),
        ({}, None, other("foo"), False),
    ],
)
def test_a_pod_with_constraints_waits_for_changes_of_the_pods_that_count(
    wants: Json, old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(PodTopologySpread, pod("web-0", labels={"foo": ""}, **wants), old, new) is helps


TOLERATING: Json = {"tolerations": [{"operator": "Exists"}]}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        ({}, TOLERATING, False),
        ({"nodeTaintsPolicy": "Honor"}, TOLERATING | {"nodeTaintsPolicy": "Honor"}, True),
        ({"nodeTaintsPolicy": "Ignore"}, TOLERATING | {"nodeTaintsPolicy": "Ignore"}, False),
        ({}, {"labels": {"foo": ""}}, True),
        ({"labels": {"bar": ""}}, {"labels": {"bar": "2"}}, False),
        ({}, {"labels": {"unrelated": ""}}, False),
        (
            {"labels": {"rev": "1"}, "matchLabelKeys": ["rev"]},
            {"labels": {"rev": "2"}, "matchLabelKeys": ["rev"]},
            True,
        ),
    ],
)
def test_a_pod_with_constraints_waits_for_labels_and_tolerations_of_its_own(
    old: Json, new: Json, helps: bool
) -> None:
    policies = ("nodeTaintsPolicy", "matchLabelKeys")

    def made(fields: Json) -> Pod:
        constraints = {key: value for key, value in fields.items() if key in policies}
        rest = {key: value for key, value in fields.items() if key not in policies}
        return pod("web-0", **spread("zone", "node", **constraints), **rest)

    assert change_wakes(PodTopologySpread, made(new), made(old), made(new)) is helps


@pytest.mark.parametrize(
    ("wants", "old", "new", "helps"),
    [
        (ONE, on(zone="a"), on(zone="b"), True),
        (ONE, on(foo="1"), on(foo="2"), False),
        (TWO, on(zone="a", node="1", foo=""), on(zone="a", node="1"), False),
        (ONE, None, on(foo=""), False),
        (ONE, None, on(zone="a"), True),
        (ONE, on(foo=""), None, False),
        (ONE, on(zone="a"), None, True),
        (TWO, None, on(zone="a"), False),
        (TWO, None, on(zone="a", node="1"), True),
        (TWO, on(zone="a"), on(zone="b"), False),
        (TWO, on(zone="a", node="1"), on(zone="a", node="2"), True),
        (TWO, on(zone="a", node="1"), on(zone="a"), True),
        (ONE, node(labels={"zone": "a"}, taints=["a=b:NoSchedule"]), on(zone="a"), True),
        (TWO, node(labels={"zone": "a"}, taints=["a=b:NoSchedule"]), on(zone="a"), False),
        (ONE | {"nodeSelector": {"disk": "ssd"}}, on(zone="a", disk="ssd"), on(zone="a"), True),
        (ONE | {"nodeSelector": {"disk": "ssd"}}, on(zone="a", disk="hdd"), on(zone="a"), False),
        (
            spread("zone", nodeAffinityPolicy="Ignore") | {"nodeSelector": {"disk": "ssd"}},
            on(zone="a", disk="ssd"),
            on(zone="a"),
            False,
        ),
    ],
)
def test_a_pod_with_constraints_waits_for_changes_of_domains(
    wants: Json, old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(PodTopologySpread, pod("web-0", **wants), old, new) is helps


SCAN = among("service", "scan", "value2")
BOTH = (exists("aaa"), exists("bbb"))
SCAN_OR_WEB = (among("service", "scan"), among("app", "web"))


@pytest.mark.parametrize(
    ("wants", "old", "new", "helps"),
    [
        (near(SCAN), None, other("service=scan"), True),
        (near(SCAN), None, other("aaa=a"), False),
        (near(SCAN), None, other("service=scan", namespace="elsewhere"), False),
        (near(SCAN), other("aaa=a"), other("service=scan"), True),
        (near(SCAN), other("service=value2"), other("service=scan"), False),
        (near(SCAN), other("service=scan"), other("aaa=a"), False),
        (near(SCAN), other("service=scan"), None, False),
        (near(*BOTH), other("aaa=a"), other("service=scan"), False),
        (near(*BOTH), other("aaa=a"), other("aaa", "bbb"), True),
        (near(*BOTH), None, other("aaa"), False),
        (far(SCAN), other("service=scan"), other("service=aaaa"), True),
        (far(SCAN), other("service=bbb"), other("service=scan"), False),
        (far(SCAN), other("aaa=a"), None, False),
        (far(SCAN), other("service=scan"), None, True),
        (far(SCAN), None, other("service=scan"), False),
        ({"labels": {"service": "scan"}}, other(**far(SCAN)), None, True),
        ({"labels": {"service": "foo"}}, other(**far(SCAN)), None, False),
        ({"labels": {"service": "scan"}}, None, other(**far(SCAN)), False),
        (far(SCAN) | {"labels": {"service": "foo"}}, other("service=foo", **far(SCAN)), None, False),
        (far(*SCAN_OR_WEB), other("service=scan", "app=bar"), other("service=foo", "app=bar"), True),
        (far(*SCAN_OR_WEB), other("service=scan", "app=bar"), other("service=foo", "app=web"), False),
        (far(*SCAN_OR_WEB), other("service=scan"), None, True),
        ({"labels": {"service": "scan"}}, other(**far(*SCAN_OR_WEB)), None, True),
        ({"labels": {"service": "scan"}}, other(), None, False),
    ],
)
def test_a_pod_with_affinity_waits_for_changes_of_the_pods_that_its_terms_or_theirs_select(
    wants: Json, old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(InterPodAffinity, pod("web-0", **wants), old, new) is helps


@pytest.mark.parametrize(("left", "helps"), [(0, True), (1, False)])
def test_the_next_first_of_a_series_waits_for_the_end_of_the_last_pod_like_it(left: int, helps: bool) -> None:
    """Check that a pod is woken which could not be the first of a series because of a pod on another node."""
    scene = Scene(node(labels={"region": "north"}))
    for index in range(left):
        scene.cache.assume(pod(f"left-{index}", labels={"service": "scan"}), "node-a")
    refused = pod("web-0", labels={"service": "scan"}, **near(SCAN))

    assert change_wakes(InterPodAffinity, refused, other("service=scan"), None, scene) is helps
    assert change_wakes(InterPodAffinity, refused, other("service=scan"), other("aaa"), scene) is helps


@pytest.mark.parametrize(("kind", "helps"), [(InterPodAffinity, True), (PodTopologySpread, False)])
def test_new_labels_of_the_pod_itself_can_please_others(kind: type[Plugin], helps: bool) -> None:
    assert change_wakes(kind, pod(labels={"foo": "baz"}), pod(), pod(labels={"foo": "baz"})) is helps
    assert not change_wakes(InterPodAffinity, pod(annotations={"a": "b"}), pod(), pod(annotations={"a": "b"}))


ZONED = {"key": "zone"}


@pytest.mark.parametrize(
    ("wants", "old", "new", "helps"),
    [
        (near(SCAN, **ZONED), None, on(zone="1"), True),
        (near(SCAN), None, on(zone="1"), False),
        (near(SCAN, **ZONED), on(aaa="a"), on(aaa="b"), False),
        (near(SCAN, **ZONED), on(zone="1"), on(zone="1", unrelated=""), False),
        (near(SCAN, **ZONED), on(zone="1"), on(zone="2"), True),
        (near(SCAN, **ZONED), on(aaa="a"), on(zone="1"), True),
        (near(SCAN, **ZONED), on(zone="1"), on(aaa="a"), False),
        (far(SCAN, **ZONED), None, on(zone="1"), True),
        (far(SCAN, **ZONED), None, on(), True),
        (far(SCAN, **ZONED), on(zone="1"), on(zone="1", unrelated=""), False),
        (far(SCAN, **ZONED), on(zone="1"), on(zone="2"), True),
        (far(SCAN, **ZONED), on(aaa="a"), on(zone="1"), False),
        (far(SCAN, **ZONED), on(zone="1"), on(aaa="a"), True),
        ({}, None, on(), True),
        ({}, on(zone="1"), on(zone="2"), False),
    ],
)
def test_a_pod_with_affinity_waits_for_changes_of_its_domains(
    wants: Json, old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(InterPodAffinity, pod("web-0", **wants), old, new) is helps


def test_a_pod_that_others_shun_waits_for_a_node_that_leaves_their_domain() -> None:
    scene = Scene(on(zone="2"))
    scene.cache.assume(pod("shunning", **far(SCAN, **ZONED)), "node-a")
    refused = pod("web-0", labels={"service": "scan"})

    assert change_wakes(InterPodAffinity, refused, on(zone="1"), on(zone="2"), scene)
    assert not change_wakes(InterPodAffinity, refused, on(region="1"), on(region="2"), scene)
    scene.cache.remove("uid-shunning")
    assert not change_wakes(InterPodAffinity, refused, on(zone="1"), on(zone="2"), scene)


def namespace(name: str, **labels: str) -> Namespace:
    return msgspec.json.decode(encode({"metadata": {"name": name, "labels": labels}}), type=Namespace)


TEAM = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize(
    ("wants", "old", "new", "helps"),
    [
        (near(SCAN, **TEAM), None, namespace("bank", team="x"), True),
        (near(SCAN, **TEAM), None, namespace("bank", team="y"), False),
        (near(SCAN, **TEAM), namespace("bank"), namespace("bank", team="x"), True),
        (far(SCAN, **TEAM), namespace("bank", team="x"), namespace("bank"), True),
        (near(SCAN, **TEAM), namespace("bank", team="x"), namespace("bank", team="x", a="b"), False),
        (near(SCAN, namespaceSelector={}), None, namespace("bank", team="x"), False),
        (near(SCAN), None, namespace("bank", team="x"), False),
        ({}, namespace("shop"), namespace("shop", team="x"), True),
        ({}, namespace("shop", team="x"), namespace("shop", team="x"), False),
        ({}, None, namespace("bank", team="x"), False),
    ],
)
def test_a_pod_with_affinity_waits_for_other_labels_of_namespaces_that_are_selected(
    wants: Json, old: Any, new: Any, helps: bool
) -> None:
    assert change_wakes(InterPodAffinity, pod("web-0", **wants), old, new) is helps
