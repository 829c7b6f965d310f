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

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, HelpPanel, Input, Static

from tidelock.cli.tables import shown
from tidelock.cli.top_tables import (
    Grid,
    NodeSort,
    ReservationLine,
    ReservationSort,
    TopState,
    amount,
    legend,
    node_grid,
    node_lines,
    reservation_grid,
    sorted_nodes,
    sorted_reservations,
    total,
)
from tidelock.model.meta import Key
from tidelock.model.usage_annotations import Measured

_PERIOD = 1.0  # seconds between two checks for news, and of the clock


class StateSource(Protocol):
    """Source of the screen's state."""

    @property
    def world(self) -> TopState | None:
        """The known state, or None before all of it has been read once."""

    def changed(self) -> bool:
        """Return whether there is news since the last call."""

    @property
    def trouble(self) -> str:
        """Why the state is out of date, and how old it is, or empty if it is current."""

    def now(self) -> float:
        """Return the seconds since the epoch, by the cluster's clock."""


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """Namespace of the shown reservations, and whether those of all namespaces are shown first."""

    namespace: str
    everywhere: bool


class Pane(ScrollView, can_focus=True):
    """A table below a fixed line of headings, scrolled with the usual keys of a terminal."""

    DEFAULT_CSS = """
    Pane {
        border: round $foreground 30%;
        border-title-color: $foreground;
        border-title-style: bold;
        background: $background;
        padding: 0 1;
        scrollbar-color: $foreground 30%;
        scrollbar-background: $background;
    }
    Pane:focus { border: round $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.focus_next", "Other table")]

    def __init__(self, id: str) -> None:  # noqa: A002 -- the base class' name
        super().__init__(id=id)
        self._make: Callable[[int], Grid] | None = None
        self._grid: Grid | None = None

    def show(self, make: Callable[[int], Grid]) -> None:
        """Show another table, at the same position. `make` is called with the cells of a line."""
        self._make = make
        self._grid = grid = make(self.scrollable_content_region.width)
        self.virtual_size = Size(grid.width, grid.count + 1)
        self.refresh()

    def on_resize(self) -> None:
        """Adapt the table to the new width."""
        if self._make is not None:
            self.show(self._make)

    def render_line(self, y: int) -> Strip:
        """Return the line at a height of the widget."""
        width, (left, top) = self.size.width, self.scroll_offset
        place = y + top - 1
        if self._grid is None or place >= self._grid.count:
            return Strip.blank(width, self.rich_style)
        text = self._grid.line(place) if y else self._grid.head()
        strip = Strip(text.render(self.app.console)).apply_style(self.rich_style)
        return strip.crop_extend(left, left + width, self.rich_style)


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
        if world is None:  # there will be news once it is there
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
            if (line := known.get(key)) and line.seen.reservation is reservation
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
        grid = reservation_grid(sorted_reservations(shown, self._reservation_sort), self._source.now)
        self._reservation_pane.show(lambda _width: grid)

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
