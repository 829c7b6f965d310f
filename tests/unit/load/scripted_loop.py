"""The load loop with a scripted source, and an API server that accepts patches."""

from collections.abc import AsyncIterator
from typing import Any

from prometheus_client import CollectorRegistry

import builders
from isolating import Isolating
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.lister import Lister
from tidelock.kube.client import WATERLEVELS
from tidelock.load.groups import MeasuredGroup
from tidelock.load.loop import LoadLoop
from tidelock.load.metrics import LoadMetrics
from tidelock.load.source import Source, SourceError, Use, UseReading
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import MeasuredUses, WorkloadKey
from tidelock.model.workloads import Workload
from unit.load.patches import PatchApi
from unit.scheduler.machinery import FakeClock, FakeRecorder

SPEC: dict[str, Any] = {"source": {"metricsServer": {}}, "refreshSeconds": 30, "stalenessSeconds": 180}
DB = WorkloadKey("StatefulSet", builders.NAMESPACE, "db")


class ScriptedSource:
    """A source with scripted answers."""

    settling = 0.0

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[float | None, float | None]] = {
            "node-a": (20.0, 50.0),
            "node-b": (40.0, 50.0),
        }
        self.pods: dict[str, tuple[float, float]] = {}
        self.failure: SourceError | None = None
        self.past_failure: SourceError | None = None
        self.before = 20.0
        self.asked: list[range] = []

    async def read(self, now: float) -> UseReading:
        if self.failure is not None:
            raise self.failure
        pods = {Key(builders.NAMESPACE, name): Use(now, *use) for name, use in self.pods.items()}
        return UseReading({name: Use(now, *use) for name, use in self.nodes.items()}, pods)

    async def past(self, times: range) -> AsyncIterator[tuple[float, UseReading]]:
        self.asked.append(times)
        if self.past_failure is not None:
            raise self.past_failure
        for at in times:
            yield float(at), UseReading({"node-a": Use(at, self.before, 50.0)})


class Bench(LoadLoop):
    """The loop with the scripted source and its surroundings."""

    def __init__(self) -> None:
        self.api, self.clock, self.recorder = PatchApi(), FakeClock(), FakeRecorder()
        self.cache, self.registry, self.source = Cache(Columns()), CollectorRegistry(), ScriptedSource()
        self.replica_sets: Lister[Workload] = Lister()
        self.known = True
        self.published: list[MeasuredUses] = []
        self.listed: dict[str, dict[str, Any]] = {}
        super().__init__(
            self.api,
            self.cache,
            self.replica_sets,
            self.recorder,
            LoadMetrics(self.registry, self.clock.now),
            self.clock,
            on_uses=self.published.append,
            busy=lambda: False,
            ready=lambda: self.known,
            isolation=Isolating(),
            garbage_collection=3600.0,
        )
        for name in ("node-a", "node-b"):
            self.cache.put_node(builders.node(name, uid=f"uid-{name}", labels={"name": name}))

    def _source(self, *_: object) -> Source:
        return self.source

    async def refresh(self, name: str = "pool") -> None:
        """Read once more, half a minute later."""
        self.clock.advance(30)
        await self._refresh(self._groups[name], self.source)

    def see(
        self,
        name: str = "pool",
        spec: dict[str, Any] = SPEC,
        *,
        created: str = "2027-01-01T00:00:00Z",
        uid: str = "",
    ) -> MeasuredGroup:
        """Deliver a WaterLevel as the watch does. The API server lists it, too."""
        metadata = {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": created,
        }
        stored = self.api.statuses.setdefault(WATERLEVELS.item(name), {"metadata": metadata})
        self.listed[name] = {"metadata": metadata, "spec": spec}
        self.serve()
        self.observe(stored | ({"metadata": metadata} if uid else {}), WaterLevelSpec.model_validate(spec))
        return self._groups[name]

    def serve(self) -> None:
        """Let the API server list the existing WaterLevels."""
        self.api.objects[WATERLEVELS.collection()] = [[*self.listed.values()]]

    def statuses(self, name: str = "pool") -> list[dict[str, Any]]:
        return [patch.body["status"] for patch in self.api.patches if patch.path == path(name)]

    def annotated(self, annotation: str) -> list[str]:
        return [
            patch.body["metadata"]["name"]
            for patch in self.api.patches
            if annotation in patch.body["metadata"].get("annotations", {})
        ]


def path(name: str) -> str:
    return WATERLEVELS.item(name, subresource="status")
