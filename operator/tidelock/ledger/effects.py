"""Effects of changes in the ledger, which a driver of the scheduler carries out."""

from dataclasses import dataclass, field

from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key, ObjectMeta


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of a reservation, for events and metrics. `due` is when it should have happened."""

    meta: ObjectMeta
    event: Event
    phase: Phase
    reason: str
    message: str
    at: float
    due: float


@dataclass(slots=True)
class Effects:
    """Work that changes of reservations leave to a driver, in the order of the changes.

    Attributes:
        transitions: transitions to record as events and metrics.
        statuses: names of reservations with a stored status that may differ from the record.
        ended: reservations that have ended, or were deleted before their end, to record in the audit log.
        claims: claims of pods that a watch reports as bound, to verify with the API server.
        namespaces: namespaces in which a reservation has changed or gone: pods may wait for it.
        answers: reservations that have changed while their creation waits for an answer.

    """

    transitions: list[Transition] = field(default_factory=list)
    statuses: dict[Key, None] = field(default_factory=dict)
    ended: list[ReservationInfo] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)
    answers: dict[Key, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(
            self.transitions or self.statuses or self.ended or self.claims or self.namespaces or self.answers
        )

    def add(self, other: "Effects") -> None:
        """Append later effects."""
        self.transitions += other.transitions
        self.statuses |= other.statuses
        self.ended += other.ended
        self.claims += other.claims
        self.namespaces |= other.namespaces
        self.answers |= other.answers

    def take(self) -> "Effects":
        """Return all effects since the last call."""
        if not self:
            return NO_EFFECTS
        taken = Effects(
            self.transitions, self.statuses, self.ended, self.claims, self.namespaces, self.answers
        )
        self.transitions, self.statuses, self.ended, self.claims = [], {}, [], []
        self.namespaces, self.answers = set(), {}
        return taken


NO_EFFECTS = Effects()
"""The effects of a step that changed no reservation. It is never changed."""
