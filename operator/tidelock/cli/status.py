"""`kubectl tidelock status`: the reservations, their amounts on each node, the water levels."""

import asyncio
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidelock.cli.layout import clipped
from tidelock.cli.options import Context, Everywhere, Format, Kubeconfig, Namespace, Output
from tidelock.cli.reservations import ListedReservation, by_node
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import Table, coloured, lines_of, show, show_plain, span, terminal_width
from tidelock.cli.units import amount, cells_of, shown_columns
from tidelock.clock import SystemClock
from tidelock.kube.client import RESERVATIONS, WATERLEVELS
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.listing import list_all
from tidelock.model.nesting import shallow
from tidelock.model.quantities import NOTHING, Resources
from tidelock.model.reservation import Reservation, decode_reservation

if TYPE_CHECKING:
    from tidelock.model.api.water_level import UsageLevel

EXAMPLES = """\
kubectl tidelock status              # of the context's namespace
kubectl tidelock status -A -o wide   # of all, with whole messages
kubectl tidelock status -w           # until Ctrl-C
"""


def command(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and show changes.")] = False,
) -> None:
    """Show reservations, reserved amounts and water levels.

    The amounts are those that pods can't get on each node.
    """
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace, everywhere=everywhere)
    if watch:
        ask(target, lambda session: _watch(session, wide=output is Output.WIDE))
        return
    raw, levels = ask(target, _read)
    if output in (Output.JSON, Output.YAML):
        plain = {"reservations": [_plain(each) for each in raw], "waterLevels": levels}
        show_plain(plain, output)
        return
    reservations = [decode_reservation(each) for each in raw]
    show(
        *screen(reservations, levels, SystemClock().now(), everywhere=everywhere, wide=output is Output.WIDE)
    )


async def _read(session: Session) -> tuple[list[msgspec.Raw], list[dict[str, Any]]]:
    reservations = await list_all(session.client, RESERVATIONS, session.namespace)
    try:
        levels = await list_all(session.client, WATERLEVELS)
    except (Forbidden, NotFound):
        levels = []  # a user with the right for Reservations only sees these
    return reservations, [_plain(each) for each in levels]


def _plain(raw: msgspec.Raw) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(shallow(bytes(raw)))
    plain.get("metadata", {}).pop("managedFields", None)
    return plain


def screen(
    reservations: Iterable[Reservation],
    levels: Sequence[Mapping[str, Any]],
    now: float,
    *,
    everywhere: bool,
    wide: bool,
) -> list[Table | str]:
    """Return the tables. `now` is in seconds since the epoch."""
    listed = sorted(
        map(ListedReservation, reservations), key=lambda each: (each.urgency, each.reservation.key)
    )
    parts: list[Table | str] = []
    if listed:
        parts.append(_reservation_table(listed, now, everywhere=everywhere, wide=wide))
    else:
        parts.append("No reservations" + ("." if everywhere else " in this namespace; -A shows all."))
    moves = _move_table(listed, everywhere=everywhere)
    if moves.rows:
        parts += ["", moves]
    held = _node_table(listed, now)
    if held.rows:
        parts += ["", held]
    if levels:
        parts += ["", _level_table(levels, now)]
    return parts


OPTIONAL = ("AGE", "OWNER")
"""Columns of reservations that a narrow terminal leaves out, before the amounts and the end."""
NAMES = frozenset({"NAMESPACE", "NAME", "MOVES FOR", "NODE", "OWNER", "POD", "FROM", "TO"})
_LONGEST_WHY = 90


def reservation_columns(resources: Sequence[str]) -> list[str]:
    """Return the headings of a table of reservations, with a column for each resource."""
    names = [name.upper() for name in resources]
    return ["NAMESPACE", "NAME", "PHASE", "NODE", "OWNER", *names, "ENDS IN", "AGE", "WHY"]


def reservation_cells(listed: ListedReservation, resources: Resources, now: float) -> dict[str, str]:
    """Return the cells of a reservation with these amounts, by the headings of `reservation_columns`."""
    meta, ends = listed.reservation.meta, listed.instant("expiresAt")
    held = NOTHING if listed.ended else resources
    return {
        "NAMESPACE": meta.namespace,
        "NAME": meta.name,
        "PHASE": listed.phase,
        "NODE": listed.node or "<any>",
        "OWNER": listed.owner,
        **{name.upper(): amount(name, units) for name, units in held.items()},
        "ENDS IN": "" if ends is None or listed.ended else span(ends - now),
        "AGE": span(now - meta.created) if meta.created else "",
        "WHY": listed.why,
    }


def optional_columns(resources: Sequence[str]) -> tuple[str, ...]:
    """Return the headings that a narrow terminal leaves out, the least important first."""
    return (*OPTIONAL, *(name.upper() for name in reversed(resources)), "ENDS IN")


def _reservation_table(
    listed: Sequence[ListedReservation], now: float, *, everywhere: bool, wide: bool
) -> Table:
    first = 0 if everywhere else 1
    amounts = [each.resources for each in listed]
    resources = shown_columns(amounts)
    columns = reservation_columns(resources)[first:]
    rows = []
    for each, held in zip(listed, amounts, strict=True):
        cells = reservation_cells(each, held, now)
        if not wide:
            cells["WHY"] = clipped(cells["WHY"], _LONGEST_WHY)
        rows.append([cells.get(column, "") for column in columns])
    return Table(
        columns,
        rows,
        right=frozenset(name.upper() for name in resources),
        optional=optional_columns(resources),
        names=NAMES,
        fold=wide,
    )


def _move_table(listed: Sequence[ListedReservation], *, everywhere: bool) -> Table:
    """Return the pods that must move for reservations, and the approving tokens."""
    first = 0 if everywhere else 1
    rows = []
    for each in listed:
        if (plan := each.plan) is not None:
            state = "under way" if plan.under_way else f"approve {plan.token}"
            reservation = [each.reservation.meta.namespace, each.reservation.meta.name, state]
            for move in plan.moves:
                rows.append([*reservation[first:], str(move.key), plan.node, move.to])
                reservation = ["", "", ""]
    columns = ["NAMESPACE", "MOVES FOR", "STATE", "POD", "FROM", "TO"][first:]
    return Table(columns, rows, optional=("NAMESPACE",), names=NAMES)


def _node_table(listed: Sequence[ListedReservation], now: float) -> Table:
    """Return the reserved amounts of each node, and when the next of its reservations ends.

    The amounts do not consider pods that end in time, which windows may follow.
    """
    held = by_node(listed)
    resources = shown_columns(each.reserved for each in held.values())
    rows = []
    for name, node in sorted(held.items()):
        ends = [end for each in node.listed if (end := each.instant("expiresAt")) is not None]
        next_end = span(min(ends) - now) if ends else ""
        rows.append([name, str(len(node.listed)), *cells_of(node.reserved, resources), next_end])
    heads = [name.upper() for name in resources]
    columns = ["NODE", "COUNT", *(f"RESERVED {head}" for head in heads), "NEXT END IN"]
    return Table(
        columns,
        rows,
        right=frozenset(columns[1:-1]),
        optional=tuple(reversed(columns[4:-1])),
        names=NAMES,
        fold=False,
    )


def _level_table(levels: Sequence[Mapping[str, Any]], now: float) -> Table:
    from tidelock.model.api.water_level import WaterLevelStatus  # noqa: PLC0415 -- most clusters have none

    columns = [
        "WATER LEVEL",
        "CPU",
        "TARGET",
        "MEMORY",
        "NODES",
        "STALE",
        "MISSING",
        "TIDE",
        "SAMPLED",
        "WHY",
    ]
    rows = []
    for each in levels:
        status = WaterLevelStatus.model_validate(each.get("status") or {})
        sampled = status.sampled_at
        bad = [
            f"{condition.reason}: {condition.message}"
            for condition in status.conditions
            if (condition.type, condition.status) in (("Ready", "False"), ("MetricsStale", "True"))
        ]
        rows.append(
            [
                str(each["metadata"]["name"]),
                _level(status.cpu),
                f"{status.cpu.target}%" if status.cpu else "",
                _level(status.memory),
                *(
                    "" if count is None else str(count)
                    for count in (status.nodes_measured, status.nodes_stale, status.nodes_missing)
                ),
                status.tide or "",
                f"{span(now - sampled.timestamp())} ago" if sampled else "never",
                clipped(bad[0], _LONGEST_WHY) if bad else "",
            ]
        )
    return Table(
        columns,
        rows,
        right=frozenset({"CPU", "TARGET", "MEMORY", "NODES", "STALE", "MISSING"}),
        optional=("TARGET", "MISSING", "TIDE", "STALE", "NODES", "SAMPLED"),
        names=frozenset({"WATER LEVEL"}),
        fold=False,
    )


def _level(level: "UsageLevel | None") -> str:
    return f"{level.mean}% ({level.min}-{level.max})" if level else ""


_BACK = "\x1b[{lines}A\x1b[J"  # moves the cursor up, and clears the screen below


def _as_high_as_the_terminal(text: str) -> str:
    """Leave out the lines that do not fit the terminal, as the next screen could not replace them."""
    lines, most = text.splitlines(), max(shutil.get_terminal_size().lines - 1, 2)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"and {len(lines) - most + 1} more lines"]
    return "".join(f"{line}\n" for line in lines)


async def _watch(session: Session, *, wide: bool) -> None:
    """Show the screen again after each change, and each second on a terminal."""
    _, levels = await _read(session)  # an error is printed before the watch hides it
    from tidelock.cli.watch import ChangeSignal, followed  # noqa: PLC0415 -- most tables are printed once

    changes, clock, space = ChangeSignal(), SystemClock(), session.namespace
    live = sys.stdout.isatty()
    async with followed(session, RESERVATIONS, decode_reservation, changes, namespace=space) as copy:
        await changes.changed.wait()
        shown = ""
        while True:
            changes.changed.clear()
            parts = screen(copy.store.values(), levels, clock.now(), everywhere=space is None, wide=wide)
            text = lines_of(*parts, width=terminal_width(), coloured=coloured())
            if live:
                text = _as_high_as_the_terminal(text)
                sys.stdout.write(_BACK.format(lines=shown.count("\n")) + text if shown else text)
            elif text != shown:
                sys.stdout.write(text + "\n")
            sys.stdout.flush()
            shown = text
            try:
                await asyncio.wait_for(changes.changed.wait(), 1.0 if live else None)
            except TimeoutError:
                continue
