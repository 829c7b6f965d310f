"""The phases of a reservation, the events of its life, and the phases to which they lead.

    Pending --ADMIT--> Active --CLAIM--> Bound --OWNER_BOUND--> Consumed
       |                ^ ^                |
       +---> Planned ---+ +----RETURN------+

A reservation holds capacity in the phase Active. A planned one will hold it from a later instant. In the
phase Bound its owner has the capacity, and the binding is under way. Consumed, Expired, Lost and Terminating
are final. A reusable reservation is Active with and without an owner.
"""

from enum import StrEnum, auto

from tidelock.model.api.reservation import Phase


class Event(StrEnum):
    """An event in the life of a reservation."""

    ADMIT = auto()
    """Capacity was found, or found again after the owner's binding failed."""
    PLAN = auto()
    """Capacity was found for a window that begins later."""
    CLAIM = auto()
    """The owner was reserved on some node."""
    RETURN = auto()
    """The owner's binding failed and the capacity is gone: the reservation waits again."""
    OWNER_BOUND = auto()
    """The owner is bound."""
    OCCUPY = auto()
    """An owner uses a reusable reservation, or another owner than before."""
    VACATE = auto()
    """No owner uses a reusable reservation any more."""
    LEND = auto()
    """The first pod borrows from a borrowable reservation."""
    REPAY = auto()
    """No pod borrows from a borrowable reservation any more."""
    EXPIRE = auto()
    """The instant of expiry has passed."""
    LAPSE = auto()
    """The lease was not renewed in time: its grace period begins."""
    RENEW = auto()
    """A lease that had lapsed was renewed."""
    FORFEIT = auto()
    """The lease was not renewed within its grace period either."""
    COMMIT = auto()
    """A two-phase reservation was committed with the token of its hold."""
    ABORT = auto()
    """A two-phase reservation was not committed in time, or another one of its set was chosen."""
    PLAN_MOVES = auto()
    """A migration plan was found, or a different one."""
    MOVE = auto()
    """A migration plan was approved: its capacity is kept, and its pods are evicted."""
    DROP_MOVES = auto()
    """A migration plan is no longer valid."""
    EARMARK = auto()
    """Capacity that comes free on a node is kept for the first of the queue, after a long wait."""
    GIVE_UP = auto()
    """No capacity was found before the deadline."""
    LOSE_NODE = auto()
    """The node that the spec names is gone, or another one has its name."""
    DISPLACE = auto()
    """The capacity is gone: the node shrank, was overcommitted, or is gone."""
    VIOLATE = auto()
    """A pod of another binder took reserved capacity. The reservation keeps the rest."""
    RESTORE = auto()
    """A violated reservation has all of its capacity again."""
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
"""Phases in which a reservation has its capacity, or has passed it to its owner."""

FINAL = frozenset({Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.TERMINATING})
"""Phases that a reservation never leaves."""

SETTLED = FINAL | {Phase.REJECTED}
"""Phases in which a reservation wants nothing unless its spec is edited."""


def after(phase: Phase, event: Event) -> Phase:
    """Return the phase to which an event leads.

    Raises:
        ValueError: the event is impossible in that phase, so the caller has a bug.

    """
    try:
        return TRANSITIONS[phase, event]
    except KeyError:
        raise ValueError(f"{event} cannot happen to a reservation that is {phase}") from None
