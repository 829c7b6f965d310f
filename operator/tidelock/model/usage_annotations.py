"""Measured use of nodes and of workloads' pods, and the annotations that carry it.

The use of a node is in percent of its capacity, which all its processes share whether or not they are pods,
and which node-exporter counts. The use of a pod is absolute: cores and bytes. An absent window was not
measured: nothing is ever filled in with zero.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from tidelock.model.instants import format_instant, parse_instant
from tidelock.model.nesting import depth_bounded

NODE_LEVEL = "tidelock.dev/water-level"
"""Annotation of a Node with its level."""
POD_USAGE = "tidelock.dev/pod-usage"
"""Annotation of a workload with the use of one of its pods."""

WindowName = Literal["15m", "1h", "1d"]
Measured = Literal["cpu", "memory"]

WORKLOAD_KINDS: Mapping[str, str] = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CloneSet": "apps.kruise.io",
}
"""Kinds of workloads with measured pods, with their API groups."""

WINDOW_SECONDS: Mapping[WindowName, int] = {"15m": 900, "1h": 3600, "1d": 86_400}

# A larger value was not measured but miscounted.
FULL = 100.0
"""Percent of a node."""
MOST_CORES = 1e5
MOST_BYTES = 2.0**53

_PERCENT_DIGITS = 2
_DIGITS: Mapping[Measured, int] = {"cpu": 4, "memory": 0}

_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class Quality(enum.Enum):
    """The validity of a measurement."""

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
"""Statistics by window and resource, of measured ones only."""


class NodeLevel(msgspec.Struct, frozen=True, gc=False):
    """Use of a node in percent of its capacity, 0 to 100, at an instant."""

    at: float
    windows: Windows


class PodUsage(msgspec.Struct, frozen=True, gc=False):
    """Use of one pod of a workload, in cores and bytes, at an instant."""

    at: float
    windows: Windows


class PodMeans(msgspec.Struct, frozen=True, gc=False):
    """Mean use of a pod at an instant. Only the mean is kept, as there are many pods.

    Attributes:
        at: the instant.
        means: cores and bytes of each window, the shortest first, or NaN for unmeasured ones.

    """

    at: float
    means: Sequence[float]


PodUses = Mapping[str, PodMeans]
"""Use of each measured pod by its uid."""


class WorkloadKey(NamedTuple):
    """The name of a workload: its kind (one of WORKLOAD_KINDS), its namespace and its name."""

    kind: str
    namespace: str
    name: str


WorkloadUses = Mapping[WorkloadKey, PodUsage]
"""Use of one pod of each measured workload."""


class MeasuredUses(NamedTuple):
    """Measured use of pods and workloads.

    The load loop passes a new one to the scheduler after each reading, by a `Callable[[Uses], None]`. Neither
    mapping is changed afterwards. Unmeasured pods and workloads are absent.
    """

    pods: PodUses
    workloads: WorkloadUses


class Unreadable(msgspec.Struct, frozen=True):
    """The error of an annotation that can't be read."""

    problem: str


def quality(at: float | None, now: float, staleness_seconds: float) -> Quality:
    """Judge a measurement by its time. A future time is as invalid as a time long past."""
    if at is None:
        return Quality.MISSING
    if at > now + staleness_seconds:
        return Quality.INVALID
    return Quality.FRESH if at >= now - staleness_seconds else Quality.STALE


class _Wire(msgspec.Struct, frozen=True):
    at: str
    windows: dict[WindowName, dict[Measured, Stat]]


_decode_number = depth_bounded(msgspec.json.Decoder(_NotNegative).decode)
_decode_wire = depth_bounded(msgspec.json.Decoder(_Wire).decode)
_ENCODER = msgspec.json.Encoder()


def encode_node_level(level: NodeLevel) -> str:
    """Encode a node's level, rounded to hundredths of a percent."""
    return _encode(level.at, level.windows, {"cpu": _PERCENT_DIGITS, "memory": _PERCENT_DIGITS})


def decode_node_level(text: str) -> NodeLevel | Unreadable:
    """Decode a node's level."""
    wire = _decode(text, {"cpu": FULL, "memory": FULL})
    return wire if isinstance(wire, Unreadable) else NodeLevel(*wire)


def encode_pod_usage(usage: PodUsage) -> str:
    """Encode the use of a pod, rounded to tenths of a millicore and to bytes."""
    return _encode(usage.at, usage.windows, _DIGITS)


def decode_pod_usage(text: str) -> PodUsage | Unreadable:
    """Decode the use of a pod."""
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
    """Round a value; a whole number is written without a point."""
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
    """Return the first figure that exceeds its maximum."""
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
"""Annotations of a Node by crane-scheduler: fractions of the node, as mean or highest mean of five
minutes."""
CRANE_HOT_VALUE = "node_hot_value"
"""Annotation of a Node by crane-scheduler: its recent pods, weighted."""

_MOST_HOT = 1e6
_CRANE_DIGITS = 5


class CraneReading(msgspec.Struct, frozen=True):
    """A number and its time."""

    value: float
    at: float


def encode_crane(reading: CraneReading) -> str:
    """Encode a value of crane-scheduler: `0.63012,2023-10-17T15:04:32Z`, in UTC and whole seconds."""
    value = f"{reading.value:.{_CRANE_DIGITS}f}"
    return f"{value},{format_instant(int(reading.at))}"


def encode_crane_hot_value(reading: CraneReading) -> str:
    """Encode crane-scheduler's hot value: `3,2023-10-17T15:04:32Z`."""
    return f"{_compact(reading.value, _CRANE_DIGITS)},{format_instant(int(reading.at))}"


def decode_crane(text: str) -> CraneReading | Unreadable:
    """Decode one of crane-scheduler's six values: a fraction, 0 to 1.

    crane-scheduler itself writes local time followed by a Z. If its clock is not in UTC, its values are stale
    or in the future.
    """
    return _decode_reading(text, 1.0)


def decode_crane_hot_value(text: str) -> CraneReading | Unreadable:
    """Decode crane-scheduler's hot value."""
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
