"""The resource metrics API, metrics.k8s.io: the latest use of every node and pod, in two requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from tidelock.kube.client import ApiResource
from tidelock.kube.errors import ApiError, MalformedResponse, Unreachable
from tidelock.load.cooperative import in_slices, paced
from tidelock.load.source import (
    Capacities,
    FailureReason,
    SourceError,
    Use,
    UseReading,
    cores,
    percent,
    size,
)
from tidelock.model.instants import parse_instant
from tidelock.model.lenient import decode
from tidelock.model.meta import Key
from tidelock.model.nesting import depth_bounded
from tidelock.model.quantities import CPU, MEMORY, parse_quantity

NODE_METRICS = ApiResource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = ApiResource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")

_MILLI = 1000


class MetricsApi(Protocol):
    """The part of the API server's client that is used here."""

    async def get(self, path: str) -> bytes:
        """Read an object or a list, or raise ApiError."""


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _Container(msgspec.Struct, frozen=True):
    usage: dict[str, str] = {}


class _Metrics(msgspec.Struct, frozen=True):
    metadata: _Meta
    timestamp: str
    usage: dict[str, str] = {}
    containers: tuple[_Container, ...] = ()


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None


_decode_list = depth_bounded(msgspec.json.Decoder(_List).decode)


class MetricsServerSource:
    """Measurements of the metrics API. It keeps no past, so windows fill up over time."""

    def __init__(self, api: MetricsApi, capacity: Capacities) -> None:
        """Prepare; `capacity` returns the amounts that are 100 percent of a node."""
        self.settling = 0.0
        self._api = api
        self._capacity = capacity

    async def read(self, now: float) -> UseReading:  # noqa: ARG002 -- the API only knows the present
        """Measure everything as it is now."""
        reading = UseReading()
        nodes, pods = await asyncio.gather(
            self._list(NODE_METRICS), self._list(POD_METRICS), return_exceptions=True
        )
        if isinstance(nodes, BaseException):
            raise nodes
        await in_slices(self._read_nodes(nodes, reading))
        if isinstance(pods, SourceError):
            reading.problems.append(f"pods: {pods}")
        elif isinstance(pods, BaseException):
            raise pods
        else:
            await in_slices(_read_pods(pods, reading))
        return reading

    async def past(self, times: range) -> AsyncIterator[tuple[float, UseReading]]:  # noqa: ARG002 -- none is kept
        """Return nothing, as the API keeps no past."""
        nothing: tuple[tuple[float, UseReading], ...] = ()
        for each in nothing:
            yield each

    async def _list(self, resource: ApiResource) -> list[msgspec.Raw]:
        try:
            return _decode_list(await self._api.get(resource.collection())).items or []
        except (MalformedResponse, msgspec.MsgspecError) as error:
            raise SourceError(
                FailureReason.MALFORMED, f"not an answer of {resource.api_version}: {error}"
            ) from error
        except Unreachable as error:
            timed_out = isinstance(error.__cause__, TimeoutError)
            raise SourceError(
                FailureReason.TIMED_OUT if timed_out else FailureReason.UNREACHABLE, str(error)
            ) from error
        except ApiError as error:
            raise SourceError(FailureReason.REFUSED, f"{resource.api_version}: {error}") from error

    def _read_nodes(self, items: list[msgspec.Raw], reading: UseReading) -> Iterator[None]:
        for raw in paced(items):
            if raw is None:
                yield
                continue
            metrics = decode(raw, _Metrics)
            name = metrics.metadata.name
            capacity = self._capacity(name)
            if capacity is None:
                continue  # gone, or of another group
            try:
                at = parse_instant(metrics.timestamp)
                cpu = _part(CPU, metrics.usage, capacity)
                memory = _part(MEMORY, metrics.usage, capacity)
            except ValueError as error:
                reading.invalid[name] = str(error)
                continue
            reading.add_node(name, Use(at, cpu, memory))


def _part(resource: str, usage: Mapping[str, str], capacity: Mapping[str, int]) -> float | None:
    if resource not in usage:
        return None
    if capacity.get(resource, 0) <= 0:
        raise ValueError(f"{resource}: the node has no capacity")
    try:
        return percent(100 * parse_quantity(resource, usage[resource]) / capacity[resource])
    except ValueError as error:
        raise ValueError(f"{resource}: {error}") from error


def _read_pods(items: list[msgspec.Raw], reading: UseReading) -> Iterator[None]:
    for raw in paced(items):
        if raw is None:
            yield
            continue
        metrics = decode(raw, _Metrics)
        try:
            at = parse_instant(metrics.timestamp)
            cpu = _total(CPU, metrics.containers, lambda millicores: cores(millicores / _MILLI))
            memory = _total(MEMORY, metrics.containers, size)
        except ValueError:
            continue
        if metrics.containers:
            reading.add_pod(Key(metrics.metadata.namespace, metrics.metadata.name), Use(at, cpu, memory))


def _total(
    resource: str, containers: tuple[_Container, ...], check: Callable[[float], float]
) -> float | None:
    """Sum up containers. If a value of one container is missing, the pod's is unknown."""
    total = 0.0
    for container in containers:
        if resource not in container.usage:
            return None
        total += check(float(parse_quantity(resource, container.usage[resource])))
    return total
