from typing import Any

import pytest

import builders
from tidelock.model.nodes import decode_node


def test_allocatable_is_read_in_whole_units() -> None:
    node = builders.node(cpu="3920m", memory="1Gi", pods="110", **{"nvidia.com/gpu": "8"})
    assert node.allocatable == {"cpu": 3920, "memory": 2**30, "pods": 110, "nvidia.com/gpu": 8}


def test_a_node_without_a_status_has_nothing_allocatable() -> None:
    node = decode_node(b'{"metadata": {"name": "node-a"}}')
    assert node.allocatable == {}
    assert node.sound


def test_a_bad_quantity_is_found_when_a_node_is_decoded() -> None:
    node = builders.node(cpu="four")

    assert node.meta.unreadable.startswith("status.allocatable.cpu: cpu: 'four' is not a quantity")
    assert "cpu" not in node.allocatable
    assert not node.hosts_alike(builders.node(cpu="4"))


@pytest.mark.parametrize(
    ("fields", "ready"),
    [
        ({}, True),
        ({"ready": True}, True),
        ({"ready": False}, False),
        ({"ready": True, "taints": ["node.kubernetes.io/not-ready:NoExecute"]}, False),
        ({"taints": ["node.kubernetes.io/unreachable:NoSchedule"]}, False),
        ({"taints": ["dedicated=batch:NoSchedule"]}, True),
    ],
)
def test_a_node_is_ready_unless_its_kubelet_or_a_taint_says_otherwise(
    fields: dict[str, Any], ready: bool
) -> None:
    node = builders.node(**fields)
    assert node.ready is ready
    assert node.sound is ready


def test_a_condition_that_is_unknown_is_not_ready() -> None:
    raw = builders.node_json()
    raw["status"]["conditions"] = [
        {"type": "MemoryPressure", "status": "False"},
        {"type": "Ready", "status": "Unknown"},
    ]
    assert not decode_node(builders.encode(raw)).ready


def test_a_cordoned_node_is_ready_but_not_sound() -> None:
    node = builders.node(cordoned=True, ready=True)
    assert node.unschedulable
    assert node.ready
    assert not node.sound


def test_a_newer_version_without_relevant_changes_hosts_alike() -> None:
    assert builders.node(ready=True, version=1).hosts_alike(builders.node(version=2))


@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "5"},
        {"labels": {"zone": "a"}},
        {"taints": ["dedicated=batch:PreferNoSchedule"]},
        {"cordoned": True},
        {"ready": False},
        {"uid": "another"},
    ],
)
def test_a_change_that_pods_may_notice_does_not_host_alike(change: dict[str, Any]) -> None:
    assert not builders.node().hosts_alike(builders.node(**change))


def test_capacity_defaults_to_the_allocatable_amount() -> None:
    node = decode_node(
        b'{"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"},'
        b' "allocatable": {"cpu": "3500m", "memory": "8Gi"}}}'
    )
    assert node.capacity == {"cpu": 4000, "memory": 8 * 2**30}
