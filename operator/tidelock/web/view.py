"""The web view's pages: nodes, reservations and decisions, one page of each at a time.

Pure. However large the cluster is, a page is bounded. NumPy computes sums over all nodes, a pass over all
reservations comes in slices, and only the rows of the page are encoded.
"""

import math
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import islice

import msgspec
import numpy as np

from tidelock.cluster.columns import Amounts as Column
from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.cluster.usage.levels import MEASURED_RESOURCES, NEVER, WINDOWS, LevelArray, NodeLevels
from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.output.status import shown_resources
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.owners import owner_text
from tidelock.model.api.reservation import URGENCY, Phase
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, MEMORY, PODS, format_resources
from tidelock.model.usage_annotations import Quality, quality
from tidelock.plugins.water_level_balance.usage_policies import UNLIMITED, UsagePolicies, UsagePolicy
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.views.recent_decisions import Decision, RecentDecisions

ROWS = 50
"""Rows of a page of nodes, and of reservations."""
DECISIONS = 50

# Devices that have a column beside cpu and memory.
_MOST_DEVICES = 2
# Reservations that are examined in one slice, which takes about a millisecond.
_SLICE = 500
# More seconds than from the epoch to the year 9998, the latest end of a reservation.
_AGES = 1e12
_LONGEST_TEXT = 253  # as long as a name can be
_LONGEST_NUMBER = 9  # digits
_DIGITS = 1  # of percentages
_BY_NAME, _BY_WATER = "name", "water"

# Of nodes that no WaterLevel selects, only stale measurements are left out.
_REST = UsagePolicy(
    windows=(1.0,) * len(WINDOWS),
    percent=None,
    min_weight=0.0,
    limits=(UNLIMITED,) * len(MEASURED_RESOURCES),
    staleness=WaterLevelSpec.model_fields["staleness_seconds"].default,
    defaults=(0.0,) * len(MEASURED_RESOURCES),
)

_Amounts = tuple[int, int, int]
"""Allocatable, requested and reserved, in the units of `tidelock.model.quantities`."""


class BadQueryError(Exception):
    """A parameter of a request is wrong. The message names the parameter, the error and the expectation."""


class ViewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a view.

    Attributes:
        text: part of the name of a node, a reservation, a pod, an owner, or of a phase, in any case. Empty:
            all.
        sort: `name`, `water` or a resource. By a resource, the fullest nodes come first.
        reverse: whether to reverse the order.
        nodes: how many nodes, in that order, are left out before the first row.
        locks: the same for reservations.

    """

    text: str = ""
    sort: str = _BY_NAME
    reverse: bool = False
    nodes: int = 0
    reservations: int = 0


def read_query(parameters: Mapping[str, str]) -> ViewQuery:
    """Parse `text`, `sort` (with a minus: reversed), `nodes` and `reservations`, or raise BadQueryError."""
    unknown = sorted(parameters.keys() - {"text", "sort", "nodes", "locks"})
    if unknown:
        raise BadQueryError(f"{unknown[0]}: unknown parameter: expected text, sort, nodes or locks")
    sort = _read_text(parameters, "sort") or _BY_NAME
    return ViewQuery(
        text=_read_text(parameters, "text").strip().lower(),
        sort=sort.removeprefix("-"),
        reverse=sort.startswith("-"),
        nodes=_read_number(parameters, "nodes"),
        reservations=_read_number(parameters, "locks"),
    )


def _read_text(parameters: Mapping[str, str], name: str) -> str:
    text = parameters.get(name, "")
    if len(text) > _LONGEST_TEXT:
        raise BadQueryError(f"{name}: Too long: may not be more than {_LONGEST_TEXT} characters")
    return text


def _read_number(parameters: Mapping[str, str], name: str) -> int:
    text = parameters.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise BadQueryError(f"{name}: Invalid value: {text!r}: expected a whole number, such as 0")
    return int(text)


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a page, with JSON's spelling of names."""


class NodeRow(_Row, frozen=True):
    """A node: its amounts by resource, its use of cpu and memory in percent, and the time of the latter."""

    name: str
    state: str
    amounts: list[_Amounts]
    water: list[float | None]
    quality: Quality
    measured_at: float | None


class ReservationRow(_Row, frozen=True):
    """A reservation: `until` it holds or waits, `ended_at` it was over, in seconds since the epoch."""

    name: str
    phase: Phase
    node: str
    owner: str
    room: str
    until: float | None
    ended_at: float | None
    why: str
    trouble: bool


class DecisionRow(_Row, frozen=True):
    """A decision. See `tidelock.scheduler.views.recent_decisions`."""

    at: float
    kind: str
    name: str
    verdict: str
    node: str
    why: str


class WaterRow(_Row, frozen=True):
    """The use of a resource over the freshly measured nodes, in percent."""

    mean: float
    least: float
    most: float


class ListPart(_Row, frozen=True):
    """The position of a page: the rows in total, the matching ones, and those before the first."""

    total: int
    matching: int
    first: int


class ViewPage(_Row, frozen=True):
    """All content of a page.

    Attributes:
        resources: the resources that nodes have, in their order.
        totals: amounts of all nodes: one for each resource.
        water: cpu and memory over all nodes, or None if nothing is fresh.
        measured: number of freshly measured nodes.
        phases: number of reservations in each phase.

    """

    resources: list[str]
    totals: list[_Amounts]
    water: list[WaterRow | None]
    measured: int
    phases: dict[str, int]
    nodes: list[NodeRow]
    nodes_part: ListPart
    reservations: list[ReservationRow]
    reservations_part: ListPart
    decisions: list[DecisionRow]


class WebView:
    """Computes views of the state of the scheduler."""

    def __init__(self, decider: Decider, recent: RecentDecisions) -> None:
        """Take the state to show. The levels of nodes are followed from now on."""
        self._cache, self._ledger = decider.cache, decider.ledger
        self._recent = recent
        self._levels = NodeLevels()
        self._cache.follow(self._levels)
        self._groups = UsagePolicies(decider.objects.water_levels, _REST)

    def look(self, query: ViewQuery, now: float) -> Generator[None, None, ViewPage]:
        """Compute a page, which the generator returns, in slices of about a millisecond.

        Decisions may run between the slices: a reservation that was created meanwhile is not on the page.
        """
        phases: Counter[str] = Counter()
        found: list[ReservationInfo] = []
        places = array("d")
        entries = tuple(self._ledger.entries.values())
        for start in range(0, len(entries), _SLICE):
            for entry in entries[start : start + _SLICE]:
                phases[entry.phase.value] += 1
                if not query.text or _mentions(entry, query.text):
                    found.append(entry)
                    places.append(_place(entry))
            yield
        part = _part(len(entries), len(found), query.reservations)
        order = np.argsort(np.array(places), kind="stable")[part.first : part.first + ROWS]
        shown = (self._ledger.entries.get(found[index].key) for index in order.tolist())
        reservations = [_reservation_row(entry) for entry in shown if entry is not None]
        yield
        return self._page(query, now, reservations, part, phases)

    def _page(
        self,
        query: ViewQuery,
        now: float,
        reservations: list[ReservationRow],
        reservations_part: ListPart,
        phases: Mapping[str, int],
    ) -> ViewPage:
        snapshot = self._cache.snapshot()
        resources = _resources_of(snapshot)
        staleness = self._groups.of(snapshot).staleness
        fresh = self._levels.fresh(now, staleness)
        water = self._levels.use("mean")[0]
        rows = self._rows(query, snapshot, np.where(fresh, water, np.nan))
        part = _part(len(snapshot), len(rows), query.nodes)
        columns = [snapshot.column(resource) for resource in resources]
        kinds = (snapshot.allocatable, snapshot.requested, snapshot.reserved)
        return ViewPage(
            resources=resources,
            totals=_triples(*(each[:, columns].sum(axis=0) for each in kinds)),
            water=[_spread(each[fresh]) for each in water],
            measured=int(np.count_nonzero(fresh)),
            phases={phase.value: phases[phase.value] for phase in Phase if phases[phase.value]},
            nodes=[
                self._node_row(snapshot, row, columns, float(staleness[row]), now)
                for row in rows[part.first : part.first + ROWS].tolist()
            ],
            nodes_part=part,
            reservations=reservations,
            reservations_part=reservations_part,
            decisions=_decision_rows(self._recent, query.text),
        )

    def _rows(self, query: ViewQuery, snapshot: Snapshot, water: LevelArray) -> Rows:
        """Return the rows of the nodes that match, in the requested order."""
        rank = snapshot.traits.name_rank
        if query.sort == _BY_NAME:
            order = np.argsort(rank)
        else:
            height = _height(query.sort, snapshot, water)
            order = np.lexsort((rank, -height))
        if query.text:
            matching = [query.text in node.name.lower() for node in snapshot.nodes]
            order = order[np.array(matching, np.bool_)[order]]
        return order[::-1] if query.reverse else order

    def _node_row(
        self, snapshot: Snapshot, row: int, columns: Sequence[int], staleness: float, now: float
    ) -> NodeRow:
        kinds = (snapshot.allocatable, snapshot.requested, snapshot.reserved)
        at = float(self._levels.at[row])
        return NodeRow(
            name=snapshot.nodes[row].name,
            state=_state(snapshot.nodes[row]),
            amounts=_triples(*(each[row, columns] for each in kinds)),
            water=[_figure(each) for each in self._levels.use("mean")[0][:, row].tolist()],
            quality=quality(None if at == NEVER else at, now, staleness),
            measured_at=at if math.isfinite(at) else None,
        )


def _part(total: int, matching: int, first: int) -> ListPart:
    """Start at the requested row, or at the last page if that is beyond the end."""
    last = max(matching - 1, 0) // ROWS * ROWS
    return ListPart(total, matching, min(first, last))


def _triples(allocatable: Column, requested: Column, reserved: Column) -> list[_Amounts]:
    """Combine the amounts of each resource. Each is R."""
    return list(zip(allocatable.tolist(), requested.tolist(), reserved.tolist(), strict=True))


# Nodes.


def _resources_of(snapshot: Snapshot) -> list[str]:
    """Return cpu, memory, and the devices of the nodes, the first by name."""
    most = snapshot.traits.most
    devices = sorted(
        name for name, units in zip(snapshot.resources, most, strict=True) if units and "/" in name
    )
    return [CPU, MEMORY, *devices[:_MOST_DEVICES]]


def _height(sort: str, snapshot: Snapshot, water: LevelArray) -> LevelArray:
    """Return the sort keys of nodes, N: the used share of a resource, or the water, or -1 without any.

    `water` is R x N, in percent, and NaN if it is not fresh.
    """
    if sort == _BY_WATER:
        height: LevelArray = np.nan_to_num(water, nan=-1.0).max(axis=0)
        return height
    if sort not in snapshot.resources:
        return np.full(len(snapshot), -1.0)
    column = snapshot.column(sort)
    capacity = snapshot.allocatable[:, column]
    taken = snapshot.requested[:, column] + snapshot.reserved[:, column]
    share: LevelArray = np.where(capacity > 0, taken / np.maximum(capacity, 1), -1.0)
    return share


def _state(node: Node) -> str:
    if not node.ready:
        return "NotReady"
    return "Cordoned" if node.unschedulable else ""


def _spread(percent: LevelArray) -> WaterRow | None:
    there = percent[~np.isnan(percent)]
    if not len(there):
        return None
    mean, least, most = (round(float(each), _DIGITS) for each in (there.mean(), there.min(), there.max()))
    return WaterRow(mean, least, most)


def _figure(percent: float) -> float | None:
    return None if math.isnan(percent) else round(percent, _DIGITS)


# Reservations.


def _mentions(entry: ReservationInfo, text: str) -> bool:
    return any(text in each.lower() for each in (str(entry.key), entry.phase, entry.node, _owner(entry)))


def _place(entry: ReservationInfo) -> float:
    """Return the sort key of a reservation: waiting ones first, then live ones by end, then ended ones."""
    start = URGENCY[entry.phase] * _AGES
    if entry.finished_at is not None:
        return start - entry.finished_at
    until = _until(entry)
    return start + (_AGES / 2 if until is None else until)


def _until(entry: ReservationInfo) -> float | None:
    """Return until when a reservation holds or waits."""
    return deadlines.next_due(entry) if entry.phase is Phase.PENDING else lifetime.ends_at(entry)


def _reservation_row(entry: ReservationInfo) -> ReservationRow:
    amounts = {name: units for name, units in shown_resources(entry).items() if name != PODS}
    why, trouble = _why(entry)
    return ReservationRow(
        name=str(entry.key),
        phase=entry.phase,
        node=entry.node,
        owner=_owner(entry),
        room=", ".join(f"{name} {amount}" for name, amount in format_resources(amounts).items()),
        until=_until(entry),
        ended_at=entry.finished_at,
        why=why,
        trouble=trouble,
    )


def _owner(entry: ReservationInfo) -> str:
    spec = entry.reservation.spec
    return "" if spec is None else owner_text(spec.owners)


def _why(entry: ReservationInfo) -> tuple[str, bool]:
    """Return the message of a reservation, and whether it reports a problem."""
    live = entry.phase in (Phase.ACTIVE, Phase.BOUND)
    if entry.problem and not entry.final:
        return f"{reasons.INVALID_SPEC}: {entry.problem}", True
    if entry.violation:
        return f"{reasons.ROOM_TAKEN}: {entry.violation}", True
    if live and entry.node_problem is not None:
        return ": ".join(entry.node_problem), True
    if live and entry.resize_problem:
        return f"{reasons.RESIZE_PENDING}: {entry.resize_problem}", True
    if entry.phase is Phase.ACTIVE:
        return "", False
    return f"{entry.reason}: {entry.message}".removesuffix(": "), entry.phase in (Phase.LOST, Phase.REJECTED)


# Decisions.


def _decision_rows(recent: Iterable[Decision], text: str) -> list[DecisionRow]:
    rows = (
        DecisionRow(each.at, each.kind, str(each.key), each.verdict, each.node, each.why) for each in recent
    )
    matching = (
        row for row in rows if any(text in each.lower() for each in (row.name, row.node, row.verdict))
    )
    return list(islice(matching, DECISIONS))
