"""A node's measured use for commands, and its quality."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.instants import format_instant
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import (
    NODE_LEVEL,
    WINDOW_SECONDS,
    Measured,
    NodeLevel,
    Quality,
    decode_node_level,
    quality,
)
from tidelock.model.water_level import WaterLevel, level_in_force, weight_of

_STALENESS: int = WaterLevelSpec.model_fields["staleness_seconds"].default


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Mean use over the shortest window, in percent of the node's capacity, or empty if it is unreadable."""

    worth: Quality
    means: Mapping[Measured, float] = field(default_factory=dict)


def measured(node: Node, now: float, staleness: float) -> NodeUse:
    """Read and judge a node's annotation. `now` is in seconds since the epoch, `staleness` in seconds."""
    text = node.meta.annotations.get(NODE_LEVEL)
    if text is None:
        return NodeUse(Quality.MISSING)
    level = decode_node_level(text)
    if not isinstance(level, NodeLevel):
        return NodeUse(Quality.INVALID)
    window = next(name for name in WINDOW_SECONDS if level.windows.get(name))
    means = {name: stat.mean for name, stat in level.windows[window].items()}
    return NodeUse(quality(level.at, now, staleness), means)


def staleness_of(levels: Iterable[WaterLevel], node: Node) -> float:
    """Return the age above which a node's measurement is stale, by the WaterLevels that select it."""
    limits = [
        level.spec.staleness_seconds
        for level in levels
        if level.spec is not None
        and (level.nodes is None or level.nodes.matches(node.name, node.meta.labels))
    ]
    return min(limits, default=_STALENESS)


def settings_of(levels: Iterable[WaterLevel], now: float) -> Iterator[str]:
    """Yield sentences about the WaterLevels with a tide in force, or with less than their whole weight."""
    for level in levels:
        if level.spec is None:
            continue
        name, in_force = level.meta.name, level_in_force(level.spec, now)
        if in_force.tide:
            until = format_instant(in_force.until)
            yield f"WaterLevel {name}: the tide {in_force.tide} is in force until {until}."
        weight = weight_of(in_force.spec, level.unexplained)
        if weight < 1:
            explained = (
                f", and requests explain {1 - level.unexplained:.0%} of the variance of use"
                if level.spec.learn_weight
                else ""
            )
            yield f"WaterLevel {name}: measured use has {weight:.0%} of its weight{explained}."
