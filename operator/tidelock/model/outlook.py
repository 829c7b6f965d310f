"""The state of a Reservation in words, and the events that its clock brings next.

Both are read from the stored form of the object, so every view of a reservation says the same: the terminal
reads the object from the API server, and the web view renders the status that the operator is about to write.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from tidelock.model import lifetimes, reasons
from tidelock.model.api.reservation import ENDED_PHASES, Phase
from tidelock.model.instants import stored_instant
from tidelock.model.reservation import Reservation

UNPROCESSED = "the operator has not processed it yet"
"""The reason of an object without conditions."""

# Reasons for which Ready is False that a condition of their own reports, too.
_OF_DUTIES = frozenset({reasons.NOT_RENEWED, reasons.AWAITING_COMMIT})
_Condition = Mapping[str, Any]


class NextEvent(StrEnum):
    """An event that happens to a reservation at a known instant unless something else happens before."""

    BEGINS = "begins"
    """The window of a planned reservation begins."""
    REJECTED = "rejected"
    """The pending deadline passes without capacity."""
    COMMIT_DUE = "commit due"
    """A two-phase reservation ends unless it is committed."""
    LAPSES = "lease lapses"
    """The lease is due for a renewal, and its grace period begins."""
    LOST = "lease lost"
    """The grace period of a lapsed lease is over, which ends the reservation."""
    MOVES = "moves"
    """The reservation leaves a node that takes no pods, and looks for capacity on another one."""
    ENDS = "ends"
    """The lifetime is over."""
    REMOVED = "removed"
    """The object of an ended reservation is deleted."""


class Upcoming(NamedTuple):
    """An event, and its instant in seconds since the epoch."""

    at: float
    event: NextEvent


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a reservation.

    Attributes:
        phase: the phase. Pending before the operator has processed the object.
        marks: reasons or types of the conditions that say more than the phase, the most urgent first.
        trouble: whether any of them needs attention.
        upcoming: the events to come, the nearest first.
        ended_at: when it ended, in seconds since the epoch, or None.
        why: reason and message of the most urgent condition, or empty for a reservation in order.

    """

    phase: str
    marks: tuple[str, ...]
    trouble: bool
    upcoming: tuple[Upcoming, ...]
    ended_at: float | None
    why: str

    @property
    def next(self) -> Upcoming | None:
        """The nearest event to come."""
        return self.upcoming[0] if self.upcoming else None


def outlook(reservation: Reservation, move_at: float | None = None) -> Outlook:
    """Read the state of a reservation from its spec and its stored status. Unreadable parts are left out.

    `move_at` is the instant at which it leaves its node, if that is known. The status does not have it.
    """
    status = reservation.status
    conditions = {str(each.get("type")): each for each in status.get("conditions") or ()}
    phase = str(status.get("phase") or Phase.PENDING)
    bad = tuple(_troubles(conditions))
    marks = dict.fromkeys((*bad, *_remarks(status, conditions)))
    return Outlook(
        phase=phase,
        marks=tuple(marks),
        trouble=bool(bad),
        upcoming=tuple(sorted(_events(reservation, phase, conditions, move_at))),
        ended_at=stored_instant(status.get("finishedAt")),
        why=_why(conditions) if conditions else reservation.problem or UNPROCESSED,
    )


def _troubles(conditions: Mapping[str, _Condition]) -> Iterator[str]:
    """Yield the marks of conditions that need attention."""
    if _holds(conditions, "Violated"):
        yield "Violated"
    if _holds(conditions, "Stalled"):
        yield _reason(conditions, "Stalled")
    if _holds(conditions, "LeaseLapsed"):
        yield "LeaseLapsed"
    unready = conditions.get("Ready", {}).get("status") == "False"
    if unready and _holds(conditions, "Active") and _reason(conditions, "Ready") not in _OF_DUTIES:
        yield _reason(conditions, "Ready")


def _remarks(status: Mapping[str, Any], conditions: Mapping[str, _Condition]) -> Iterator[str]:
    """Yield the marks of conditions that are in order."""
    if status.get("phase") in ENDED_PHASES:
        return
    if conditions.get("Committed", {}).get("status") == "False":
        yield _reason(conditions, "Committed")
    if _holds(conditions, "Active") and _holds(conditions, "Reconciling"):
        yield _reason(conditions, "Reconciling")
    for name in ("Occupied", "Lent"):
        if _holds(conditions, name):
            yield name
    if _holds(conditions, "MovePlanned"):
        yield _reason(conditions, "MovePlanned")
    if (status.get("queue") or {}).get("earmark"):
        yield reasons.EARMARKED


def _events(
    reservation: Reservation, phase: str, conditions: Mapping[str, _Condition], move_at: float | None
) -> Iterator[Upcoming]:
    status, spec = reservation.status, reservation.spec
    lease, commit = status.get("lease") or {}, status.get("commit") or {}
    instants: dict[NextEvent, float | None] = {NextEvent.MOVES: move_at}
    if phase in ENDED_PHASES:
        finished = stored_instant(status.get("finishedAt"))
        if spec is not None and finished is not None and reservation.meta.deletion_timestamp is None:
            instants[NextEvent.REMOVED] = lifetimes.removal_time(spec, phase, finished)
    elif phase != Phase.BOUND:  # the owner has the capacity, and nothing is due while it is being bound
        instants[NextEvent.ENDS] = stored_instant(status.get("expiresAt")) or reservation.expire_at
        lapsed = "lostAt" in lease
        instants[NextEvent.LOST] = stored_instant(lease.get("lostAt"))
        instants[NextEvent.LAPSES] = None if lapsed else stored_instant(lease.get("renewBy"))
    if phase == Phase.PLANNED:
        instants[NextEvent.BEGINS] = reservation.start_at
    if phase == Phase.ACTIVE and "committedAt" not in commit:
        instants[NextEvent.COMMIT_DUE] = stored_instant(commit.get("dueAt"))
    if phase == Phase.PENDING and spec is not None:
        since = stored_instant(conditions.get("Reconciling", {}).get("lastTransitionTime"))
        since = since or reservation.meta.created
        instants[NextEvent.REJECTED] = since + spec.pending_deadline_seconds if since else None
    for event, at in instants.items():
        if at is not None:
            yield Upcoming(at, event)


def _why(conditions: Mapping[str, _Condition]) -> str:
    for name, bad in (("Violated", "True"), ("Stalled", "True"), ("Ready", "False"), ("Active", "False")):
        condition = conditions.get(name)
        if condition is not None and condition.get("status") == bad:
            return _text(condition)
    return _text(conditions["Reconciling"]) if _holds(conditions, "Reconciling") else ""


def _text(condition: _Condition) -> str:
    return f"{condition.get('reason', '')}: {condition.get('message', '')}".removesuffix(": ")


def _holds(conditions: Mapping[str, _Condition], name: str) -> bool:
    return conditions.get(name, {}).get("status") == "True"


def _reason(conditions: Mapping[str, _Condition], name: str) -> str:
    return str(conditions.get(name, {}).get("reason", ""))
