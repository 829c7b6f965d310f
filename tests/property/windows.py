"""Sums of reservations that begin later and of pods that end, computed instant by instant."""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import inf

from property.process import Process
from tidelock.cluster.placed import Placed
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.quantities import NOTHING, Resources, plus


def needed_by(held: Sequence[ReservationInfo], placed: Iterable[Placed]) -> dict[str, int]:
    """Compute the peak of the reservations of a node, in addition to all pods that are there now."""
    there = list(placed)
    spans = [_span(entry) for entry in held]
    spans += [(-inf, each.pod.gone_by(each.since), each.pod.requests) for each in there]
    pods = reduce(plus, (each.pod.requests for each in there), NOTHING)
    peak: dict[str, int] = {}
    for start, _, _ in spans:
        for name, units in _sum_at(start, spans).items():
            peak[name] = max(peak.get(name, 0), units)
    needed = {name: units - pods.get(name, 0) for name, units in peak.items()}
    return {name: units for name, units in needed.items() if units}


def in_the_way(process: Process, node_name: str) -> list[str]:
    """Return the reservations that hold a resource at an instant at which their node has too little of it."""
    columns = process.columns
    allocatable = columns.nodes[columns.row_of[node_name]].allocatable
    reservations = {str(entry.key): _span(entry) for entry in process.ledger.holdings.held_on(node_name)}
    there = process.cache.pods_on(node_name)
    spans = [
        *reservations.values(),
        *((-inf, each.pod.gone_by(each.since), each.pod.requests) for each in there),
    ]
    found = []
    for instant in {start for start, _, _ in spans}:
        sums = _sum_at(instant, spans)
        short = {name for name, units in sums.items() if units > allocatable.get(name, 0)}
        for key, (start, end, held) in reservations.items():
            if start <= instant < end and any(held.get(name) for name in short):
                found.append(f"{key} at {instant}")
    return found


def _span(entry: ReservationInfo) -> tuple[float, float, Resources]:
    spec = entry.reservation.spec
    runs = spec.run_seconds if spec is not None else None
    begins = entry.reservation.start_at if entry.ahead else None
    ends = lifetime.ends_at(entry)
    until = inf if runs is None or ends is None else ends + 60 + runs
    return -inf if begins is None else begins, until, entry.held


def _sum_at(instant: float, spans: Iterable[tuple[float, float, Resources]]) -> Resources:
    return reduce(plus, (amounts for start, end, amounts in spans if start <= instant < end), NOTHING)
