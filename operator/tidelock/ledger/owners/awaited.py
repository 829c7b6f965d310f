"""The message of a pod that requires a reservation: the reservations that name it, and why none is Active.

The message is written to each such pod. So it has the phase and the reason of a reservation, and leaves out
the amounts, which change with every pod that comes or goes.
"""

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.owners.ownership import Ownership
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod

NAMED_BY_NONE = "waiting for a reservation, and none names this pod as its owner"
_NAMED = 3


def awaited_reasons(ownership: Ownership, pod: Pod) -> tuple[str, ...]:
    """Return the reservations that a pod waits for with phases and reasons, or that none names it.

    Semicolons between them make a sentence.
    """
    named = ownership.naming(pod)
    if not named:
        former = ownership.former(pod)
        return (f"{NAMED_BY_NONE}: {former}" if former else NAMED_BY_NONE,)
    first, *rest = named[:_NAMED]
    others = [_described(entry.key, _standing(entry)) for entry in rest]
    if len(named) > _NAMED:
        others.append(f"{len(named) - _NAMED} more")
    return awaited_text(first.key, _standing(first)), *(f"or {other}" for other in others)


def awaited_text(key: Key | str, standing: str) -> str:
    """Name the reservation that a pod waits for, with its phase and reason."""
    return f"waiting for reservation {_described(key, standing)}"


def repeats(text: str, earlier: str) -> bool:
    """Return whether a text adds nothing to an earlier one.

    An earlier process may have known how a reservation ended, which this one does not.
    """
    return earlier == text or (text == NAMED_BY_NONE and earlier.startswith(f"{NAMED_BY_NONE}: "))


def _described(key: Key | str, standing: str) -> str:
    return f"{key}, which is {standing}"


def _standing(entry: ReservationInfo) -> str:
    if entry.phase is Phase.ACTIVE and not entry.group_committed:
        return f"{Phase.PENDING}: {reasons.GROUP_INCOMPLETE}"
    if entry.phase is Phase.ACTIVE and entry.reservation.reusable and entry.occupants:
        return f"{entry.phase} and in use by another pod"
    begins_at = lifetime.begins_at(entry)
    begins = "" if begins_at is None else f", and begins at {format_instant(begins_at)}"
    return f"{entry.phase}: {entry.reason}{begins}"
