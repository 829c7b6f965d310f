"""Which reservation a pod waits for that requires one, and why that reservation is not Active.

The text is written to each such pod. So it follows the phase and the reason of a reservation, and leaves out
the amounts of its message, which change with every pod that comes or goes.
"""

from tidelock.ledger import reasons
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.owners.ownership import Ownership
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod

MISSING = "waiting for a reservation, and none names this pod as its owner"
_NAMED = 3


def awaited_text(ownership: Ownership, pod: Pod) -> str:
    """Name the reservations that a pod waits for with their phases and reasons, or say that it has none."""
    named = ownership.naming(pod)
    if not named:
        former = ownership.former(pod)
        return f"{MISSING}: {former}" if former else MISSING
    texts = [f"{entry.key}, which is {_standing(entry)}" for entry in named[:_NAMED]]
    if len(named) > _NAMED:
        texts.append(f"{len(named) - _NAMED} more")
    return f"waiting for reservation {'; or '.join(texts)}"


def told_by(text: str, earlier: str) -> bool:
    """Return whether an earlier text implies a text. Only one process knows how a reservation ended."""
    return earlier == text or (text == MISSING and earlier.startswith(f"{MISSING}: "))


def _standing(entry: ReservationInfo) -> str:
    if entry.phase is Phase.ACTIVE and not entry.group_committed:
        return f"{Phase.PENDING}: {reasons.GROUP_INCOMPLETE}"
    if entry.phase is Phase.ACTIVE and entry.reservation.reusable and entry.occupants:
        return f"{entry.phase} and in use by another pod"
    begins_at = lifetime.begins_at(entry)
    begins = "" if begins_at is None else f", and begins at {format_instant(begins_at)}"
    return f"{entry.phase}: {entry.reason}{begins}"
