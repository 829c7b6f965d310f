"""The overview: nodes, reservations and decisions, one page of each at a time.

However large the cluster is, the page is bounded. A pass over all reservations comes in slices, and only the
rows of the page are rendered.
"""

from array import array
from collections import Counter
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import URGENCY, Phase
from tidelock.scheduler.views.recent_decisions import Decision
from tidelock.web.nodes import (
    NodeRow,
    ResourceAmounts,
    WaterRow,
    common_resources,
    node_row,
    sorted_rows,
    spread,
    totals,
)
from tidelock.web.query import ViewQuery
from tidelock.web.rows import (
    ROWS,
    DecisionRow,
    ListPart,
    ReservationRow,
    Row,
    decision_rows,
    in_slices,
    owner_of,
    part_of,
    reservation_row,
)
from tidelock.web.sources import Sources

MOST_NAMESPACES = 500
"""Number of namespaces, the first by name, among which a user can choose."""

# More seconds than from the epoch to the year 9998, the latest end of a reservation.
_AGES = 1e12


class OverviewPage(Row, frozen=True, tag_field="view", tag="overview"):
    """The content of the overview.

    Attributes:
        resources: the resources that nodes have, in their order.
        totals: amounts of all nodes: one for each resource.
        water: cpu and memory over all nodes, or None if nothing is fresh.
        measured: number of freshly measured nodes.
        phases: number of reservations in each phase, in the namespace of the query.
        namespaces: namespaces with reservations, sorted.

    """

    resources: list[str]
    totals: list[ResourceAmounts]
    water: list[WaterRow | None]
    measured: int
    phases: dict[str, int]
    namespaces: list[str]
    nodes: list[NodeRow]
    nodes_part: ListPart
    reservations: list[ReservationRow]
    reservations_part: ListPart
    decisions: list[DecisionRow]


def overview(sources: Sources, query: ViewQuery, now: float) -> Generator[None, None, OverviewPage]:
    """Compute the page in slices. A reservation that is created meanwhile is not on the page."""
    phases: Counter[Phase] = Counter()
    namespaces: set[str] = set()
    found: list[ReservationInfo] = []
    places = array("d")

    def examine(entry: ReservationInfo) -> None:
        namespaces.add(entry.key.namespace)
        if query.namespace and entry.key.namespace != query.namespace:
            return
        phases[entry.phase] += 1
        if not query.text or _mentions(entry, query.text):
            found.append(entry)
            places.append(_place(entry, due.of(entry.key)))

    entries, due = sources.ledger.entries, sources.ledger.records.due
    yield from in_slices(entries.values(), examine)
    part = part_of(phases.total(), len(found), query.reservations)
    order = np.argsort(np.array(places), kind="stable")[part.first : part.first + ROWS]
    shown = (entries.get(found[index].key) for index in order.tolist())
    reservations = [reservation_row(entry, now) for entry in shown if entry is not None]
    yield
    return _page(sources, query, now, reservations, part, phases, sorted(namespaces)[:MOST_NAMESPACES])


def _page(
    sources: Sources,
    query: ViewQuery,
    now: float,
    reservations: list[ReservationRow],
    reservations_part: ListPart,
    phases: Mapping[Phase, int],
    namespaces: list[str],
) -> OverviewPage:
    snapshot = sources.cache.snapshot()
    resources = common_resources(snapshot)
    staleness = sources.policies.of(snapshot, now).staleness
    fresh = sources.levels.fresh(now, staleness)
    water = sources.levels.use("mean")[0]
    rows = sorted_rows(query, snapshot, np.where(fresh, water, np.nan))
    part = part_of(len(snapshot), len(rows), query.nodes)
    columns = [snapshot.column(resource) for resource in resources]
    return OverviewPage(
        resources=resources,
        totals=totals(snapshot, columns),
        water=[spread(each[fresh]) for each in water],
        measured=int(np.count_nonzero(fresh)),
        phases={phase.value: phases[phase] for phase in Phase if phases[phase]},
        namespaces=namespaces,
        nodes=[
            node_row(sources, snapshot, row, columns, float(staleness[row]), now)
            for row in rows[part.first : part.first + ROWS].tolist()
        ],
        nodes_part=part,
        reservations=reservations,
        reservations_part=reservations_part,
        decisions=decision_rows(sources.recent, lambda each: _concerns(each, query)),
    )


def _mentions(entry: ReservationInfo, text: str) -> bool:
    return any(text in each.lower() for each in _words(entry))


def _words(entry: ReservationInfo) -> Sequence[str]:
    """Return the texts of a reservation in which a filter looks."""
    membership, controller = entry.reservation.membership, entry.reservation.meta.controller
    return (
        str(entry.key),
        entry.phase,
        entry.node,
        owner_of(entry),
        membership.name if membership is not None else "",
        controller.name if controller is not None else "",
    )


def _concerns(decision: Decision, query: ViewQuery) -> bool:
    if query.namespace and decision.key.namespace != query.namespace:
        return False
    texts = (str(decision.key), decision.node, decision.verdict)
    return any(query.text in each.lower() for each in texts)


def _place(entry: ReservationInfo, due: float | None) -> float:
    """Return the sort key of a reservation that is due next at some instant.

    Waiting ones come first, then live ones, both by their nearest event, then ended ones, the latest first.
    """
    start = URGENCY[entry.phase] * _AGES
    if entry.finished_at is not None:
        return start - entry.finished_at
    return start + (_AGES / 2 if due is None else due)
