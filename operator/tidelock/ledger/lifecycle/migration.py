"""The migration plan of a reservation for which pods may move: none, a published one, or one under way.

    no plan --found--> published --approved, or automatic--> under way --capacity--> the reservation is active
       ^                   |                                     |
       +-- no longer valid +---------------- given up -----------+

A token names the evictions, and not an attempt: the same plan has the same token, even after a failover. A
plan under way is stored before the first eviction, so another process continues it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from tidelock.model.api.migration import MayMove, MovePlan
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.meta import Key
from tidelock.model.reservation import Reservation

_TOKEN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Migration:
    """A pod to evict, and the node that has capacity for its replacement."""

    key: Key
    uid: str
    to: str


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Evictions that free capacity on a node.

    `begun_at`, in seconds since the epoch, is set once it is under way. `tried` has the UIDs of pods that
    were evicted by it, or may have been.
    """

    node: str
    token: str
    moves: tuple[Migration, ...]
    begun_at: float | None = None
    tried: frozenset[str] = frozenset()

    @property
    def under_way(self) -> bool:
        """Whether the pods of the plan are being evicted."""
        return self.begun_at is not None

    @property
    def text(self) -> str:
        """Describe which pods would leave the node, and for which other nodes."""
        moves = ", ".join(f"{move.key} to {move.to}" for move in self.moves)
        pods = "1 pod" if len(self.moves) == 1 else f"{len(self.moves)} pods"
        return f"{pods} of {self.node}: {moves}"

    def begun(self, now: float) -> "MigrationPlan":
        """Return the plan as one that is under way from now on."""
        return replace(self, begun_at=round(now, 3))

    def trying(self, uid: str) -> "MigrationPlan":
        """Return the plan with a pod that is being evicted."""
        return replace(self, tried=self.tried | {uid})

    def spared(self, uid: str) -> "MigrationPlan":
        """Return the plan without an eviction that did not happen."""
        return replace(self, tried=self.tried - {uid})


def token_of(reservation_uid: str, node_uid: str, pod_uids: Iterable[str]) -> str:
    """Return the token of the eviction of these pods from this node for this reservation."""
    text = "\n".join((reservation_uid, node_uid, *sorted(pod_uids)))
    return sha256(text.encode()).hexdigest()[:_TOKEN_DIGITS]


def migration_asked(reservation: Reservation) -> MayMove | None:
    """Return the part of a spec about pods that may move, if there is one."""
    return reservation.spec.may_move if reservation.spec is not None else None


def approved(reservation: Reservation, plan: MigrationPlan) -> bool:
    """Return whether the spec approves a plan."""
    asks = migration_asked(reservation)
    return asks is not None and (asks.automatically is True or asks.approve == plan.token)


def migration_is_stored(reservation: Reservation, plan: MigrationPlan) -> bool:
    """Return whether the stored status has the plan, with its beginning if it is under way."""
    stored, wanted = reservation.status.get("plan"), render_plan(plan)
    return isinstance(stored, dict) and all(
        stored.get(name) == wanted.get(name) for name in ("token", "begunAt")
    )


def read_plan(status: MovePlan | None) -> MigrationPlan | None:
    """Read a plan from a status. If it is under way, any of its pods may have been evicted."""
    if status is None:
        return None
    moves = tuple(Migration(Key(each.namespace, each.name), each.uid, each.to) for each in status.evictions)
    plan = MigrationPlan(status.node_name, status.token, moves)
    if status.begun_at is None:
        return plan
    return replace(plan, begun_at=from_datetime(status.begun_at), tried=frozenset(each.uid for each in moves))


def render_plan(plan: MigrationPlan) -> dict[str, object]:
    """Render a plan as plain JSON values."""
    status: dict[str, object] = {
        "token": plan.token,
        "nodeName": plan.node,
        "evictions": [
            {"namespace": move.key.namespace, "name": move.key.name, "uid": move.uid, "to": move.to}
            for move in plan.moves
        ],
    }
    return status if plan.begun_at is None else status | {"begunAt": format_instant(plan.begun_at)}
