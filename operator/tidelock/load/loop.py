"""The load loop: each WaterLevel's source is read again and again, beside the decision loop."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from tidelock.clock import Clock
from tidelock.cluster.cache import Cache
from tidelock.cluster.lister import Lister
from tidelock.cluster.workloads import workload_reference
from tidelock.isolation import Isolation
from tidelock.kube.client import NODES, WATERLEVELS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.events import EventRecorder, ObjectReference
from tidelock.kube.listing import list_all
from tidelock.load.annotator import (
    WORKLOAD_SECONDS,
    Annotated,
    Annotator,
    crane_annotations,
    hot_value,
    workload_resource,
)
from tidelock.load.cooperative import AT_LEISURE, in_slices, paced
from tidelock.load.estimate import Identify, Subject
from tidelock.load.garbage_collection import GarbageCollector
from tidelock.load.groups import MeasuredGroup, members
from tidelock.load.metrics import LoadMetrics
from tidelock.load.restore import stored_uses
from tidelock.load.source import Source, SourceError, Use, UseReading
from tidelock.load.status import METRICS_STALE, GroupSummary, aspects, render_level
from tidelock.load.unexplained_use import largest_unexplained_part, use_and_requests
from tidelock.load.workloads import Workloads
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.conditions import Aspect, failed
from tidelock.model.failures import failure_note
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import MeasuredUses, PodMeans, WorkloadKey
from tidelock.model.water_level import decode_water_level
from tidelock.model.workloads import Workload

if TYPE_CHECKING:
    from tidelock.load.sources import Sources

logger = logging.getLogger(__name__)

REWRITE_PART = 0.5
"""Part of the staleness limit after which an unchanged level is written again, so it does not become stale.

One write may fail.
"""
# Seconds after the end of a WaterLevel until its annotations are removed.
_SOON = 1.0
# Seconds after which the past is requested again, if that failed.
_PAST_RETRY = 600.0


class LoadLoop:
    """Reads all sources, and passes the measurements to the scheduler, nodes, workloads and WaterLevels.

    A node belongs to the oldest WaterLevel that selects it, together with its pods.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        replica_sets: Lister[Workload],
        recorder: EventRecorder,
        metrics: LoadMetrics,
        clock: Clock,
        *,
        on_uses: Callable[[MeasuredUses], None],
        busy: Callable[[], bool],
        ready: Callable[[], bool],
        isolation: Isolation,
        garbage_collection: float,
    ) -> None:
        """Prepare.

        `on_uses` gets all measurements of pods and workloads after each reading. `busy` returns whether there
        are more urgent requests, `ready` whether all nodes are known.
        `garbage_collection` are the seconds between two checks for annotations without a WaterLevel.
        """
        self._client = client
        self._cache = cache
        self._replica_sets = replica_sets
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._on_uses = on_uses
        self._annotator = Annotator(client, metrics, busy)
        self._ready = ready
        self._isolation = isolation
        self._garbage_collection = garbage_collection
        self._groups: dict[str, MeasuredGroup] = {}
        self._workloads = Workloads()
        self._leftovers = GarbageCollector(self._annotator, lambda: cache.columns.nodes, self._workloads)
        self._left = asyncio.Event()  # a WaterLevel may have left annotations
        self._sources: Sources | None = None
        self._running: asyncio.TaskGroup | None = None

    async def run(self) -> NoReturn:
        """Read forever; a fault of the program is raised."""
        self._workloads.restore(await stored_uses(self._client))
        self._publish_uses()  # the values of an earlier process need no reading
        try:
            async with asyncio.TaskGroup() as tasks:
                self._running = tasks
                for group in self._groups.values():
                    self._start(group)
                while True:
                    await self._until_look()
                    with self._isolation.part("leftovers") as attempt:
                        await self._tidy()
                    await asyncio.sleep(attempt.pause)
        finally:
            self._running = None  # Kopf ends later, and its events until then are ignored
            await self._close_sources()

    def observe(self, body: Mapping[str, Any], spec: WaterLevelSpec) -> None:
        """Process the current state of a WaterLevel.

        Kopf keeps the order of events for one object, but not between an object and its later namesake.
        Events of the earlier one are ignored once the later one is known.
        """
        name = body["metadata"]["name"]
        group = self._groups.get(name)
        if group is not None and group.uid == body["metadata"]["uid"]:
            group.body = max(group.body, body, key=_version)  # the watch lags behind our own writes
            if group.spec == spec:
                return
            _stop(group)
            self._left.set()
            if group.spec.source != spec.source:
                group = MeasuredGroup(body, spec)
            group.spec = spec
        else:
            if group is not None:
                if _version(body) < _version(group.body):
                    return
                self.forget(name, group.uid)
            group = MeasuredGroup(body, spec)
        self._groups[name] = group
        self._start(group)

    def forget(self, name: str, uid: str) -> None:
        """Stop reading for a WaterLevel that is gone or has an invalid spec.

        Another WaterLevel of its name goes on.
        """
        group = self._groups.get(name)
        if group is not None and group.uid == uid:
            del self._groups[name]
            _stop(group)
            self._left.set()
            self._metrics.forget(name)

    async def _until_look(self) -> None:
        """Wait for the next look at what WaterLevels have left: it is soon after one has gone or changed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._garbage_collection):
                await self._left.wait()
                await asyncio.sleep(_SOON)  # several may go at once
        self._left.clear()

    async def _tidy(self) -> None:
        """Drop WaterLevels that are gone, and remove the annotations that they leave.

        Kopf does not report objects that were deleted while it had no watch, so this lists them from the API
        server.
        """
        if not self._ready():
            return
        known = tuple(self._groups.values())
        try:
            stored = [decode_water_level(each) for each in await list_all(self._client, WATERLEVELS)]
        except NotFound:
            stored = []  # the kind is gone, and all WaterLevels with it
        except ApiError:
            return
        uids = {each.meta.uid for each in stored}
        for group in known:
            if group.uid not in uids:
                self.forget(group.name, group.uid)
        if await self._leftovers.remove(stored, self._groups.values(), self._clock.now()):
            self._publish_uses()

    def _start(self, group: MeasuredGroup) -> None:
        if self._running is not None:
            source = group.source = group.source or self._source(group.spec)
            group.task = self._running.create_task(self._follow(group, source))

    def _source(self, spec: WaterLevelSpec) -> Source:
        if self._sources is None:
            # It imports aiohttp, which takes a tenth of a start, and most clusters have no WaterLevel.
            from tidelock.load.sources import Sources  # noqa: PLC0415

            self._sources = Sources(self._client, self._cache)
        return self._sources.make(spec)

    async def _close_sources(self) -> None:
        if self._sources is not None:
            await self._sources.aclose()
            self._sources = None
        for group in self._groups.values():
            group.source = None

    async def _follow(self, group: MeasuredGroup, source: Source) -> NoReturn:
        due = self._clock.monotonic()
        while True:
            started = self._clock.monotonic()
            with self._isolation.attempt("measuring", WATERLEVELS, group.meta) as attempt:
                await self._refresh(group, source)
            if attempt.error is not None:
                await self._publish_fault(group, attempt.error)
            await asyncio.sleep(attempt.pause)
            ended = self._clock.monotonic()
            self._metrics.refresh.observe(ended - started)
            due = max(due + group.spec.refresh_seconds, ended)
            await asyncio.sleep(due - ended)

    async def _refresh(self, group: MeasuredGroup, source: Source) -> None:
        """Read once, and publish the result."""
        first = group.reading is None
        nodes = members(group, self._groups.values(), self._cache.columns.nodes)
        identify = self._identify(nodes, source.settling)
        now = self._clock.now()
        try:
            reading = await source.read(now)
        except SourceError as error:
            self._failed(group, error)
            group.reading = UseReading()
        else:
            if group.failure is not None:
                logger.info("a source is read again", extra={"waterlevel": group.name})
            group.failure, group.reading = None, reading
            group.estimate.advance(self._clock.now())
            await in_slices(group.estimate.absorb(now, reading, nodes.__contains__, identify))
            if first:  # the current values are published before a day is read
                await self._publish(group, nodes)
            await self._read_past(group, source, nodes, identify)
        group.estimate.advance(self._clock.now())
        await self._publish(group, nodes)

    async def _read_past(
        self, group: MeasuredGroup, source: Source, nodes: Mapping[str, Node], identify: Identify
    ) -> None:
        """Read missed instants: before the start, or while the source could not be read."""
        if self._clock.monotonic() < group.past_from:
            return
        for times in tuple(group.estimate.missed()):
            try:
                async for at, reading in source.past(times):
                    work = group.estimate.absorb(at, reading, nodes.__contains__, identify)
                    await in_slices(work, AT_LEISURE)
            except SourceError as error:
                group.past_from = self._clock.monotonic() + _PAST_RETRY
                fields = {"waterlevel": group.name, "error": str(error)}
                logger.warning("past measurements were not read", extra=fields)
                return

    def _failed(self, group: MeasuredGroup, error: SourceError) -> None:
        self._metrics.read_errors.labels(error.reason.value).inc()
        if group.failure is None or group.failure.reason is not error.reason:
            fields = {"waterlevel": group.name, "reason": error.reason.value, "error": str(error)}
            logger.warning("a source was not read", extra=fields)
        group.failure = error

    def _identify(self, nodes: Mapping[str, Node], settling: float) -> Identify:
        """Return a function that finds the pods on some nodes, and note their owners."""

        def identify(key: Key) -> Subject | None:
            placed = self._cache.named(key)
            if placed is None or placed.node_name not in nodes:
                return None
            pod = placed.pod
            since = pod.meta.created + settling
            owner = workload_reference(pod, self._replica_sets)
            if owner is None:
                return Subject(pod.uid, since, None)
            workload = WorkloadKey(owner.kind, key.namespace, owner.name)
            self._workloads.owners[workload] = owner
            return Subject(pod.uid, since, workload)

        return identify

    async def _publish(self, group: MeasuredGroup, nodes: Mapping[str, Node]) -> None:
        """Compute the levels, pass them to the scheduler, and write them to objects."""
        estimate, cache = group.estimate, self._cache

        def placed_here(uid: str) -> bool:
            placed = cache.get(uid)
            return placed is not None and placed.node_name in nodes

        await in_slices(estimate.retain(nodes.__contains__, placed_here))
        await in_slices(estimate.judge())
        self._publish_uses()
        await self._write_status(group, nodes)
        if group.failure is not None:
            return  # nothing is newer than the written state
        objects: list[Annotated] = []
        await in_slices(self._news_of_nodes(group, nodes, objects))
        await in_slices(self._news_of_workloads(group, objects))
        await self._annotator.write(objects)
        self._annotator.retain(
            {node.meta.uid for node in cache.columns.nodes}
            | {owner.uid for owner in self._workloads.owners.values()}
        )

    def _publish_uses(self) -> None:
        ordered = sorted(self._groups.values(), key=lambda group: group.rank, reverse=True)
        pods: dict[str, PodMeans] = {}
        for group in ordered:  # so the oldest group's values win
            pods |= group.estimate.uses.pods
        self._workloads.learn(group.estimate.uses.workloads for group in ordered)
        self._on_uses(MeasuredUses(pods, self._workloads.uses))

    def _news_of_nodes(
        self, group: MeasuredGroup, nodes: Mapping[str, Node], into: list[Annotated]
    ) -> Iterator[None]:
        age = group.spec.staleness_seconds * REWRITE_PART
        readings = group.reading.nodes if group.reading is not None else {}
        for item in paced(nodes.items()):
            if item is None:
                yield
                continue
            name, node = item
            level = group.estimate.levels.get(name)
            if level is None or not self._annotator.is_worth_a_write(NODES, node.meta.uid, level, age):
                continue
            more: Mapping[str, str] = {}
            if group.spec.crane_annotations:
                pods = (placed.pod for placed in self._cache.pods_on(name))
                hot = hot_value(pods, self._clock.now())
                more = crane_annotations(level, readings.get(name, Use(level.at)), hot)
            into.append(Annotated(NODES, name, "", node.meta.uid, level, more))

    def _news_of_workloads(self, group: MeasuredGroup, into: list[Annotated]) -> Iterator[None]:
        older = [each.estimate.uses.workloads for each in self._groups.values() if each.rank < group.rank]
        for item in paced(group.estimate.uses.workloads.items()):
            if item is None:
                yield
                continue
            key, usage = item
            owner = self._workloads.owners.get(key)
            if owner is None or any(key in each for each in older):
                continue
            resource = workload_resource(key.kind, owner.api_version)
            if self._annotator.is_worth_a_write(resource, owner.uid, usage, WORKLOAD_SECONDS):
                into.append(Annotated(resource, key.name, key.namespace, owner.uid, usage))

    async def _write_status(self, group: MeasuredGroup, nodes: Mapping[str, Node]) -> None:
        """Write the status if it has changed. A refused write is repeated at the next refresh."""
        reading = group.reading or UseReading()
        now = self._clock.now()
        summary = GroupSummary(group.spec, reading.invalid, now)
        for item in paced(nodes):
            if item is None:
                await asyncio.sleep(0)
            else:
                summary.add(item, group.estimate.levels.get(item))
        stored, generation = group.body.get("status", {}), _generation(group.body)
        found = summary.survey(await self._unexplained(group, stored, now))
        self._metrics.surveyed(group.name, found)
        examples = (f"{name}: {problem}" for name, problem in sorted(reading.invalid.items())[:3])
        conditions = aspects(found, group.failure, [*reading.problems, *examples])
        if await self._put_status(group, render_level(stored, generation, found, conditions, now)):
            self._record_transitions(group, stored, conditions)

    async def _unexplained(self, group: MeasuredGroup, stored: Mapping[str, Any], now: float) -> float | None:
        """Learn how much of the use of a group's pods their requests do not explain, if that is wanted."""
        if not group.spec.learn_weight:
            return None
        group.unexplained.restore(stored.get("unexplainedPercent"), now)
        oldest = now - group.spec.staleness_seconds
        pods = await use_and_requests(group.estimate.uses.pods, self._cache.get, oldest)
        group.unexplained.learn(largest_unexplained_part(*pods), now)
        return group.unexplained.part

    async def _publish_fault(self, group: MeasuredGroup, error: Exception) -> None:
        """Report in the status that a step failed, until one succeeds."""
        stored, note = group.body.get("status", {}), failure_note(error)
        status = failed(stored, _generation(group.body), "InternalError", note, self._clock.now())
        await self._put_status(group, status)

    async def _put_status(self, group: MeasuredGroup, wanted: dict[str, Any]) -> bool:
        """Write a status if it has changed, and return whether it was written."""
        stored = group.body.get("status", {})
        if stored == wanted:
            return False
        patch = {
            "metadata": {"resourceVersion": group.body["metadata"]["resourceVersion"]},
            "status": wanted | dict.fromkeys(stored.keys() - wanted.keys()),
        }
        try:
            answer = await self._client.patch(WATERLEVELS.item(group.name, subresource="status"), patch)
        except ApiError as error:
            logger.info(
                "a WaterLevel's status was not written", extra={"waterlevel": group.name, "error": str(error)}
            )
            return False
        group.body = msgspec.json.decode(answer)  # the watch may show it after the next write
        return True

    def _record_transitions(
        self, group: MeasuredGroup, stored: Mapping[str, Any], conditions: list[Aspect]
    ) -> None:
        before = condition_statuses(stored)
        about = ObjectReference(WATERLEVELS.api_version, WATERLEVELS.kind, group.name, uid=group.uid)
        for each in conditions:
            bad = each.status == ("True" if each.type == METRICS_STALE else "False")
            if before.get(each.type, "False" if each.type == METRICS_STALE else "") != each.status:
                self._recorder.record(
                    about, "Warning" if bad else "Normal", each.reason, "Measure", each.message
                )


def condition_statuses(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each condition of a stored status."""
    return {each["type"]: each["status"] for each in stored.get("conditions", ())}


def _generation(body: Mapping[str, Any]) -> int:
    return int(body["metadata"].get("generation", 0))


def _version(body: Mapping[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


def _stop(group: MeasuredGroup) -> None:
    if group.task is not None:
        group.task.cancel()
        group.task = None
