"""Lenient decoding of objects of other authors: every readable part is read."""

import json
from typing import Any

import msgspec
import pytest

from builders import Json, encode, node_json, pod, pod_json, reservation
from tidelock.model.budgets import decode_budget
from tidelock.model.lenient import Reader, convert
from tidelock.model.meta import ObjectMeta, StoredObject
from tidelock.model.nodes import Image, Node, decode_node
from tidelock.model.pods import PodSpec, decode_pod
from tidelock.model.quotas import QuotaLimit, decode_resource_quota
from tidelock.model.reservation import decode_reservation
from tidelock.model.storage import (
    decode_capacity,
    decode_claim,
    decode_csi_node,
    decode_storage_class,
    decode_volume,
)
from tidelock.model.workloads import decode_service


def decoded_node(change: Json, name: str = "node-a") -> Node:
    """Decode a node with some of its top-level fields replaced."""
    return decode_node(encode(node_json(name) | change))


def status(**fields: Any) -> Json:
    """Build a node's status with some fields changed."""
    return {"status": node_json()["status"] | fields}


def test_a_node_with_an_untagged_image_is_read() -> None:
    """Guard against the loss of a node with an untagged image, which kubelets report as `names: null`."""
    node = decoded_node(
        status(images=[{"names": None, "sizeBytes": 1}, {"names": ["app"], "sizeBytes": 2}])
        | {"spec": {"unschedulable": True}}
    )

    assert node.images == (Image((), 1), Image(("app",), 2))
    assert node.unschedulable
    assert node.allocatable["cpu"] == 4000
    assert node.meta.faults == ()


def test_a_csi_node_without_drivers_is_read() -> None:
    """Guard against the loss of a CSINode without drivers, as its list of drivers is null."""
    assert decode_csi_node(encode({"metadata": {"name": "node-a"}, "spec": {"drivers": None}})).limits == {}


def test_null_is_empty_for_every_part() -> None:
    nulls = dict.fromkeys(("labels", "annotations", "ownerReferences", "managedFields", "deletionTimestamp"))
    assert decode_node(
        encode({"metadata": {"name": "node-a", **nulls}, "spec": None, "status": None})
    ) == decode_node(encode({"metadata": {"name": "node-a"}}))
    stripped = pod_json(
        tolerations=None, volumes=None, schedulingGates=None, nodeSelector=None, affinity=None
    )
    assert decode_pod(encode(stripped)) == decode_pod(encode(pod_json()))
    container = {"name": "main", "resources": None, "ports": None}
    assert pod(containers=[container]).requests == {"pods": 1}


@pytest.mark.parametrize("field", ["labels", "annotations", "ownerReferences", "managedFields"])
def test_null_in_a_reservation_is_empty(field: str) -> None:
    plain = json.loads(encode({"metadata": {"name": "lock", field: None}, "status": None, "spec": {}}))

    assert decode_reservation(encode(plain)).status == {}


def test_null_in_the_template_of_a_reservation_is_empty() -> None:
    """Check templates from programs that encode Go's types, which write null for an empty list."""
    spec = {"containers": [{"name": "main", "ports": None, "resources": {"requests": {"cpu": "2"}}}]}
    lock = reservation(resources=None, template={"spec": {**spec, "tolerations": None, "volumes": None}})

    assert lock.problem == ""
    assert lock.requests == {"cpu": 2000, "pods": 1}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (status(images="many"), "status.images"),
        (status(images=[{"names": ["app"], "sizeBytes": "large"}]), "status.images[0].sizeBytes"),
        (status(conditions=[{"type": "Ready"}]), "status.conditions[0]"),
        (status(declaredFeatures=[1]), "status.declaredFeatures[0]"),
        (status(capacity={"cpu": "many"}), "status.capacity.cpu"),
        (
            status(allocatable={"cpu": "4", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "two"}),
            "status.allocatable[nvidia.com/gpu]",
        ),
        ({"metadata": {"name": "node-a", "annotations": {"a": 1}}}, "metadata.annotations.a"),
        ({"metadata": {"name": "node-a", "creationTimestamp": "soon"}}, "metadata.creationTimestamp"),
    ],
)
def test_a_part_that_no_decision_needs_is_left_out(change: Json, path: str) -> None:
    node = decoded_node(change)

    assert [fault.path for fault in node.meta.faults] == [path]
    assert node.meta.unreadable == ""
    assert node.allocatable == {"cpu": 4000, "memory": 16 * 2**30, "pods": 110}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (status(allocatable={"cpu": "many", "memory": "16Gi"}), "status.allocatable.cpu"),
        (status(allocatable={"ephemeral-storage": "much"}), "status.allocatable[ephemeral-storage]"),
        (status(allocatable=[]), "status.allocatable"),
        ({"status": "fine"}, "status"),
        ({"spec": {"unschedulable": "yes"}}, "spec.unschedulable"),
        ({"spec": {"taints": [{"key": "a", "effect": 1}]}}, "spec.taints[0].effect"),
        ({"metadata": {"name": "node-a", "labels": {"zone": 1}}}, "metadata.labels.zone"),
    ],
)
def test_a_node_without_a_part_that_decisions_need_is_marked_as_unreadable(change: Json, path: str) -> None:
    node = decoded_node(change)

    assert node.name == "node-a"
    assert node.meta.unreadable.startswith(f"{path}: ")


def test_all_readable_requests_and_ports_of_a_bound_pod_count() -> None:
    containers = [
        {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "?"}}},
        {
            "name": "b",
            "resources": {"requests": {"cpu": "1"}},
            "ports": [{"hostPort": "http"}, {"hostPort": 80}],
        },
    ]
    read = decode_pod(encode(pod_json(node_name="node-a", containers=containers, tolerations=[5])))

    assert read.node_name == "node-a"
    assert read.requests == {"cpu": 2000, "pods": 1}
    assert [port.port for port in read.host_ports] == [80]
    assert [fault.path for fault in read.meta.faults if fault.needed] == [
        "spec.containers[0].resources.requests.memory",
        "spec.containers[1].ports[0].hostPort",
        "spec.tolerations[0]",
    ]


@pytest.mark.parametrize(
    ("amount", "units"), [("9223372036854775807", 2**53), ("1E", 2**53), ("-1E", -(2**63) + 1)]
)
def test_an_amount_beyond_64_bits_counts_as_the_largest(amount: str, units: int) -> None:
    """Guard against the loss of a pod that requests 1E cores, which the API server accepts.

    The amount in millicores has more than 64 bits.
    """
    read = pod(requests={"cpu": amount})

    assert read.meta.faults == ()
    assert read.requests["cpu"] == units


def test_an_object_with_an_unreadable_uid_is_identified_by_its_name() -> None:
    read = decode_pod(encode({"metadata": {"name": "web-0", "namespace": "shop", "uid": 7}}))

    assert read.uid == "shop/web-0"
    assert read.meta.unreadable


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"metadata": {}}', b'{"metadata": {"name": null}}', b"{"])
def test_an_object_without_a_name_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"Object missing required field|Expected `object`|Input data"):
        decode_pod(body)


def test_the_faults_of_one_object_are_bounded_and_needed_ones_come_first() -> None:
    plain = node_json() | {"spec": {"unschedulable": 1}} | status(images=[{"sizeBytes": "?"}] * 100)
    faults = decode_node(encode(plain)).meta.faults

    assert len(faults) == 16
    assert faults[0].path == "spec.unschedulable"


def test_the_conversion_of_plain_values_is_only_lenient_about_null() -> None:
    assert convert({"containers": None, "volumes": [None]}, PodSpec) == PodSpec()
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.priority`"):
        convert({"containers": None, "priority": "high"}, PodSpec)


# Conclusions from unreadable objects that plugins read.


def unreadable(plain: Json, field: str, value: object, decode: Any) -> Any:
    """Decode an object with an invalid field in its spec."""
    spec = plain.get("spec", {}) | {field: value}
    read = decode(encode({"metadata": {"name": "a", "namespace": "shop"}, **plain, "spec": spec}))
    assert read.meta.unreadable
    return read


def test_an_unreadable_budget_protects_every_pod() -> None:
    budget = unreadable({"status": {"disruptionsAllowed": 5}}, "selector", "all", decode_budget)

    assert budget.left == 0
    assert budget.selects(pod())
    assert budget.counts(pod())


def test_an_unreadable_volume_matches_no_claim() -> None:
    volume = unreadable(
        {"spec": {"capacity": {"storage": "1Gi"}}, "status": {"phase": "Available"}},
        "nodeAffinity",
        5,
        decode_volume,
    )
    claim = decode_claim(encode({"metadata": {"name": "data"}}))

    assert volume.affinity is None
    assert not volume.suits(claim)
    assert not volume.holds(claim)


def test_an_unreadable_storage_capacity_counts_as_none() -> None:
    plain = {"metadata": {"name": "a"}, "capacity": "1Ti", "nodeTopology": {"matchLabels": {"zone": 1}}}

    assert decode_capacity(encode(plain)).limit == -1
    assert decode_capacity(encode({"metadata": {"name": "a"}, "capacity": "much"})).limit == -1


def test_a_resource_quota_has_nothing_left_of_resources_with_unreadable_amounts() -> None:
    figures = {
        "hard": {"cpu": "4", "memory": "?", "pods": "9"},
        "used": {"cpu": "?", "memory": "1Gi", "pods": "1"},
    }

    assert decode_resource_quota(encode({"metadata": {"name": "a"}, "status": figures})).limits == (
        QuotaLimit("cpu", "cpu", 4000, 4000),
        QuotaLimit("memory", "memory", 0, 2**30),
        QuotaLimit("pods", "pods", 9, 1),
    )


def test_a_service_only_affects_scores_and_is_used_as_far_as_it_is_readable() -> None:
    service = decode_service(
        encode({"metadata": {"name": "a"}, "spec": {"selector": {"app": "web", "tier": 1}}})
    )

    assert service.spec.selector == {"app": "web"}
    assert service.meta.faults
    assert not service.meta.unreadable


def test_an_unreadable_storage_class_is_marked_as_unreadable() -> None:
    plain = {"metadata": {"name": "fast"}, "provisioner": "csi.example.com", "allowedTopologies": "all"}

    assert (
        decode_storage_class(encode(plain)).meta.unreadable
        == "allowedTopologies: Expected `array`, got `str`"
    )


def test_faults_are_not_read_from_the_wire() -> None:
    read = Reader(StoredObject)(encode({"metadata": {"name": "a", "faults": [["spec", "bad", True]]}}))

    assert read.metadata == ObjectMeta("a")
