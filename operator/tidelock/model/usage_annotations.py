"""Measured use of nodes and of workloads' pods, and the annotations that carry it.

The use of a node is in percent of its capacity, which is what its processes share whether or not they are
pods, and what node-exporter counts. The use of a pod is absolute: cores and bytes. A window that is not there
was not measured: nothing is ever filled in with zero.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from tidelock.model.instants import format_instant, parse_instant
from tidelock.model.nesting import bounded

NODE_LEVEL = "tidelock.dev/water-level"
"""Annotation of a Node: its level."""
POD_USAGE = "tidelock.dev/pod-usage"
"""Annotation of a workload: the use of one pod of it."""

WindowName = Literal["15m", "1h", "1d"]
Measured = Literal["cpu", "memory"]

WORKLOAD_KINDS: Mapping[str, str] = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CloneSet": "apps.kruise.io",
}
"""Kinds of workloads whose pods' use is kept, with their API groups."""

WINDOW_SECONDS: Mapping[WindowName, int] = {"15m": 900, "1h": 3600, "1d": 86_400}

# What is more than this was not measured but miscounted.
FULL = 100.0
"""Percent of a node."""
MOST_CORES = 1e5
MOST_BYTES = 2.0**53

_PERCENT_DIGITS = 2
_DIGITS: Mapping[Measured, int] = {"cpu": 4, "memory": 0}

_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class Quality(enum.Enum):
    """What a measurement is worth."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"
    INVALID = "invalid"


class Stat(msgspec.Struct, frozen=True, gc=False):
    """Use of one resource over one window."""

    mean: _NotNegative
    max: _NotNegative
    p95: _NotNegative


Windows = Mapping[WindowName, Mapping[Measured, Stat]]
"""Statistics by window and resource; what was not measured is not there."""


class NodeLevel(msgspec.Struct, frozen=True, gc=False):
    """Use of a node in percent of its capacity, 0 to 100, as it was at an instant."""

    at: float
    windows: Windows


class PodUsage(msgspec.Struct, frozen=True, gc=False):
    """Use of one pod of a workload, in cores and bytes, as it was at an instant."""

    at: float
    windows: Windows


class PodMeans(msgspec.Struct, frozen=True, gc=False):
    """Mean use of a pod, as it was at an instant; there are many, and nobody asks for more than the mean.

    Attributes:
        at: the instant.
        means: cores and bytes of each window, the shortest first; NaN for what was not measured.

    """

    at: float
    means: Sequence[float]


PodUses = Mapping[str, PodMeans]
"""Use of each measured pod by its uid."""


class WorkloadKey(NamedTuple):
    """What names a workload: its kind, which is one of WORKLOAD_KINDS, its namespace and its name."""

    kind: str
    namespace: str
    name: str


WorkloadUses = Mapping[WorkloadKey, PodUsage]
"""Use of one pod of each measured workload."""


class MeasuredUses(NamedTuple):
    """What was measured below the nodes.

    The load loop hands a new one to the scheduler after each reading, by a `Callable[[Uses], None]`; neither
    mapping is changed afterwards. What was not measured is not there.
    """

    pods: PodUses
    workloads: WorkloadUses


class Unreadable(msgspec.Struct, frozen=True):
    """An annotation that says nothing: what is wrong with it."""

    problem: str


def quality(at: float | None, now: float, staleness_seconds: float) -> Quality:
    """Judge a measurement by its time; one from the future is as wrong as one from the past is old."""
    if at is None:
        return Quality.MISSING
    if at > now + staleness_seconds:
        return Quality.INVALID
    return Quality.FRESH if at >= now - staleness_seconds else Quality.STALE


class _Wire(msgspec.Struct, frozen=True):
    at: str
    windows: dict[WindowName, dict[Measured, Stat]]


_decode_number = bounded(msgspec.json.Decoder(_NotNegative).decode)
_decode_wire = bounded(msgspec.json.Decoder(_Wire).decode)
_ENCODER = msgspec.json.Encoder()


def encode_node_level(level: NodeLevel) -> str:
    """Write a node's level, rounded to hundredths of a percent."""
    return _encode(level.at, level.windows, {"cpu": _PERCENT_DIGITS, "memory": _PERCENT_DIGITS})


def decode_node_level(text: str) -> NodeLevel | Unreadable:
    """Read a node's level."""
    wire = _decode(text, {"cpu": FULL, "memory": FULL})
    return wire if isinstance(wire, Unreadable) else NodeLevel(*wire)


def encode_pod_usage(usage: PodUsage) -> str:
    """Write the use of a pod, rounded to tenths of a millicore and to bytes."""
    return _encode(usage.at, usage.windows, _DIGITS)


def decode_pod_usage(text: str) -> PodUsage | Unreadable:
    """Read the use of a pod."""
    wire = _decode(text, {"cpu": MOST_CORES, "memory": MOST_BYTES})
    return wire if isinstance(wire, Unreadable) else PodUsage(*wire)


def _encode(at: float, windows: Windows, digits: Mapping[Measured, int]) -> str:
    written = {
        window: {resource: _compact_stat(stat, digits[resource]) for resource, stat in uses.items()}
        for window, uses in windows.items()
    }
    return _ENCODER.encode({"at": format_instant(at), "windows": written}).decode()


def _compact_stat(stat: Stat, digits: int) -> dict[str, float]:
    return {
        "mean": _compact(stat.mean, digits),
        "max": _compact(stat.max, digits),
        "p95": _compact(stat.p95, digits),
    }


def _compact(value: float, digits: int) -> float:
    """Round; a whole number is written without a point."""
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _decode(text: str, most: Mapping[Measured, float]) -> tuple[float, Windows] | Unreadable:
    try:
        wire = _decode_wire(text)
        at = _instant(wire.at)
    except ValueError as error:  # msgspec.ValidationError and DecodeError are some
        return Unreadable(str(error))
    if not any(wire.windows.values()):
        return Unreadable("windows has no measurement")
    for window, uses in wire.windows.items():
        for resource, stat in uses.items():
            limit = most[resource]
            if stat.mean > limit or stat.max > limit or stat.p95 > limit:
                return Unreadable(_too_much(f"windows.{window}.{resource}", stat, limit))
    return at, wire.windows


def _instant(text: str) -> float:
    at = parse_instant(text)
    if at < 0:
        raise ValueError(f"{text!r} is before 1970")
    return at


def _too_much(path: str, stat: Stat, most: float) -> str:
    """Name the first figure that is more than there can be."""
    name, value = next((name, value) for name, value in msgspec.structs.asdict(stat).items() if value > most)
    return f"{path}.{name} is {value:g}, more than {most:g}"


CraneMetric = Literal[
    "cpu_usage_avg_5m",
    "cpu_usage_max_avg_1h",
    "cpu_usage_max_avg_1d",
    "mem_usage_avg_5m",
    "mem_usage_max_avg_1h",
    "mem_usage_max_avg_1d",
]
CRANE_METRICS: tuple[CraneMetric, ...] = get_args(CraneMetric)
"""Annotations of a Node by crane-scheduler: parts of the node, as mean or highest mean of five minutes."""
CRANE_HOT_VALUE = "node_hot_value"
"""Annotation of a Node by crane-scheduler: how many pods it got lately, weighted."""

_MOST_HOT = 1e6
_CRANE_DIGITS = 5


class CraneReading(msgspec.Struct, frozen=True):
    """One number and its time."""

    value: float
    at: float


def encode_crane(reading: CraneReading) -> str:
    """Write a value of crane's: `0.63012,2023-10-17T15:04:32Z`, in UTC and whole seconds."""
    value = f"{reading.value:.{_CRANE_DIGITS}f}"
    return f"{value},{format_instant(int(reading.at))}"


def encode_crane_hot_value(reading: CraneReading) -> str:
    """Write crane's hot value: `3,2023-10-17T15:04:32Z`."""
    return f"{_compact(reading.value, _CRANE_DIGITS)},{format_instant(int(reading.at))}"


def decode_crane(text: str) -> CraneReading | Unreadable:
    """Read a value of crane's six: a fraction, 0 to 1.

    crane-scheduler itself writes local time with a Z behind it; where its clock is not in UTC, its values
    are stale or from the future.
    """
    return _decode_reading(text, 1.0)


def decode_crane_hot_value(text: str) -> CraneReading | Unreadable:
    """Read crane's hot value."""
    return _decode_reading(text, _MOST_HOT)


def _decode_reading(text: str, most: float) -> CraneReading | Unreadable:
    number, comma, instant = text.partition(",")
    if not comma:
        return Unreadable(f"{text!r} is not a number and a time, such as 0.63012,2023-10-17T15:04:32Z")
    try:
        value, at = _decode_number(number), _instant(instant)
    except ValueError as error:
        return Unreadable(str(error))
    if value > most:
        return Unreadable(f"{number} is not between 0 and {most:g}")
    return CraneReading(value, at)
