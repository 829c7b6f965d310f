"""The answers of a source of measurements, whatever protocol it speaks."""

import enum
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidelock.model.meta import Key
from tidelock.model.usage_annotations import FULL, MOST_BYTES, MOST_CORES, Quality, quality

# Rates are extrapolated, and clocks of counters differ a little. A value up to this much above 100 % counts
# as 100 %.
_TOLERATED_PERCENT = 110.0


class FailureReason(enum.Enum):
    """Reason why a source has no answer."""

    UNREACHABLE = "SourceUnreachable"
    TIMED_OUT = "SourceTimedOut"
    REFUSED = "SourceRefused"
    MALFORMED = "SourceMalformed"
    UNAUTHENTICATED = "CredentialsUnreadable"


class SourceError(Exception):
    """A source could not be reached, or its answer was no valid one."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Use(NamedTuple):
    """Use of one node or pod at an instant, with None for unknown values.

    A node's cpu and memory are in percent of its capacity, a pod's in cores and bytes.
    """

    at: float
    cpu: float | None = None
    memory: float | None = None

    def merged(self, other: "Use") -> "Use":
        """Combine two readings of an object: the newer one counts, or the higher values at equal times."""
        if self.at != other.at:
            return self if self.at > other.at else other
        return Use(self.at, _higher(self.cpu, other.cpu), _higher(self.memory, other.memory))


def _higher(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


_NOTHING = Use(0.0)


@dataclass(frozen=True, slots=True)
class UseReading:
    """One reading of all nodes and pods.

    Attributes:
        nodes: use of each node that has any.
        pods: use of each pod that has any, by namespace and name.
        invalid: nodes with a refused value, and its error.
        problems: other errors, in sentences for people.

    """

    nodes: dict[str, Use] = field(default_factory=dict)
    pods: dict[Key, Use] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add_node(self, name: str, use: Use) -> None:
        """Add a reading of a node, which may be its second one."""
        known = self.nodes.get(name)
        self.nodes[name] = use if known is None else use.merged(known)

    def add_pod(self, key: Key, use: Use) -> None:
        """Add a reading of a pod, which may be its second one."""
        known = self.pods.get(key)
        self.pods[key] = use if known is None else use.merged(known)

    def quality(self, name: str, now: float, staleness_seconds: float) -> Quality:
        """Judge a node by this reading alone."""
        use = self.nodes.get(name, _NOTHING)
        if name in self.invalid and (use.cpu is None or use.memory is None):
            return Quality.INVALID
        return quality(use.at if use is not _NOTHING else None, now, staleness_seconds)


class Source(Protocol):
    """A source of measurements.

    Attributes:
        settling: age in seconds from which the readings of a pod are correct.

    """

    settling: float

    async def read(self, now: float) -> UseReading:
        """Measure everything as it is now.

        Raises:
            SourceError: the answer was not usable.

        """

    def past(self, times: range) -> AsyncIterator[tuple[float, UseReading]]:
        """Measure everything at past instants, in order, or nothing if no past is kept.

        Raises:
            SourceError: the answer was not usable.

        """


Capacities = Callable[[str], Mapping[str, int] | None]
"""Returns the total capacity of a node by its name, or None for an unknown node."""


def percent(value: float) -> float:
    """Check the use of a node in percent, or raise ValueError for an impossible one."""
    _finite(value)
    if value > _TOLERATED_PERCENT:
        raise ValueError(f"{value:g} % is more than {FULL:g} %")
    return min(value, FULL)


def cores(value: float) -> float:
    """Check the CPU use of a pod, or raise ValueError for an impossible one."""
    return _at_most(_finite(value), MOST_CORES)


def size(value: float) -> float:
    """Check the memory use of a pod, or raise ValueError for an impossible one."""
    return _at_most(_finite(value), MOST_BYTES)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    if value < 0:
        raise ValueError(f"{value:g} is negative")
    return value


def _at_most(value: float, most: float) -> float:
    if value > most:
        raise ValueError(f"{value:g} is more than {most:g}")
    return value
