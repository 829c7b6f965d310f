"""Reads the past of a cluster from a Prometheus with the metrics of kube-state-metrics and cAdvisor.

Range queries read nodes, pods and their use. Instant queries read the lasting properties of a pod: requests,
limits, owners and memory, each as its highest or mean value over a chunk. A chunk is a day, or as many steps
as a server answers for one series.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

import aiohttp
import msgspec
import numpy as np

from tidelock.load.prometheus import CONTAINERS
from tidelock.load.promql import Access, PrometheusClient, Series, Vector, decode_series
from tidelock.load.source import FailureReason, SourceError
from tidelock.model.meta import Key
from tidelock.simulation.recording import PodIdentity, RecordedPod, Recording
from tidelock.simulation.traces import TraceError
from tidelock.simulation.world import STEP, Floats, Indices

DAY = 86_400
MOST_STEPS = 11_000
"""Points of a series that Prometheus answers to one query."""

_TIMEOUT = 120.0  # seconds for a query, which Prometheus allows by default
_QUERIES = 8  # of each chunk
_PODS = "namespace, pod, uid, node, created_by_kind, created_by_name"

_STATE = "install kube-state-metrics, and let Prometheus scrape it"
_USE = "let Prometheus scrape /metrics/cadvisor of the kubelets, with the labels namespace, pod and container"
REQUIRED: Mapping[str, str] = {
    "kube_node_status_allocatable": _STATE,
    "kube_pod_info": _STATE,
    "kube_pod_status_phase": _STATE,
    "kube_pod_container_resource_requests": _STATE,
    "container_cpu_usage_seconds_total": _USE,
    "container_memory_working_set_bytes": _USE,
}
"""The metrics without which nothing can be simulated, and how to get them."""


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """Steps of the past.

    Attributes:
        start: second of the epoch at which the first step begins.
        step: seconds of a step.
        steps: their number.

    """

    start: int
    step: int
    steps: int

    @classmethod
    def until(cls, now: float, days: float, step: int) -> "RecordedSpan":
        """Return the whole steps of the last days, or raise ValueError if there is none."""
        if step <= 0:
            raise ValueError(f"--step: {step} s should be at least a second")
        steps = int(days * DAY // step)
        if steps <= 0:
            raise ValueError(f"--days: {days:g} days should have at least a step of {step} s")
        return cls(int(now // step) * step - steps * step, step, steps)

    def chunks(self) -> Iterator["RecordedSpan"]:
        """Yield parts that a server answers in one query, in order."""
        most = max(min(DAY // self.step, MOST_STEPS), 1)
        for first in range(0, self.steps, most):
            yield RecordedSpan(self.start + first * self.step, self.step, min(most, self.steps - first))

    @property
    def queries(self) -> int:
        """The number of queries that read it."""
        return len(REQUIRED) + 1 + _QUERIES * sum(1 for _ in self.chunks())

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.step * self.steps

    @property
    def end(self) -> int:
        """Second of the epoch at which it ends."""
        return self.start + self.seconds


class Recorder:
    """Reads some steps of the past.

    The value of a step is that of the instant at which it ends. A rate covers the time before that.
    """

    def __init__(
        self,
        client: PrometheusClient,
        title: str,
        span: RecordedSpan,
        matchers: str,
        advance: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            client: the server.
            title: the title of the recording.
            span: the steps.
            matchers: label matchers of all series, separated by commas, such as `cluster="east"`.
            advance: called after each query with its subject.

        """
        self._client = client
        self._span = span
        self._matchers = matchers
        self._advance = advance
        self._recording = Recording(title, float(span.start), float(span.step), span.steps)

    async def read(self) -> Recording:
        """Read all steps.

        Raises:
            SourceError: a query was not answered.
            TraceError: a required metric is missing.

        """
        await self._refuse_missing()
        for chunk in self._span.chunks():
            for each in await self._range(chunk, "nodes", self._selected("kube_node_status_allocatable")):
                self._add_node(each)
            for each in await self._range(chunk, "pods", self._pods()):
                self._add_pod(each)
            for each in await self._range(chunk, "cpu", self._cpu()):
                if (key := _pod(each.metric)) is not None:
                    self._fill(self._recording.cpu.setdefault(key, self._unknown()), each)
            await self._read_kept(chunk)
        return self._recording

    async def _read_kept(self, chunk: RecordedSpan) -> None:
        recording = self._recording
        for name, found in (("requests", recording.requests), ("limits", recording.limits)):
            metric = f"kube_pod_container_resource_{name}"
            text = self._over(chunk, "max", metric, 'resource=~"cpu|memory",node!=""')
            text = (
                f"sum by (namespace, pod, resource) (max by (namespace, pod, container, resource) ({text}))"
            )
            for each in await self._instant(chunk, name, text):
                if (key := _pod(each.metric)) is not None and (value := _value(each)) is not None:
                    found.setdefault(key, {})[each.metric.get("resource", "")] = value
        text = self._over(chunk, "avg", "container_memory_working_set_bytes", CONTAINERS)
        text = f"sum by (namespace, pod) (max by (namespace, pod, container) ({text}))"
        for each in await self._instant(chunk, "memory", text):
            if (key := _pod(each.metric)) is not None and (value := _value(each)) is not None:
                recording.memory[key] = max(value, recording.memory.get(key, 0.0))
        text = f"max by (namespace, pod, uid) ({self._over(chunk, 'last', 'kube_pod_created', '')})"
        for each in await self._instant(chunk, "creations", text):
            if (key := _pod(each.metric)) is not None and (value := _value(each)) is not None:
                recording.created[PodIdentity(key.namespace, key.name, each.metric.get("uid", ""))] = value
        text = self._over(chunk, "last", "kube_replicaset_owner", 'owner_kind="Deployment"')
        text = f"max by (namespace, replicaset, owner_name) ({text})"
        for each in await self._instant(chunk, "owners", text):
            labels = each.metric
            key = Key(labels.get("namespace", ""), labels.get("replicaset", ""))
            recording.deployments[key] = labels.get("owner_name", "")

    async def _refuse_missing(self) -> None:
        """Raise TraceError for the metrics that the server does not have at the end, or with other labels."""
        missing: dict[str, list[str]] = {}
        for metric, cure in REQUIRED.items():
            if not await self._counted(metric, *((CONTAINERS,) if cure is _USE else ())):
                missing.setdefault(cure, []).append(metric)
        if await self._counted("kube_pod_info", 'exported_pod!=""'):
            raise TraceError(
                f"{self._recording.title} has pods under the label exported_pod: scrape kube-state-metrics "
                "with honor_labels: true"
            )
        if missing:
            lacking = "; ".join(f"{', '.join(names)}: {cure}" for cure, names in missing.items())
            raise TraceError(f"{self._recording.title} has no present series of {lacking}")

    async def _counted(self, metric: str, *more: str) -> bool:
        """Return whether a metric has series at the end."""
        form = {"query": f"count({self._selected(metric, *more)})", "time": f"{self._span.end}"}
        return bool(await self._query("query", await self._client.access(), metric, form))

    def _selected(self, metric: str, *more: str) -> str:
        return f"{metric}{{{','.join(each for each in (*more, self._matchers) if each)}}}"

    def _over(self, chunk: RecordedSpan, function: str, metric: str, more: str) -> str:
        return f"{function}_over_time({self._selected(metric, more)}[{chunk.seconds}s])"

    def _pods(self) -> str:
        phase = self._selected("kube_pod_status_phase", 'phase=~"Pending|Running"')
        info = self._selected("kube_pod_info", 'node!=""')
        return f"max by ({_PODS}) ({info} and on (namespace, pod) ({phase} == 1))"

    def _cpu(self) -> str:
        counter = self._selected("container_cpu_usage_seconds_total", CONTAINERS)
        return f"sum by (namespace, pod) (rate({counter}[{max(self._span.step, int(STEP))}s]))"

    async def _range(self, chunk: RecordedSpan, about: str, text: str) -> Iterator[Series]:
        access = await self._client.access()
        span = {"start": f"{chunk.start + chunk.step}", "end": f"{chunk.end}", "step": f"{chunk.step}"}
        return _series(await self._query("query_range", access, about, {"query": text} | span))

    async def _instant(self, chunk: RecordedSpan, about: str, text: str) -> Iterator[Series]:
        access = await self._client.access()
        return _series(await self._query("query", access, about, {"query": text, "time": f"{chunk.end}"}))

    async def _query(
        self, path: str, access: Access, about: str, form: Mapping[str, str]
    ) -> list[msgspec.Raw]:
        answer: Vector = await self._client.query(path, access, form)
        self._recording.warnings.extend(f"{about}: {each}" for each in answer.warnings)
        self._advance(about)
        return list(answer.series)

    def _add_node(self, each: Series) -> None:
        node, resource = each.metric.get("node"), each.metric.get("resource", "")
        if node:
            self._fill(self._recording.nodes.setdefault(node, {}).setdefault(resource, self._unknown()), each)

    def _add_pod(self, each: Series) -> None:
        """Add the life of a pod. It also lives through times at which nothing was scraped."""
        labels, key = each.metric, _pod(each.metric)
        if key is None or not each.values:
            return
        first, last = self._steps(np.array([each.values[0][0], each.values[-1][0]])).tolist()
        identity = PodIdentity(key.namespace, key.name, labels.get("uid", ""))
        known = self._recording.pods.get(identity)
        kind, owner = (labels.get(f"created_by_{part}", "") for part in ("kind", "name"))
        none = kind in ("", "<none>")
        self._recording.pods[identity] = RecordedPod(
            node=labels.get("node", ""),
            kind="Pod" if none else kind,
            owner="" if none else owner,
            first=first if known is None else known.first,
            last=last,
        )

    def _fill(self, row: Floats, each: Series) -> None:
        """Add the values of a series, of which the higher one counts if there are two."""
        if each.values:
            ats, texts = zip(*each.values, strict=True)
            values, steps = np.array(texts, np.float64), self._steps(np.array(ats))
            good = np.isfinite(values) & (steps >= 0) & (steps < self._span.steps)
            np.fmax.at(row, steps[good], values[good])

    def _unknown(self) -> Floats:
        return np.full(self._span.steps, np.nan)

    def _steps(self, ats: Floats) -> Indices:
        """Return the numbers of the steps that end at some instants."""
        return np.rint((ats - self._span.start) / self._span.step).astype(np.intp) - 1


async def record(
    address: str, access: Access, span: RecordedSpan, matchers: str, advance: Callable[[str], None]
) -> Recording:
    """Read the past from the server at an address.

    Raises:
        SourceError: a query was not answered.
        TraceError: a required metric is missing.

    """

    async def given() -> Access:
        return access

    async with aiohttp.ClientSession() as session:
        client = PrometheusClient(session, address, given, _TIMEOUT)
        title = address.rpartition("@")[2]  # without a password
        return await Recorder(client, title, span, matchers, advance).read()


def _series(answer: list[msgspec.Raw]) -> Iterator[Series]:
    for raw in answer:
        try:
            yield decode_series(raw)
        except ValueError as error:
            raise SourceError(
                FailureReason.MALFORMED, f"an item of the answer is malformed: {error}"
            ) from error


def _pod(labels: Mapping[str, str]) -> Key | None:
    namespace, name = labels.get("namespace"), labels.get("pod")
    return Key(namespace, name) if namespace and name else None


def _value(each: Series) -> float | None:
    value = float(each.value[1]) if each.value is not None else np.nan
    return value if isfinite(value) else None
