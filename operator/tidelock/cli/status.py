"""`kubectl tidelock status`: the reservations, their amounts on each node, the water levels."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.live import Live

from tidelock.cli.locks import Seen, amounts
from tidelock.cli.options import Context, Everywhere, Format, Kubeconfig, Namespace, Output
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import Table, lines_of, parts_of, show, show_plain, span, terminal
from tidelock.cli.watch import News, followed
from tidelock.clock import SystemClock
from tidelock.kube.client import RESERVATIONS, WATERLEVELS
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.listing import list_all
from tidelock.model.api.water_level import UsageLevel, WaterLevelStatus
from tidelock.model.nesting import shallow
from tidelock.model.quantities import Resources, plus
from tidelock.model.reservation import Reservation, decode_reservation


def command(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and show changes.")] = False,
) -> None:
    """Show reservations, the reserved amounts on each node, and water levels."""
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
    seen = [Seen(each) for each in sorted(reservations, key=lambda each: each.key)]
    parts: list[Table | str] = []
    if seen:
        parts.append(_reservation_table(seen, now, everywhere=everywhere, wide=wide))
    else:
        parts.append("No reservations" + ("." if everywhere else " in this namespace; -A shows all."))
    moves = _move_table(seen, everywhere=everywhere)
    if moves.rows:
        parts += ["", moves]
    held = _node_table(seen, now)
    if held.rows:
        parts += ["", held]
    if levels:
        parts += ["", _level_table(levels, now)]
    return parts


RESERVATION_COLUMNS = ("NAMESPACE", "NAME", "PHASE", "NODE", "OWNER", "ROOM", "ENDS IN", "AGE", "WHY")


def reservation_row(seen: Seen, now: float, *, wide: bool = False) -> list[str]:
    """Return the cells of RESERVATION_COLUMNS for a reservation. `wide`: whole messages."""
    meta, ends = seen.reservation.meta, seen.instant("expiresAt")
    return [
        meta.namespace,
        meta.name,
        seen.phase,
        seen.node or "<any>",
        seen.owner,
        "" if seen.ended else amounts(seen.resources),
        "" if ends is None or seen.ended else span(ends - now),
        span(now - meta.created) if meta.created else "",
        seen.why if wide else _short(seen.why),
    ]


def _reservation_table(seen: Sequence[Seen], now: float, *, everywhere: bool, wide: bool) -> Table:
    first = 0 if everywhere else 1
    rows = [reservation_row(each, now, wide=wide)[first:] for each in seen]
    return Table(RESERVATION_COLUMNS[first:], rows)


def _move_table(seen: Sequence[Seen], *, everywhere: bool) -> Table:
    """Return the pods that must move for reservations, and the approving tokens."""
    first = 0 if everywhere else 1
    rows = []
    for each in seen:
        if (plan := each.plan) is not None:
            state = "under way" if plan.under_way else f"approve {plan.token}"
            reservation = [each.reservation.meta.namespace, each.reservation.meta.name, state]
            for move in plan.moves:
                rows.append([*reservation[first:], str(move.key), plan.node, move.to])
                reservation = ["", "", ""]
    return Table(["NAMESPACE", "MOVES FOR", "STATE", "POD", "FROM", "TO"][first:], rows)


def _short(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _node_table(seen: Sequence[Seen], now: float) -> Table:
    """Return the amounts that reservations hold on each node, and when the next of them ends."""
    held: dict[str, Resources] = {}
    ends: dict[str, list[float]] = {}
    counts: dict[str, int] = {}
    for each in seen:
        if each.active and each.node:
            held[each.node] = plus(held.get(each.node, {}), each.held)
            counts[each.node] = counts.get(each.node, 0) + 1
            ends.setdefault(each.node, []).append(each.instant("expiresAt") or now)
    rows = [
        [node, str(counts[node]), amounts(held[node]), span(min(ends[node]) - now)] for node in sorted(held)
    ]
    return Table(["NODE", "LOCKS", "HELD", "NEXT ENDS IN"], rows, right=frozenset({"LOCKS"}))


def _level_table(levels: Sequence[Mapping[str, Any]], now: float) -> Table:
    columns = ["WATER LEVEL", "CPU", "TARGET", "MEMORY", "NODES", "STALE", "MISSING", "SAMPLED", "WHY"]
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
                f"{span(now - sampled.timestamp())} ago" if sampled else "never",
                _short(bad[0]) if bad else "",
            ]
        )
    return Table(columns, rows, right=frozenset({"CPU", "TARGET", "MEMORY", "NODES", "STALE", "MISSING"}))


def _level(level: UsageLevel | None) -> str:
    return f"{level.mean}% ({level.min}-{level.max})" if level else ""


async def _watch(session: Session, *, wide: bool) -> None:
    """Show the screen again after each change, and each second on a terminal."""
    _, levels = await _read(session)  # an error is printed before the watch hides it
    news, clock, console = News(), SystemClock(), terminal()
    space = session.namespace
    async with followed(session, RESERVATIONS, decode_reservation, news, namespace=space) as copy:
        await news.come.wait()
        with Live(console=console, auto_refresh=False) as live:
            shown = ""
            while True:
                news.come.clear()
                parts = screen(copy.store.values(), levels, clock.now(), everywhere=space is None, wide=wide)
                if console.is_terminal:
                    live.update(parts_of(*parts), refresh=True)
                elif (text := lines_of(*parts)) != shown:
                    console.file.write(text + "\n")
                    console.file.flush()
                    shown = text
                try:
                    await asyncio.wait_for(news.come.wait(), 1.0 if console.is_terminal else None)
                except TimeoutError:
                    continue
