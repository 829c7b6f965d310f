"""Restores the record of an object that is new to the ledger, such as after a start.

The stored status is trusted about capacity, waiting times and ends. Everything that it does not say about the
present spec starts from the beginning.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from tidelock.ledger.lifecycle import lifetime, two_phase
from tidelock.ledger.lifecycle.leases import lease_followed, lease_of
from tidelock.ledger.lifecycle.migration import read_plan
from tidelock.ledger.lifecycle.transitions import FINAL, GIVEN, SETTLED
from tidelock.ledger.reservation_info import QueuePosition, ReservationInfo, give_up_parts
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase, ReservationStatus
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.instants import from_datetime
from tidelock.model.quantities import NOTHING, PODS, QuantityError, Resources, at_most, parse_resources
from tidelock.model.reservation import Reservation


def restore(reservation: Reservation, now: float) -> ReservationInfo:
    """Return the record of an object that is seen for the first time."""
    since = reservation.meta.created or now
    entry = ReservationInfo(
        reservation, seen_waiting_at=now, pending_since=since, problem=reservation.problem
    )
    status = _readable(reservation)
    if status is None or status.phase is None:
        # A reservation without a status has been waiting since its creation.
        entry.transition_times = {"Active": ("False", since), "Reconciling": ("True", since)}
    else:
        _resume(entry, status, now)
        entry.lease = lease_of(status.lease)
    _resume_hold(entry, status, now)
    if reservation.failure and entry.phase is Phase.PENDING:
        entry.reason, entry.message = reasons.INTERNAL_ERROR, reservation.failure
    elif entry.problem and entry.phase is Phase.PENDING:
        entry.phase, entry.reason, entry.message = Phase.REJECTED, reasons.INVALID_SPEC, entry.problem
        entry.finished_at = now
        entry.violation = ""
    elif entry.phase is Phase.PENDING:
        lifetime.look_ahead(entry, now)
    if entry.phase not in SETTLED:
        entry.lease = lease_followed(entry.lease, reservation, now)
    return entry


def _readable(reservation: Reservation) -> ReservationStatus | None:
    try:
        return ReservationStatus.model_validate(reservation.status)
    except ValidationError:
        return None  # written by no version of Tidelock: the reservation starts from the beginning


def _resume(entry: ReservationInfo, status: ReservationStatus, now: float) -> None:
    entry.transition_times = {
        condition.type: (condition.status, from_datetime(condition.last_transition_time))
        for condition in status.conditions
    }
    entry.epoch = status.epoch or 0
    entry.occupied_seconds = status.occupied_seconds or 0
    entry.moved_pods = status.moved or 0
    current = status.observed_generation == entry.reservation.meta.generation
    if status.activated_at is not None and status.expires_at is not None:
        entry.activated_at = from_datetime(status.activated_at)
        given = entry.expires_at = from_datetime(status.expires_at)
        if not current and not entry.problem:
            entry.expires_at = lifetime.expiry_from(entry, entry.activated_at)
            if status.phase in GIVEN and entry.expires_at is not None:
                entry.expires_at = min(entry.expires_at, given)  # the quota may allow a longer one later
    # A member of a group that is not committed has a node, and is pending.
    placed = status.phase in GIVEN or (
        status.phase is Phase.PENDING and entry.reservation.membership is not None
    )
    planned = status.phase is Phase.PLANNED and current and not entry.problem
    devices = status.devices or ()
    kept = _same_claims(entry.reservation, devices, current=current)
    if kept and (planned or (placed and entry.activated_at is not None)) and (held := _held(status)):
        _resume_held(entry, status, held)
    elif status.phase in FINAL or (status.phase is Phase.REJECTED and current):
        _resume_ended(entry, status, now)
    elif status.phase in (Phase.REJECTED, Phase.PLANNED):
        entry.wait(now, entry.reservation.asked_at or None)
    else:
        _resume_waiting(entry, status)
    if not entry.final and entry.phase is not Phase.REJECTED:
        violations = [each.message for each in status.conditions if each.type == "Violated"]
        entry.violation = violations[0] if violations else ""


def _resume_hold(entry: ReservationInfo, status: ReservationStatus | None, now: float) -> None:
    """Restore the two-phase state. Held capacity that no status has announced is announced from now on."""
    hold = two_phase.two_phase_of(entry.reservation, status.commit if status is not None else None)
    if hold is not None and entry.phase is Phase.ACTIVE and hold.due is None:
        hold = two_phase.two_phase_begun(hold, entry.reservation, now)
    elif hold is not None and entry.phase is Phase.PENDING:
        hold = hold.lost()
    entry.hold = hold


def _same_claims(reservation: Reservation, devices: Sequence[ReservedDevice], *, current: bool) -> bool:
    """Return whether devices are for claims of a readable spec, and for all of them after an edit.

    A claim may hold none: with admin access, or with an existing claim. A status may lack the template, as
    earlier versions did not write it.
    """
    if reservation.pod is None:
        return True
    templates = {
        claim.name: claim.resource_claim_template_name for claim in reservation.pod.spec.resource_claims
    }
    held = {each.claim: each.resource_claim_template_name for each in devices if each.claim is not None}
    if any(template not in (None, templates.get(claim)) for claim, template in held.items()):
        return False
    return held.keys() <= templates.keys() if current else held.keys() == templates.keys()


def _held(status: ReservationStatus) -> Resources:
    if not status.node_name or status.resources is None:
        return NOTHING
    try:
        return {**parse_resources(status.resources), PODS: 1}
    except QuantityError:
        return NOTHING


def _resume_held(entry: ReservationInfo, status: ReservationStatus, held: Resources) -> None:
    """Restore held capacity, except for the part that the spec no longer asks for."""
    entry.ahead = status.phase is Phase.PLANNED
    entry.phase = Phase.PLANNED if entry.ahead else Phase.ACTIVE
    entry.devices = entry.kept_devices(status.devices or ())
    # While its owner is being bound, the status names what the spec asks for, beside the devices that it has.
    provided = Counter(each.resource_name for each in entry.devices if each.resource_name is not None)
    entry.reserved = at_most(entry.kept_of(held), {**held, **provided})
    entry.granted = _granted(entry, status)
    give_up_parts(entry)
    entry.bound_pod = status.bound_pod
    entry.node, entry.node_uid = status.node_name or "", status.node_uid or ""
    _resume_reason(entry, status)
    if entry.reason == reasons.GROUP_INCOMPLETE:
        entry.reason = reasons.ADMITTED
    if status.phase is Phase.PENDING:
        _resume_since(entry)
    for condition in status.conditions:
        if condition.type == "Reconciling" and condition.reason == reasons.RESIZE_PENDING:
            entry.resize_problem = condition.message


def _granted(entry: ReservationInfo, status: ReservationStatus) -> Mapping[str, str]:
    """Return the granted parts of the template.

    An earlier version does not write them, and a CRD of an earlier version drops them. All parts were granted
    then, unless the spec was edited since, or an edit waits.
    """
    if status.granted_template is not None:
        return status.granted_template
    current = status.observed_generation == entry.reservation.meta.generation
    waits = any(each.reason == reasons.RESIZE_PENDING for each in status.conditions)
    return entry.reservation.parts if current and not waits else {}


def _resume_ended(entry: ReservationInfo, status: ReservationStatus, now: float) -> None:
    entry.phase = status.phase or Phase.PENDING
    entry.node, entry.node_uid = status.node_name or "", status.node_uid or ""
    entry.bound_pod = status.bound_pod
    entry.finished_at = from_datetime(status.finished_at) if status.finished_at else now
    _resume_reason(entry, status)


def _resume_since(entry: ReservationInfo) -> None:
    """Restore the instant at which a reservation began to wait, from its status."""
    _, entry.pending_since = entry.transition_times.get("Reconciling", ("", entry.pending_since))


def _resume_waiting(entry: ReservationInfo, status: ReservationStatus) -> None:
    _resume_since(entry)
    _resume_reason(entry, status)
    if status.queue is not None:
        estimate = status.queue.estimated_start
        start = None if estimate is None else from_datetime(estimate)
        entry.queue_position = QueuePosition(status.queue.position, status.queue.length, start)
        entry.earmark = status.queue.earmark or ""
    entry.plan = read_plan(status.plan)
    for condition in status.conditions:
        if condition.type == "MovePlanned" and condition.reason == reasons.NO_MOVES:
            entry.move_problem = condition.message


def _resume_reason(entry: ReservationInfo, status: ReservationStatus) -> None:
    for condition in status.conditions:
        if condition.type == "Active":
            entry.reason, entry.message = condition.reason, condition.message
