"""Renders the status of a ReservationGroup as plain JSON values."""

from collections.abc import Iterator, Sequence
from typing import Any

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.conditions import Aspect, dated
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.reservation_group import ReservationGroup

_HELD = frozenset({Phase.ACTIVE, Phase.BOUND})
_OVER = SETTLED - {Phase.TERMINATING}


def render_group(
    stored: ReservationGroup, group: Group | None, now: float, problem: str = ""
) -> dict[str, Any]:
    """Render the status of a group. `problem` says why not all of its members could be created.

    The status of its end stays, whatever happens to its members.
    """
    if stored.finished_at is not None:
        return stored.status
    generation = stored.meta.generation
    status: dict[str, Any] = {"observedGeneration": generation}
    if stored.problem:
        phase, reason, message = Phase.REJECTED, reasons.INVALID_SPEC, stored.problem
    else:
        members = list(group.members.values()) if group is not None else []
        phase = _phase(stored, group, now)
        held = sum(entry.phase in _HELD for entry in members) if phase is Phase.ACTIVE else 0
        consumed = sum(entry.phase is Phase.CONSUMED for entry in members)
        status |= {"members": len(stored.members), "ready": held, "consumed": consumed}
        reason, message = _cause(stored, phase, members, problem)
        if group is not None and group.fault and phase is Phase.PENDING:
            reason, message = reasons.INTERNAL_ERROR, group.fault
        status |= _instants(phase, group, members, now)
    status["phase"] = phase.value
    return status | {"conditions": dated(_aspects(phase, reason, message), stored.status, generation, now)}


def render_leaving_group(stored: ReservationGroup, now: float) -> dict[str, Any]:
    """Render the status of a group that is being deleted. The status of its end stays."""
    deleted_at = stored.meta.deletion_timestamp
    if deleted_at is None or stored.status.get("phase") in _OVER:
        return stored.status
    status = {**stored.status, "observedGeneration": stored.meta.generation, "phase": Phase.TERMINATING.value}
    if "ready" in status:
        status["ready"] = 0
    message = "the object is being deleted, and its reservations with it"
    aspects = _aspects(Phase.TERMINATING, reasons.TERMINATING, message)
    conditions = dated(aspects, stored.status, stored.meta.generation, now)
    return status | {"finishedAt": format_instant(from_datetime(deleted_at)), "conditions": conditions}


def has_begun(stored: ReservationGroup, group: Group | None) -> bool:
    """Return whether a group was active before, by its status or by its members."""
    return "activatedAt" in stored.status or (group is not None and group.began is not None)


def missed_deadline(stored: ReservationGroup, group: Group | None, now: float) -> bool:
    """Return whether the deadline of a group has passed before all of its members were created."""
    count = 0 if group is None else len(group.members)
    late = count < len(stored.members) and now > stored.too_late_at
    return late and not stored.problem and not has_begun(stored, group)


def _phase(stored: ReservationGroup, group: Group | None, now: float) -> Phase:
    """Return the phase of a group, which follows from its members. It has ended once all of them have."""
    late = missed_deadline(stored, group, now)
    if group is None:
        return Phase.REJECTED if late else Phase.PENDING
    phases = [entry.phase for entry in group.members.values()]
    if (late or len(phases) == len(stored.members)) and not any(
        phase in _HELD or phase is Phase.PENDING for phase in phases
    ):
        if late:
            return Phase.REJECTED
        if group.complete:
            return Phase.CONSUMED
        return next(phase for phase in (Phase.EXPIRED, Phase.LOST, Phase.REJECTED) if phase in phases)
    return Phase.ACTIVE if group.complete and group.group_committed else Phase.PENDING


def _cause(
    stored: ReservationGroup, phase: Phase, members: Sequence[ReservationInfo], problem: str
) -> tuple[str, str]:
    """Return reason and message of the phase: those of the member that is the cause."""
    count, size = len(members), len(stored.members)
    taken = sum(entry.phase is Phase.CONSUMED for entry in members)
    if phase is Phase.ACTIVE:
        held = sum(entry.phase in _HELD for entry in members)
        return reasons.ADMITTED, f"{held} of {size} reservations held, {taken} taken by their pods"
    if phase is Phase.CONSUMED:
        return reasons.CONSUMED, f"{taken} of {size} reservations taken by their pods"
    if phase is Phase.PENDING and count < size:
        made = f"{count} of {size} reservations are made"
        return reasons.WAITING, f"{made}: {problem}" if problem else made
    if phase is Phase.REJECTED and count < size:
        seconds = stored.spec.pending_deadline_seconds if stored.spec is not None else 0
        deadline = f"spec.pendingDeadlineSeconds ({seconds})"
        text = f"{deadline} had passed when {count} of {size} reservations were made"
        return reasons.DEADLINE_EXCEEDED, text
    cause = min(
        (entry for entry in members if entry.phase is phase),
        key=lambda entry: (entry.reason in _INNOCENT, entry.key),
        default=None,
    )
    if cause is None:
        return (
            reasons.GROUP_INCOMPLETE,
            f"{size} reservations have capacity, and wait until all of them are stored",
        )
    return cause.reason, f"{cause.key.name}: {cause.message}"


def _instants(
    phase: Phase, group: Group | None, members: Sequence[ReservationInfo], now: float
) -> dict[str, str]:
    """Return when the group began, ends and ended."""
    ends = max((end for end in map(lifetime.ends_at, members) if end is not None), default=None)
    finished = max((entry.finished_at for entry in members if entry.finished_at is not None), default=now)
    over = phase not in (Phase.PENDING, Phase.ACTIVE)
    instants = {
        "activatedAt": group.began if group is not None else None,
        "expiresAt": ends,
        "finishedAt": finished if over else None,
    }
    return {name: format_instant(instant) for name, instant in instants.items() if instant is not None}


def _aspects(phase: Phase, reason: str, message: str) -> Iterator[Aspect]:
    """Yield the conditions of a group. Without Ready, it counts as ready."""
    active = phase is Phase.ACTIVE
    yield Aspect("Active", str(active), reason, message)
    if phase not in (Phase.CONSUMED, Phase.EXPIRED):
        yield Aspect("Ready", str(active), reason, message)
    if phase is Phase.PENDING:
        yield Aspect("Reconciling", "True", reason, message)
    if phase in (Phase.LOST, Phase.REJECTED):
        yield Aspect("Stalled", "True", reason, message)
    if phase is Phase.EXPIRED:
        yield Aspect("Expired", "True", reason, message)


_INNOCENT = frozenset({reasons.GROUP_INCOMPLETE, reasons.GROUP_FAILED})
