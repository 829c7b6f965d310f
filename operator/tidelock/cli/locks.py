"""What the status of a Reservation says, for all commands that show some."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tidelock.ledger.lifecycle.migration import MigrationPlan, read_plan
from tidelock.model.api.migration import MovePlan
from tidelock.model.api.reservation import Phase, owner_text
from tidelock.model.instants import parse_instant
from tidelock.model.quantities import (
    NOTHING,
    QuantityError,
    Resources,
    format_resources,
    minus,
    parse_resources,
)
from tidelock.model.reservation import Reservation

ENDED = frozenset({Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED, Phase.TERMINATING})


@dataclass(frozen=True, slots=True)
class Seen:
    """A Reservation as its status tells of it; whatever is not there, or can't be read, is empty.

    Instants are seconds since the epoch. `decided` means that the operator has looked at the newest spec.
    """

    reservation: Reservation

    @property
    def phase(self) -> str:
        """The phase; Pending before the operator has looked."""
        return str(self.reservation.status.get("phase") or Phase.PENDING)

    @property
    def decided(self) -> bool:
        """Whether the operator has looked at the newest spec."""
        return bool(self.reservation.status.get("observedGeneration") == self.reservation.meta.generation)

    @property
    def active(self) -> bool:
        """Whether the room is held for its owner."""
        return self.decided and self.condition("Active").get("status") == "True"

    @property
    def ended(self) -> bool:
        """Whether nothing becomes of it any more."""
        return self.decided and self.phase in ENDED

    @property
    def node(self) -> str:
        """The node of the room, or the node that the spec names."""
        spec = self.reservation.spec
        return str(self.reservation.status.get("nodeName") or (spec.node_name if spec else "") or "")

    @property
    def owner(self) -> str:
        """Who may take it."""
        return str(
            self.reservation.status.get("owner")
            or (owner_text(self.reservation.spec.owners) if self.reservation.spec else "")
        )

    @property
    def resources(self) -> Resources:
        """The room that is held or asked for."""
        return self._amounts("resources")

    @property
    def held(self) -> Resources:
        """What of its room no owner or borrower uses, so that it counts beside the pods of its node."""
        return minus(minus(self.resources, self._amounts("used")), self._amounts("lent"))

    @property
    def why(self) -> str:
        """Why it is not in order, or why it ended; empty for one that holds."""
        if not self.reservation.status.get("conditions"):
            return self.reservation.problem or "the operator has not looked at it yet"
        for name in ("Violated", "Stalled", "Ready", "Active"):
            condition = self.condition(name)
            bad = name in ("Violated", "Stalled")
            if condition and (condition.get("status") == "True") == bad:
                return f"{condition.get('reason', '')}: {condition.get('message', '')}"
        return ""

    def condition(self, name: str) -> Mapping[str, Any]:
        """Give a condition; empty if it is not there."""
        conditions = self.reservation.status.get("conditions") or ()
        return next((each for each in conditions if each.get("type") == name), {})

    @property
    def plan(self) -> MigrationPlan | None:
        """Which pods are to be moved for it, if there is such a plan."""
        try:
            told = self.reservation.status.get("plan")
            return None if told is None else read_plan(MovePlan.model_validate(told))
        except ValidationError:
            return None

    def occupied_for(self, now: float) -> float:
        """Seconds for which owners have been in it, if it is for reuse."""
        told, now_in = self.reservation.status.get("occupiedSeconds"), self.condition("Occupied")
        before = float(told) if isinstance(told, int) else 0.0
        if now_in.get("status") != "True":
            return before
        try:
            return before + max(now - parse_instant(str(now_in.get("lastTransitionTime"))), 0.0)
        except ValueError:
            return before

    def _amounts(self, name: str) -> Resources:
        told = self.reservation.status.get(name)
        try:
            return parse_resources(told) if isinstance(told, dict) else NOTHING
        except QuantityError:
            return NOTHING

    def instant(self, name: str) -> float | None:
        """Give an instant of the status, such as `expiresAt`."""
        try:
            return parse_instant(str(self.reservation.status[name]))
        except (KeyError, ValueError):
            return None


def amounts(resources: Resources) -> str:
    """Write amounts as `cpu=2,memory=4Gi`."""
    return ",".join(f"{name}={amount}" for name, amount in format_resources(resources).items())
