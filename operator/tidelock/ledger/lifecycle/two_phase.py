"""The state of a two-phase reservation: prepared with a token, committed with that token, or neither.

    no capacity --admitted--> held, due at an instant --token--> committed
         ^                            |                              |
         +------- capacity lost ------+------------------------------+

Each admission begins another hold with a token of its own. A commit that names an earlier one has no effect.
A commit counts if the operator sees it before the hold is due. That instant is in the status, so another
process comes to the same end.
"""

from dataclasses import dataclass, replace

from tidelock.model.api.two_phase import CommitStatus
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.reservation import Reservation


@dataclass(frozen=True, slots=True)
class TwoPhaseState:
    """The latest hold of a reservation. Instants are seconds since the epoch.

    Attributes:
        uid: the first part of the token: the UID of the object, or the nonce of the answer that has granted
            the capacity. It is empty while there is no capacity.
        number: how many times it has got capacity.
        due: when it must be committed, from the admission until the capacity is lost.
        committed_at: when the operator saw the commit.

    """

    uid: str = ""
    number: int = 0
    due: float | None = None
    committed_at: float | None = None

    @property
    def token(self) -> str:
        """The token that commits this hold and no other."""
        return f"{self.uid}.{self.number}"

    @property
    def commit_due(self) -> float | None:
        """When the hold ends unless it is committed, or None if it is committed or has no capacity."""
        return self.due if self.committed_at is None else None

    @property
    def text(self) -> str:
        """A message: how to commit the hold, or that there is nothing to commit."""
        if self.due is None:
            return "no capacity is held that could be committed"
        return f"to be committed with spec.commit.token {self.token} by {format_instant(self.due)}"

    def begun(self, uid: str, within_seconds: int, now: float) -> "TwoPhaseState":
        """Return the hold for capacity that is granted now."""
        return TwoPhaseState(uid, self.number + 1, round(now + within_seconds, 3))

    def lost(self) -> "TwoPhaseState":
        """Return the state without capacity."""
        return TwoPhaseState(number=self.number)

    def committed(self, token: str | None, now: float) -> "TwoPhaseState":
        """Return the committed state, if this is the token of the hold and its time is not over."""
        if self.commit_due is None or token != self.token or self.commit_due <= now:
            return self
        return replace(self, committed_at=round(now, 3))


def commit_token(reservation: Reservation) -> str | None:
    """Return the token of the commit in a spec, if there is one."""
    spec = reservation.spec
    return spec.commit.token if spec is not None and spec.commit is not None else None


def two_phase_of(reservation: Reservation, status: CommitStatus | None) -> TwoPhaseState | None:
    """Read the state from a status, or return None for a reservation without a second phase."""
    spec = reservation.spec
    if (spec.commit if spec is not None else status) is None:
        return None
    if status is None:
        return TwoPhaseState()
    uid, _, _ = (status.token or "").rpartition(".")
    return TwoPhaseState(
        uid=uid,
        number=status.holds,
        due=from_datetime(status.due_at) if status.due_at is not None else None,
        committed_at=from_datetime(status.committed_at) if status.committed_at is not None else None,
    )


def two_phase_begun(hold: TwoPhaseState | None, reservation: Reservation, now: float) -> TwoPhaseState | None:
    """Return the hold for capacity that is granted now, if the reservation has a second phase."""
    spec = reservation.spec
    if spec is None or spec.commit is None:
        return hold
    return (hold or TwoPhaseState()).begun(reservation.meta.uid, spec.commit.within_seconds, now)
