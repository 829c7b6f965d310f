"""The life of a lock: phases, what happens to it, and where that leads.

    Pending --ADMIT--> Active --CLAIM--> Bound --OWNER_BOUND--> Consumed
       |                ^ ^                |
       +---> Planned ---+ +----RETURN------+

A lock is held in the phase Active alone; one that is Planned will be, from an instant to come. Bound means
that its room has gone to its owner, whose binding is under way. Consumed, Expired, Lost and Terminating are
final. A lock for reuse is Active with and without an owner in it.
"""

from enum import StrEnum, auto

from tidelock.model.api.reservation import Phase


class Event(StrEnum):
    """What can happen to a lock."""

    ADMIT = auto()
    """Room was found, or found again after the owner's binding failed."""
    PLAN = auto()
    """Room was found for the window of a lock that begins later."""
    CLAIM = auto()
    """The owner was reserved on some node."""
    RETURN = auto()
    """The owner's binding failed and the room that the lock had is gone: it waits again."""
    OWNER_BOUND = auto()
    """The owner is bound."""
    OCCUPY = auto()
    """An owner is in a lock that is for reuse, or another one than before."""
    VACATE = auto()
    """No owner is in a lock for reuse any more."""
    LEND = auto()
    """The first pod borrows of a borrowable lock."""
    REPAY = auto()
    """No pod borrows of it any more."""
    EXPIRE = auto()
    """The instant of expiry has passed."""
    LAPSE = auto()
    """The lease was not renewed in time: its grace begins."""
    RENEW = auto()
    """A lease that had lapsed was renewed."""
    FORFEIT = auto()
    """The lease was not renewed within its grace either."""
    COMMIT = auto()
    """A lock in two phases was committed with the token of its hold."""
    ABORT = auto()
    """A lock in two phases was not committed in time, or another lock of its set was chosen."""
    PLAN_MOVES = auto()
    """Pods were found whose move makes room for a lock that may ask for that, or others than before."""
    MOVE = auto()
    """A plan of moves was approved: its room is set aside, and its pods are evicted."""
    DROP_MOVES = auto()
    """A plan of moves does not hold any more."""
    EARMARK = auto()
    """It has waited for long, and is the first in line of those: room is kept for it on a node."""
    GIVE_UP = auto()
    """No room was found before the deadline."""
    LOSE_NODE = auto()
    """The node that the lock names is gone, or another has taken its name."""
    DISPLACE = auto()
    """The room is gone: the node shrank, was overrun, or is gone under a lock for any node."""
    VIOLATE = auto()
    """A pod that was not decided here took room of the lock, which keeps what is left."""
    RESTORE = auto()
    """All the room of a violated lock is back."""
    DELETE = auto()
    """The object is being deleted, and a finalizer keeps it for now."""
    REVISE = auto()
    """A spec that could not be served has been edited."""


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.PENDING, Event.ADMIT): Phase.ACTIVE,
    (Phase.PENDING, Event.PLAN): Phase.PLANNED,
    (Phase.PENDING, Event.CLAIM): Phase.BOUND,
    (Phase.PENDING, Event.OWNER_BOUND): Phase.CONSUMED,
    (Phase.PENDING, Event.EXPIRE): Phase.EXPIRED,
    (Phase.PENDING, Event.LAPSE): Phase.PENDING,
    (Phase.PENDING, Event.RENEW): Phase.PENDING,
    (Phase.PENDING, Event.FORFEIT): Phase.EXPIRED,
    (Phase.PENDING, Event.ABORT): Phase.EXPIRED,
    (Phase.PENDING, Event.PLAN_MOVES): Phase.PENDING,
    (Phase.PENDING, Event.MOVE): Phase.PENDING,
    (Phase.PENDING, Event.DROP_MOVES): Phase.PENDING,
    (Phase.PENDING, Event.EARMARK): Phase.PENDING,
    (Phase.PENDING, Event.GIVE_UP): Phase.REJECTED,
    (Phase.PLANNED, Event.ADMIT): Phase.ACTIVE,
    (Phase.PLANNED, Event.EXPIRE): Phase.EXPIRED,
    (Phase.PLANNED, Event.LAPSE): Phase.PLANNED,
    (Phase.PLANNED, Event.RENEW): Phase.PLANNED,
    (Phase.PLANNED, Event.FORFEIT): Phase.EXPIRED,
    (Phase.PLANNED, Event.ABORT): Phase.EXPIRED,
    (Phase.PLANNED, Event.LOSE_NODE): Phase.LOST,
    (Phase.PLANNED, Event.DISPLACE): Phase.PENDING,
    (Phase.ACTIVE, Event.CLAIM): Phase.BOUND,
    (Phase.ACTIVE, Event.OWNER_BOUND): Phase.CONSUMED,
    (Phase.ACTIVE, Event.OCCUPY): Phase.ACTIVE,
    (Phase.ACTIVE, Event.VACATE): Phase.ACTIVE,
    (Phase.ACTIVE, Event.LEND): Phase.ACTIVE,
    (Phase.ACTIVE, Event.REPAY): Phase.ACTIVE,
    (Phase.ACTIVE, Event.EXPIRE): Phase.EXPIRED,
    (Phase.ACTIVE, Event.LAPSE): Phase.ACTIVE,
    (Phase.ACTIVE, Event.RENEW): Phase.ACTIVE,
    (Phase.ACTIVE, Event.FORFEIT): Phase.EXPIRED,
    (Phase.ACTIVE, Event.COMMIT): Phase.ACTIVE,
    (Phase.ACTIVE, Event.ABORT): Phase.EXPIRED,
    (Phase.ACTIVE, Event.LOSE_NODE): Phase.LOST,
    (Phase.ACTIVE, Event.DISPLACE): Phase.PENDING,
    (Phase.ACTIVE, Event.VIOLATE): Phase.ACTIVE,
    (Phase.ACTIVE, Event.RESTORE): Phase.ACTIVE,
    (Phase.BOUND, Event.OWNER_BOUND): Phase.CONSUMED,
    (Phase.BOUND, Event.ADMIT): Phase.ACTIVE,
    (Phase.BOUND, Event.RETURN): Phase.PENDING,
    (Phase.BOUND, Event.EXPIRE): Phase.EXPIRED,
    (Phase.BOUND, Event.RENEW): Phase.BOUND,
    (Phase.BOUND, Event.FORFEIT): Phase.EXPIRED,
    (Phase.BOUND, Event.COMMIT): Phase.BOUND,
    (Phase.BOUND, Event.ABORT): Phase.EXPIRED,
    (Phase.BOUND, Event.LOSE_NODE): Phase.LOST,
    (Phase.PENDING, Event.DELETE): Phase.TERMINATING,
    (Phase.PLANNED, Event.DELETE): Phase.TERMINATING,
    (Phase.ACTIVE, Event.DELETE): Phase.TERMINATING,
    (Phase.BOUND, Event.DELETE): Phase.TERMINATING,
    (Phase.REJECTED, Event.REVISE): Phase.PENDING,
}

GIVEN = frozenset({Phase.ACTIVE, Phase.BOUND})
"""Phases in which a lock has its room, or has passed it to its owner."""

FINAL = frozenset({Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.TERMINATING})
"""Phases that no event leads out of."""

SETTLED = FINAL | {Phase.REJECTED}
"""Phases in which a lock wants nothing any more, unless its spec is edited."""


def after(phase: Phase, event: Event) -> Phase:
    """Give the phase that an event leads to.

    Raises:
        ValueError: the event cannot happen in that phase, so the caller's book-keeping is wrong.

    """
    try:
        return TRANSITIONS[phase, event]
    except KeyError:
        raise ValueError(f"{event} cannot happen to a lock that is {phase}") from None
