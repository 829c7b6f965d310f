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

# Fields of a tide that replace those of the spec.
_TIDAL = ("target", "overload_limits", "weight_percent")


@dataclass(frozen=True, slots=True)
class WaterLevel:
    """One version of a WaterLevel. For an unreadable spec there is only the `problem`."""

    meta: ObjectMeta
    spec: WaterLevelSpec | None = None
    problem: str = ""

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


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}


_READ = Reader(_Object)


def decode_water_level(raw: bytes | msgspec.Raw) -> WaterLevel:
    """Decode a WaterLevel from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    try:
        return WaterLevel(stored.metadata, WaterLevelSpec.model_validate(stored.spec))
    except pydantic.ValidationError as error:
        return WaterLevel(stored.metadata, problem=spec_problems(error))
