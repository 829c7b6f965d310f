"""Tables of `kubectl tidelock top`: nodes as bars and reservations as rows, as text, without I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from rich.text import Text

from tidelock.cli.layout import Columns, clipped, fit, shortened
from tidelock.cli.reservations import ListedReservation, NodeReservations, by_node
from tidelock.cli.status import NAMES, optional_columns, reservation_cells, reservation_columns
from tidelock.cli.tables import STYLES
from tidelock.cli.units import amount, shown_columns
from tidelock.cli.water import NodeUse, measured, staleness_of
from tidelock.ledger.capacity.spans import Span
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.printable import printable
from tidelock.model.quantities import NOTHING, Resources
from tidelock.model.reservation import Reservation
from tidelock.model.usage_annotations import Measured, Quality
from tidelock.model.water_level import WaterLevel

USED, RESERVED, FREE, WATER, OLD_WATER = "█", "▒", "·", "│", "┆"
BAR_SIGNS = frozenset((USED, RESERVED, FREE, WATER, OLD_WATER))
"""All signs of a bar."""
_COLOURS = {USED: "#4c8dd6", RESERVED: "#d99a10", FREE: "#808080"}  # seen on dark ground and on light
_NARROWEST = 10  # cells of a bar
_GAP = 2  # cells between columns
_WIDEST = 45  # cells of a name
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
    """Sort key of reservations. Those that wait come first, and those that ended last."""

    ENDS = "soonest end"
    NAME = "name"
    PHASE = "phase"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class TopState:
    """The known state of the cluster.

    Objects are by key, the requests of pods by the name of their node. `leaving` are the spans of the pods of
    each node that end in time, by their UIDs.
    """

    nodes: Mapping[Key, Node]
    used: Mapping[str, Resources]
    reservations: Mapping[Key, Reservation]
    levels: Mapping[Key, WaterLevel]
    leaving: Mapping[str, Mapping[str, Span]] = field(default_factory=dict)


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

    key: Key
    share: Share
    percent: float | None
    reservations: int
    state: str

    @property
    def name(self) -> str:
        """The node's name."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that renders only its visible lines.

    `columns` are those that fit. `keys` name the objects of the lines. `row` returns all cells of a line by
    its place.
    """

    heads: Sequence[str]
    columns: Columns
    right: frozenset[str]
    names: frozenset[str]
    keys: Sequence[Key]
    row: Callable[[int], Sequence[Text]]

    def head(self) -> Text:
        """Return the line of headings."""
        return self._joined([Text(head, "bold") for head in self.heads])

    def line(self, place: int) -> Text:
        """Return one line."""
        return self._joined(self.row(place))

    def _joined(self, cells: Sequence[Text]) -> Text:
        line = Text(no_wrap=True)
        for place, width in zip(self.columns.places, self.columns.widths, strict=True):
            head, cell = self.heads[place], cells[place]
            if cell.cell_len > width:
                cut = shortened if head in self.names else clipped
                cell = Text(cut(cell.plain, width), style=cell.style)
            cell.align("right" if head in self.right else "left", width)
            line.append_text(cell).append(" " * _GAP)
        line.right_crop(_GAP)
        return line


def shown(text: str, style: str = "") -> Text:
    """Return a text of one line for display: safe for a terminal, and in the style of its word."""
    return Text(printable(text), style=(style or STYLES.get(text, "")) if text else "")


def node_lines(world: TopState, resource: Measured, now: float) -> list[NodeLine]:
    """Sum up each node. `now` is in seconds since the epoch."""
    held = by_node(map(ListedReservation, world.reservations.values()), world.leaving)
    levels, empty = list(world.levels.values()), NodeReservations()
    return [
        _node_line(
            node,
            resource,
            world.used.get(node.name, NOTHING),
            held.get(node.name, empty),
            measured(node, now, staleness_of(levels, node)),
        )
        for node in world.nodes.values()
    ]


def _node_line(
    node: Node, resource: Measured, used: Resources, held: NodeReservations, water: NodeUse
) -> NodeLine:
    percent = water.means.get(resource) if water.worth is not Quality.INVALID else None
    share = Share(
        node.allocatable.get(resource, 0),
        used.get(resource, 0),
        held.reserved.get(resource, 0),
        None if percent is None else node.capacity.get(resource, 0) * percent / 100,
        water.worth is Quality.STALE,
    )
    states = [
        text for text, is_so in (("cordoned", node.unschedulable), ("not ready", not node.ready)) if is_so
    ]
    return NodeLine(node.meta.key, share, percent, len(held.listed), ", ".join(states))


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
    heads = ["NODE", resource.upper(), "USED", "RESERVED", "FREE", "OF", "WATER", "COUNT", "STATE"]
    figures = 9  # as wide as 999999.99 and 9999.9Gi
    name = max((len(line.name) for line in lines), default=0)
    state = max((len(line.state) for line in lines), default=0)
    widths = [max(name, 4), _NARROWEST, figures, figures, figures, figures, 5, 5, max(state, 5)]
    optional = ("COUNT", "OF", "USED", "WATER", "RESERVED")
    columns = fit(heads, widths, width=width, optional=optional, names=("NODE",), gap=_GAP)
    spare = width - sum(columns.widths) - _GAP * (len(columns.widths) - 1)
    bar_width = _NARROWEST + max(spare, 0)
    columns = replace(columns, widths=(columns.widths[0], bar_width, *columns.widths[2:]))

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
            bar(share, bar_width),
            *cells,
            Text(water, "dim" if share.stale else ""),
            Text(str(line.reservations or "")),
            shown(line.state, "yellow"),
        ]

    return Grid(heads, columns, frozenset(heads[2:8]), frozenset({"NODE"}), [line.key for line in lines], row)


@dataclass(frozen=True, slots=True)
class ReservationLine:
    """A reservation with all that does not depend on the time. `ends` is in seconds since the epoch."""

    listed: ListedReservation
    resources: Resources
    cells: Mapping[str, str]
    ends: float

    @classmethod
    def of(cls, reservation: Reservation) -> "ReservationLine":
        """Read a reservation."""
        listed = ListedReservation(reservation)
        resources = listed.resources
        ends = None if listed.ended else listed.instant("expiresAt")
        return cls(
            listed, resources, reservation_cells(listed, resources, 0.0), inf if ends is None else ends
        )

    def speaks_of(self, word: str) -> bool:
        """Return whether its namespace, name, node or owner contains a word."""
        key, cells = str(self.listed.reservation.key), self.cells
        return any(word in text for text in (key, cells["NODE"], cells["OWNER"]))


def sorted_reservations(lines: Iterable[ReservationLine], by: ReservationSort) -> list[ReservationLine]:
    """Sort the lines. Equal reservations are ordered by namespace and name."""

    def rank(line: ReservationLine) -> float | str:
        match by:
            case ReservationSort.ENDS:
                return line.ends
            case ReservationSort.NAME:
                return ""
            case ReservationSort.PHASE:
                return line.listed.phase
            case ReservationSort.NODE:
                return line.listed.node

    return sorted(lines, key=lambda line: (line.listed.urgency, rank(line), line.listed.reservation.key))


def reservation_grid(lines: Sequence[ReservationLine], now: Callable[[], float], width: int) -> Grid:
    """Return the table of reservations, which count down by `now`, in seconds since the epoch."""
    resources = shown_columns(line.resources for line in lines)
    heads = reservation_columns(resources)
    widths = [
        _TIME_WIDTH
        if head in _TIMES
        else max([len(head), *(len(line.cells.get(head, "")) for line in lines)])
        for head in heads
    ]
    widths[:-1] = [min(width, _WIDEST) for width in widths[:-1]]
    optional = optional_columns(resources)
    columns = fit(heads, widths, width=width, optional=optional, names=NAMES, gap=_GAP)

    def row(place: int) -> list[Text]:
        line = lines[place]
        cells = reservation_cells(line.listed, line.resources, now())
        return [shown(cells.get(head, "")) for head in heads]

    right = _TIMES | {name.upper() for name in resources}
    return Grid(heads, columns, right, NAMES, [line.listed.reservation.key for line in lines], row)
