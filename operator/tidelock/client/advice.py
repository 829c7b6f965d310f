"""The reasons that a manager reads: where each appears, its meaning, and the manager's next step.

The page docs/reference/reasons.md is made from this table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tidelock.model import reasons

DELETED = "Deleted"
"""The client's own reason for a reservation that another client has deleted."""

NO_CAPACITY = frozenset(
    {
        reasons.DEADLINE_EXCEEDED,
        reasons.INSUFFICIENT_CAPACITY,
        reasons.NO_MATCHING_NODE,
        reasons.NODE_NOT_FOUND,
        reasons.NODE_CORDONED,
        reasons.NODE_NOT_READY,
        reasons.NODE_LOST,
        reasons.QUOTA_EXCEEDED,
    }
)
"""Reasons with which a reservation is refused for lack of capacity. Another cluster may have it."""


class Advice(NamedTuple):
    """The meaning of a reason, and the next step of a manager."""

    where: str
    meaning: str
    step: str


_HOLDS = "none: the capacity is reserved"
_INFORMS = "none: it informs people"
_WAIT = "wait, or take another cluster and delete the reservation"
_AGAIN = "the promise is over: reserve again, here or in another cluster"
_ADMIN = "ask the cluster's administrator, and take another cluster meanwhile"

ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        reasons.WAITING: Advice("Active", "it was not tried yet, or waits again", "wait for the next status"),
        reasons.PLANNED: Advice("Active", "the capacity is reserved from `startAt` on", "none until then"),
        reasons.ADMITTED: Advice("Active", "the capacity is reserved", "send the pod"),
        reasons.MOVED: Advice("Active", "the capacity is reserved on another node", "read `nodeName` again"),
        reasons.RESTORED: Advice("Active", "all of the capacity is reserved again", "send the pod"),
        reasons.HELD: Advice("Ready", "the capacity is reserved and nothing is wrong", _HOLDS),
        reasons.CLAIMED: Advice("events", "its pod is being bound", "none: the pod has it"),
        reasons.CONSUMED: Advice("Active", "its pod is bound", "none: it has served its purpose"),
        reasons.OCCUPIED: Advice("Occupied", "an owner runs in it", _HOLDS),
        reasons.VACANT: Advice("Occupied", "no owner runs in it", _HOLDS),
        reasons.LENT: Advice("Lent", "pods borrow its capacity", _HOLDS),
        reasons.NOT_LENT: Advice("Lent", "no pod borrows its capacity", _HOLDS),
        reasons.BORROWERS_ENDING: Advice("Ready", "borrowers are being evicted", "wait for Ready"),
        reasons.EXPIRED: Advice("Active", "`ttlSeconds` or `expireAt` has passed", _AGAIN),
        reasons.LEASE_EXPIRED: Advice("Active", "its holder did not renew the lease", _AGAIN),
        reasons.NOT_RENEWED: Advice("LeaseLapsed", "the lease has lapsed, and is lost soon", "renew it now"),
        reasons.RENEWED: Advice("events", "a lapsed lease was renewed in time", _HOLDS),
        reasons.AWAITING_COMMIT: Advice("Committed", "it is prepared", "commit it, or delete it"),
        reasons.TOKEN_MISMATCH: Advice(
            "Committed", "the token is of another hold or plan", "read the status, and decide again"
        ),
        reasons.COMMITTED: Advice("Committed", "the commit counts", "send the pod"),
        reasons.NOT_COMMITTED: Advice("Active", "it was not committed in time", _AGAIN),
        reasons.ANOTHER_CHOSEN: Advice("Active", "another one of its set was chosen", "use that one"),
        reasons.GROUP_INCOMPLETE: Advice("Active", "its group has not enough members with capacity", _WAIT),
        reasons.GROUP_FAILED: Advice("Active", "its group got no capacity before its deadline", _AGAIN),
        reasons.SCHEDULED: Advice("Ready of a schedule", "windows are planned", _INFORMS),
        reasons.SUSPENDED: Advice("Ready of a schedule", "`suspend` is true", "set it to false"),
        reasons.NOT_MADE: Advice("Ready of a schedule", "a window could not be created", _ADMIN),
        reasons.INVALID_SPEC: Advice(
            "Stalled", "the operator can't read the spec", "correct the named field"
        ),
        reasons.TERMINATING: Advice("Active", "the object is being deleted", _AGAIN),
        reasons.DEADLINE_EXCEEDED: Advice(
            "Active", "no capacity within `pendingDeadlineSeconds`", "take another cluster"
        ),
        reasons.INSUFFICIENT_CAPACITY: Advice("Active", "no node has enough", _WAIT),
        reasons.QUOTA_EXCEEDED: Advice("Active", "the namespace's quota is used up, or too low", _WAIT),
        reasons.NO_MATCHING_NODE: Advice("Active", "no node satisfies the constraints", _WAIT),
        reasons.NODE_NOT_FOUND: Advice("Active", "the node of `nodeName` does not exist", _WAIT),
        reasons.NODE_CORDONED: Advice(
            "Active, Ready", "the node takes no pods", "wait: it holds, and moves after 5 minutes if it can"
        ),
        reasons.NODE_NOT_READY: Advice(
            "Active, Ready", "the node is not ready", "wait: it holds, and moves after 5 minutes if it can"
        ),
        reasons.NODE_LOST: Advice("Active", "its node is gone", _AGAIN),
        reasons.OVERCOMMITTED: Advice("Active", "its node has shrunk", _AGAIN),
        reasons.VIOLATED: Advice("Active", "a pod or a claim has taken a part of the capacity", _AGAIN),
        reasons.CAPACITY_TAKEN: Advice("Violated", "the pod or claim that has taken it is named", _ADMIN),
        reasons.PREEMPTED: Advice("Active", "a pod of higher priority has taken it", _AGAIN),
        reasons.MOVE_PLANNED: Advice(
            "MovePlanned", "a few pods must move first", "approve the plan by its token"
        ),
        reasons.MOVING: Advice("MovePlanned", "the pods are moving", "wait"),
        reasons.NO_MOVES: Advice("MovePlanned", "no plan would help", _WAIT),
        reasons.EARMARKED: Advice("events", "capacity is kept for it as it comes free", "wait"),
        reasons.RESIZE_PENDING: Advice(
            "Reconciling", "an edit waits for capacity", "wait: the old size holds"
        ),
        reasons.ENFORCED: Advice("Ready of a quota", "the quota limits its namespace", _INFORMS),
        reasons.FITS: Advice("Feasible of a quote", "it would be granted now", "reserve"),
        reasons.ANSWERED: Advice("Ready of a quote", "`Feasible` has the answer", "read it"),
        reasons.PLUGIN_FAILED: Advice("Active, Feasible", "a plugin has failed", _ADMIN),
        reasons.INTERNAL_ERROR: Advice("Stalled", "the operator failed to process it", _ADMIN),
        DELETED: Advice("the client's errors", "another client deleted the object", _AGAIN),
    }
)
