"""The details of a selected row of `kubectl tidelock top`."""

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import ClassVar

import yaml
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from tidelock.cli.reservations import ListedReservation, NodeReservations, amounts, by_node
from tidelock.cli.tables import Table, lines_of, span
from tidelock.cli.top_tables import TopState, shown
from tidelock.cli.units import amount, shown_columns
from tidelock.kube.client import RESERVATIONS
from tidelock.model.nodes import Node
from tidelock.model.quantities import NOTHING

_MARGIN = 6  # cells of the frame around a text


class Details(ModalScreen[None]):
    """The details of an object over the tables, with the verdict of each node, which takes a moment.

    Args:
        title: the title of the frame.
        parts: the tables and sentences.
        explain: returns the verdicts for a terminal of so many cells, or None if there are none.
        end: the lines below the verdicts.

    """

    DEFAULT_CSS = """
    Details { align: center middle; }
    Details VerticalScroll {
        width: 96%;
        height: 92%;
        border: round $accent;
        border-title-style: bold;
        background: $background;
        padding: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Back to the tables", key_display="Esc"),
        Binding("ctrl+c", "app.quit", "Quit", show=False),
    ]

    def __init__(
        self,
        title: str,
        parts: list[Table | str],
        explain: Callable[[int], Awaitable[str]] | None = None,
        end: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._title = title
        self._parts = parts
        self._end = end
        self._explain = explain
        waiting = "" if explain is None else "\nasking all plugins about each node …"
        self._verdicts = Static(waiting, markup=False)

    def compose(self) -> ComposeResult:
        """Arrange the texts one below the other."""
        with VerticalScroll() as frame:
            frame.border_title = shown(self._title)
            yield Static(lines_of(*self._parts, width=self._width), markup=False)
            yield self._verdicts
            yield Static(lines_of("", *self._end, width=self._width), markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask for the verdicts."""
        if self._explain is not None:
            self.run_worker(self._fill_in(self._explain))

    async def _fill_in(self, explain: Callable[[int], Awaitable[str]]) -> None:
        text = await explain(self._width)
        self._verdicts.update(f"\n{text}")

    @property
    def _width(self) -> int:
        return max(int(self.app.size.width * 0.96) - _MARGIN, 20)


def reservation_details(listed: ListedReservation, now: float) -> list[Table | str]:
    """Return the state of a reservation, and its conditions."""
    reservation = listed.reservation
    facts = {
        "Phase": listed.phase,
        "Reason": listed.why,
        "Owner": listed.owner,
        "Node": listed.node,
        "Reserved": amounts(listed.resources),
        "Ends in": _ends_in(listed, now),
    }
    conditions = [
        [str(each.get(name, "")) for name in ("type", "status", "reason", "message")]
        for each in reservation.status.get("conditions") or ()
    ]
    parts: list[Table | str] = [f"{name + ':':10}{text}" for name, text in facts.items() if text]
    if conditions:
        parts += ["", Table(["CONDITION", "STATUS", "REASON", "MESSAGE"], conditions)]
    return parts


def yaml_lines(listed: ListedReservation) -> list[str]:
    """Return the lines of a reservation as YAML, with the readable part of its spec."""
    reservation = listed.reservation
    spec = reservation.spec
    plain = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"namespace": reservation.key.namespace, "name": reservation.key.name},
        "spec": {} if spec is None else spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "status": reservation.status,
    }
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=10_000).splitlines()


def node_details(world: TopState, node: Node, now: float) -> list[Table | str]:
    """Return the amounts of all resources of a node, and its reservations."""
    every = by_node(map(ListedReservation, world.reservations.values()), world.leaving)
    held = every.get(node.name, NodeReservations())
    used = world.used.get(node.name, NOTHING)
    names = shown_columns((node.allocatable, used, held.reserved))
    rows = []
    for name in names:
        whole, taken, kept = (each.get(name, 0) for each in (node.allocatable, used, held.reserved))
        figures = (taken, kept, whole - taken - kept, whole)
        rows.append([name, *(amount(name, units) for units in figures)])
    columns = ["RESOURCE", "USED", "RESERVED", "FREE", "OF"]
    parts: list[Table | str] = [Table(columns, rows, right=frozenset(columns[1:]))]
    taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints]
    parts += ["", f"Taints:   {', '.join(taints)}"] if taints else []
    ordered = sorted(held.listed, key=lambda each: (each.instant("expiresAt") or inf, each.reservation.key))
    reservations = [
        [str(each.reservation.key), each.phase, each.owner, amounts(each.held), _ends_in(each, now)]
        for each in ordered
    ]
    if reservations:
        parts += ["", Table(["RESERVATION", "PHASE", "OWNER", "HOLDS", "ENDS IN"], reservations)]
    return parts


def _ends_in(listed: ListedReservation, now: float) -> str:
    ends = listed.instant("expiresAt")
    return "" if ends is None or listed.ended else span(ends - now)
