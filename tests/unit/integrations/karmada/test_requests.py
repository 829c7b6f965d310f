"""Karmada's requests, as its versions encode them, and the pods that they are about."""

import pytest

from devcluster.karmada import (
    assumed,
    component,
    data,
    entries,
    number,
    quantities,
    replica,
    replicas_request,
    sets_request,
    unschedulable_request,
)
from tidelock.integrations.karmada.protobuf import FieldError
from tidelock.integrations.karmada.requests import (
    MOST_COMPONENTS,
    MOST_KINDS,
    read_replicas,
    read_sets,
    read_unschedulable,
)
from tidelock.model.selectors import Taint

AMOUNTS = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
UNITS = {"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 1, "pods": 1}


def requirement(key: str, operator: str, *values: str) -> bytes:
    return data(1, key) + data(2, operator) + b"".join(data(3, each) for each in values)


TERM = data(1, requirement("zone", "In", "a", "b")) + data(2, requirement("metadata.name", "In", "node-a"))
SELECTOR = data(1, TERM)
TOLERATION = data(1, "gpu") + data(2, "Exists") + data(4, "NoSchedule") + number(5, 30)
CLAIM = entries(2, {"disk": "ssd"}) + data(4, SELECTOR) + data(5, TOLERATION)
EARLIER_CLAIM = data(1, SELECTOR) + entries(2, {"disk": "ssd"}) + data(3, TOLERATION)


def test_the_bytes_that_go_encodes_for_half_a_core_are_read() -> None:
    """The Kubernetes encoding of a quantity is a message with the text as field 1."""
    requirements = data(5, b"\n\x03cpu\x12\x06\n\x04500m")
    assert read_replicas(replicas_request(requirements)).pod.requests == {"cpu": 500, "pods": 1}


@pytest.mark.parametrize("claim", [CLAIM, EARLIER_CLAIM, EARLIER_CLAIM + CLAIM])
def test_a_replica_becomes_a_pod_with_its_demands(claim: bytes) -> None:
    request = read_replicas(replicas_request(replica(AMOUNTS, claim, "shop") + data(4, "high")))
    pod, spec = request.pod, request.pod.spec
    assert (request.cluster, pod.meta.namespace) == ("member-1", "shop")
    assert pod.requests == UNITS
    assert pod.container_weights == (500, 2**30)
    assert spec.node_selector == {"disk": "ssd"}
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    required = spec.affinity.node_affinity.required
    assert required is not None
    assert required.matches("node-a", {"zone": "b"})
    assert not required.matches("node-a", {"zone": "c"})
    assert not required.matches("node-b", {"zone": "b"})
    (toleration,) = spec.tolerations
    assert toleration.tolerates(Taint("gpu", "NoSchedule"))
    assert not toleration.tolerates(Taint("gpu", "NoExecute"))


def test_versions_before_the_bytes_send_amounts_as_messages() -> None:
    request = read_replicas(replicas_request(quantities(2, {"cpu": "2"})))
    assert request.pod.requests == {"cpu": 2000, "pods": 1}


def test_a_request_without_demands_is_about_a_pod_without_requests() -> None:
    assert read_replicas(data(1, "member-1")).pod.requests == {"pods": 1}
    assert read_replicas(replicas_request(data(5, data(1, "cpu")))).pod.requests == {"cpu": 0, "pods": 1}
    assert read_replicas(replicas_request(replica({"pods": "3"}))).pod.requests == {"pods": 3}


def test_a_selector_without_terms_matches_no_node() -> None:
    affinity = read_replicas(replicas_request(replica({}, data(1, b"")))).pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    assert not affinity.node_affinity.required.matches("node-a", {})


def test_components_and_assumed_workloads_are_read() -> None:
    workloads = [
        assumed(component("web", 2, {"cpu": "1"}), component("db", 1, {"cpu": "2"})),
        assumed(component("api", 3, {"cpu": "1"}), component("none", 0, {"cpu": "4"})),
    ]
    request = read_sets(sets_request([component("web", 2, AMOUNTS, CLAIM)], *workloads))
    assert request.cluster == "member-1"
    (web,) = request.components
    assert (web.count, web.pod.requests, web.pod.meta.namespace) == (2, UNITS, "shop")
    assert web.pod.spec.node_selector == {"disk": "ssd"}
    assert [(each.count, each.pod.requests["cpu"]) for each in request.assumed] == [(5, 1000), (1, 2000)]
    alone = read_replicas(replicas_request(replica({"cpu": "1"}), *workloads))
    assert [each.count for each in alone.assumed] == [5, 1]


def test_the_threshold_of_unschedulable_replicas_is_in_nanoseconds() -> None:
    request = read_unschedulable(unschedulable_request("Deployment", "shop", "web", 90))
    assert (request.kind, request.namespace, request.name) == ("Deployment", "shop", "web")
    assert (request.api_version, request.seconds) == ("apps/v1", 90.0)
    assert read_unschedulable(unschedulable_request("Deployment", "shop", "web", -1)).seconds == 0.0


@pytest.mark.parametrize(
    ("requirements", "problem"),
    [
        (
            quantities(5, {"cpu": "lots"}),
            "replicaRequirements.resourceRequest: cpu: 'lots' is not a quantity such as 2, 500m or 4Gi",
        ),
        (quantities(5, {"cpu": "-1"}), "replicaRequirements.resourceRequest: cpu: -1 is negative"),
        (
            entries(5, {"cpu": b"\xff"}),
            "replicaRequirements.resourceRequestBytes[cpu].value: a number ends early or is too long",
        ),
        (data(5, data(1, b"\xff")), "replicaRequirements.resourceRequestBytes[0].key: is not UTF-8"),
        (
            data(1, data(4, b"\x0a\x7f")),
            "replicaRequirements.nodeClaim.nodeAffinityBytes: field 1 ends early",
        ),
        (
            data(1, data(4, data(1, data(1, data(2, b"\xff"))))),
            "replicaRequirements.nodeClaim.nodeAffinityBytes.nodeSelectorTerms[0].matchExpressions[0].operator:",
        ),
        (data(1, data(5, b"\x00")), "replicaRequirements.nodeClaim.tolerationsBytes[0]: a field without"),
        (
            data(1, data(5, TOLERATION) * 300),
            "replicaRequirements: spec.tolerations: 300, at most 256 are supported",
        ),
        (
            quantities(5, {f"example.org/{count}": "1" for count in range(65)}),
            "replicaRequirements: resources that its containers request: 66, at most 64 are supported",
        ),
    ],
)
def test_an_unreadable_replica_is_refused_by_its_field(requirements: bytes, problem: str) -> None:
    with pytest.raises(FieldError) as caught:
        read_replicas(replicas_request(requirements))
    assert str(caught.value).startswith(problem)


def test_an_unreadable_component_is_refused_by_its_field() -> None:
    with pytest.raises(FieldError, match=r"^components\[1\]\.replicas: -2 is not between"):
        read_sets(sets_request([component("a", 1, {}), component("b", -2, {})]))
    with pytest.raises(FieldError, match=rf"^components: at most {MOST_COMPONENTS} are supported$"):
        read_sets(sets_request([component("a", 1, {})] * (MOST_COMPONENTS + 1)))
    with pytest.raises(
        FieldError, match=r"^assumedWorkloads\[0\]\.components\[0\]\.replicaRequirements\.res"
    ):
        read_sets(sets_request([], assumed(component("a", 1, {"cpu": "?"}))))
    with pytest.raises(FieldError, match=r"^resource: is required$"):
        read_unschedulable(data(1, "member-1"))


def test_as_many_kinds_of_assumed_replicas_are_read_as_are_supported() -> None:
    kinds = [component("a", 1, {"cpu": str(count)}) for count in range(1, MOST_KINDS + 2)]
    assert len(read_sets(sets_request([], assumed(*kinds[:-1]))).assumed) == MOST_KINDS
    with pytest.raises(FieldError, match=rf"^assumedWorkloads: at most {MOST_KINDS} different components"):
        read_sets(sets_request([], assumed(*kinds)))
