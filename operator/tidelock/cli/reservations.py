"""The status of a Reservation, for all commands that show some."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from tidelock.ledger.capacity.spans import Span, needed_span, reserved_amounts
from tidelock.ledger.lifecycle.migration import MigrationPlan, read_plan
from tidelock.model.api.migration import MovePlan
from tidelock.model.api.owners import owner_text
from tidelock.model.api.reservation import ENDED_PHASES, URGENCY, Phase
from tidelock.model.instants import parse_instant
from tidelock.model.outlook import Outlook, outlook
from tidelock.model.quantities import (
    NOTHING,
    QuantityError,
    Resources,
    format_resources,
    minus,
    parse_resources,
)
from tidelock.model.reservation import Reservation

_NONE_LEAVES: Mapping[str, Mapping[str, Span]] = MappingProxyType({})
_HOLDING = frozenset({Phase.PENDING, Phase.PLANNED, Phase.ACTIVE, Phase.BOUND})


@dataclass(frozen=True, slots=True)
class ListedReservation:
    """A Reservation with its status, in which missing or unreadable parts are empty.

    Instants are seconds since the epoch. `decided` means that the operator has processed the newest spec.
    """

    reservation: Reservation

    @property
    def phase(self) -> str:
        """The phase. Pending before the operator has processed it."""
        return str(self.reservation.status.get("phase") or Phase.PENDING)

    @property
    def decided(self) -> bool:
        """Whether the operator has processed the newest spec."""
        return bool(self.reservation.status.get("observedGeneration") == self.reservation.meta.generation)

    @property
    def active(self) -> bool:
        """Whether the capacity is held for its owner."""
        return self.decided and self.condition("Active").get("status") == "True"

    @property
    def planned(self) -> bool:
        """Whether the capacity is kept for a later window."""
        return self.decided and self.phase == Phase.PLANNED

    @property
    def ended(self) -> bool:
        """Whether the reservation is final."""
        return self.decided and self.phase in ENDED_PHASES

    @property
    def urgency(self) -> int:
        """The place among others: those that wait come first."""
        return next((place for phase, place in URGENCY.items() if phase == self.phase), max(URGENCY.values()))

    @property
    def holds(self) -> bool:
        """Whether it keeps capacity of its node from other pods, as the scheduler counts it.

        A planned reservation does, and so does a member of a group that is not complete.
        """
        return bool(self.reservation.status.get("nodeName")) and self.phase in _HOLDING

    @property
    def span(self) -> Span | None:
        """The span in which held amounts are needed, or None if they are needed from now on for ever."""
        begins = self.reservation.start_at if self.phase == Phase.PLANNED else None
        return needed_span(self.reservation, self.held, begins, self.instant("expiresAt"))

    @property
    def node(self) -> str:
        """The node of the reservation, or the node that the spec names."""
        spec = self.reservation.spec
        return str(self.reservation.status.get("nodeName") or (spec.node_name if spec else "") or "")

    @property
    def owner(self) -> str:
        """Short text that names the owners."""
        return str(
            self.reservation.status.get("owner")
            or (owner_text(self.reservation.spec.owners) if self.reservation.spec else "")
        )

    @property
    def resources(self) -> Resources:
        """The amounts that are reserved or requested."""
        return self._amounts("resources")

    @property
    def held(self) -> Resources:
        """The part of its amounts that no owner or borrower uses, and that counts beside the node's pods."""
        return minus(minus(self.resources, self._amounts("used")), self._amounts("lent"))

    @property
    def why(self) -> str:
        """Why it is not in order, or why it ended, or empty for one that holds."""
        return self.outlook.why

    @property
    def outlook(self) -> Outlook:
        """Its state, and the events to come, as the web view shows them."""
        return outlook(self.reservation)

    def condition(self, name: str) -> Mapping[str, Any]:
        """Return a condition, or empty if there is none."""
        conditions = self.reservation.status.get("conditions") or ()
        return next((each for each in conditions if each.get("type") == name), {})

    @property
    def plan(self) -> MigrationPlan | None:
        """The plan of the pods to move for it, if there is one."""
        try:
            stored = self.reservation.status.get("plan")
            return None if stored is None else read_plan(MovePlan.model_validate(stored))
        except ValidationError:
            return None

    def occupied_for(self, now: float) -> float:
        """Return the seconds for which owners have been in it, if it is for reuse."""
        seconds, now_in = self.reservation.status.get("occupiedSeconds"), self.condition("Occupied")
        before = float(seconds) if isinstance(seconds, int) else 0.0
        if now_in.get("status") != "True":
            return before
        try:
            return before + max(now - parse_instant(str(now_in.get("lastTransitionTime"))), 0.0)
        except ValueError:
            return before

    def _amounts(self, name: str) -> Resources:
        stored = self.reservation.status.get(name)
        try:
            return parse_resources(stored) if isinstance(stored, dict) else NOTHING
        except QuantityError:
            return NOTHING

    def instant(self, name: str) -> float | None:
        """Return an instant of the status, such as `expiresAt`."""
        try:
            return parse_instant(str(self.reservation.status[name]))
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class NodeReservations:
    """The reservations with capacity on one node, and the amounts that they keep from other pods."""

    listed: Sequence[ListedReservation] = ()
    reserved: Resources = field(default_factory=dict)


def by_node(
    listed: Iterable[ListedReservation], leaving: Mapping[str, Mapping[str, Span]] = _NONE_LEAVES
) -> dict[str, NodeReservations]:
    """Return the reservations of each node that holds capacity for some, by the node's name.

    Args:
        listed: all reservations.
        leaving: the spans of the pods of each node that end in time, by their UIDs.

    """
    there: defaultdict[str, list[ListedReservation]] = defaultdict(list)
    for each in listed:
        if each.holds:
            there[each.node].append(each)
    found = {}
    for name, held in there.items():
        spans = [span for each in held if (span := each.span) is not None]
        spans += leaving.get(name, {}).values()
        found[name] = NodeReservations(held, reserved_amounts((each.held for each in held), spans))
    return found


def amounts(resources: Resources) -> str:
    """Format amounts as `cpu=2,memory=4Gi`."""
    return ",".join(f"{name}={amount}" for name, amount in format_resources(resources).items())
