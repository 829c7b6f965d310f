from typing import Any

import msgspec
import pytest

from tidelock.model.quantities import CEILING, QuantityError
from tidelock.model.requests import (
    Allocation,
    Report,
    WorkloadResources,
    container_weights,
    nonzero_requests,
    total_requests,
)

MIB = 1024 * 1024


def spec(**fields: Any) -> WorkloadResources:
    return msgspec.convert(fields, WorkloadResources)


def container(cpu: str | None = None, name: str = "main", **fields: Any) -> dict[str, Any]:
    requests = {} if cpu is None else {"cpu": cpu}
    return {"name": name, "resources": {"requests": requests}, **fields}


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, "sidecar", restartPolicy="Always")


def cpu_of(report: Report | None = None, **fields: Any) -> int:
    asked = spec(**fields)
    return (total_requests(asked, report) if report else total_requests(asked)).get("cpu", 0)


def allocation(allocated: str | None = None, actual: str | None = None, resource: str = "cpu") -> Allocation:
    """Build the allocated and the actual resources of a container or a pod. None leaves one of them out."""
    fields: dict[str, Any] = {}
    if allocated is not None:
        fields["allocatedResources"] = {resource: allocated}
    if actual is not None:
        fields["resources"] = {"requests": {resource: actual} if actual else {}}
    return msgspec.convert(fields, Allocation)


def report(whole: Allocation | None = None, *, infeasible: bool = False, **containers: Allocation) -> Report:
    return Report(containers, whole or Allocation(), infeasible)


def test_a_pod_counts_as_one_of_pods() -> None:
    assert total_requests(spec()) == {"pods": 1}


def test_containers_run_together() -> None:
    assert cpu_of(containers=[container("1"), container("500m"), container()]) == 1500


def test_limits_are_no_requests() -> None:
    assert cpu_of(containers=[{"resources": {"limits": {"cpu": "4"}}}]) == 0


def test_init_containers_run_before_the_others_one_by_one() -> None:
    assert cpu_of(containers=[container("1")], initContainers=[container("2"), container("3")]) == 3000
    assert cpu_of(containers=[container("4")], initContainers=[container("2"), container("3")]) == 4000


def test_sidecars_run_beside_the_containers() -> None:
    assert cpu_of(containers=[container("1")], initContainers=[sidecar("2")]) == 3000


def test_an_init_container_runs_beside_the_sidecars_started_before_it() -> None:
    assert cpu_of(containers=[container("1")], initContainers=[sidecar("2"), container("3")]) == 5000
    assert cpu_of(containers=[container("1")], initContainers=[container("3"), sidecar("2")]) == 3000


def test_each_resource_has_its_own_peak() -> None:
    hungry = {"resources": {"requests": {"memory": "4Gi"}}}
    total = total_requests(spec(containers=[container("1")], initContainers=[hungry]))
    assert total == {"cpu": 1000, "memory": 4 * 2**30, "pods": 1}


def test_overhead_comes_on_top() -> None:
    assert cpu_of(containers=[container("1")], overhead={"cpu": "250m"}) == 1250


def test_pod_level_requests_replace_the_sums_of_the_resources_that_they_name() -> None:
    both = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    total = total_requests(
        spec(containers=[both, both], resources={"requests": {"cpu": "3"}}, overhead={"cpu": "100m"})
    )
    assert total == {"cpu": 3100, "memory": 2 * 2**30, "pods": 1}


def test_a_bad_quantity_is_named() -> None:
    with pytest.raises(QuantityError, match=r"^cpu: 'much'"):
        total_requests(spec(containers=[container("much")]))


def test_sums_are_cut_off_where_a_column_could_overflow() -> None:
    huge = {"resources": {"requests": {"memory": "7Ei"}}}
    assert total_requests(spec(containers=[huge, huge]))["memory"] == CEILING


@pytest.mark.parametrize(
    ("wanted", "reported", "counted"),
    [
        ("1", allocation("1", "2"), 2000),
        ("3", allocation("2", "2"), 3000),
        ("1", allocation("3", "2"), 3000),
        ("1", allocation("1", "1"), 1000),
        ("1", allocation("2", ""), 2000),
        ("2", allocation(None, "1"), 2000),
        (None, allocation(None, "1"), 1000),
        (None, allocation("1", ""), 1000),
    ],
)
def test_a_container_that_is_resized_counts_at_the_largest_size(
    wanted: str | None, reported: Allocation, counted: int
) -> None:
    assert cpu_of(report(main=reported), containers=[container(wanted)]) == counted
    whole = {"requests": {"cpu": wanted} if wanted else {}}
    assert cpu_of(report(reported), resources=whole) == (counted if wanted else 0)


def test_without_a_report_the_spec_counts_unless_the_resize_is_infeasible() -> None:
    told = report(Allocation(), main=Allocation())
    assert cpu_of(told, containers=[container("1")]) == 1000
    assert cpu_of(told, resources={"requests": {"cpu": "3"}}) == 3000
    assert cpu_of(report(infeasible=True), containers=[container("1")]) == 0


def test_an_allocation_counts_before_the_actual_resources_are_reported() -> None:
    told = report(main=allocation("2"))
    assert cpu_of(told, containers=[container("1")]) == 2000


def test_the_largest_of_the_sums_counts_not_the_sum_of_the_largest() -> None:
    """Guard against the rule up to Kubernetes 1.36, which counted 5 cores here."""
    told = report(one=allocation("3", "3"), two=allocation("1", "1"))
    assert cpu_of(told, containers=[container("1", "one"), container("2", "two")]) == 4000


@pytest.mark.parametrize(
    ("reported", "counted"),
    [(allocation("2", "2"), 2000), (allocation("3", "2"), 3000), (allocation("1", "2"), 2000)],
)
def test_a_resize_that_can_never_be_granted_does_not_count(reported: Allocation, counted: int) -> None:
    told = report(reported, infeasible=True, main=reported)
    assert cpu_of(told, containers=[container("64")]) == counted
    assert cpu_of(told, containers=[container("32")], resources={"requests": {"cpu": "64"}}) == counted


def test_a_container_without_a_status_counts_with_its_requests() -> None:
    told = report(main=allocation("2", "2"))
    assert cpu_of(told, containers=[container("1"), container("64", name="other")]) == 66_000


def test_init_containers_are_resized_too() -> None:
    told = report(main=allocation("1", "1"), sidecar=allocation("5", "4"))
    assert cpu_of(told, containers=[container("1")], initContainers=[sidecar("2")]) == 6000
    told = report(main=allocation("1", "1"), setup=allocation("5", "5"))
    assert cpu_of(told, containers=[container("1")], initContainers=[container("2", "setup")]) == 5000


def test_a_pod_level_resize_counts_at_the_largest_size() -> None:
    """Guard against a pod-level resize that counts with the spec alone.

    Capacity that the pod had, or was about to get, was granted to others.
    """
    asked = spec(
        containers=[container("1")],
        resources={"requests": {"cpu": "2", "memory": "1Gi"}},
        overhead={"cpu": "250m"},
    )
    for told, cpu in ((allocation("3", "2"), 3250), (allocation("2", "4"), 4250), (allocation(), 2250)):
        assert total_requests(asked, report(told)) == {"cpu": cpu, "memory": 2**30, "pods": 1}


def test_the_report_of_a_whole_pod_replaces_the_sums_over_its_containers() -> None:
    asked = spec(containers=[container("1")], resources={"requests": {"memory": "1Gi"}})
    assert cpu_of(report(allocation("3", "3")), containers=[container("1")], resources={}) == 3000
    assert total_requests(asked, report(allocation("3", "3"))) == {"cpu": 3000, "memory": 2**30, "pods": 1}


def test_a_resource_that_an_infeasible_pod_level_resize_does_not_report_does_not_count() -> None:
    asked = spec(containers=[container("1")], resources={"requests": {"cpu": "2", "memory": "1Gi"}})
    infeasible = report(allocation("1", "1"), infeasible=True)
    assert total_requests(asked, infeasible) == {"cpu": 1000, "pods": 1}


@pytest.mark.parametrize(
    ("fields", "weight"),
    [
        ({}, (0, 0)),
        ({"containers": [container()]}, (100, 200 * MIB)),
        ({"containers": [container(), container("2")]}, (2100, 400 * MIB)),
        ({"containers": [container("0")]}, (0, 200 * MIB)),
        ({"containers": [container()], "resources": {"requests": {"cpu": "1"}}}, (1000, 200 * MIB)),
        ({"containers": [container("0")], "resources": {"requests": {"memory": "1"}}}, (0, 1)),
        ({"containers": [container()], "resources": {"requests": {"memory": "1"}}}, (100, 1)),
        ({"containers": [container()], "overhead": {"memory": "1Mi"}}, (100, 201 * MIB)),
    ],
)
def test_a_container_without_requests_has_default_requests_in_scores(
    fields: dict[str, Any], weight: tuple[int, int]
) -> None:
    assert nonzero_requests(spec(**fields)) == weight


def test_pod_level_requests_do_not_count_in_scores_before_the_placement() -> None:
    asking = spec(containers=[container("2"), container()], resources={"requests": {"cpu": "7"}})
    assert container_weights(asking) == (2100, 400 * MIB)
    assert nonzero_requests(asking) == (7000, 400 * MIB)


@pytest.mark.parametrize(
    ("fields", "told", "weight"),
    [
        ({"containers": [container("1")]}, report(main=allocation("3", "2")), (3000, 200 * MIB)),
        ({"containers": [container()]}, report(main=allocation("3", "2")), (3000, 200 * MIB)),
        ({"containers": [container()]}, report(main=allocation("3")), (3000, 200 * MIB)),
        ({"containers": [container("1")]}, report(main=allocation("1", "1", "memory")), (1000, 200 * MIB)),
        (
            {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}},
            report(allocation("3", "2"), main=allocation("1", "1")),
            (3000, 200 * MIB),
        ),
        (
            {"containers": [container("64")]},
            report(infeasible=True, main=allocation("2", "1")),
            (2000, 200 * MIB),
        ),
    ],
)
def test_a_resize_counts_in_scores_as_it_does_in_requests(
    fields: dict[str, Any], told: Report, weight: tuple[int, int]
) -> None:
    """Guard against scores by the spec alone, for which a node looks emptier than it is."""
    assert nonzero_requests(spec(**fields), told) == weight
