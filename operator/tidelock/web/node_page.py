"""The page of a node: its amounts of all resources, and its reservations over time."""

from collections.abc import Generator

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.web.nodes import NodeRow, node_row
from tidelock.web.query import ViewQuery
from tidelock.web.rows import ListPart, ReservationRow, Row, in_slices, part_of, reservation_row, rows_of
from tidelock.web.sources import Sources


class SpanRow(Row, frozen=True):
    """A reservation, and the time for which it has capacity, in seconds since the epoch.

    Both instants are None while it waits for capacity of this node, and `ends` is if the end is unknown.
    """

    reservation: ReservationRow
    begins: float | None
    ends: float | None


class NodePage(Row, frozen=True, tag_field="view", tag="node"):
    """The content of the page. `node` is None if there is no such node, or none any more."""

    name: str
    node: NodeRow | None
    resources: list[str]
    reservations: list[SpanRow]
    reservations_part: ListPart


def node_page(sources: Sources, query: ViewQuery, now: float) -> Generator[None, None, NodePage]:
    """Compute the page in slices."""
    found: list[ReservationInfo] = []

    def examine(entry: ReservationInfo) -> None:
        if query.name in (entry.node, _wanted_node(entry)):
            found.append(entry)

    yield from in_slices(sources.ledger.entries.values(), examine)
    found.sort(key=_order)
    part = part_of(len(found), len(found), query.first)
    node, resources = _node(sources, query.name, now)
    return NodePage(
        name=query.name,
        node=node,
        resources=resources,
        reservations=[_span_row(entry, now) for entry in rows_of(found, part)],
        reservations_part=part,
    )


def _node(sources: Sources, name: str, now: float) -> tuple[NodeRow | None, list[str]]:
    """Return the row of a node, and the resources of which anything is there or in use."""
    snapshot = sources.cache.snapshot()
    row = snapshot.row(name)
    if row is None:
        return None, []
    there = [
        column
        for column in range(len(snapshot.resources))
        if any(of[row, column] for of in (snapshot.allocatable, snapshot.requested, snapshot.reserved))
    ]
    staleness = float(sources.policies.of(snapshot, now).staleness[row])
    resources = [snapshot.resources[column] for column in there]
    return node_row(sources, snapshot, row, there, staleness, now), resources


def _wanted_node(entry: ReservationInfo) -> str:
    """Return the node that a waiting reservation asks for by name, or empty."""
    spec = entry.reservation.spec
    return (spec.node_name or "") if spec is not None and entry.phase is Phase.PENDING else ""


def _span(entry: ReservationInfo) -> tuple[float | None, float | None]:
    if entry.phase is Phase.PENDING:
        return None, None
    begins = lifetime.begins_at(entry) if entry.ahead else entry.activated_at
    return begins, lifetime.ends_at(entry) if entry.finished_at is None else entry.finished_at


def _order(entry: ReservationInfo) -> tuple[bool, float, str]:
    begins, _ = _span(entry)
    return begins is not None, begins or 0.0, str(entry.key)


def _span_row(entry: ReservationInfo, now: float) -> SpanRow:
    return SpanRow(reservation_row(entry, now), *_span(entry))
