"""Renders the status of a reservation, or of a quota, as plain JSON values."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from tidelock.ledger.capacity.usage import Occupant
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.leases import LeaseState
from tidelock.ledger.lifecycle.migration import approved, migration_asked, render_plan
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.lifecycle.two_phase import TwoPhaseState, commit_token
from tidelock.ledger.owners import occupants
from tidelock.ledger.queue.quotas import Charge
from tidelock.ledger.reservation_info import QueuePosition, ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.owners import owner_text
from tidelock.model.api.reservation import Phase
from tidelock.model.conditions import Aspect, dated
from tidelock.model.instants import format_instant
from tidelock.model.quantities import NOTHING, PODS, Resources, format_resources, plus
from tidelock.model.quotas import ReservationQuota

# One condition before its times are known: type, status, reason, message.
_Aspect = tuple[str, bool, str, str]

# Phases without the condition Ready: the reservation has served its purpose, or its window is yet to begin.
_AT_REST = frozenset({Phase.CONSUMED, Phase.EXPIRED, Phase.PLANNED})

# Conditions that tell of the pods that use a reservation.
_OF_PODS = ("Occupied", "Lent")


def render_reservation(entry: ReservationInfo, now: float) -> dict[str, Any]:
    """Render the status of a reservation, and note the transition times of its conditions."""
    aspects = list(_all_aspects(entry))
    before = entry.transition_times
    entry.transition_times = {name: _since(entry, name, holds, now) for name, holds, _, _ in aspects}
    if not _reports_phase(entry):
        # Pods may use a member before its group is committed. That is noted once, and shown later.
        entry.transition_times |= {name: before[name] for name in _OF_PODS if name in before}
    return _status(entry, aspects, now)


def preview_reservation(entry: ReservationInfo, now: float) -> dict[str, Any]:
    """Return the status as it would be written now, and note nothing."""
    return _status(entry, list(_all_aspects(entry)), now)


def _status(entry: ReservationInfo, aspects: Sequence[_Aspect], now: float) -> dict[str, Any]:
    """Render the status. A condition keeps its transition time while its status lasts."""
    spec = entry.reservation.spec
    reports_phase = _reports_phase(entry)
    conditions = [_condition(entry, aspect, now) for aspect in aspects]
    status: dict[str, Any] = {
        "observedGeneration": entry.reservation.meta.generation,
        "phase": (entry.phase if reports_phase else Phase.PENDING).value,
        "epoch": entry.epoch,
        "conditions": conditions,
    }
    for name, instant in (
        ("activatedAt", entry.activated_at),
        ("expiresAt", lifetime.ends_at(entry)),
        ("finishedAt", entry.finished_at),
    ):
        if instant is not None:
            status[name] = format_instant(instant)
    if entry.queue_position is not None and entry.phase is Phase.PENDING:
        status["queue"] = _queue(entry, entry.queue_position)
    if entry.node:
        status |= {"nodeName": entry.node, "nodeUID": entry.node_uid}
    status |= _kept_up(entry)
    if entry.bound_pod is not None:
        status["boundPod"] = {"name": entry.bound_pod.name, "uid": entry.bound_pod.uid}
    if entry.occupied_seconds:
        status["occupiedSeconds"] = entry.occupied_seconds
    status |= _size(entry)
    status |= _use(entry)
    status |= _moves(entry)
    if spec is not None:
        status["owner"] = owner_text(spec.owners)
    return status


def _moves(entry: ReservationInfo) -> dict[str, Any]:
    """Return the migration plan, and the number of pods that have moved."""
    status: dict[str, Any] = {"moved": entry.moved_pods} if entry.moved_pods else {}
    return status if entry.plan is None else status | {"plan": render_plan(entry.plan)}


def _queue(entry: ReservationInfo, position: QueuePosition) -> dict[str, Any]:
    """Return the queue position, the earliest possible start, and the node with kept capacity."""
    status: dict[str, Any] = {
        "position": position.position,
        "length": position.length,
        "place": f"{position.position}/{position.length}",
    }
    if position.start is not None:
        status["estimatedStart"] = format_instant(position.start)
    return status | {"earmark": entry.earmark} if entry.earmark else status


def _size(entry: ReservationInfo) -> dict[str, Any]:
    """Return the amounts, the parts of the template with which it was placed, and the devices."""
    status: dict[str, Any] = {}
    if resources := shown_resources(entry):
        status["resources"] = _shown(resources)
    # Without any granted part it is empty. An absent one is of an earlier version, which granted all parts.
    parted = entry.reservation.pod is None or entry.reservation.parts
    if parted and entry.node and entry.phase not in SETTLED:
        status["grantedTemplate"] = dict(entry.granted)
    if entry.devices:
        status["devices"] = [each.to_status() for each in entry.devices]
    return status


def _use(entry: ReservationInfo) -> dict[str, Any]:
    """Return the amounts that occupants of a shared reservation use."""
    if not entry.occupants or not (used := occupants.used(entry)):
        return {}
    if entry.reservation.borrowable:
        return {"lent": _shown(used), "borrowers": len(occupants.bound_occupants(entry))}
    return {"used": _shown(used)}


def _shown(resources: Resources) -> dict[str, str]:
    return format_resources({name: units for name, units in resources.items() if name != PODS})


def render_quota(quota: ReservationQuota, used: Charge, now: float) -> dict[str, Any]:
    """Render the status of a quota: its limits, and their use by the reservations of its namespace."""
    generation = quota.meta.generation
    status: dict[str, Any] = {"observedGeneration": generation}
    if quota.problem:
        aspects = [
            Aspect("Ready", "False", reasons.INVALID_SPEC, quota.problem),
            Aspect("Stalled", "True", reasons.INVALID_SPEC, quota.problem),
        ]
    else:
        aspects = [
            Aspect("Ready", "True", reasons.ENFORCED, "reservations of this namespace are limited by it")
        ]
        for hard, limits, uses, amounts in (
            ("hard", quota.hard, "used", used.reserved),
            ("hardSeconds", quota.hard_seconds, "usedSeconds", used.seconds),
        ):
            if limits:
                status[hard] = format_resources(limits)
                status[uses] = format_resources({name: amounts.get(name, 0) for name in limits})
    return status | {"conditions": dated(aspects, quota.status, generation, now)}


def shown_resources(entry: ReservationInfo) -> Resources:
    """Return the reserved amounts, or those that a waiting reservation asks for."""
    if entry.reserved:
        return entry.reserved
    return entry.reservation.pod.requests if entry.reservation.pod is not None else {}


def _all_aspects(entry: ReservationInfo) -> Iterator[_Aspect]:
    return _aspects(entry) if _reports_phase(entry) else _expectations(entry)


def _aspects(entry: ReservationInfo) -> Iterator[_Aspect]:
    """Yield the conditions as kstatus reads them. Without Ready, a reservation counts as ready."""
    active = entry.phase is Phase.ACTIVE and not entry.violation
    lapsed = _lapsed_text(entry)
    commitment = _commitment(entry)
    yield "Active", active, entry.reason, entry.message
    if active:
        yield "Ready", *_readiness(entry)
    elif entry.phase not in _AT_REST:
        yield "Ready", False, entry.reason, entry.message
    if (awaited := _awaited(entry)) is not None:
        yield "Reconciling", True, *awaited
    if (obstacle := _obstacle(entry)) is not None:
        yield "Stalled", True, *obstacle
    if entry.phase is Phase.EXPIRED:
        yield "Expired", True, entry.reason, entry.message
    if entry.violation:
        yield "Violated", True, reasons.CAPACITY_TAKEN, entry.violation
    yield from _occupancy(entry)
    yield from _lending(entry)
    if lapsed:
        yield "LeaseLapsed", True, reasons.NOT_RENEWED, lapsed
    if commitment is not None:
        yield "Committed", *commitment
    yield from _planned_moves(entry)


def _expectations(entry: ReservationInfo) -> Iterator[_Aspect]:
    """Yield the conditions of a member that has capacity while its group is not committed."""
    text = f"{entry.message}, and waits until all reservations of its group are stored"
    for name in ("Active", "Ready", "Reconciling"):
        yield name, name == "Reconciling", reasons.GROUP_INCOMPLETE, text


def _reports_phase(entry: ReservationInfo) -> bool:
    """Return whether a reservation may report Active: not before its group is committed."""
    return entry.group_committed or entry.phase is not Phase.ACTIVE


def _awaited(entry: ReservationInfo) -> tuple[str, str] | None:
    """Return the cause of the wait: capacity, the end of a binding, a resize, a commit."""
    if entry.phase in (Phase.PENDING, Phase.BOUND):
        return entry.reason, entry.message
    if entry.growing or lifetime.wants_longer(entry):
        return reasons.RESIZE_PENDING, entry.resize_problem
    commitment = _commitment(entry)
    if entry.phase is Phase.ACTIVE and commitment is not None and not commitment[0]:
        return commitment[1:]
    return None


def _obstacle(entry: ReservationInfo) -> tuple[str, str] | None:
    """Return why a reservation makes no progress, for good or for now."""
    if entry.problem and not entry.final:
        failed = entry.reservation.failure
        return reasons.INTERNAL_ERROR if failed else reasons.INVALID_SPEC, entry.problem
    if entry.fault:
        return reasons.INTERNAL_ERROR, entry.fault
    return (entry.reason, entry.message) if entry.phase in (Phase.LOST, Phase.REJECTED) else None


def _readiness(entry: ReservationInfo) -> tuple[bool, str, str]:
    """Return whether an active reservation is ready, by its node, lease, commit and borrowers."""
    if entry.node_problem is not None:
        return False, *entry.node_problem
    if lapsed := _lapsed_text(entry):
        return False, reasons.NOT_RENEWED, lapsed
    if (commitment := _commitment(entry)) is not None and not commitment[0]:
        return commitment
    if entry.reservation.borrowable and (ending := occupants.ending_occupants(entry)):
        return False, reasons.BORROWERS_ENDING, _ending_text(entry, ending)
    return True, reasons.HELD, entry.message


def _commitment(entry: ReservationInfo) -> tuple[bool, str, str] | None:
    """Return whether a two-phase reservation is committed, and otherwise how to commit it."""
    hold, token = entry.hold, commit_token(entry.reservation)
    if hold is None:
        return None
    if hold.committed_at is not None:
        return True, reasons.COMMITTED, f"committed at {format_instant(hold.committed_at)}"
    if entry.phase in SETTLED:
        return False, entry.reason, entry.message
    if token is None or (token == hold.token and hold.due is not None):
        return False, reasons.AWAITING_COMMIT, hold.text
    return False, reasons.TOKEN_MISMATCH, f"spec.commit.token {token} is of another hold; {hold.text}"


def _planned_moves(entry: ReservationInfo) -> Iterator[_Aspect]:
    """Yield the migration plan of a reservation as a condition, and how to approve it."""
    plan, asks = entry.plan, migration_asked(entry.reservation)
    if asks is None or not entry.may_move:
        return
    if plan is None:
        yield "MovePlanned", False, reasons.NO_MOVES, entry.move_problem or "no plan was searched for yet"
        return
    would = f"capacity would be freed by moving {plan.text}"
    how = f"{would}; approved with spec.mayMove.approve {plan.token}"
    if plan.under_way:
        yield "MovePlanned", True, reasons.MOVING, f"moving {plan.text}"
    elif approved(entry.reservation, plan):
        yield "MovePlanned", True, reasons.MOVE_PLANNED, would
    elif asks.approve is None:
        yield "MovePlanned", True, reasons.MOVE_PLANNED, how
    else:
        other = f"spec.mayMove.approve {asks.approve} is of another plan"
        yield "MovePlanned", True, reasons.TOKEN_MISMATCH, f"{other}; {how}"


def _occupancy(entry: ReservationInfo) -> Iterator[_Aspect]:
    """Yield the owners that use a reusable reservation as a condition."""
    if not entry.reservation.reusable or entry.phase is not Phase.ACTIVE:
        return
    if entry.bound_pod is None:
        yield "Occupied", False, reasons.VACANT, "no owner uses it"
    else:
        others = len(occupants.bound_occupants(entry)) - 1
        more = f", and {others} more" if others > 0 else ""
        text = f"pod {entry.key.namespace}/{entry.bound_pod.name} uses it{more}"
        yield "Occupied", True, reasons.OCCUPIED, text


def _lending(entry: ReservationInfo) -> Iterator[_Aspect]:
    """Yield the borrowers of a reservation as a condition."""
    if not entry.reservation.borrowable or entry.phase is not Phase.ACTIVE:
        return
    noted, _ = entry.transition_times.get("Lent", ("False", 0.0))
    if noted == "True":
        names = [str(each.key) for each in occupants.bound_occupants(entry)]
        more = f", and {len(names) - 1} more" if len(names) > 1 else ""
        yield (
            "Lent",
            True,
            reasons.LENT,
            f"pod {names[0]} borrows from it{more}" if names else "pods borrow from it",
        )
    else:
        yield "Lent", False, reasons.NOT_LENT, "no pod borrows from it"


def _ending_text(entry: ReservationInfo, ending: Sequence[Occupant]) -> str:
    """Describe the amounts of borrowers that are being deleted, and the end of the longest grace period."""
    used = _shown(reduce(plus, (each.uses for each in ending), NOTHING))
    amounts = ", ".join(f"{name} {amount}" for name, amount in used.items())
    last, others = ending[0], len(ending) - 1
    more = f", and {others} more that end earlier" if others else ""
    until = format_instant(last.ends_at)
    return (
        f"{amounts} on {entry.node} is still occupied by pods that are ending: {last.key}, whose grace period"
        f" ends at {until}{more}"
    )


def _lapsed_text(entry: ReservationInfo) -> str:
    """Describe how the lease has lapsed, or return an empty text."""
    lease = entry.lease
    return (
        lease.text if lease is not None and lease.lost_at is not None and entry.phase not in SETTLED else ""
    )


def _kept_up(entry: ReservationInfo) -> dict[str, Any]:
    """Return the duties of the holder: the lease, and the commit."""
    status: dict[str, Any] = {}
    if entry.lease is not None:
        status["lease"] = _lease(entry.lease)
    if entry.hold is not None and entry.hold.number:
        status["commit"] = _commit(entry.hold)
    return status


def _commit(hold: TwoPhaseState) -> dict[str, Any]:
    status: dict[str, Any] = {"holds": hold.number}
    if hold.due is not None:
        status |= {"token": hold.token, "dueAt": format_instant(hold.due)}
    if hold.committed_at is not None:
        status["committedAt"] = format_instant(hold.committed_at)
    return status


def _lease(lease: LeaseState) -> dict[str, str]:
    instants = {
        "renewTime": lease.renew_time,
        "renewedAt": lease.renewed_at,
        "renewBy": lease.renew_by,
        "lostAt": lease.lost_at,
    }
    return {name: format_instant(instant) for name, instant in instants.items() if instant is not None}


def _condition(entry: ReservationInfo, aspect: _Aspect, now: float) -> dict[str, Any]:
    name, holds, reason, message = aspect
    status, since = _since(entry, name, holds, now)
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        # Conditions carry whole seconds, as metav1.Time does.
        "lastTransitionTime": format_instant(int(since)),
        "observedGeneration": entry.reservation.meta.generation,
    }


def _since(entry: ReservationInfo, name: str, holds: bool, now: float) -> tuple[str, float]:
    """Return the status of a condition, and since when it has that status."""
    status = "True" if holds else "False"
    known = entry.transition_times.get(name)
    return known if known is not None and known[0] == status else (status, now)
