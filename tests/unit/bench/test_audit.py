from bench.audit import of_pods, of_reservations, overcommitted

_NODE = {"metadata": {"name": "node-a"}, "status": {"allocatable": {"cpu": "2", "pods": "2"}}}


def _pod(cpu: str, node: str | None = "node-a") -> dict[str, object]:
    return {"spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}}


def _reservation(cpu: str, active: str) -> dict[str, object]:
    conditions = [{"type": "Active", "status": active}]
    return {
        "spec": {"resources": {"cpu": cpu}},
        "status": {"nodeName": "node-a", "conditions": conditions},
    }


def test_a_full_node_is_no_fault() -> None:
    assert overcommitted([_NODE], of_pods([_pod("1"), _pod("1")]), "taken") == []


def test_too_much_of_a_resource_is_a_fault() -> None:
    faults = overcommitted([_NODE], of_pods([_pod("1500m"), _pod("1")]), "taken")
    assert faults == ["node-a has 2500 cpu taken and 2000 allocatable"]


def test_too_many_pods_are_a_fault() -> None:
    faults = overcommitted([_NODE], of_pods([_pod("100m")] * 3), "taken")
    assert faults == ["node-a has 3 pods taken and 2 allocatable"]


def test_pods_without_a_node_use_no_capacity() -> None:
    assert of_pods([_pod("3", node=None)]) == []


def test_active_reservations_count_in_addition_to_pods() -> None:
    taken = [
        *of_pods([_pod("1500m")]),
        *of_reservations([_reservation("1", "True"), _reservation("1", "False")]),
    ]
    assert overcommitted([_NODE], taken, "taken") == ["node-a has 2500 cpu taken and 2000 allocatable"]
