"""The conditions of a ProvisioningRequest, as the Cluster Autoscaler sets them.

    Accepted --all members hold capacity--> Provisioned --taken, or time is over--> BookingExpired
       |                                         |
       +--never--> Failed                        +--capacity lost--> CapacityRevoked

The stored conditions and the ReservationGroup decide the next conditions, so another process continues where
an earlier one ended. Failed, BookingExpired and CapacityRevoked are final. Provisioned stays True beside the
latter two.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tidelock.integrations.provisioning_requests.request import ProvisioningRequest
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.conditions import Aspect, dated
from tidelock.model.reservation_group import ReservationGroup

ACCEPTED = "Accepted"
PROVISIONED = "Provisioned"
FAILED = "Failed"
BOOKING_EXPIRED = "BookingExpired"
CAPACITY_REVOKED = "CapacityRevoked"
FINAL = (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED)
"""Conditions after which nothing is held any more."""

# Reasons of the Cluster Autoscaler.
FOUND = "CapacityIsFound"
NOT_FOUND = "CapacityIsNotFound"
TIME_EXPIRED = "CapacityReservationTimeExpired"
GROUP_DELETED = "GroupDeleted"
DETAILS = "provisioningClassDetails"
"""Field of the status with the name of the group."""
_MESSAGE_LENGTH = 32_768
_OWN = frozenset({ACCEPTED, PROVISIONED, *FINAL, "Ready", "Stalled"})  # the last two name a fault


def is_final(request: ProvisioningRequest) -> bool:
    """Return whether the stored conditions can't change any more."""
    return any(_is_true(request, each) for each in FINAL)


def is_provisioned(request: ProvisioningRequest) -> bool:
    """Return whether the capacity was promised at some time, by the stored conditions."""
    return _is_true(request, PROVISIONED)


def render_request(
    request: ProvisioningRequest, group: ReservationGroup | None, now: float, waiting: str = ""
) -> dict[str, Any]:
    """Render the status of a request.

    Args:
        request: the stored request.
        group: its stored group, or None if there is none.
        now: the time, in seconds since the epoch.
        waiting: why there is no group yet, if that is known.

    """
    if is_final(request):
        return request.status
    status = _with_conditions(request, _aspects(request, group, waiting), now)
    return status if group is None else {**status, DETAILS: {"reservationGroup": group.meta.name}}


def render_failed(request: ProvisioningRequest, message: str, now: float) -> dict[str, Any]:
    """Render the status of a request that can't be served, for the reason that the message names."""
    statuses = ((ACCEPTED, "False"), (PROVISIONED, "False"), (FAILED, "True"))
    text = message[:_MESSAGE_LENGTH]
    aspects = (Aspect(kind, status, reasons.INVALID_SPEC, text) for kind, status in statuses)
    return _with_conditions(request, aspects, now)


def _with_conditions(request: ProvisioningRequest, aspects: Iterable[Aspect], now: float) -> dict[str, Any]:
    """Return the stored status with new conditions. Those of other clients stay."""
    others = [each for each in _stored(request) if each["type"] not in _OWN]
    own = dated(aspects, request.status, request.meta.generation, now)
    return {**request.status, "conditions": [*others, *own]}


def _aspects(request: ProvisioningRequest, group: ReservationGroup | None, waiting: str) -> Iterator[Aspect]:
    yield Aspect(ACCEPTED, "True", ACCEPTED, "Tidelock reserves capacity for all pods, or for none")
    phase, reason, message = _standing(group)
    text = message[:_MESSAGE_LENGTH]
    before = next((each for each in _stored(request) if each["type"] == PROVISIONED), None)
    if before is not None and before["status"] == "True":
        yield Aspect(PROVISIONED, "True", before["reason"], before["message"])
        yield from _end(phase, reason, text)
    elif phase in (Phase.ACTIVE, Phase.CONSUMED, Phase.EXPIRED):
        yield Aspect(PROVISIONED, "True", FOUND, text)
        yield from _end(phase, reason, text)
    elif phase in (Phase.REJECTED, Phase.LOST):
        yield Aspect(PROVISIONED, "False", NOT_FOUND, text)
        yield Aspect(FAILED, "True", reason, text)
    else:
        made = "the ReservationGroup is being created" if group is None else text
        yield Aspect(PROVISIONED, "False", NOT_FOUND, waiting or made)


def _end(phase: str, reason: str, text: str) -> Iterator[Aspect]:
    """Yield the final condition of a request with promised capacity, unless all of it is still held."""
    if phase == Phase.CONSUMED:
        yield Aspect(BOOKING_EXPIRED, "True", reason, text)
    elif phase == Phase.EXPIRED:
        yield Aspect(BOOKING_EXPIRED, "True", TIME_EXPIRED, text)
    elif phase != Phase.ACTIVE:
        yield Aspect(CAPACITY_REVOKED, "True", reason, text)


def _standing(group: ReservationGroup | None) -> tuple[str, str, str]:
    """Return the phase of a group, and the reason and message of its condition Active."""
    if group is None:
        return "", GROUP_DELETED, "the ReservationGroup was deleted"
    active = [each for each in group.status.get("conditions", ()) if each["type"] == "Active"]
    if not active:
        return Phase.PENDING, reasons.WAITING, "the ReservationGroup is not decided yet"
    expires = group.status.get("expiresAt")
    until = f", until {expires}" if expires and group.status.get("phase") == Phase.ACTIVE else ""
    return str(group.status.get("phase")), active[0]["reason"], f"{active[0]['message']}{until}"


def _stored(request: ProvisioningRequest) -> list[dict[str, Any]]:
    conditions: list[dict[str, Any]] = request.status.get("conditions", [])
    return conditions


def _is_true(request: ProvisioningRequest, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in _stored(request))
