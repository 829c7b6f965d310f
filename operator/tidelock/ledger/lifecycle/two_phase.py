"""How a lock in two phases stands: prepared with a token, committed with that token, or neither.

    no room --admitted--> held, due at an instant --token--> committed
       ^                            |                            |
       +--------- room lost --------+----------------------------+

Each time that it is admitted, the hold is another one with a token of its own: a commit that names an earlier
one commits nothing. A commit counts if the operator sees it before the hold is due. That instant is in the
status, so whoever looks later comes to the same end.
"""

from dataclasses import dataclass, replace

from tidelock.model.api.two_phase import CommitStatus
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.reservation import Reservation


@dataclass(frozen=True, slots=True)
class TwoPhaseState:
    """The room that a lock has got last; instants are seconds since the epoch.

    `number` counts how many times it got room, after it had none. `due` is set from then until that room is
    lost; `committed_at` is when the operator saw the commit.
    """

    uid: str
    number: int = 0
    due: float | None = None
    committed_at: float | None = None

    @property
    def token(self) -> str:
        """What commits this hold, and no other of this lock or of another."""
        return f"{self.uid}.{self.number}"

    @property
    def commit_due(self) -> float | None:
        """The instant at which it ends unless it is committed; None if it is, or there is no room."""
        return self.due if self.committed_at is None else None

    @property
    def text(self) -> str:
        """Say how to commit it, or that there is nothing to commit."""
        if self.due is None:
            return "no room is held that could be committed"
        return f"to be committed with spec.commit.token {self.token} by {format_instant(self.due)}"

    def begun(self, within_seconds: int, now: float) -> "TwoPhaseState":
        """Hold room that was got now."""
        return TwoPhaseState(self.uid, self.number + 1, round(now + within_seconds, 3))

    def lost(self) -> "TwoPhaseState":
        """Hold no room any more."""
        return TwoPhaseState(self.uid, self.number)

    def committed(self, token: str | None, now: float) -> "TwoPhaseState":
        """Commit it, if this is its token and its time is not over."""
        if self.commit_due is None or token != self.token or self.commit_due <= now:
            return self
        return replace(self, committed_at=round(now, 3))


def commit_token(reservation: Reservation) -> str | None:
    """Give the token that a spec commits with, if it has one."""
    spec = reservation.spec
    return spec.commit.token if spec is not None and spec.commit is not None else None


def two_phase_of(reservation: Reservation, status: CommitStatus | None) -> TwoPhaseState | None:
    """Read how a lock stood from its status; None for one that has no second phase."""
    spec = reservation.spec
    if (spec.commit if spec is not None else status) is None:
        return None
    if status is None:
        return TwoPhaseState(reservation.meta.uid)
    return TwoPhaseState(
        uid=reservation.meta.uid,
        number=status.holds,
        due=from_datetime(status.due_at) if status.due_at is not None else None,
        committed_at=from_datetime(status.committed_at) if status.committed_at is not None else None,
    )


def two_phase_begun(hold: TwoPhaseState | None, reservation: Reservation, now: float) -> TwoPhaseState | None:
    """Hold room that was got now, if its lock has a second phase."""
    spec = reservation.spec
    if spec is None or spec.commit is None:
        return hold
    return (hold or TwoPhaseState(reservation.meta.uid)).begun(spec.commit.within_seconds, now)
