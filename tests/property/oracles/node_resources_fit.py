"""NodeResourcesFit for one node, in integers as in kube-scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

from tidelock.model.pods import Pod


@dataclass(frozen=True)
class Use:
    """A node's allocatable and requested amounts, and the CPU and memory that scoring counts as requested."""

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    nonzero: Mapping[str, int]


def shortages(
    wanting: Pod, on: Use, ignored: Sequence[str], ignored_groups: Sequence[str]
) -> dict[str, bool]:
    """Return the resources that are short, each with whether an empty node would have enough."""
    short = {}
    for name, units in wanting.requests.items():
        native = "/" not in name or "kubernetes.io/" in name
        if not native and (name in ignored or name.split("/")[0] in ignored_groups):
            continue
        room = on.allocatable.get(name, 0)
        if units > 0 and units > room - on.requested.get(name, 0):
            short[name] = name == "pods" or units <= room
    return short


def score(wanting: Pod, on: Use, strategy: Mapping[str, Any]) -> int:
    kind = strategy.get("type", "LeastAllocated")
    points = weights = 0
    for resource in strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]:
        name, weight = resource["name"], resource.get("weight") or 1
        wanted, taken = wanting.requests.get(name, 0), on.requested.get(name, 0)
        if name in ("cpu", "memory"):
            wanted, taken = wanting.container_weights[name == "memory"], on.nonzero[name]
        elif name != "ephemeral-storage" and wanted == 0:
            continue
        room = on.allocatable.get(name, 0)
        if room == 0 or name == "pods":
            continue
        value = rate(kind, taken + wanted, room, strategy)
        if kind == "RequestedToCapacityRatio" and value == 0:
            continue
        points += value * weight
        weights += weight
    if weights == 0:
        return 0
    if kind == "RequestedToCapacityRatio":
        return floor(Fraction(points, weights) + Fraction(1, 2))
    return points // weights


def rate(kind: str, used: int, room: int, strategy: Mapping[str, Any]) -> int:
    if kind == "LeastAllocated":
        return 0 if used > room else (room - used) * 100 // room
    if kind == "MostAllocated":
        return min(used, room) * 100 // room
    shape = strategy["requestedToCapacityRatio"]["shape"]
    return broken_line(shape, 100 if used > room else used * 100 // room)


def broken_line(shape: Sequence[Mapping[str, int]], at: int) -> int:
    if at <= shape[0]["utilization"]:
        return shape[0]["score"] * 10
    for left, right in pairwise(shape):
        if at <= right["utilization"]:
            rise = (right["score"] - left["score"]) * 10 * (at - left["utilization"])
            # Integer division in Go truncates towards zero.
            return left["score"] * 10 + int(Fraction(rise, right["utilization"] - left["utilization"]))
    return shape[-1]["score"] * 10
