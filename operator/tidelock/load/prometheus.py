"""A server that speaks the Prometheus HTTP API.

A refresh sends six instant queries, whatever the size of the cluster. It does not query means, maxima and
percentiles over time: a day of subqueries for each node takes the server minutes, and keeping the readings
costs nothing. Range queries only fetch missed instants, at a start or after a failure.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
import msgspec

from tidelock.load.cooperative import AT_LEISURE, in_slices, paced
from tidelock.load.promql import ERROR_LENGTH, Access, PrometheusClient, Vector, decode_series
from tidelock.load.source import SourceError, Use, UseReading, cores, percent, size
from tidelock.model.meta import Key

# Idle time as a part of all time, because a rate alone is too low for series younger than its range.
NODE_CPU = (
    '1 - sum without (cpu, mode) (rate(node_cpu_seconds_total{mode=~"idle|iowait"}[5m]))'
    " / sum without (cpu, mode) (rate(node_cpu_seconds_total[5m]))"
)
NODE_MEMORY = "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
NODE_TIME = "timestamp(node_memory_MemAvailable_bytes)"
NODE_NAMES = "node_uname_info or kube_node_info"
CONTAINERS = 'container!="",container!="POD"'
"""Matchers of the series of containers, without those of cgroups above and of pause containers."""
POD_CPU = f"sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{{{CONTAINERS}}}[5m]))"
POD_MEMORY = f"sum by (namespace, pod) (container_memory_working_set_bytes{{{CONTAINERS}}})"

_K = TypeVar("_K", bound=Hashable)

# Seconds until the default query is correct for a new pod.
SETTLING = 300.0

# Labels that name the node of a series, the most reliable first.
_NODE_LABELS = ("node", "nodename", "kubernetes_node", "instance", "host")
# Instants of one range query, which keep its answer about as large as that of a refresh.
_INSTANTS = 12


@dataclass(frozen=True, slots=True)
class PromQlQueries:
    """PromQL of each query, where an empty one is not sent.

    Queries for nodes return a fraction, 0 to 1, with a label that names the node or its instance. Queries for
    pods return cores and bytes, with the labels namespace and pod.
    """

    node_cpu: str = NODE_CPU
    node_memory: str = NODE_MEMORY
    node_time: str = NODE_TIME
    node_names: str = NODE_NAMES
    pod_cpu: str = POD_CPU
    pod_memory: str = POD_MEMORY


class PrometheusSource:
    """Measurements by PromQL.

    The time of a value is its own, so an old value is recognised. Prometheus gives all values of an instant
    query the time of the query, so the time of the samples needs another query.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: str,
        access: Callable[[], Awaitable[Access]],
        known_nodes: Callable[[], Collection[str]],
        queries: PromQlQueries = PromQlQueries(),
        *,
        timeout_seconds: float = 10.0,
        node_label: str = "",
    ) -> None:
        """Prepare.

        Args:
            session: the HTTP client.
            address: base URL of the server.
            access: returns the current credentials, or raises SourceError.
            known_nodes: returns the names of the cluster's nodes.
            queries: the queries to send.
            timeout_seconds: how long one query may take.
            node_label: the label that names the node; detected if empty.

        """
        self._client = PrometheusClient(session, address, access, timeout_seconds)
        self._known_nodes = known_nodes
        self._queries = queries
        self._labels = (node_label,) if node_label else _NODE_LABELS
        self.settling = SETTLING if queries.pod_cpu == POD_CPU else 0.0

    async def read(self, now: float) -> UseReading:
        """Measure everything as it is now."""
        access = await self._client.access()
        queries = self._queries
        asked = {
            name: self._client.query("query", access, {"query": text, "time": f"{now:.3f}"})
            for name in queries.__slots__
            if (text := getattr(queries, name))
        }
        answers = dict(zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True))
        nodes = [answers.get(name) for name in ("node_cpu", "node_memory")]
        if not any(isinstance(answer, Vector) for answer in nodes):
            raise next(answer for answer in nodes if isinstance(answer, BaseException))
        reading = UseReading()
        vectors = {name: _checked(name, answer, reading) for name, answer in answers.items()}
        names = _Names(self._labels, self._known_nodes())
        await in_slices(names.learn(vectors.get("node_names", ())))
        times: dict[str, float] = {}
        await in_slices(_read_times(vectors.get("node_time", ()), names, times))
        sampled = times if _sampled(vectors) else None
        uses = {query: _Latest[str]() for query in ("node_cpu", "node_memory")}
        for query, latest in uses.items():
            await in_slices(_read_nodes(query, vectors.get(query, ()), names, sampled, reading, latest))
        await in_slices(_join(uses["node_cpu"], uses["node_memory"], reading.nodes))
        pods = {query: _Latest[Key]() for query in ("pod_cpu", "pod_memory")}
        for query, of_pods in pods.items():
            check = cores if query == "pod_cpu" else size
            await in_slices(_read_pods(check, vectors.get(query, ()), of_pods))
        await in_slices(_join(pods["pod_cpu"], pods["pod_memory"], reading.pods))
        reading.problems.extend(names.problems())
        return reading

    async def past(self, times: range) -> AsyncIterator[tuple[float, UseReading]]:
        """Measure everything at past instants, some instants per query."""
        access = await self._client.access()
        for first in range(0, len(times), _INSTANTS):
            some = times[first : first + _INSTANTS]
            names = _Names(self._labels, self._known_nodes())
            if text := self._queries.node_names:
                learnt = await self._client.query("query", access, {"query": text, "time": f"{some[-1]}"})
                await in_slices(names.learn(learnt.series), AT_LEISURE)
            span = {"start": f"{some[0]}", "end": f"{some[-1]}", "step": f"{times.step}"}
            known = {
                query: {float(at): (_Latest[str](), _Latest[Key]()) for at in some}
                for query in ("node_cpu", "node_memory", "pod_cpu", "pod_memory")
            }
            for query, latest in known.items():
                if text := getattr(self._queries, query):
                    answer = await self._client.query("query_range", access, {"query": text} | span)
                    await in_slices(_read_past(query, answer.series, names, latest), AT_LEISURE)
            for instant in some:
                reading, at = UseReading(), float(instant)
                cpu, memory = known["node_cpu"][at], known["node_memory"][at]
                await in_slices(_join(cpu[0], memory[0], reading.nodes), AT_LEISURE)
                cpu, memory = known["pod_cpu"][at], known["pod_memory"][at]
                await in_slices(_join(cpu[1], memory[1], reading.pods), AT_LEISURE)
                yield at, reading


def _checked(name: str, answer: Vector | BaseException | None, reading: UseReading) -> Sequence[msgspec.Raw]:
    """Return the series of an answer, and add its errors to the problems of the reading."""
    if isinstance(answer, Vector):
        reading.problems.extend(f"{_camel(name)}: {each}" for each in answer.warnings)
        return answer.series
    if not isinstance(answer, SourceError):
        raise answer if answer is not None else AssertionError(name)
    reading.problems.append(f"{_camel(name)}: {answer}")
    return ()


class _Names:
    """Finds the node of a series."""

    def __init__(self, labels: Sequence[str], known: Collection[str]) -> None:
        self._labels = labels
        self._known = known if isinstance(known, (set, frozenset, dict)) else frozenset(known)
        self._aliases: dict[str, str] = {}
        self._foreign: dict[str, str] = {}  # an example for each query

    def learn(self, series: Sequence[msgspec.Raw]) -> Iterator[None]:
        """Read from series which instances and addresses belong to which nodes."""
        for raw in paced(series):
            if raw is None:
                yield
                continue
            labels = decode_series(raw).metric
            name = next((labels[key] for key in ("node", "nodename") if labels.get(key) in self._known), None)
            if name is None:
                continue
            # The instance of a series with an internal_ip is the program that reports all nodes.
            key = "internal_ip" if "internal_ip" in labels else "instance"
            if alias := labels.get(key):
                self._aliases[alias] = self._aliases[_host(alias)] = name

    def of(self, query: str, labels: Mapping[str, str]) -> str | None:
        """Return the node of a series, or None for another object."""
        for key in self._labels:
            value = labels.get(key)
            if value is None:
                continue
            for candidate in (value, _host(value)):
                if candidate in self._known:
                    return candidate
                if candidate in self._aliases:
                    return self._aliases[candidate]
        self._foreign.setdefault(query, str(dict(labels)))
        return None

    def problems(self) -> Iterator[str]:
        """Describe queries with series of no node."""
        for query, example in self._foreign.items():
            yield f"{_camel(query)}: a series is of no node of the cluster: {example[:ERROR_LENGTH]}"


def _sampled(vectors: Mapping[str, Sequence[msgspec.Raw]]) -> bool:
    return bool(vectors.get("node_time"))


def _read_times(series: Sequence[msgspec.Raw], names: _Names, times: dict[str, float]) -> Iterator[None]:
    for raw in paced(series):
        if raw is None:
            yield
            continue
        each = decode_series(raw)
        name = names.of("node_time", each.metric)
        if name is None or each.value is None:
            continue
        try:
            at = float(each.value[1])
        except ValueError:
            continue
        if at > 0:  # nor is NaN
            times[name] = max(at, times.get(name, 0.0))


def _read_nodes(
    query: str,
    series: Sequence[msgspec.Raw],
    names: _Names,
    times: Mapping[str, float] | None,
    reading: UseReading,
    latest: "_Latest[str]",
) -> Iterator[None]:
    for raw in paced(series):
        if raw is None:
            yield
            continue
        each = decode_series(raw)
        name = names.of(query, each.metric)
        if name is None or each.value is None:
            continue
        at, text = each.value
        if times is not None:
            if name not in times:
                continue  # its exporter has gone, and a rate continues for some minutes
            at = min(at, times[name])
        try:
            value = percent(float(text) * 100)
        except ValueError as error:
            reading.invalid[name] = f"{_camel(query)}: {error}"
            continue
        latest.put(name, at, value)


def _read_pods(
    check: Callable[[float], float], series: Sequence[msgspec.Raw], latest: "_Latest[Key]"
) -> Iterator[None]:
    for raw in paced(series):
        if raw is None:
            yield
            continue
        each = decode_series(raw)
        key = _pod(each.metric)
        if key is None or each.value is None:
            continue
        at, text = each.value
        try:
            latest.put(key, at, check(float(text)))
        except ValueError:
            continue


def _read_past(
    query: str,
    series: Sequence[msgspec.Raw],
    names: _Names,
    readings: Mapping[float, tuple["_Latest[str]", "_Latest[Key]"]],
) -> Iterator[None]:
    of_node = query.startswith("node")
    check = percent if of_node else cores if query == "pod_cpu" else size
    for raw in paced(series):
        if raw is None:
            yield
            continue
        each = decode_series(raw)
        name = names.of(query, each.metric) if of_node else None
        key = None if of_node else _pod(each.metric)
        for at, text in each.values:
            if at not in readings:
                continue
            nodes, pods = readings[at]
            try:
                value = check(float(text) * (100 if of_node else 1))
            except ValueError:
                continue
            if name is not None:
                nodes.put(name, at, value)
            elif key is not None:
                pods.put(key, at, value)


class _Latest(dict[_K, tuple[float, float]]):
    """Times and values by object. The newer of two values counts, and the higher of two with equal time."""

    def put(self, key: _K, at: float, value: float) -> None:
        known = self.get(key)
        if known is None or (at, value) > known:
            self[key] = at, value


def _join(cpu: _Latest[_K], memory: _Latest[_K], into: dict[_K, Use]) -> Iterator[None]:
    """Combine the values of each object, with the time of the older one."""
    for key in paced(cpu.keys() | memory.keys()):
        if key is None:
            yield
            continue
        known = [each[key] for each in (cpu, memory) if key in each]
        at = min(at for at, _ in known)
        cores_or_percent, bytes_or_percent = (each[key][1] if key in each else None for each in (cpu, memory))
        into[key] = Use(at, cores_or_percent, bytes_or_percent)


def _pod(labels: Mapping[str, str]) -> Key | None:
    namespace, name = labels.get("namespace"), labels.get("pod")
    return Key(namespace, name) if namespace and name else None


def _host(instance: str) -> str:
    """Return an instance without its port. An IPv6 address with a port has brackets."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join("CPU" if each == "cpu" else each.title() for each in others)
