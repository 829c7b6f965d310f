import json
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

import builders
from tidelock.kube.client import NODES, ApiResource
from tidelock.kube.errors import ApiError, Conflict, NotFound, ServerError
from tidelock.load.annotator import (
    Annotated,
    Annotator,
    crane_annotations,
    hot_value,
    workload_resource,
)
from tidelock.load.metrics import LoadMetrics
from tidelock.load.source import Use
from tidelock.model.pods import Pod, PodStatus
from tidelock.model.usage_annotations import NODE_LEVEL, POD_USAGE, NodeLevel, PodUsage, Stat
from unit.load.patches import PatchApi

NOW = 1_800_000_000.0
DEPLOYMENTS = workload_resource("Deployment", "apps/v1")


@pytest.fixture
def api() -> PatchApi:
    return PatchApi()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def annotator(api: PatchApi, registry: CollectorRegistry) -> Annotator:
    return Annotator(api, LoadMetrics(registry, lambda: NOW), busy=lambda: False)


def level(cpu: float = 40.0, at: float = NOW) -> NodeLevel:
    return NodeLevel(at, {"15m": {"cpu": Stat(cpu, 80.0, 70.0)}})


def usage(cpu: float = 1.0, at: float = NOW) -> PodUsage:
    return PodUsage(at, {"15m": {"cpu": Stat(cpu, 2.0, 1.5), "memory": Stat(1e9, 1e9, 1e9)}})


def node(measured: NodeLevel, name: str = "node-a") -> Annotated:
    return Annotated(NODES, name, "", f"uid-{name}", measured)


def deployment(measured: PodUsage) -> Annotated:
    return Annotated(DEPLOYMENTS, "web", "shop", "uid-web", measured)


def news(annotator: Annotator, each: Annotated, measured: NodeLevel | PodUsage, age: float = 90.0) -> bool:
    return annotator.is_worth_a_write(each.resource, each.uid, measured, age)


async def test_an_object_gets_one_patch_that_cannot_create_it(annotator: Annotator, api: PatchApi) -> None:
    await annotator.write([node(level()), deployment(usage())])

    first, second = api.patches
    assert first.kind == second.kind == "application/apply-patch+yaml"
    assert first.params == {"fieldManager": "tidelock-load", "force": "true"}
    assert first.path == "/api/v1/nodes/node-a"
    assert first.body == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-a",
            "uid": "uid-node-a",
            "annotations": {
                NODE_LEVEL: '{"at":"2027-01-15T08:00:00Z",'
                '"windows":{"15m":{"cpu":{"mean":40,"max":80,"p95":70}}}}'
            },
        },
    }
    assert second.path == "/apis/apps/v1/namespaces/shop/deployments/web"
    assert second.body["metadata"]["namespace"] == "shop"
    assert json.loads(second.body["metadata"]["annotations"][POD_USAGE])["windows"]["15m"]["cpu"]["mean"] == 1


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (level(40.9, NOW + 30), False),
        (level(41.0, NOW + 30), True),
        (level(39.0, NOW + 30), True),
        (level(50.0, NOW), True),  # more past values were read
        (level(50.0, NOW - 30), False),
        (level(40.0, NOW + 90), True),  # Otherwise it would count as stale.
        (NodeLevel(NOW + 30, {"15m": {"memory": Stat(40.0, 80.0, 70.0)}}), True),
        (NodeLevel(NOW + 30, {"1h": {"cpu": Stat(40.0, 80.0, 70.0)}}), True),
    ],
)
async def test_a_level_is_written_again_if_it_moved_by_a_point_or_is_old(
    annotator: Annotator, measured: NodeLevel, expected: bool
) -> None:
    written = node(level())
    assert news(annotator, written, level())
    await annotator.write([written])

    assert news(annotator, written, measured) is expected


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (usage(1.05, NOW + 30), False),
        (usage(1.2, NOW + 30), True),
        (usage(0.8, NOW + 30), True),
        (usage(1.0, NOW + 90), True),
    ],
)
async def test_use_is_written_again_if_it_moved_by_a_tenth_or_is_old(
    annotator: Annotator, measured: PodUsage, expected: bool
) -> None:
    written = deployment(usage())
    await annotator.write([written])

    assert news(annotator, written, measured) is expected


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ServerError("etcd is down", status=500), "failed"),
        (Conflict("uid mismatch", status=409), "failed"),
        (NotFound("gone", status=404), "gone"),
    ],
)
async def test_a_refused_patch_affects_no_other_and_is_tried_at_the_next_refresh(
    annotator: Annotator, api: PatchApi, registry: CollectorRegistry, error: Exception, result: str
) -> None:
    api.faults.extend([error, None])  # type: ignore[list-item]
    objects = [node(level()), node(level(), "node-b")]
    await annotator.write(objects)

    assert [news(annotator, each, level()) for each in objects] == [True, False]
    labels = {"kind": "Node", "result": result}
    assert registry.get_sample_value("tidelock_water_level_patches_total", labels) == 1
    assert registry.get_sample_value("tidelock_water_level_waiting_annotations") == 0


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, "removed"),
        (ServerError("etcd is down", status=500), "failed"),
        (Conflict("uid mismatch", status=409), "gone"),
    ],
)
async def test_annotations_are_removed_by_applying_an_object_without_them(
    annotator: Annotator, api: PatchApi, registry: CollectorRegistry, error: ApiError | None, result: str
) -> None:
    await annotator.write([node(level())])
    api.faults.append(error)
    refused = await annotator.write([node(level())._replace(measured=None)])

    assert api.patches[-1].params == {"fieldManager": "tidelock-load", "force": "true"}
    assert api.patches[-1].body["metadata"] == {"name": "node-a", "uid": "uid-node-a"}
    assert list(refused) == (["uid-node-a"] if result == "failed" else [])
    assert news(annotator, node(level()), level()) is (error is None)
    labels = {"kind": "Node", "result": result}
    assert registry.get_sample_value("tidelock_water_level_patches_total", labels) == 1


async def test_writes_to_deleted_objects_are_forgotten(annotator: Annotator) -> None:
    written = node(level())
    await annotator.write([written])
    annotator.retain({"uid-other"})

    assert news(annotator, written, level())


async def test_writes_continue_although_other_requests_are_more_urgent(
    api: PatchApi, registry: CollectorRegistry
) -> None:
    asked: list[bool] = []

    def busy() -> bool:
        asked.append(True)
        return True

    annotator = Annotator(api, LoadMetrics(registry, lambda: NOW), busy)
    await annotator.write([node(level(), f"node-{number}") for number in range(20)])

    assert len(api.patches) == len(asked) == 20


def test_nodes_are_annotated_as_by_crane() -> None:
    stat = Stat(30.0, 63.012, 60.0)
    windows = {"1h": {"cpu": stat, "memory": stat}, "1d": {"cpu": stat}}
    written = crane_annotations(NodeLevel(NOW, windows), Use(NOW, 12.5, None), hot=3)  # type: ignore[arg-type]

    assert written == {
        "cpu_usage_avg_5m": "0.12500,2027-01-15T08:00:00Z",
        "cpu_usage_max_avg_1h": "0.63012,2027-01-15T08:00:00Z",
        "cpu_usage_max_avg_1d": "0.63012,2027-01-15T08:00:00Z",
        "mem_usage_max_avg_1h": "0.63012,2027-01-15T08:00:00Z",
        "node_hot_value": "3,2027-01-15T08:00:00Z",
    }


@pytest.mark.parametrize(
    ("ages", "expected"),
    [([], 0), ([10], 0), ([10, 50], 1), ([10] * 4, 2), ([10] * 5, 3), ([200] * 5, 1), ([301] * 9, 0)],
)
def test_the_hot_value_of_a_node_counts_its_new_pods(ages: list[float], expected: int) -> None:
    pods = [
        Pod(builders.pod().metadata, status=PodStatus(start_time=datetime.fromtimestamp(NOW - age, UTC)))
        for age in ages
    ]
    assert hot_value([*pods, Pod(builders.pod().metadata)], NOW) == expected


def test_a_workload_is_found_by_its_kind_and_version() -> None:
    assert workload_resource("CloneSet", "apps.kruise.io/v1beta1") == ApiResource(
        "apps.kruise.io", "v1beta1", "clonesets", "CloneSet"
    )
