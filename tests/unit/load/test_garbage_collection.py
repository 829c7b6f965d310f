from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import builders
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.load.annotator import Annotator
from tidelock.load.garbage_collection import GarbageCollector
from tidelock.load.groups import MeasuredGroup
from tidelock.load.metrics import LoadMetrics
from tidelock.load.restore import StoredUse
from tidelock.load.workloads import Workloads
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.meta import ObjectMeta, OwnerReference
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL, PodUsage, Stat, WorkloadKey
from tidelock.model.water_level import WaterLevel
from unit.load.patches import PatchApi

NOW = 1_800_000_000.0
WEEK = 7 * 86_400.0
WEB, OLD = WorkloadKey("Deployment", "shop", "web"), WorkloadKey("Job", "shop", "old")


def spec(**node_selector: Any) -> WaterLevelSpec:
    written = {"source": {"metricsServer": {}}} | ({"nodeSelector": node_selector} if node_selector else {})
    return WaterLevelSpec.model_validate(written)


def stored(key: WorkloadKey, api_version: str, at: float = NOW) -> StoredUse:
    usage = PodUsage(at, {"1d": {"cpu": Stat(1, 2, 2)}})
    return StoredUse(usage, OwnerReference(api_version, key.kind, key.name, f"uid-{key.name}"))


class Yard:
    """Two annotated nodes, one without annotations, two workloads, and their garbage collector."""

    def __init__(self) -> None:
        self.api, self.workloads = PatchApi(), Workloads()
        self.stored: list[WaterLevel] = []
        self.nodes: list[Node] = []
        annotator = Annotator(self.api, LoadMetrics(CollectorRegistry(), lambda: NOW), busy=lambda: False)
        self.leftovers = GarbageCollector(annotator, lambda: self.nodes, self.workloads)
        self.show("node-a", "1")
        self.show("node-b", "2")
        self.nodes.append(builders.node("node-c", uid="uid-node-c"))
        self.workloads.restore({WEB: stored(WEB, "apps/v1"), OLD: stored(OLD, "batch/v1", NOW - 2 * WEEK)})

    def show(self, name: str, text: str) -> None:
        """Add or replace an annotated node, as the watch does."""
        self.nodes = [node for node in self.nodes if node.name != name]
        node = builders.node(name, uid=f"uid-{name}", labels={"name": name}, annotations={NODE_LEVEL: text})
        self.nodes.append(node)

    def measure(self, wanted: WaterLevelSpec | None, name: str = "pool") -> None:
        """Store a WaterLevel. None is a spec that can't be read."""
        self.stored.append(WaterLevel(ObjectMeta(name=name, uid=name), wanted))

    async def look(self, *groups: MeasuredGroup) -> list[str]:
        """Collect once, and return the patched objects."""
        known = len(self.api.patches)
        await self.leftovers.remove(self.stored, groups, NOW)
        return sorted(patch.body["metadata"]["name"] for patch in self.api.patches[known:])


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def test_all_annotations_are_removed_without_a_water_level(yard: Yard) -> None:
    assert await yard.look() == ["node-a", "node-b", "old", "web"]
    assert {patch.path for patch in yard.api.patches} == {
        "/api/v1/nodes/node-a",
        "/api/v1/nodes/node-b",
        "/apis/apps/v1/namespaces/shop/deployments/web",
        "/apis/batch/v1/namespaces/shop/jobs/old",
    }
    assert all("annotations" not in patch.body["metadata"] for patch in yard.api.patches)
    assert yard.workloads.uses == {}
    assert await yard.look() == []


async def test_selected_nodes_keep_their_annotations_and_workloads_stay_for_a_week(yard: Yard) -> None:
    yard.measure(spec(matchLabels={"name": "node-a"}))

    assert await yard.look() == ["node-b", "old"]
    assert yard.workloads.uses.keys() == {WEB}


async def test_a_water_level_that_only_kopf_has_delivered_counts(yard: Yard) -> None:
    body = {"metadata": {"name": "pool", "uid": "pool"}}

    assert await yard.look(MeasuredGroup(body, spec())) == ["old"]


async def test_nodes_keep_their_annotations_while_a_water_level_cannot_be_read(yard: Yard) -> None:
    yard.measure(spec(matchLabels={"name": "node-a"}))
    yard.measure(None, "broken")

    assert await yard.look() == ["old"]


async def test_a_refused_removal_is_tried_again_at_the_next_check(yard: Yard) -> None:
    yard.api.faults.extend([Forbidden("no", status=403), None, Forbidden("no", status=403), None])
    assert await yard.look() == ["node-a", "node-b", "old", "web"]
    assert len(yard.workloads.uses) == 1

    assert len(await yard.look()) == 2
    assert yard.workloads.uses == {}


async def test_a_removal_from_a_deleted_object_is_not_repeated(yard: Yard) -> None:
    yard.measure(spec())
    yard.api.faults.append(NotFound("gone", status=404))

    assert await yard.look() == ["old"]
    assert await yard.look() == []


async def test_a_foreign_annotation_is_removed_once_and_again_when_it_changes(yard: Yard) -> None:
    await yard.look()
    assert await yard.look() == []
    yard.show("node-b", "3")

    assert await yard.look() == ["node-b"]
    assert await yard.look() == []
