"""Objects in the forms that other projects write and test, and the values that are read."""

from typing import Any

import pytest

from builders import Json, encode, pod_json, reservation
from tidelock.model.budgets import decode_budget
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.storage import (
    decode_claim,
    decode_csi_node,
    decode_storage_class,
    decode_volume,
)


def stored(name: str = "thing", **fields: Any) -> bytes:
    metadata = {"name": name, "uid": "1", "resourceVersion": "1", "creationTimestamp": None}
    return encode({"metadata": metadata, **fields})


@pytest.mark.parametrize(
    ("written", "units"),
    [
        ("16265180Ki", 16265180 * 1024),
        ("129e6", 129_000_000),
        ("1.5e+3", 1500),
        ("1E3", 1000),
        ("1E", 10**18),
        ("128974848000m", 128_974_848),
        ("1m", 1),
        (".5Gi", 2**29),
        ("5.", 5),
        ("+1k", 1000),
        ("0", 0),
        (7, 7),
    ],
)
def test_an_amount_can_have_many_notations(written: str | int, units: int) -> None:
    node = decode_node(stored(status={"allocatable": {"memory": written}}))
    assert not node.meta.faults
    assert node.allocatable["memory"] == units


@pytest.mark.parametrize(
    ("written", "units"), [("100u", 1), ("1001u", 2), ("0.1", 100), ("1e-1", 100), (2, 2000)]
)
def test_a_part_of_a_core_is_rounded_up(written: str | int, units: int) -> None:
    assert decode_pod(encode(pod_json(requests={"cpu": written}))).requests["cpu"] == units  # type: ignore[dict-item]


def test_a_node_with_all_fields_of_a_kubelet_is_read() -> None:
    amounts = {
        "cpu": "3920m",
        "ephemeral-storage": "47093746742",
        "hugepages-1Gi": "0",
        "memory": "12600856Ki",
        "pods": "58",
        "attachable-volumes-gce-pd": "127",
        "devices.kubevirt.io/kvm": "1k",
    }
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": None, "value": None}
    plain: Json = {
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": None, "providerID": "a://b", "taints": [taint]},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "Unknown", "lastHeartbeatTime": None}],
            "addresses": None,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "images": [{"names": None, "sizeBytes": 5}, {"names": []}],
            "volumesInUse": ["kubernetes.io/csi/a^b"],
            "volumesAttached": [{"name": "a", "devicePath": ""}],
            "nodeInfo": {"swap": None},
            "runtimeHandlers": [{"name": "", "features": None}],
            "config": {},
        },
    }
    node = decode_node(stored(**plain))
    assert not node.meta.faults
    assert node.allocatable["devices.kubevirt.io/kvm"] == 1000
    assert not node.ready


def test_a_pod_of_a_virtual_machine_is_read() -> None:
    compute = {
        "name": "compute",
        "ports": [{"containerPort": 80, "hostPort": 0, "protocol": ""}],
        "resources": {
            "limits": {"devices.kubevirt.io/kvm": "1"},
            "requests": {"cpu": "100m", "memory": "1337Mi", "devices.kubevirt.io/kvm": "1"},
            "claims": None,
        },
        "livenessProbe": {"httpGet": {"port": "health"}},
    }
    pod = decode_pod(
        stored(
            "virt-launcher",
            spec={
                "containers": [compute],
                "initContainers": None,
                "priority": -1_000_000,
                "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": None}},
                "volumes": [
                    {"name": "a", "emptyDir": {}},
                    {"name": "b", "ephemeral": {"volumeClaimTemplate": None}},
                ],
                "overhead": {"memory": "0"},
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": None, "value": None}],
            },
            status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
        )
    )
    assert not pod.meta.faults
    assert pod.spec.priority == -1_000_000
    assert pod.requests == {"cpu": 100, "memory": 1337 * 2**20, "devices.kubevirt.io/kvm": 1, "pods": 1}
    assert pod.host_ports == ()
    assert [use.name for use in pod.claims] == ["virt-launcher-b"]


@pytest.mark.parametrize(
    "references",
    [
        [{"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "2", "controller": True}],
        [
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "", "controller": None},
            {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "2", "controller": True},
            {"apiVersion": "v1", "kind": "Z", "name": "z", "uid": "3", "controller": True},
        ],
    ],
)
def test_of_many_owners_the_first_that_is_the_controller_counts(references: list[Json]) -> None:
    plain = pod_json()
    plain["metadata"]["ownerReferences"] = references
    pod = decode_pod(encode(plain))
    assert not pod.meta.faults
    assert pod.meta.controller is not None
    assert pod.meta.controller.kind == "Node"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Node"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("example.com/stable", "database"),
        ("3scale.example.com/v1-beta", "My-Kind"),
    ],
)
def test_an_owner_can_be_of_any_kind_that_a_crd_can_have(api_version: str, kind: str) -> None:
    """Guard against the refusal of a kind with a lower-case initial, or of a version without a v."""
    controller = {"apiVersion": api_version, "kind": kind, "name": "a"}
    assert reservation(owners=[{"controller": controller}]).problem == ""


@pytest.mark.parametrize(("api_version", "kind"), [("apps", "A"), ("apps/", "A"), ("/v1", "A"), ("v1", "A-")])
def test_an_owner_of_a_kind_that_no_crd_can_have_is_refused(api_version: str, kind: str) -> None:
    controller = {"apiVersion": api_version, "kind": kind, "name": "a"}
    assert "spec.owners[0].controller" in reservation(owners=[{"controller": controller}]).problem


def test_volumes_and_claims_are_read_as_provisioners_and_users_write_them() -> None:
    spec: Json = {
        "accessModes": None,
        "capacity": {"storage": "1.5Ti"},
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": ""},
        "local": {"path": "/mnt"},
        "nodeAffinity": {},
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": None,
    }
    volume = decode_volume(stored(spec=spec, status={"phase": "Released", "lastPhaseTransitionTime": None}))
    assert not volume.meta.faults
    assert volume.affinity is None
    assert volume.capacity == 3 * 2**39

    plain: Json = {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {},
        "storageClassName": "",
        "volumeName": "",
    }
    plain |= {"dataSourceRef": {"kind": "VolumeSnapshot", "name": "a"}, "selector": {"matchLabels": None}}
    claim = decode_claim(stored(spec=plain, status={}))
    assert not claim.meta.faults
    assert (claim.size, claim.class_name, claim.bound) == (None, "", False)


def test_a_storage_class_and_a_csi_node_without_optional_fields_are_read() -> None:
    kind = decode_storage_class(stored(provisioner="example.com/a", parameters=None, allowedTopologies=None))
    assert not kind.meta.faults
    assert (kind.waits, kind.provisions) == (False, True)

    drivers = [
        {"name": "a", "nodeID": "", "topologyKeys": None, "allocatable": None},
        {"name": "b", "nodeID": "n", "allocatable": {"count": None}},
        {"name": "c", "nodeID": "n", "allocatable": {"count": 0}},
    ]
    assert decode_csi_node(stored(spec={"drivers": drivers})).limits == {"c": 0}
    assert decode_csi_node(stored(spec={"drivers": None})).limits == {}


@pytest.mark.parametrize("amount", [1, "50%", "0%", 0, -1, None])
def test_a_budget_counts_by_its_status_whatever_its_spec_asks_for(amount: object) -> None:
    spec = {"minAvailable": amount, "maxUnavailable": amount, "selector": {"matchLabels": {"app": "a"}}}
    budget = decode_budget(
        stored(spec=spec, status={"disruptionsAllowed": 2, "disruptedPods": None, "conditions": None})
    )
    assert not budget.meta.faults
    assert budget.status.disruptions_allowed == 2
