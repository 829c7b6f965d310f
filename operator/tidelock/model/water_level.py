"""A WaterLevel object, decoded once into the form that the scheduler uses."""

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
