"""The summary of a reservation's life, which is recorded once, at its end."""

from dataclasses import dataclass

from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.owners import occupants
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.owners import owner_text
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.quantities import PODS, format_resources

DELETED = "Deleted"
"""The outcome of a reservation that was deleted before its end."""


@dataclass(frozen=True, slots=True)
class Record:
    """The requester of a reservation, and its use. Instants are texts, and durations are in seconds.

    Attributes:
        asked_by: the field manager that wrote the spec first, or empty if it is unknown.
        waited: from the first sight until it was active, or until its end if it never was.
        idle: from its activation to its end, without the time with an owner.
        occupied: the time with an owner, or 0 for one that ends when its owner is bound.
        outcome: its last phase, or `Deleted`.
        pod: the last owner, or empty if none came.

    """

    reservation: str
    namespace: str
    owner: str
    asked_by: str
    asked_at: str
    active_at: str
    ended_at: str
    waited: float
    idle: float
    occupied: float
    outcome: str
    reason: str
    node: str
    resources: dict[str, str]
    pod: str

    @property
    def used(self) -> bool:
        """Whether an owner has used the reservation."""
        return bool(self.pod or self.occupied)

    @property
    def text(self) -> str:
        """The durations and the requester, in one line."""
        parts = [f"waited {self.waited:g}s"]
        if self.active_at:
            parts.append(f"idle {self.idle:g}s")
        if self.occupied:
            parts.append(f"occupied {self.occupied:g}s")
        if self.asked_by:
            parts.append(f"asked for by {self.asked_by}")
        return ", ".join(parts)


def record(entry: ReservationInfo, now: float) -> Record:
    """Return the record of a reservation that has ended or was deleted."""
    reservation, ended = entry.reservation, entry.phase in SETTLED - {Phase.TERMINATING}
    end = entry.finished_at if ended and entry.finished_at is not None else now
    began = entry.activated_at
    occupied = occupants.occupied_seconds(entry, end)
    amounts = (
        {name: units for name, units in reservation.pod.requests.items() if name != PODS}
        if reservation.pod
        else {}
    )
    return Record(
        reservation=str(reservation.key),
        namespace=reservation.key.namespace,
        owner=owner_text(reservation.spec.owners) if reservation.spec is not None else "",
        asked_by=reservation.asked_by,
        asked_at=format_instant(reservation.meta.created),
        active_at=format_instant(began) if began is not None else "",
        ended_at=format_instant(end),
        waited=_seconds((end if began is None else began) - entry.asked_at),
        idle=0.0 if began is None else _seconds(end - began - occupied),
        occupied=_seconds(occupied),
        outcome=entry.phase.value if ended else DELETED,
        reason=entry.reason,
        node=entry.node,
        resources=format_resources(amounts),
        pod=entry.bound_pod.name if entry.bound_pod is not None else "",
    )


def _seconds(duration: float) -> float:
    return round(max(duration, 0.0), 3)
