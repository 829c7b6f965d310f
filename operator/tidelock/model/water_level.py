"""A WaterLevel object, decoded once into the form that the scheduler uses."""

from dataclasses import dataclass
from math import inf
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.api.wire import spec_problems
from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from tidelock.model.selectors import NodeSelectorTerm, Requirement

_FULL = 100.0
# Fields of a tide that replace those of the spec.
_TIDAL = ("target", "overload_limits", "weight_percent")


@dataclass(frozen=True, slots=True)
class WaterLevel:
    """One version of a WaterLevel. For an unreadable spec there is only the `problem`.

    `unexplained` is the part of the variance of use that requests do not explain, if the status has it.
    """

    meta: ObjectMeta
    spec: WaterLevelSpec | None = None
    problem: str = ""
    unexplained: float = 1.0

    @property
    def nodes(self) -> NodeSelectorTerm | None:
        """The selector of its nodes, or None for all nodes, which an empty selector also means."""
        selector = self.spec.node_selector if self.spec else None
        if selector is None:
            return None
        equal = (Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items())
        others = (
            Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in selector.match_expressions or ()
        )
        return NodeSelectorTerm(wanted) if (wanted := (*equal, *others)) else None


@dataclass(frozen=True, slots=True)
class LevelInForce:
    """The settings of a WaterLevel at an instant.

    Attributes:
        spec: the spec with the settings of the tide that is in force.
        tide: its name, or empty if none is in force.
        since: the instant.
        until: when a tide next begins or ends, in seconds since the epoch, or infinity without tides.

    """

    spec: WaterLevelSpec
    tide: str
    since: float
    until: float

    def holds(self, now: float) -> bool:
        """Return whether these are the settings at a later instant, too."""
        return self.since <= now < self.until


def level_in_force(spec: WaterLevelSpec, now: float) -> LevelInForce:
    """Return the settings at an instant. Of tides that overlap in a rare year, the first one has effect."""
    tides = spec.tides or []
    if not tides:
        return LevelInForce(spec, "", now, inf)
    until = min(tide.times.next_change(now) for tide in tides)
    tide = next((tide for tide in tides if tide.times.in_force(now)), None)
    if tide is None:
        return LevelInForce(spec, "", now, until)
    changed = {name: value for name in _TIDAL if (value := getattr(tide, name)) is not None}
    return LevelInForce(spec.model_copy(update=changed), tide.name, now, until)


def weight_of(spec: WaterLevelSpec, unexplained: float) -> float:
    """Return the part of WaterLevelBalance's weight that counts, from 0 to 1."""
    return spec.weight_percent / _FULL * (unexplained if spec.learn_weight else 1.0)


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: Any = None


_READ = Reader(_Object)


def decode_water_level(raw: bytes | msgspec.Raw) -> WaterLevel:
    """Decode a WaterLevel from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    try:
        spec = WaterLevelSpec.model_validate(stored.spec)
        return WaterLevel(stored.metadata, spec, unexplained=_unexplained(stored.status))
    except pydantic.ValidationError as error:
        return WaterLevel(stored.metadata, problem=spec_problems(error))


def _unexplained(status: object) -> float:
    """Return the learned part in a status, or 1 without one that can be read."""
    percent = status.get("unexplainedPercent") if isinstance(status, dict) else None
    return min(max(percent / _FULL, 0.0), 1.0) if isinstance(percent, int) else 1.0
