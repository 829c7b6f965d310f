"""The status of a WaterLevel."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np

from tidelock.load.source import SourceError
from tidelock.model.api.water_level import OverloadLimits, Target, WaterLevelSpec
from tidelock.model.conditions import Aspect, dated
from tidelock.model.instants import format_instant
from tidelock.model.usage_annotations import (
    WINDOW_SECONDS,
    Measured,
    NodeLevel,
    Quality,
    WindowName,
    quality,
)
from tidelock.model.water_level import LevelInForce, level_in_force, weight_of

READY = "Ready"
METRICS_STALE = "MetricsStale"

_RESOURCES: tuple[Measured, ...] = ("cpu", "memory")
_FULL = 100.0
# Smallest change of a number that is written.
_POINT = 1.0
_MESSAGE_LENGTH = 1024


class Spread(NamedTuple):
    """One resource over the nodes of a group, in percent."""

    mean: float
    min: float
    max: float
    standard_deviation: float
    target: float


@dataclass(frozen=True)
class LevelSurvey:
    """The measured state of a group of nodes.

    Attributes:
        qualities: quality of the measurement of each node of the group.
        spreads: each resource over the fresh nodes, if there are any.
        sampled_at: time of the newest level, or None without any.
        in_force: the settings at the time of the survey.
        unexplained: the part of the variance of use that requests do not explain, or None if it is unknown.

    """

    qualities: Mapping[str, Quality]
    spreads: Mapping[Measured, Spread]
    sampled_at: float | None
    in_force: LevelInForce
    unexplained: float | None = None

    @cached_property
    def counts(self) -> Mapping[Quality, int]:
        """Number of nodes of each quality."""
        return Counter(self.qualities.values())

    @property
    def blind(self) -> bool:
        """Whether there are nodes and none of them is fresh, so pods are placed by their requests."""
        return bool(self.qualities) and not self.counts.get(Quality.FRESH, 0)


class GroupSummary:
    """Judges the nodes of a group one by one, and sums up the fresh ones."""

    def __init__(self, spec: WaterLevelSpec, invalid: Collection[str], now: float) -> None:
        """Prepare.

        Args:
            spec: the WaterLevel's spec.
            invalid: nodes with a refused value in the last reading.
            now: seconds since the epoch.

        """
        self._in_force = level_in_force(spec, now)
        self._invalid = invalid
        self._now = now
        self._window = shortest_window(spec)
        self._qualities: dict[str, Quality] = {}
        self._fresh: dict[Measured, dict[str, float]] = {resource: {} for resource in _RESOURCES}
        self._sampled_at: float | None = None

    def add(self, name: str, level: NodeLevel | None) -> None:
        """Judge a node."""
        at = level.at if level is not None else None
        found = quality(at, self._now, self._in_force.spec.staleness_seconds)
        if found is not Quality.FRESH and name in self._invalid:
            found = Quality.INVALID
        self._qualities[name] = found
        if level is None:
            return
        self._sampled_at = max(level.at, self._sampled_at or 0.0)
        if found is Quality.FRESH:
            for resource, stat in level.windows.get(self._window, {}).items():
                self._fresh[resource][name] = stat.mean

    def survey(self, unexplained: float | None = None) -> LevelSurvey:
        """Return the sums, with the learned part of use that requests do not explain."""
        spreads = {
            resource: _spread(list(values.values()), self._in_force.spec.target)
            for resource, values in self._fresh.items()
            if values
        }
        return LevelSurvey(self._qualities, spreads, self._sampled_at, self._in_force, unexplained)


def shortest_window(spec: WaterLevelSpec) -> WindowName:
    """Return the window that the status describes."""
    return min((window.duration for window in spec.windows), key=WINDOW_SECONDS.__getitem__)


def _spread(values: list[float], target: Target) -> Spread:
    mean, lowest = float(np.mean(values)), min(values)
    return Spread(mean, lowest, max(values), float(np.std(values)), _target(target, mean, lowest))


def _target(target: Target, mean: float, lowest: float) -> float:
    if target.percent is not None:
        return float(target.percent)
    weight = target.min_weight or 0.0
    return min((mean + weight * lowest) / (1 + weight), _FULL)


def aspects(found: LevelSurvey, failure: SourceError | None, problems: Iterable[str]) -> list[Aspect]:
    """Return the conditions of a group's measurement."""
    counts = found.counts
    nodes = len(found.qualities)
    fresh = counts.get(Quality.FRESH, 0)
    summary = f"{fresh} of {nodes} nodes are measured" + "".join(
        f", {counts[each]} {each.value}"
        for each in (Quality.STALE, Quality.MISSING, Quality.INVALID)
        if counts.get(each)
    )
    trouble = "; ".join([summary, *([str(failure)] if failure else ()), *problems])[:_MESSAGE_LENGTH]
    if not nodes:
        ready = Aspect(READY, "False", "NoNodes", "no node is selected")
    elif fresh:
        ready = Aspect(READY, "True", "Measured", summary if not failure else trouble)
    else:
        ready = Aspect(READY, "False", failure.reason.value if failure else "NotMeasured", trouble)
    if found.blind:
        text = f"{summary}: pods are placed by their requests"
        stale = Aspect(METRICS_STALE, "True", "NothingFresh", text)
    else:
        partial = fresh < nodes
        stale = Aspect(METRICS_STALE, "False", "PartlyFresh" if partial else "Fresh", summary)
    return [ready, stale]


def render_level(
    stored: Mapping[str, Any], generation: int, found: LevelSurvey, conditions: Iterable[Aspect], now: float
) -> dict[str, Any]:
    """Return a status, in which numbers that moved by less than a point keep their stored values.

    The time of the newest sample is only written together with other changes.
    """
    status: dict[str, Any] = {"observedGeneration": generation} | _settings(stored, found)
    limits = _limits(found.in_force.spec)
    for resource, spread in found.spreads.items():
        old = stored.get(resource) or {}
        status[resource] = {
            "mean": _steady(old.get("mean"), spread.mean),
            "min": _steady(old.get("min"), spread.min),
            "max": _steady(old.get("max"), spread.max),
            "standardDeviation": _steady(old.get("standardDeviation"), spread.standard_deviation),
            "target": _steady(old.get("target"), spread.target),
        }
        if (limit := limits.get(resource)) is not None:
            status[resource]["limit"] = limit
    counts = found.counts
    status["nodesMeasured"] = counts.get(Quality.FRESH, 0)
    status["nodesStale"] = counts.get(Quality.STALE, 0)
    status["nodesMissing"] = counts.get(Quality.MISSING, 0)
    status["nodesInvalid"] = counts.get(Quality.INVALID, 0)
    status["conditions"] = dated(conditions, stored, generation, now)
    if all(stored.get(field) == value for field, value in status.items()) and stored.get("sampledAt"):
        status["sampledAt"] = stored["sampledAt"]
    elif found.sampled_at is not None:
        status["sampledAt"] = format_instant(int(found.sampled_at))
    return status


def _settings(stored: Mapping[str, Any], found: LevelSurvey) -> dict[str, Any]:
    """Return the fields of the tide and the weight that are in force."""
    level, learned = found.in_force, found.unexplained
    settings: dict[str, Any] = {}
    if level.tide:
        settings["tide"] = level.tide
    if level.until < inf:
        settings["nextTideChange"] = format_instant(level.until)
    if level.spec.learn_weight and learned is not None:
        settings["unexplainedPercent"] = _steady(stored.get("unexplainedPercent"), _FULL * learned)
    unexplained = settings.get("unexplainedPercent", _FULL) / _FULL
    return {**settings, "weightPercent": round(_FULL * weight_of(level.spec, unexplained))}


def _limits(spec: WaterLevelSpec) -> Mapping[Measured, int | None]:
    limits = spec.overload_limits or OverloadLimits()
    return {"cpu": limits.cpu_percent, "memory": limits.memory_percent}


def _steady(stored: object, value: float) -> int:
    if isinstance(stored, int) and abs(stored - value) < _POINT:
        return stored
    return round(value)
