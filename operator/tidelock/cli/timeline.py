"""`kubectl tidelock timeline`: reservations on nodes over time, as text and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, Everywhere, Format, Kubeconfig, Namespace, Output
from tidelock.cli.options_spec import seconds
from tidelock.cli.reservations import ListedReservation, amounts
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import show, show_plain, span
from tidelock.clock import SystemClock
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.listing import list_all
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.reservation import Reservation, decode_reservation

EXAMPLES = """\
kubectl tidelock timeline -A
kubectl tidelock timeline worker-1 --since 30m --ahead 8h
kubectl tidelock timeline worker-1 --png timeline.png
"""

_CELLS = 60
_PAST, _AHEAD, _ENDED = "█", "░", "▒"
_COLOURS = {"Active": "tab:green", "Bound": "tab:blue", "Consumed": "tab:blue", "Expired": "tab:gray"}


def command(
    node: Annotated[
        str,
        typer.Argument(
            help="Node. Default: all nodes with reservations.", metavar="NODE", show_default=False
        ),
    ] = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    since: Annotated[
        str, typer.Option("--since", help="How far to look back, such as 30m.", metavar="TIME")
    ] = "1h",
    ahead: Annotated[
        str, typer.Option("--ahead", help="How far to look ahead, such as 2h.", metavar="TIME")
    ] = "1h",
    png: Annotated[
        str, typer.Option("--png", help="PNG file to write. Needs matplotlib.", metavar="FILE")
    ] = "",
) -> None:
    """Show the reservations of nodes over time, including ended ones that are retained."""
    back, forth = seconds("--since", since), seconds("--ahead", ahead)
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=everywhere)
    raw = ask(target, _read)
    now = SystemClock().now()
    window = ShownTime(now - back, now + forth, now)
    spans = spans_of([decode_reservation(each) for each in raw], window, node)
    if png:
        draw(spans, window, png)
    if output in (Output.JSON, Output.YAML):
        show_plain([_plain(each) for each in spans], output)
    else:
        show(*screen(spans, window))


async def _read(session: Session) -> list[msgspec.Raw]:
    return await list_all(session.client, RESERVATIONS, session.namespace)


@dataclass(frozen=True, slots=True)
class ShownTime:
    """The time span of the output, in seconds since the epoch."""

    start: float
    end: float
    now: float


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A reservation on a node from its activation to its end, which may be in the future.

    Its idle time so far, without an owner in it, and its waiting time before are in seconds.
    """

    node: str
    reservation: str
    phase: str
    holds: str
    start: float
    end: float
    idle: float
    waited: float


_LIVE = frozenset({Phase.PLANNED, Phase.ACTIVE, Phase.BOUND})


def spans_of(reservations: Sequence[Reservation], window: ShownTime, node: str = "") -> list[ShownSpan]:
    """Return the reservations that hold capacity within the window, by node, then by their start."""
    spans = []
    for listed in map(ListedReservation, reservations):
        start = (
            listed.reservation.start_at if listed.phase == Phase.PLANNED else listed.instant("activatedAt")
        )
        end = listed.instant("finishedAt") or listed.instant("expiresAt")
        if start is None or end is None or not listed.node or (node and listed.node != node):
            continue
        if listed.phase == Phase.PENDING or end < window.start or start > window.end:
            continue
        idle = max(min(end, window.now) - start - listed.occupied_for(window.now), 0.0)
        waited = max(start - listed.reservation.meta.created, 0.0)
        holds = amounts(listed.resources)
        spans.append(
            ShownSpan(listed.node, str(listed.reservation.key), listed.phase, holds, start, end, idle, waited)
        )
    return sorted(spans, key=lambda each: (each.node, each.start, each.reservation))


def screen(spans: Sequence[ShownSpan], window: ShownTime) -> list[str]:
    """Draw a line per reservation, under its node; `|` is now."""
    if not spans:
        return ["No reservation in this time; extend it with --since and --ahead, -A shows all namespaces."]
    width = max(len(each.reservation) for each in spans) + 2
    scale = _scale(window)
    lines = []
    for name in dict.fromkeys(each.node for each in spans):
        lines += [name, f"  {'':{width}}{scale}"]
        for each in spans:
            if each.node == name:
                text = f"{each.holds}  {_next(each, window.now)}, idle {span(each.idle)}"
                lines.append(f"  {each.reservation:{width}}{_bar(each, window)}  {text}")
        lines.append("")
    return [*lines, f"{_PAST} held so far   {_AHEAD} held from now on   {_ENDED} ended   | now"]


def _next(reservation: ShownSpan, now: float) -> str:
    """Return the next event of a reservation."""
    if reservation.phase == Phase.PLANNED:
        return f"begins in {span(reservation.start - now)}"
    return f"ends in {span(reservation.end - now)}" if reservation.phase in _LIVE else reservation.phase


def _bar(reservation: ShownSpan, window: ShownTime) -> str:
    cell = (window.end - window.start) / _CELLS
    cells = []
    here = min(int((window.now - window.start) / cell), _CELLS - 1)
    for place in range(_CELLS):
        begin = window.start + place * cell
        if place == here:
            cells.append("|")
        elif begin + cell <= reservation.start or begin >= reservation.end:
            cells.append(" ")
        elif reservation.phase not in _LIVE:
            cells.append(_ENDED)
        else:
            cells.append(_PAST if place < here else _AHEAD)
    return "".join(cells)


def _scale(window: ShownTime) -> str:
    """Return times of day (UTC) over the quarters of the window."""
    cells = [" "] * (_CELLS + 5)
    for quarter in range(5):
        at = window.start + (window.end - window.start) * quarter / 4
        text = datetime.fromtimestamp(at, UTC).strftime("%H:%M")
        place = quarter * _CELLS // 4
        cells[place : place + len(text)] = text
    return "".join(cells)


def draw(spans: Sequence[ShownSpan], window: ShownTime, file: str) -> None:
    """Draw the reservations into a PNG, or raise Failure if that is not possible."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 -- slow, and not always installed
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Failure("--png needs matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(10, 1.5 + 0.4 * len(spans)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, each in enumerate(spans):
        colour = _COLOURS.get(each.phase, "tab:red")
        minutes = ((each.start - window.now) / 60, (each.end - each.start) / 60)
        axes.broken_barh([minutes], (place - 0.4, 0.8), color=colour, alpha=0.7)
        axes.text(
            max(minutes[0], (window.start - window.now) / 60),
            place,
            f" {each.holds}",
            va="center",
            fontsize=8,
        )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_xlim((window.start - window.now) / 60, (window.end - window.now) / 60)
    axes.set_yticks(range(len(spans)), [f"{each.node}: {each.reservation}" for each in spans])
    axes.invert_yaxis()
    axes.set_xlabel(f"minutes from {format_instant(int(window.now))}")
    axes.set_title("Reservations on nodes")
    try:
        figure.savefig(Path(file), format="png", dpi=120)
    except OSError as error:
        raise Failure(f"--png: {file}: {error.strerror}") from error


def _plain(each: ShownSpan) -> dict[str, str | int]:
    return {
        "node": each.node,
        "reservation": each.reservation,
        "phase": each.phase,
        "holds": each.holds,
        "start": format_instant(each.start),
        "end": format_instant(each.end),
        "waitedSeconds": int(each.waited),
        "idleSeconds": int(each.idle),
    }
