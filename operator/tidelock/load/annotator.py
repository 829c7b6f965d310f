"""Writes measurements to the annotations of nodes and workloads, when they have changed and with patience."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from tidelock.kube.client import NODES, ApiResource, KubeClient
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.load.metrics import LoadMetrics
from tidelock.load.source import Use
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import (
    CRANE_HOT_VALUE,
    FULL,
    NODE_LEVEL,
    POD_USAGE,
    CraneMetric,
    CraneReading,
    Measured,
    NodeLevel,
    PodUsage,
    WindowName,
    Windows,
    encode_crane,
    encode_crane_hot_value,
    encode_node_level,
    encode_pod_usage,
)

logger = logging.getLogger(__name__)

FIELD_MANAGER = "tidelock-load"

# Smallest changes worth a write: of a node in percentage points, of a workload as a part of its use, and
# in cores and bytes.
_POINTS = 1.0
_PART = 0.1
_LEAST: Mapping[str, float] = {"cpu": 0.01, "memory": 16 * 2**20}
# Seconds after which the use of a workload is written again. No reader judges it by its age sooner.
WORKLOAD_SECONDS = 600.0

_CRANE_HOT = {300.0: 5, 60.0: 2}

_WORKERS = 8
# Seconds for which each write waits for the writes of decisions. Eight workers still write 7,000 objects in
# half a minute.
_PATIENCE = 0.02

_RESOURCES: Mapping[str, str] = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "CloneSet": "clonesets",
}


def workload_resource(kind: str, api_version: str) -> ApiResource:
    """Return the resource of a workload's kind."""
    group, _, version = api_version.rpartition("/")
    return ApiResource(group, version, _RESOURCES[kind], kind)


class Annotated(NamedTuple):
    """An object and its wanted annotations. Its uid prevents that a patch creates it again.

    Without `measured` the object must have none of our annotations. `more` are additional ones.
    """

    resource: ApiResource
    name: str
    namespace: str
    uid: str
    measured: NodeLevel | PodUsage | None
    more: Mapping[str, str] = {}

    def annotations(self) -> dict[str, str]:
        """Return the annotations, as late as possible, as thousands of them at once would delay decisions."""
        match self.measured:
            case NodeLevel() as level:
                return {NODE_LEVEL: encode_node_level(level), **self.more}
            case PodUsage() as usage:
                return {POD_USAGE: encode_pod_usage(usage), **self.more}
            case None:
                return {}


class Annotator:
    """Writes one patch per object, and only the patches that are needed."""

    def __init__(self, client: KubeClient, metrics: LoadMetrics, busy: Callable[[], bool]) -> None:
        """Prepare; `busy` returns whether there are more urgent requests."""
        self._client = client
        self._metrics = metrics
        self._busy = busy
        self._written: dict[str, NodeLevel | PodUsage] = {}

    def retain(self, uids: Collection[str]) -> None:
        """Forget the writes to all other objects."""
        for uid in self._written.keys() - uids:
            del self._written[uid]

    def is_worth_a_write(
        self, resource: ApiResource, uid: str, measured: NodeLevel | PodUsage, age: float
    ) -> bool:
        """Return whether a measurement is worth a write: it changed enough, or the written one is too old."""
        written = self._written.get(uid)
        if written is None:
            return True
        if measured.at < written.at:
            return False
        if measured.at - written.at >= age:
            return True
        changed = _changed_by_points if resource is NODES else _changed_by_parts
        return changed(written.windows, measured.windows)

    async def write(self, objects: Iterable[Annotated]) -> Collection[str]:
        """Write the annotations of all these objects, and return the uids of failed ones."""
        left = deque(objects)
        failures: dict[str, str] = {}
        self._metrics.waiting.inc(len(left))
        try:
            await asyncio.gather(*(self._work(left, failures) for _ in range(min(_WORKERS, len(left)))))
        finally:
            self._metrics.waiting.dec(len(left))
        if failures:
            fields = {"failed": len(failures), "error": next(iter(failures.values()))}
            logger.warning("some annotations were not written", extra=fields)
        return failures.keys()

    async def _work(self, left: deque[Annotated], failures: dict[str, str]) -> None:
        while left:
            each = left.popleft()
            if self._busy():
                await asyncio.sleep(_PATIENCE)
            result = "written" if each.measured else "removed"
            try:
                await self._apply(each)
                self._note(each)
            except NotFound:
                result = "gone"
            except ApiError as error:
                if isinstance(error, Conflict) and not each.measured:
                    result = "gone"  # another object has its name
                else:
                    result = "failed"
                    failures[each.uid] = f"{each.resource.kind} {each.name}: {error}"
                await asyncio.sleep(min(error.retry_after or 0.0, 1.0))
            finally:
                self._metrics.waiting.dec()
            self._metrics.patches.labels(each.resource.kind, result).inc()

    def _note(self, each: Annotated) -> None:
        if each.measured:
            self._written[each.uid] = each.measured
        else:
            self._written.pop(each.uid, None)

    async def _apply(self, each: Annotated) -> None:
        metadata: dict[str, object] = {"name": each.name, "uid": each.uid}
        if each.namespace:
            metadata["namespace"] = each.namespace
        if annotations := each.annotations():  # an empty map would still belong to the field manager
            metadata["annotations"] = annotations
        body = {
            "apiVersion": each.resource.api_version,
            "kind": each.resource.kind,
            "metadata": metadata,
        }
        await self._client.patch(
            each.resource.item(each.name, each.namespace),
            body,
            kind="apply",
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
        )


def crane_annotations(level: NodeLevel, last: Use, hot: int) -> dict[str, str]:
    """Return the annotations of a node as crane-scheduler reads them.

    Args:
        level: the node's level; its maxima are those of means of five minutes.
        last: the last reading of the node, which is a mean of five minutes.
        hot: its hot value.

    """
    values: dict[CraneMetric, float | None] = {
        "cpu_usage_avg_5m": last.cpu,
        "cpu_usage_max_avg_1h": _highest(level, "1h", "cpu"),
        "cpu_usage_max_avg_1d": _highest(level, "1d", "cpu"),
        "mem_usage_avg_5m": last.memory,
        "mem_usage_max_avg_1h": _highest(level, "1h", "memory"),
        "mem_usage_max_avg_1d": _highest(level, "1d", "memory"),
    }
    written: dict[str, str] = {
        name: encode_crane(CraneReading(value / FULL, level.at))
        for name, value in values.items()
        if value is not None
    }
    return written | {CRANE_HOT_VALUE: encode_crane_hot_value(CraneReading(hot, level.at))}


def hot_value(pods: Iterable[Pod], now: float) -> int:
    """Return how hot a node has become by its new pods: a point for five in five minutes or two in one.

    Source: crane-scheduler's default policy. A pod counts from when its kubelet has accepted it.
    """
    ages = [now - pod.status.start_time.timestamp() for pod in pods if pod.status.start_time is not None]
    return sum(sum(age <= period for age in ages) // count for period, count in _CRANE_HOT.items())


def _highest(level: NodeLevel, window: WindowName, resource: Measured) -> float | None:
    stat = level.windows.get(window, {}).get(resource)
    return stat.max if stat is not None else None


def _changed_by_points(old: Windows, new: Windows) -> bool:
    return _changed(old, new, lambda _resource, before, after: abs(after - before) >= _POINTS)


def _changed_by_parts(old: Windows, new: Windows) -> bool:
    return _changed(
        old,
        new,
        lambda resource, before, after: abs(after - before) >= max(_PART * before, _LEAST[resource]),
    )


def _changed(old: Windows, new: Windows, far: Callable[[str, float, float], bool]) -> bool:
    if {window: uses.keys() for window, uses in old.items()} != {
        window: uses.keys() for window, uses in new.items()
    }:
        return True
    return any(
        far(resource, getattr(old[window][resource], name), getattr(stat, name))
        for window, uses in new.items()
        for resource, stat in uses.items()
        for name in stat.__struct_fields__
    )
