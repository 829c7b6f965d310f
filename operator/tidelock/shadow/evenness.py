"""The evenness of the cluster and the replayed world: their spreads over time, and their measured levels."""

from collections.abc import Iterator

import msgspec

from tidelock.cluster.usage.measurements import at_once
from tidelock.load.source import UseReading
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL, Measured, encode_node_level
from tidelock.shadow.levels import RESOURCES, Levels, MeasuredLevels, Spread, requested_levels
from tidelock.shadow.replayed import ReplayedWorld
from tidelock.shadow.results import EvennessResults, LevelResults
from tidelock.shadow.world import ShadowWorld


class Evenness:
    """Looks at the levels of both worlds, and passes measured levels to them."""

    def __init__(self, world: ShadowWorld, replayed: ReplayedWorld) -> None:
        self._world = world
        self._replayed = replayed
        self._spreads = {
            (measured, of_replayed, resource): Spread()
            for measured in (True, False)
            for resource in RESOURCES
            for of_replayed in (False, True)
        }
        self._measured = MeasuredLevels(world)
        self._annotations: dict[str, tuple[str, str]] = {}  # of both worlds, by node
        self._readings = self._failed_readings = 0
        self._problem = ""

    def take(self, reading: UseReading, now: float, settling: float) -> None:
        """Take a reading of measured use, by which plugins decide from now on.

        `settling` is the age in seconds from which the readings of a pod are correct.
        """
        self._readings += 1
        self._problem = next(iter(reading.problems), self._problem)
        self._measured.take(reading, self._replayed.moved(), now, settling)
        replayed = self._measured.over_windows(replayed=True)
        self._annotations = {
            name: (encode_node_level(level), encode_node_level(replayed[name]))
            for name, level in self._measured.over_windows(replayed=False).items()
            if name in replayed
        }
        for node in list(self._world.cache.columns.nodes):
            self.put_node(node)
        for world in (self._world, self._replayed.world):
            at_once(world.measurements.take(self._measured.uses))

    def failed(self, problem: str) -> None:
        """Note that a reading failed."""
        self._failed_readings += 1
        self._problem = problem

    def put_node(self, node: Node) -> None:
        """Pass a node to both worlds, each with the level that it has there."""
        levels = self._annotations.get(node.name)
        for place, world in enumerate((self._world, self._replayed.world)):
            world.handlers.nodes.upsert(None, node if levels is None else _annotated(node, levels[place]))

    def drop_node(self, node: Node) -> None:
        """Remove a node from both worlds."""
        self._annotations.pop(node.name, None)
        for world in (self._world, self._replayed.world):
            world.handlers.nodes.remove(node)

    def look(self, now: float, seconds: float) -> Iterator[tuple[str, float]]:
        """Add the levels of now, for the seconds since the last look.

        Yield the name of each kind of levels, with their standard deviation in points.
        """
        for (measured, of_replayed, resource), spread in self._spreads.items():
            deviation = spread.add(self._levels(measured, of_replayed, resource, now), seconds)
            if deviation is not None:
                yield spread_name(resource, measured=measured, replayed=of_replayed), deviation

    def results(self) -> LevelResults:
        """Return the means so far."""
        found = {key: spread.results() for key, spread in self._spreads.items()}
        evenness = [
            EvennessResults(resource, measured, observed, replayed)
            for (measured, of_replayed, resource), observed in found.items()
            if not of_replayed and observed and (replayed := found[measured, True, resource])
        ]
        return LevelResults(
            evenness=evenness,
            readings=self._readings,
            failed_readings=self._failed_readings,
            problem=self._problem,
            annotated=0
            if self._readings
            else sum(NODE_LEVEL in node.meta.annotations for node in self._world.cache.columns.nodes),
        )

    def _levels(self, measured: bool, of_replayed: bool, resource: Measured, now: float) -> Levels:
        if measured:
            return self._measured.newest(resource, now, replayed=of_replayed)
        return requested_levels((self._replayed.world if of_replayed else self._world).cache, resource)


def spread_name(resource: str, *, measured: bool, replayed: bool) -> str:
    """Return the name of a deviation in the timeline."""
    kind, world = "measured" if measured else "requested", "replayed" if replayed else "observed"
    return f"{resource} {kind} {world}"


def lasted_name(name: str) -> str:
    """Return the name of the seconds for which there was such a deviation, in the timeline."""
    return f"{name}, seconds"


def _annotated(node: Node, level: str) -> Node:
    """Return a node with a measured level."""
    annotations = {**node.meta.annotations, NODE_LEVEL: level}
    new = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, annotations=annotations)
    )
    vars(new).update(vars(node))  # values computed from its size and conditions
    return new
