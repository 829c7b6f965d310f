"""The rows that several pages of the web view show: reservations and decisions, and parts of lists."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import msgspec

from tidelock.ledger.output.status import preview_reservation, shown_resources
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.owners import owner_text
from tidelock.model.outlook import Upcoming, outlook
from tidelock.model.printable import printable
from tidelock.model.quantities import PODS, Resources, format_resources
from tidelock.model.reservation import Reservation
from tidelock.scheduler.views.recent_decisions import Decision, RecentDecisions

ROWS = 50
"""Rows of a page of nodes, of reservations, or of any other list."""
DECISIONS = 50
"""Rows of decisions on a page."""

# Reservations that are examined in one slice, which takes about a millisecond.
_SLICE = 500

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a page, with JSON's spelling of names."""


class ReservationRow(Row, frozen=True):
    """A reservation: its state, its nearest event to come, and when it ended, in seconds since the epoch."""

    name: str
    phase: str
    marks: tuple[str, ...]
    trouble: bool
    node: str
    owner: str
    capacity: str
    upcoming: Upcoming | None
    ended_at: float | None
    why: str


class DecisionRow(Row, frozen=True):
    """A decision. See `tidelock.scheduler.views.recent_decisions`."""

    at: float
    kind: str
    name: str
    verdict: str
    node: str
    why: str


class ListPart(Row, frozen=True):
    """The position of a page: the rows in total, the matching ones, and those before the first."""

    total: int
    matching: int
    first: int


def part_of(total: int, matching: int, first: int) -> ListPart:
    """Start at the requested row, or at the last page if that is beyond the end."""
    last = max(matching - 1, 0) // ROWS * ROWS
    return ListPart(total, matching, min(first, last))


def rows_of(items: Sequence[T], part: ListPart) -> Sequence[T]:
    """Return the items that a part of their list shows."""
    return items[part.first : part.first + ROWS]


def in_slices(
    entries: Iterable[ReservationInfo], examine: Callable[[ReservationInfo], None]
) -> Generator[None, None, int]:
    """Examine the reservations of this instant in slices, and return their number."""
    known = tuple(entries)
    for start in range(0, len(known), _SLICE):
        for entry in known[start : start + _SLICE]:
            examine(entry)
        yield
    return len(known)


def stored_form(entry: ReservationInfo, now: float) -> Reservation:
    """Return a reservation with the status that would be written now."""
    return replace(entry.reservation, status=preview_reservation(entry, now))


def reservation_row(entry: ReservationInfo, now: float) -> ReservationRow:
    """Return the row of a reservation."""
    seen = outlook(stored_form(entry, now), entry.move_at)
    return ReservationRow(
        name=str(entry.key),
        phase=seen.phase,
        marks=seen.marks,
        trouble=seen.trouble,
        node=entry.node,
        owner=printable(owner_of(entry)),
        capacity=amounts(shown_resources(entry)),
        upcoming=seen.next,
        ended_at=seen.ended_at,
        why=printable(seen.why),
    )


def amounts(resources: Resources) -> str:
    """Format amounts as `cpu 2, memory 4Gi`, without the number of pods."""
    shown = {name: units for name, units in resources.items() if name != PODS}
    return ", ".join(f"{name} {amount}" for name, amount in format_resources(shown).items())


def owner_of(entry: ReservationInfo) -> str:
    """Return a short text that names the owners of a reservation, or empty without a readable spec."""
    spec = entry.reservation.spec
    return "" if spec is None else owner_text(spec.owners)


def decision_rows(recent: RecentDecisions, matches: Callable[[Decision], bool]) -> list[DecisionRow]:
    """Return the newest of the recent decisions that match."""
    return [
        DecisionRow(each.at, each.kind, str(each.key), each.verdict, each.node, printable(each.why))
        for each in islice(filter(matches, recent), DECISIONS)
    ]
