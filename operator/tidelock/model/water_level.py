"""A WaterLevel object, decoded once into what the scheduler works with."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.api.wire import spec_problems
from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from tidelock.model.selectors import NodeSelectorTerm, Requirement


@dataclass(frozen=True, slots=True)
class WaterLevel:
    """One version of a WaterLevel; of a spec that cannot be read there is only the `problem`."""

    meta: ObjectMeta
    spec: WaterLevelSpec | None = None
    problem: str = ""

    @property
    def nodes(self) -> NodeSelectorTerm | None:
        """Which nodes it is about; None for all, which an empty selector means too."""
        selector = self.spec.node_selector if self.spec else None
        if selector is None:
            return None
        equal = (Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items())
        others = (
            Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in selector.match_expressions or ()
        )
        return NodeSelectorTerm(wanted) if (wanted := (*equal, *others)) else None


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
