"""Tables of `kubectl tidelock top`: nodes as bars and reservations as rows, as text, without I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from rich.text import Text

from tidelock.cli.locks import Seen
from tidelock.cli.status import RESERVATION_COLUMNS, reservation_row
from tidelock.cli.tables import shown
from tidelock.cli.water import NodeUse, measured, staleness_of
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, NOTHING, Resources, plus
from tidelock.model.reservation import Reservation
from tidelock.model.usage_annotations import Measured, Quality
from tidelock.model.water_level import WaterLevel

USED, RESERVED, FREE, WATER, OLD_WATER = "█", "▒", "·", "│", "┆"
_COLOURS = {USED: "#4c8dd6", RESERVED: "#d99a10", FREE: "#808080"}  # seen on dark ground and on light
_NARROWEST = 10  # cells of a bar
_GAP = 2  # cells between columns
_WIDEST = 40  # cells of a reservation's name, owner and amounts
_TIMES = frozenset({"ENDS IN", "AGE"})
_TIME_WIDTH = len("999d23h")


class NodeSort(StrEnum):
    """Sort key of nodes: names from a, the least free capacity first, otherwise the largest value first."""

    NAME = "name"
    FREE = "least free"
    USED = "most used"
    RESERVED = "most reserved"
    WATER = "highest water"


class ReservationSort(StrEnum):
    """Sort key of reservations. Those that ended, and those without an end, come last."""

    ENDS = "soonest end"
    NAME = "name"
    PHASE = "phase"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class TopState:
    """The known state of the cluster: objects by key, and the requests of pods on each node by its name."""

    nodes: Mapping[Key, Node]
    used: Mapping[str, Resources]
    reservations: Mapping[Key, Reservation]
    levels: Mapping[Key, WaterLevel]


@dataclass(frozen=True, slots=True)
class Share:
    """Amounts of one resource on a node, or on all, in the resource's unit. `water` is measured use."""

    allocatable: int = 0
    used: int = 0
    reserved: int = 0
    water: float | None = None
    stale: bool = False

    @property
    def free(self) -> int:
        """The amount that is neither used nor reserved. Below 0 on an overcommitted node."""
        return self.allocatable - self.used - self.reserved

    def part(self, amount: float) -> float:
        """Return an amount as a part of the allocatable amount."""
        return amount / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node, its share, its number of reservations, and the marks that keep pods away."""

    name: str
    share: Share
    percent: float | None
    reservations: int
    state: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that renders only its visible lines.

    `widths` are cells. `row` returns the cells of a line by its place.
    """

    heads: Sequence[str]
    widths: Sequence[int]
    right: frozenset[str]
    count: int
    row: Callable[[int], Sequence[Text]]

    @property
    def width(self) -> int:
        """Cells of a whole line."""
        return sum(self.widths) + _GAP * (len(self.widths) - 1)

    def head(self) -> Text:
        """Return the line of headings."""
        return self._joined([Text(head, "bold") for head in self.heads])

    def line(self, place: int) -> Text:
        """Return one line."""
        return self._joined(self.row(place))

    def _joined(self, cells: Sequence[Text]) -> Text:
        line = Text(no_wrap=True)
        for head, width, cell in zip(self.heads, self.widths, cells, strict=True):
            cell.truncate(width, overflow="ellipsis")
            cell.align("right" if head in self.right else "left", width)
            line.append_text(cell).append(" " * _GAP)
        line.right_crop(_GAP)
        return line


def node_lines(world: TopState, resource: Measured, now: float) -> list[NodeLine]:
    """Sum up each node. `now` is in seconds since the epoch."""
    held: dict[str, Resources] = {}
    counts: dict[str, int] = {}
    for seen in map(Seen, world.reservations.values()):
        if seen.active and seen.node:
            held[seen.node] = plus(held.get(seen.node, NOTHING), seen.held)
            counts[seen.node] = counts.get(seen.node, 0) + 1
    levels = list(world.levels.values())
    return [
        _node_line(
            node,
            resource,
            world.used.get(node.name, NOTHING),
            held.get(node.name, NOTHING),
            counts.get(node.name, 0),
            measured(node, now, staleness_of(levels, node)),
        )
        for node in world.nodes.values()
    ]


def _node_line(
    node: Node, resource: Measured, used: Resources, reserved: Resources, reservations: int, water: NodeUse
) -> NodeLine:
    percent = water.means.get(resource) if water.worth is not Quality.INVALID else None
    share = Share(
        node.allocatable.get(resource, 0),
        used.get(resource, 0),
        reserved.get(resource, 0),
        None if percent is None else node.capacity.get(resource, 0) * percent / 100,
        water.worth is Quality.STALE,
    )
    states = [
        text for text, is_so in (("cordoned", node.unschedulable), ("not ready", not node.ready)) if is_so
    ]
    return NodeLine(node.name, share, percent, reservations, ", ".join(states))


def sorted_nodes(lines: Iterable[NodeLine], by: NodeSort) -> list[NodeLine]:
    """Sort the lines. Equal nodes are ordered by name."""

    def rank(line: NodeLine) -> float:
        share = line.share
        match by:
            case NodeSort.NAME:
                return 0.0
            case NodeSort.FREE:
                return share.part(share.free)
            case NodeSort.USED:
                return -share.part(share.used)
            case NodeSort.RESERVED:
                return -share.part(share.reserved)
            case NodeSort.WATER:
                return inf if line.percent is None else -line.percent

    return sorted(lines, key=lambda line: (rank(line), line.name))


def total(lines: Iterable[NodeLine]) -> Share:
    """Sum up all nodes, without measured use."""
    allocatable = used = reserved = 0
    for line in lines:
        allocatable += line.share.allocatable
        used += line.share.used
        reserved += line.share.reserved
    return Share(allocatable, used, reserved)


def amount(resource: Measured, units: float) -> str:
    """Format an amount so that columns can be compared: cores, or Gi."""
    return f"{units / 1000:.2f}" if resource == CPU else f"{units / 2**30:.1f}Gi"


def bar(share: Share, width: int) -> Text:
    """Draw used, reserved and free amounts over a number of cells, with a mark for the measured use."""
    used, reserved = (units > 0 for units in (share.used, share.reserved))
    first = min(max(round(share.part(share.used) * width), int(used)), width - int(reserved))
    second = min(max(round(share.part(share.used + share.reserved) * width), first + int(reserved)), width)
    cells = [USED] * first + [RESERVED] * (second - first) + [FREE] * (width - second)
    drawn = Text()
    at = -1 if share.water is None else min(int(share.part(share.water) * width), width - 1)
    for place, cell in enumerate(cells):
        colour = _COLOURS[cell]
        if place == at:
            style = "bold" if cell == FREE else f"bold #ffffff on {colour}"
            drawn.append(OLD_WATER if share.stale else WATER, style)
        else:
            drawn.append(cell, colour)
    return drawn


def legend() -> Text:
    """Return the legend of the bars."""
    text = Text()
    for sign, meaning in ((USED, "used"), (RESERVED, "reserved"), (FREE, "free")):
        text.append(sign, _COLOURS[sign]).append(f" {meaning}  ")
    return text.append(WATER, "bold").append(f" measured {OLD_WATER} stale")


def node_grid(lines: Sequence[NodeLine], resource: Measured, width: int) -> Grid:
    """Return the table of nodes. Bars get the remaining cells of `width`."""
    heads = ["NODE", resource.upper(), "USED", "RESERVED", "FREE", "OF", "WATER", "LOCKS", "STATE"]
    figures = 9  # as wide as 999999.99 and 9999.9Gi
    name = max((len(line.name) for line in lines), default=0)
    state = max((len(line.state) for line in lines), default=0)
    widths = [max(name, 4), 0, figures, figures, figures, figures, 5, 5, max(state, 5)]
    widths[1] = max(width - sum(widths) - _GAP * (len(widths) - 1), _NARROWEST)

    def row(place: int) -> list[Text]:
        line = lines[place]
        share = line.share
        figures = (share.used, share.reserved, share.free, share.allocatable)
        cells = [Text(amount(resource, units)) for units in figures]
        if not share.reserved:
            cells[1] = Text()
        if share.free < 0:
            cells[2].stylize("bold red")
        water = "" if line.percent is None else f"{line.percent:.0f}%"
        return [
            shown(line.name),
            bar(share, widths[1]),
            *cells,
            Text(water, "dim" if share.stale else ""),
            Text(str(line.reservations or "")),
            shown(line.state, "yellow"),
        ]

    return Grid(heads, widths, frozenset(heads[2:8]), len(lines), row)


@dataclass(frozen=True, slots=True)
class ReservationLine:
    """A reservation with its row apart from the time. `ends` is in seconds since the epoch."""

    seen: Seen
    cells: tuple[str, ...]
    ends: float

    @classmethod
    def of(cls, reservation: Reservation) -> "ReservationLine":
        """Read a reservation."""
        seen = Seen(reservation)
        ends = None if seen.ended else seen.instant("expiresAt")
        return cls(seen, tuple(reservation_row(seen, 0.0)), inf if ends is None else ends)

    def speaks_of(self, word: str) -> bool:
        """Return whether its namespace, name, node or owner contains a word."""
        _namespace, _name, _, node, owner, *_ = self.cells
        return any(word in text for text in (str(self.seen.reservation.key), node, owner))


def sorted_reservations(lines: Iterable[ReservationLine], by: ReservationSort) -> list[ReservationLine]:
    """Sort the lines. Equal reservations are ordered by namespace and name."""

    def rank(line: ReservationLine) -> tuple[bool, float | str]:
        match by:
            case ReservationSort.ENDS:
                return line.seen.ended, line.ends
            case ReservationSort.NAME:
                return False, ""
            case ReservationSort.PHASE:
                return line.seen.ended, line.seen.phase
            case ReservationSort.NODE:
                return line.seen.ended, line.seen.node

    return sorted(lines, key=lambda line: (rank(line), line.seen.reservation.key))


def reservation_grid(lines: Sequence[ReservationLine], now: Callable[[], float]) -> Grid:
    """Return the table of reservations, which count down by `now`, in seconds since the epoch."""
    widths = [
        _TIME_WIDTH if head in _TIMES else max([len(head), *(len(line.cells[column]) for line in lines)])
        for column, head in enumerate(RESERVATION_COLUMNS)
    ]
    widths[:-1] = [min(width, _WIDEST) for width in widths[:-1]]

    def row(place: int) -> list[Text]:
        seen = lines[place].seen
        return [shown(cell) for cell in reservation_row(seen, now())]

    return Grid(RESERVATION_COLUMNS, widths, _TIMES, len(lines), row)
