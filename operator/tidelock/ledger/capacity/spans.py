"""The amounts that reservations and pods take from a node, where some need them for a limited time only.

Those without bounds count at every time. The others count with their peak, the largest sum at any instant.
The operator's columns, `kubectl tidelock` and the web view all show amounts by this rule.

All instants are seconds since the epoch.
"""

from collections.abc import Collection, Iterable
from functools import reduce
from math import inf
from typing import NamedTuple

from tidelock.model.pods import START_SECONDS
from tidelock.model.quantities import NOTHING, Resources, minus, plus
from tidelock.model.reservation import Reservation


class Span(NamedTuple):
    """Amounts of a node from one instant until before another. Both may be infinite."""

    start: float
    end: float
    amounts: Resources


def needed_until(reservation: Reservation, ends: float | None) -> float:
    """Return the last instant at which capacity is needed if a reservation ends at `ends`.

    Its pod may come at the end of the reservation, and then runs for its own time.
    """
    return inf if ends is None else ends + START_SECONDS + reservation.run_seconds


def needed_span(
    reservation: Reservation, held: Resources, begins: float | None, ends: float | None
) -> Span | None:
    """Return the span in which held amounts are needed, or None if they are needed from now on for ever.

    Args:
        reservation: the reservation that holds the amounts.
        held: the amounts.
        begins: when a planned reservation begins, or None for one that has begun.
        ends: when it ends at the latest, or None if that is unknown.

    """
    if not held or (begins is None and reservation.run_seconds == inf):
        return None
    return Span(-inf if begins is None else begins, needed_until(reservation, ends), held)


def level_at(spans: Iterable[Span], instant: float) -> Resources:
    """Return the sum of the spans that contain an instant."""
    return _sum(span.amounts for span in spans if span.start <= instant < span.end)


def peak_of(spans: Collection[Span]) -> Resources:
    """Return the largest sum of spans at any instant, which is when one begins."""
    levels = [level_at(spans, start) for start in {span.start for span in spans}]
    return {
        name: max(level.get(name, 0) for level in levels) for name in _sum(span.amounts for span in spans)
    }


def shared_by(spans: Collection[Span]) -> Resources:
    """Return the amounts by which the sum of spans, as if they were there at once, exceeds their peak."""
    together, peak = _sum(span.amounts for span in spans), peak_of(spans)
    return {name: units - peak[name] for name, units in together.items() if units > peak[name]}


def reserved_amounts(held: Iterable[Resources], spans: Collection[Span]) -> Resources:
    """Return the reserved amounts of a node.

    A pod that may stay for ever gets only capacity beside these.

    Args:
        held: the amounts that each reservation holds on the node.
        spans: the spans of its reservations and pods that need their amounts for a limited time.

    """
    return minus(_sum(held), shared_by(spans))


def _sum(amounts: Iterable[Resources]) -> Resources:
    return reduce(plus, amounts, NOTHING)
