from typing import Any

import msgspec
import pytest

from tidelock.model.quantities import CEILING, QuantityError
from tidelock.model.requests import (
    ContainerStatus,
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


def cpu_of(statuses: tuple[ContainerStatus, ...] = (), *, infeasible: bool = False, **fields: Any) -> int:
    return total_requests(spec(**fields), statuses, infeasible=infeasible).get("cpu", 0)


def status(**fields: Any) -> tuple[ContainerStatus, ...]:
    return (msgspec.convert({"name": "main", **fields}, ContainerStatus),)


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


def test_requests_of_the_pod_replace_the_sum_of_what_they_name() -> None:
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
        ("1", {"resources": {"requests": {"cpu": "2"}}}, 2000),
        ("3", {"resources": {"requests": {"cpu": "2"}}}, 3000),
        ("1", {"allocatedResources": {"cpu": "2"}}, 2000),
        ("1", {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}, 3000),
        ("1", {}, 1000),
    ],
)
def test_a_container_that_is_resized_counts_at_the_larger_size(
    wanted: str, reported: dict[str, Any], counted: int
) -> None:
    assert cpu_of(status(**reported), containers=[container(wanted)]) == counted


def test_a_resize_that_can_never_be_granted_does_not_count() -> None:
    reported = status(resources={"requests": {"cpu": "2"}}, allocatedResources={"cpu": "2"})
    assert cpu_of(reported, containers=[container("64")], infeasible=True) == 2000


def test_a_container_without_a_status_counts_at_what_it_asks_for() -> None:
    other = container("64", name="other")
    reported = status(resources={"requests": {"cpu": "2"}})
    assert cpu_of(reported, containers=[container("1"), other], infeasible=True) == 66_000


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
def test_a_container_that_asks_for_nothing_weighs_something_in_scores(
    fields: dict[str, Any], weight: tuple[int, int]
) -> None:
    assert nonzero_requests(spec(**fields)) == weight


def test_what_a_pod_asks_for_as_a_whole_does_not_weigh_before_it_is_placed() -> None:
    asking = spec(containers=[container("2"), container()], resources={"requests": {"cpu": "7"}})
    assert container_weights(asking) == (2100, 400 * MIB)
    assert nonzero_requests(asking) == (7000, 400 * MIB)
