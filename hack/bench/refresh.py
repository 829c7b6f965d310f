"""A benchmark of refreshing all measurements: python -m bench.refresh [--quick] [--json FILE].

A new control plane has nodes without kubelets, and Deployments with pods on them. `tidelock run` reads the
measurements of a WaterLevel from a server that answers as Prometheus would. A refresh is measured when
nothing has moved, and when everything has, so that every node and every Deployment is annotated. In the end
pods are created at a steady rate during a refresh. Their latency is compared with that of pods without a
refresh. One more refresh is measured after the cluster has grown to --most-nodes. The floor is a bare client
that writes as many patches as the others.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import msgspec

from bench.bindings import Bindings, bindings
from bench.command import add_counts, add_json, is_quick, run_alone
from bench.figures import Figure, percentile, table
from bench.histograms import Histogram
from bench.programs import cpu_seconds, resident_bytes, scrape, tidelock
from bench.record import Record
from bench.scenarios import plain_pod, pod_object
from bench.scripted import QUERIES, Scripted, serving
from bench.world import BACKGROUND, NAMESPACE, add_nodes, admin, each, install
from devcluster import Component, LocalCluster
from devcluster.output import say
from tidelock.kube.client import NODES, PODS, WATERLEVELS, ApiResource, KubeClient
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    POD_USAGE,
    NodeLevel,
    PodUsage,
    Stat,
    Windows,
    encode_node_level,
    encode_pod_usage,
)
from tidelock.settings import DEFAULT_SCHEDULER_NAME

DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", "ReplicaSet")

_LEVEL = "bench"
_STILL = "nothing moved"
_FLOOR = "floor: the patches alone, by a bare client"
_TARGET = 30  # seconds
_MILLI = 1000
_MEBI = 2**20
_SLOT = 60  # seconds. Only the first reading within a slot of the shortest window counts
_LOOK_AGAIN = 1.0
_IN_FLIGHT = 8  # as the annotator has
_REFRESHES = "tidelock_water_level_refresh_seconds"
_DECISIONS = "scheduler_scheduling_algorithm_duration_seconds"
_PATIENCE = 600.0


@dataclass
class Steady:
    """Pods that are created at a fixed rate, whether they are bound or not.

    Attributes:
        begins: when the request of each pod began, as of `time.perf_counter`.

    """

    client: KubeClient
    rate: float
    numbers: Callable[[], int]
    begins: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """Create pods while the context lasts."""
        task = asyncio.create_task(self._make())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _make(self) -> None:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for made in count(1):
                group.create_task(self._add())
                await asyncio.sleep(max(start + made / self.rate - time.perf_counter(), 0.0))

    async def _add(self) -> None:
        number = self.numbers()
        name = f"pod-{number:06}"
        self.begins[name] = time.perf_counter()
        await asyncio.shield(
            self.client.create(
                PODS.collection(NAMESPACE), pod_object(name, DEFAULT_SCHEDULER_NAME, plain_pod(number))
            )
        )

    async def latencies(self, seen: Bindings) -> list[float]:
        """Wait until all pods are bound, and return the milliseconds from each request to its binding."""
        async with asyncio.timeout(_PATIENCE):
            while self.begins.keys() - seen.seen.keys():  # noqa: ASYNC110 -- others' pods are seen too
                await asyncio.sleep(_LOOK_AGAIN)
        return [(seen.seen[name] - begin) * _MILLI for name, begin in self.begins.items()]


@dataclass
class Bench:
    """One measurement: the programs, the observers, and the figures by the situation."""

    cluster: LocalCluster
    client: KubeClient
    program: Component
    scripted: Scripted
    seen: Bindings
    options: argparse.Namespace
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    numbers: Callable[[], int] = field(default_factory=lambda: count().__next__)

    async def run(self) -> None:
        """Measure everything."""
        await self._create_level()
        await self._until_refreshed(1.0)
        say("The first refresh has been.")
        await self.decisions("no refresh", None)
        for title, part in ((_STILL, self.scripted.part), ("all moved", 1.0)):
            self.scripted.part = part
            for _ in range(self.options.rounds):
                await _next_slot()
                await self.refresh(title)
        self.scripted.part = 0.0
        await _next_slot()
        await self.decisions(f"all moved, {self.options.rate:g} pods/s beside it", self.refresh)
        self._figure("", "resident at the end", "MiB").add(resident_bytes(self.program) / _MEBI)
        if self.options.most_nodes > self.options.nodes:
            await self._grow()
        await self.floor()

    async def _grow(self) -> None:
        """Add nodes, and measure a refresh of all of them."""
        size, few = self.options.most_nodes, len(self.scripted.nodes)
        measured = list(self.scripted.nodes)
        self.scripted.nodes += await add_nodes(self.client, size - few, few)
        await asyncio.sleep(_SLOT)  # the operator takes the new nodes over
        self.scripted.part = 1.0
        await _next_slot()
        await self.refresh(f"all moved, {size:,} nodes")
        self.scripted.nodes = measured

    async def refresh(self, title: str) -> None:
        """Trigger a refresh, and measure its cost."""
        programs = {"operator": self.program, "API server": self.cluster.apiserver, "etcd": self.cluster.etcd}
        text = await self._scraped()
        done, written = Histogram.parse(text, _REFRESHES), _written(text)
        used = {name: cpu_seconds(process) for name, process in programs.items()}
        spec = {"stalenessSeconds": 7200 + int(done.count) % 2}  # any edit triggers a refresh at once
        await self.client.patch(WATERLEVELS.item(_LEVEL), {"spec": spec})
        text = await self._until_refreshed(done.count + 1)
        target = _TARGET if len(self.scripted.nodes) == self.options.nodes and title != _STILL else None
        self._figure(title, "refresh", "s", target).add(Histogram.parse(text, _REFRESHES).total - done.total)
        self._figure(title, "patches", "").add(_written(text) - written)
        for program, process in programs.items():
            figure = self._figure(title, f"processor time, {program}", "s")
            figure.add(cpu_seconds(process) - used[program])

    async def decisions(self, title: str, refresh: Callable[[str], Awaitable[None]] | None) -> None:
        """Create pods for some seconds, or during a refresh, and measure their latency."""
        steady = Steady(self.client, self.options.rate, self.numbers)
        before = Histogram.parse(await self._scraped(), _DECISIONS)
        async with steady.making():
            if refresh is None:
                await asyncio.sleep(self.options.seconds)
            else:
                await refresh(title)
        latencies = await steady.latencies(self.seen)
        taken = Histogram.parse(await self._scraped(), _DECISIONS).since(before)
        for share in (0.5, 0.99):
            percent = round(100 * share)
            self._figure(title, f"decision, p{percent}", "ms").add(taken.quantile(share) * _MILLI)
            self._figure(title, f"create to bound, p{percent}", "ms").add(percentile(latencies, percent))

    async def floor(self) -> None:
        """Write as many patches without any other work."""
        at = time.time()
        windows: Windows = {
            window: {"cpu": Stat(42.42, 80.01, 70.07), "memory": Stat(42.42, 80.01, 70.07)}
            for window in ("15m", "1h", "1d")
        }
        level = {NODE_LEVEL: encode_node_level(NodeLevel(at, windows))}
        usage = {POD_USAGE: encode_pod_usage(PodUsage(at, windows))}
        patches = [
            (NODES.item(name), _body(NODES, {"name": name, "annotations": level}))
            for name in self.scripted.nodes
        ]
        for name in map(_workload, range(self.options.workloads)):
            metadata = {"name": name, "namespace": BACKGROUND, "annotations": usage}
            patches.append((DEPLOYMENTS.item(name, BACKGROUND), _body(DEPLOYMENTS, metadata)))
        left = iter(patches)

        async def work() -> None:
            for path, body in left:
                parameters = {"fieldManager": "bench-floor", "force": "true"}
                await self.client.patch(path, body, kind="apply", params=parameters)

        # The operator watches nodes, and would use processor time for each event.
        await asyncio.to_thread(self.program.stop)
        begin, used = time.perf_counter(), time.process_time()
        servers = cpu_seconds(self.cluster.apiserver)
        await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
        self._figure(_FLOOR, "patches", "").add(len(patches))
        self._figure(_FLOOR, "refresh", "s").add(time.perf_counter() - begin)
        self._figure(_FLOOR, "processor time, operator", "s").add(time.process_time() - used)
        figure = self._figure(_FLOOR, "processor time, API server", "s")
        figure.add(cpu_seconds(self.cluster.apiserver) - servers)

    async def _create_level(self) -> None:
        source = {"prometheus": {"address": self.scripted.address, "queries": QUERIES}}
        body = {
            "apiVersion": WATERLEVELS.api_version,
            "kind": WATERLEVELS.kind,
            "metadata": {"name": _LEVEL},
            "spec": {"source": source, "refreshSeconds": 3600, "stalenessSeconds": 7200},
        }
        await self.client.create(WATERLEVELS.collection(), body)

    async def _until_refreshed(self, times: float) -> str:
        async with asyncio.timeout(_PATIENCE):
            text = await self._scraped()
            while Histogram.parse(text, _REFRESHES).count < times:
                await asyncio.sleep(_LOOK_AGAIN)
                text = await self._scraped()
        return text

    async def _scraped(self) -> str:
        return await asyncio.to_thread(scrape, self.program)

    def _figure(self, subject: str, name: str, unit: str, target: float | None = None) -> Figure:
        figures = self.figures.setdefault(subject, [])
        for figure in figures:
            if figure.name == name:
                return figure
        figures.append(Figure(name, unit, target))
        return figures[-1]


def _body(resource: ApiResource, metadata: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


async def _next_slot() -> None:
    await asyncio.sleep(_SLOT - time.time() % _SLOT + 1)


def _written(text: str) -> float:
    """Return the number of annotations that the operator has written."""
    lines = (line for line in text.splitlines() if line.startswith("tidelock_water_level_patches_total"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'result="written"' in line)


def _workload(number: int) -> str:
    return f"app-{number:04}"


async def add_workloads(client: KubeClient, count: int, pods: int, nodes: int) -> list[tuple[str, str]]:
    """Create Deployments, their ReplicaSets and pods that are bound to nodes in turn, and return the pods."""
    owners: dict[int, dict[str, object]] = {}

    async def add(number: int) -> None:
        name = _workload(number)
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": plain_pod(number)["spec"]}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        owner = None
        for resource in (DEPLOYMENTS, REPLICA_SETS):
            metadata = {"name": name, "ownerReferences": [owner] if owner else []}
            body = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": metadata,
                "spec": spec,
            }
            made = msgspec.json.decode(await client.create(resource.collection(BACKGROUND), body))
            owner = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": name,
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        owners[number] = owner or {}

    await each(add, range(count))

    async def add_pod(number: int) -> None:
        body = pod_object(f"placed-{number:06}", DEFAULT_SCHEDULER_NAME, plain_pod(number))
        body["metadata"]["ownerReferences"] = [owners[number % count]]
        body["spec"]["nodeName"] = f"node-{number % nodes:04}"
        await client.create(PODS.collection(BACKGROUND), body)

    await each(add_pod, range(pods))
    return [(BACKGROUND, f"placed-{number:06}") for number in range(pods)]


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Measure, print the figures and return the exit status."""
    record = Record.begin(options)
    program = tidelock(cluster, install(cluster))
    async with admin(cluster) as client:
        say(f"{options.nodes} nodes, {options.workloads} Deployments, {options.pods} pods.")
        names = await add_nodes(client, options.nodes)
        pods = await add_workloads(client, options.workloads, options.pods, options.nodes)
        scripted = Scripted(names, pods)
        async with serving(scripted), bindings(client) as seen:
            await asyncio.to_thread(program.start)
            bench = Bench(cluster, client, program, scripted, seen, options)
            try:
                await bench.run()
            finally:  # prints the figures that were measured even after an error
                print(f"{options.nodes} nodes, {options.workloads} Deployments, {options.pods} placed pods.")
                for subject, figures in bench.figures.items():
                    print(f"\n{subject}\n{table(figures)}", flush=True)
    for subject, figures in bench.figures.items():
        record.add(figures, subject)
    record.write(options.json)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    parser = argparse.ArgumentParser(prog="bench.refresh", description="Measure the cost of a refresh.")
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    counts = (
        ("nodes", 5_000, 500, "nodes without kubelets"),
        ("most-nodes", 15_000, 1_000, "nodes in the end"),
        ("workloads", 2_000, 200, "Deployments"),
        ("pods", 10_000, 1_000, "bound pods of these Deployments"),
        ("rounds", 2, 1, "refreshes of each kind"),
        ("seconds", 30, 10, "how long pods are created without a refresh"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--rate", type=float, default=20, help="pods a second that are created meanwhile")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    return run_alone(run, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
