"""The rows of nodes: capacity, requests, reserved amounts, measured use. NumPy computes sums and orders."""

import math
from collections.abc import Sequence

import numpy as np

from tidelock.cluster.columns import Amounts as Column
from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import NEVER, LevelArray
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, MEMORY
from tidelock.model.usage_annotations import Quality, quality
from tidelock.web.query import BY_NAME, BY_WATER, ViewQuery
from tidelock.web.rows import Row
from tidelock.web.sources import Sources

# Devices that have a column beside cpu and memory.
_MOST_DEVICES = 2
_DIGITS = 1  # of percentages

ResourceAmounts = tuple[int, int, int]
"""Allocatable, requested and reserved, in the units of `tidelock.model.quantities`."""


class NodeRow(Row, frozen=True):
    """A node: its amounts by resource, its use of cpu and memory in percent, and the time of the latter."""

    name: str
    state: str
    amounts: list[ResourceAmounts]
    water: list[float | None]
    quality: Quality
    measured_at: float | None


class WaterRow(Row, frozen=True):
    """The use of a resource over the freshly measured nodes, in percent."""

    mean: float
    least: float
    most: float


def common_resources(snapshot: Snapshot) -> list[str]:
    """Return cpu, memory, and the devices of the nodes, the first by name."""
    most = snapshot.traits.most
    devices = sorted(
        name for name, units in zip(snapshot.resources, most, strict=True) if units and "/" in name
    )
    return [CPU, MEMORY, *devices[:_MOST_DEVICES]]


def sorted_rows(query: ViewQuery, snapshot: Snapshot, water: LevelArray) -> Rows:
    """Return the rows of the nodes that match, in the requested order.

    `water` is R x N, in percent, and NaN if it is not fresh.
    """
    rank = snapshot.traits.name_rank
    if query.sort == BY_NAME:
        order = np.argsort(rank)
    else:
        height = _height(query.sort, snapshot, water)
        order = np.lexsort((rank, -height))
    if query.text:
        matching = [query.text in node.name.lower() for node in snapshot.nodes]
        order = order[np.array(matching, np.bool_)[order]]
    return order[::-1] if query.reverse else order


def totals(snapshot: Snapshot, columns: Sequence[int]) -> list[ResourceAmounts]:
    """Sum up the amounts of all nodes, for each of some columns."""
    kinds = (snapshot.allocatable, snapshot.requested, snapshot.reserved)
    return _triples(*(each[:, columns].sum(axis=0) for each in kinds))


def node_row(
    sources: Sources, snapshot: Snapshot, row: int, columns: Sequence[int], staleness: float, now: float
) -> NodeRow:
    """Return the row of a node, with the amounts of some columns. `staleness` is in seconds."""
    kinds = (snapshot.allocatable, snapshot.requested, snapshot.reserved)
    at = float(sources.levels.at[row])
    return NodeRow(
        name=snapshot.nodes[row].name,
        state=_state(snapshot.nodes[row]),
        amounts=_triples(*(each[row, columns] for each in kinds)),
        water=[_figure(each) for each in sources.levels.use("mean")[0][:, row].tolist()],
        quality=quality(None if at == NEVER else at, now, staleness),
        measured_at=at if math.isfinite(at) else None,
    )


def spread(percent: LevelArray) -> WaterRow | None:
    """Return the mean, least and highest of some percentages, or None without any."""
    there = percent[~np.isnan(percent)]
    if not len(there):
        return None
    return WaterRow(*(round(float(each), _DIGITS) for each in (there.mean(), there.min(), there.max())))


def _triples(allocatable: Column, requested: Column, reserved: Column) -> list[ResourceAmounts]:
    """Combine the amounts of each resource. Each is R."""
    return list(zip(allocatable.tolist(), requested.tolist(), reserved.tolist(), strict=True))


def _height(sort: str, snapshot: Snapshot, water: LevelArray) -> LevelArray:
    """Return the sort keys of nodes, N: the used share of a resource, or the water, or -1 without any."""
    if sort == BY_WATER:
        height: LevelArray = np.nan_to_num(water, nan=-1.0).max(axis=0)
        return height
    if sort not in snapshot.resources:
        return np.full(len(snapshot), -1.0)
    column = snapshot.column(sort)
    capacity = snapshot.allocatable[:, column]
    taken = snapshot.requested[:, column] + snapshot.reserved[:, column]
    share: LevelArray = np.where(capacity > 0, taken / np.maximum(capacity, 1), -1.0)
    return share


def _state(node: Node) -> str:
    states = (("NotReady", not node.ready), ("Cordoned", node.unschedulable))
    return ", ".join(text for text, holds in states if holds)


def _figure(percent: float) -> float | None:
    return None if math.isnan(percent) else round(percent, _DIGITS)
