"""The screen of `kubectl tidelock top`: two tables over a live state.

Only the visible lines are rendered, so the number of nodes does not matter. Unchanged objects are not read
again.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, HelpPanel, Input, Static

from tidelock.cli.reservations import ListedReservation
from tidelock.cli.top_details import Details, node_details, reservation_details, yaml_lines
from tidelock.cli.top_tables import (
    BAR_SIGNS,
    Grid,
    NodeSort,
    ReservationLine,
    ReservationSort,
    TopState,
    legend,
    node_grid,
    node_lines,
    reservation_grid,
    shown,
    sorted_nodes,
    sorted_reservations,
    total,
)
from tidelock.cli.units import amount
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import Measured

_REVERSED = Style(reverse=True)
_PERIOD = 1.0  # seconds between two checks for changes, and of the clock


def _selected(strip: Strip) -> Strip:
    """Reverse a line except for its bar: a reversed full block looks empty."""
    return Strip(
        segment
        if segment.style is None or BAR_SIGNS.issuperset(segment.text)
        else Segment(segment.text, segment.style + _REVERSED)
        for segment in strip
    )


class StateSource(Protocol):
    """Source of the screen's state."""

    @property
    def world(self) -> TopState | None:
        """The known state, or None before all of it has been read once."""

    def changed(self) -> bool:
        """Return whether anything has changed since the last call."""

    @property
    def trouble(self) -> str:
        """Why the state is out of date, and how old it is, or empty if it is current."""

    def now(self) -> float:
        """Return the seconds since the epoch, by the cluster's clock."""

    async def explain(self, reservation: Key, width: int) -> str:
        """Return the verdict of each node about a reservation, for a terminal of `width` cells."""


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """Namespace of the shown reservations, and whether those of all namespaces are shown first."""

    namespace: str
    everywhere: bool


class Pane(ScrollView, can_focus=True, inherit_bindings=False):
    """A table below a fixed line of headings, with a selected row."""

    DEFAULT_CSS = """
    Pane {
        border: round $foreground 30%;
        border-title-color: $foreground;
        border-title-style: bold;
        background: $background;
        padding: 0 1;
        scrollbar-color: $foreground 30%;
        scrollbar-background: $background;
        overflow-x: hidden;
    }
    Pane:focus { border: round $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Other table"),
        Binding("enter", "open", "Details"),
        Binding("up", "move(-1)", "Previous row", show=False),
        Binding("down", "move(1)", "Next row", show=False),
        Binding("pageup", "turn(-1)", "Previous page", show=False),
        Binding("pagedown", "turn(1)", "Next page", show=False),
        Binding("home", "move(-999999999)", "First row", show=False),
        Binding("end", "move(999999999)", "Last row", show=False),
    ]

    class Opened(Message):
        """The user asks for the details of the selected row."""

        def __init__(self, pane: "Pane", key: Key) -> None:
            super().__init__()
            self.pane = pane
            self.key = key

    def __init__(self, id: str) -> None:  # noqa: A002 -- the base class' name
        super().__init__(id=id)
        self._make: Callable[[int], Grid] | None = None
        self._grid: Grid | None = None
        self._row = 0

    def show(self, make: Callable[[int], Grid]) -> None:
        """Show another table. `make` is called with the cells of a line.

        The selection stays with its object, or on the first row.
        """
        before = self._grid.keys[self._row] if self._row and self._grid is not None else None
        self._make = make
        self._grid = grid = make(self.scrollable_content_region.width)
        self.virtual_size = Size(0, len(grid.keys) + 1)
        row = grid.keys.index(before) if before in grid.keys else self._row
        self._row = max(min(row, len(grid.keys) - 1), 0)
        self.refresh()

    def on_resize(self) -> None:
        """Adapt the table to the new width."""
        if self._make is not None:
            self.show(self._make)

    def render_line(self, y: int) -> Strip:
        """Return the line at a height of the widget."""
        width, place = self.size.width, y + self.scroll_offset.y - 1
        if self._grid is None or place >= len(self._grid.keys):
            return Strip.blank(width, self.rich_style)
        text = self._grid.line(place) if y else self._grid.head()
        strip = Strip(text.render(self.app.console)).apply_style(self.rich_style)
        strip = strip.crop_extend(0, width, self.rich_style)
        return _selected(strip) if y and place == self._row and self.has_focus else strip

    def action_move(self, rows: int) -> None:
        """Select another row, and scroll to it."""
        if self._grid is None or not self._grid.keys:
            return
        self._row = max(min(self._row + rows, len(self._grid.keys) - 1), 0)
        top, visible = self.scroll_offset.y, self._visible
        if not top <= self._row < top + visible:
            top = self._row if self._row < top else self._row - visible + 1
            self.scroll_to(y=top, animate=False)
        self.refresh()

    def action_turn(self, pages: int) -> None:
        """Select a row one page away."""
        self.action_move(pages * self._visible)

    def action_open(self) -> None:
        """Ask for the details of the selected row."""
        if self._grid is not None and self._grid.keys:
            self.post_message(self.Opened(self, self._grid.keys[self._row]))

    @property
    def _visible(self) -> int:
        """The rows that are visible at once."""
        return max(self.scrollable_content_region.height - 1, 1)


class Top(App[None]):
    """Nodes above, reservations below, and a line of remarks."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 1; }
    #summary { padding: 0 1; width: 1fr; }
    #legend { padding: 0 1; width: auto; }
    #trouble { padding: 0 1; background: $error; color: $text; text-style: bold; display: none; }
    #trouble:nocolor { text-style: bold reverse; }
    #nodes { height: 3fr; }
    #locks { height: 2fr; }
    Input { display: none; border: round $accent; border-title-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("c", "resource('cpu')", "Cpu"),
        Binding("m", "resource('memory')", "Memory"),
        Binding("s", "sort", "Sort"),
        Binding("a", "everywhere", "All namespaces"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "unfilter", "No filter", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]

    def __init__(self, source: StateSource, view: NamespaceView) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)  # else it stays grey
        self.animation_level = "none"  # the terminal may be far away
        self._source = source
        self._namespace = view.namespace
        self._everywhere = view.everywhere
        self._resource: Measured = "cpu"
        self._word = ""
        self._node_sorts, self._reservation_sorts = cycle(NodeSort), cycle(ReservationSort)
        self._node_sort, self._reservation_sort = next(self._node_sorts), next(self._reservation_sorts)
        self._lines: dict[Key, ReservationLine] = {}
        self._trouble = Static(id="trouble")
        self._summary = Static("reading the cluster …", id="summary")
        self._legend = Static(id="legend")
        self._node_pane = Pane(id="nodes")
        self._reservation_pane = Pane(id="locks")
        self._asked = Input(placeholder="part of a node's, reservation's, namespace's or owner's name")
        self._asked.border_title = "Filter (Esc shows all)"

    def compose(self) -> ComposeResult:
        """Arrange the widgets one below the other."""
        with Vertical():
            yield self._trouble
            with Horizontal(id="head"):
                yield self._summary
                yield self._legend
            yield self._node_pane
            yield self._reservation_pane
            yield self._asked
        yield Footer()

    def on_mount(self) -> None:
        """Start to watch the state."""
        self._node_pane.focus()
        self.set_interval(_PERIOD, self.look)
        self.call_after_refresh(self.look)

    def look(self) -> None:
        """Show the changes since the last call. Without changes, only count down."""
        trouble = self._source.trouble
        self._trouble.update(shown(trouble))
        self._trouble.display = bool(trouble)
        if self._source.changed():
            self._draw()
        else:
            self._reservation_pane.refresh()

    def _draw(self) -> None:
        world = self._source.world
        if world is None:  # it will have changed once it is there
            return
        self._draw_nodes(world)
        self._draw_reservations(world)

    def _draw_nodes(self, world: TopState) -> None:
        resource = self._resource
        lines = node_lines(world, resource, self._source.now())
        sums = total(lines)
        summary = (
            f"{resource}: {sums.part(sums.used):.0%} used, {sums.part(sums.reserved):.0%} reserved, "
            f"{sums.part(sums.free):.0%} free of {amount(resource, sums.allocatable)} on {len(lines)} nodes"
        )
        self._summary.update(Text(summary))
        self._legend.update(legend())
        shown = sorted_nodes((line for line in lines if self._word in line.name), self._node_sort)
        self._node_pane.border_title = _title("Nodes", len(shown), len(lines), self._node_sort)
        self._node_pane.show(partial(node_grid, shown, resource))

    def _draw_reservations(self, world: TopState) -> None:
        known = self._lines
        self._lines = {
            key: line
            if (line := known.get(key)) and line.listed.reservation is reservation
            else ReservationLine.of(reservation)
            for key, reservation in world.reservations.items()
        }
        shown = [
            line
            for key, line in self._lines.items()
            if (self._everywhere or key.namespace == self._namespace) and line.speaks_of(self._word)
        ]
        scope = "all namespaces" if self._everywhere else self._namespace
        self._reservation_pane.border_title = _title(
            f"Reservations in {scope}", len(shown), len(self._lines), self._reservation_sort
        )
        lines = sorted_reservations(shown, self._reservation_sort)
        self._reservation_pane.show(partial(reservation_grid, lines, self._source.now))

    def on_pane_opened(self, event: Pane.Opened) -> None:
        """Show the details of a node or of a reservation."""
        world = self._source.world
        if world is None:
            return
        if event.pane is self._node_pane:
            if (node := world.nodes.get(event.key)) is not None:
                self.push_screen(Details(f"Node {node.name}", node_details(world, node, self._source.now())))
        elif (reservation := world.reservations.get(event.key)) is not None:
            listed, key = ListedReservation(reservation), event.key
            explain = None if listed.ended else partial(self._source.explain, key)
            text = reservation_details(listed, self._source.now())
            self.push_screen(Details(f"Reservation {key}", text, explain, yaml_lines(listed)))

    def action_resource(self, resource: Measured) -> None:
        """Show another resource of nodes."""
        self._resource = resource
        self._draw()

    def action_sort(self) -> None:
        """Sort the table in focus by the next key."""
        if self._reservation_pane.has_focus:
            self._reservation_sort = next(self._reservation_sorts)
        else:
            self._node_sort = next(self._node_sorts)
        self._draw()

    def action_everywhere(self) -> None:
        """Show the reservations of all namespaces, or of one again."""
        self._everywhere = not self._everywhere
        self._draw()

    def action_filter(self) -> None:
        """Ask for a filter word."""
        self._asked.display = True
        self._asked.focus()

    def action_unfilter(self) -> None:
        """Show all again."""
        self._asked.value = ""
        self.on_input_submitted()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter at each letter."""
        self._word = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Go back to the tables. The filter stays active and visible."""
        self._asked.display = bool(self._asked.value)
        self._node_pane.focus()

    def action_help(self) -> None:
        """Show or hide all keys beside the tables."""
        if self.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()


def _title(subject: str, shown: int, there: int, sort: NodeSort | ReservationSort) -> str:
    count = f"{there}" if shown == there else f"{shown} of {there}"
    return f"{subject}: {count}, by {sort.value}"
