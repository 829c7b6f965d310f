"""Messages of statuses and events that more than one module of the ledger writes."""

from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import devices_text
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.quantities import PODS, Resources, format_resources


def amounts_text(resources: Resources) -> str:
    """Format amounts, by resource."""
    return ", ".join(f"{name} {amount}" for name, amount in format_resources(resources).items())


def held_text(entry: ReservationInfo) -> str:
    """Describe the capacity that a reservation holds, and its node."""
    amounts = {name: units for name, units in entry.reserved.items() if name != PODS}
    parts = [text for text in (amounts_text(amounts), devices_text(entry.devices)) if text]
    return holding_text(" and ".join(parts) or "a place for a pod", entry.node)


def holding_text(what: str, node_name: str) -> str:
    """Say that something is held on a node."""
    return f"{what} held on {node_name}"


def taken_text(taker: str, what: str, node_name: str) -> str:
    """Say that a pod or claim took something that was reserved."""
    return f"{taker} took {what} reserved on {node_name}"


def overcommitted_text(node_name: str, amounts: str) -> str:
    """Say by how much a node's pods and reservations exceed it."""
    return f"{node_name} is overcommitted by {amounts}"


def cordoned_text(node_name: str) -> str:
    """Say that a node takes no pods."""
    return f"node {node_name} is cordoned"


def gone_text(node_name: str, node_uid: str) -> str:
    """Say that a node was deleted."""
    return f"node {node_name} (uid {node_uid}) is gone"


def edited_text(node_name: str) -> str:
    """Say that an edited spec names another node."""
    return f"the spec now names {node_name}"


def binding_text(pod: Key | str, node_name: str) -> str:
    """Say that a pod has a node, and is not bound yet."""
    return f"pod {pod} is being bound to {node_name}"


def bound_text(pod: Key | str, node_name: str) -> str:
    """Say that a pod is bound."""
    return f"pod {pod} is bound to {node_name}"


def planned_text(entry: ReservationInfo) -> str:
    """Describe the capacity that a reservation will hold, its node and its window."""
    begins, ends = lifetime.begins_at(entry), lifetime.ends_at(entry)
    since = f" from {format_instant(begins)}" if begins is not None else ""
    until = f" until {format_instant(ends)}" if ends is not None else ""
    return f"{held_text(entry)}{since}{until}"


def given_up_text(entry: ReservationInfo) -> str:
    """Explain why a reservation that waited was rejected at its deadline."""
    spec = entry.reservation.spec
    seconds = spec.pending_deadline_seconds if spec else 0
    field = _deadline(seconds)
    if entry.tried:
        return f"{no_capacity_text(seconds)}: {entry.message}"
    waits = f"it waits since {format_instant(entry.pending_since)}"
    if not deadlines.missed(entry):
        return f"{field} had passed before it was tried: {waits}"
    text = f"{field} had passed when the operator saw it at {format_instant(entry.seen_waiting_at)}: {waits}"
    return f"{text}; {entry.message}" if entry.message else text


def no_capacity_text(seconds: int) -> str:
    """Say that a reservation was tried in vain until its deadline."""
    return f"no capacity within {_deadline(seconds)}"


def _deadline(seconds: int) -> str:
    return f"spec.pendingDeadlineSeconds ({seconds})"
