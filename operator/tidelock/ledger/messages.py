"""Messages of statuses and events that more than one module of the ledger writes."""

from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import devices_text
from tidelock.model.instants import format_instant
from tidelock.model.quantities import PODS, Resources, format_resources


def amounts_text(resources: Resources) -> str:
    """Format amounts, by resource."""
    return ", ".join(f"{name} {amount}" for name, amount in format_resources(resources).items())


def held_text(entry: ReservationInfo) -> str:
    """Describe the capacity that a reservation holds, and its node."""
    amounts = {name: units for name, units in entry.reserved.items() if name != PODS}
    parts = [text for text in (amounts_text(amounts), devices_text(entry.devices)) if text]
    return f"{' and '.join(parts) or 'a place for a pod'} held on {entry.node}"


def planned_text(entry: ReservationInfo) -> str:
    """Describe the capacity that a reservation will hold, its node and its window."""
    begins, ends = lifetime.begins_at(entry), lifetime.ends_at(entry)
    since = f" from {format_instant(begins)}" if begins is not None else ""
    until = f" until {format_instant(ends)}" if ends is not None else ""
    return f"{held_text(entry)}{since}{until}"


def given_up_text(entry: ReservationInfo) -> str:
    """Explain why a reservation that waited was rejected at its deadline."""
    spec = entry.reservation.spec
    field = f"spec.pendingDeadlineSeconds ({spec.pending_deadline_seconds if spec else 0})"
    if entry.tried:
        return f"no capacity within {field}: {entry.message}"
    waits = f"it waits since {format_instant(entry.pending_since)}"
    if not deadlines.missed(entry):
        return f"{field} had passed before it was tried: {waits}"
    text = f"{field} had passed when the operator saw it at {format_instant(entry.seen_waiting_at)}: {waits}"
    return f"{text}; {entry.message}" if entry.message else text
