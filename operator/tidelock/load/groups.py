"""A WaterLevel in operation: its object, its source and the measurements of its nodes."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelock.load.estimate import Estimate
from tidelock.load.source import Source, SourceError, UseReading
from tidelock.load.unexplained_use import UnexplainedUse
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.meta import ObjectMeta
from tidelock.model.nodes import Node
from tidelock.model.selectors import LabelSelector


@dataclass
class MeasuredGroup:
    """A WaterLevel and all measurements of its nodes.

    Attributes:
        body: the object as it was last seen.
        spec: its spec.
        source: the source of its measurements, or None before it is first read.
        estimate: the measurements.
        reading: the last one.
        failure: why the last reading failed, if it did.
        unexplained: how much of the use requests do not explain.
        past_from: when the past may be requested, by the monotonic clock.
        task: the task that reads it.

    """

    body: Mapping[str, Any]
    spec: WaterLevelSpec
    source: Source | None = None
    estimate: Estimate = field(default_factory=Estimate)
    reading: UseReading | None = None
    failure: SourceError | None = None
    unexplained: UnexplainedUse = field(default_factory=UnexplainedUse)
    past_from: float = 0.0
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Name of the WaterLevel."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Identity of the WaterLevel."""
        return str(self.body["metadata"]["uid"])

    @property
    def meta(self) -> ObjectMeta:
        """Identity of the WaterLevel's object."""
        return ObjectMeta(self.name, uid=self.uid)

    @property
    def rank(self) -> tuple[str, str]:
        """Order in which groups get their nodes: the oldest group is first."""
        return self.body["metadata"].get("creationTimestamp", ""), self.name

    @property
    def selector(self) -> LabelSelector:
        """Selector of its nodes."""
        return selector_of(self.spec)


def selector_of(spec: WaterLevelSpec) -> LabelSelector:
    """Return the node selector of a WaterLevel."""
    return LabelSelector() if spec.node_selector is None else spec.node_selector.read


def members(group: MeasuredGroup, groups: Iterable[MeasuredGroup], nodes: Iterable[Node]) -> dict[str, Node]:
    """Return the nodes of a group: those that it selects and no older group does."""
    wanted = group.selector
    older = [each.selector for each in groups if each.rank < group.rank]
    return {
        node.name: node
        for node in nodes
        if wanted.matches(node.meta.labels) and not any(each.matches(node.meta.labels) for each in older)
    }
