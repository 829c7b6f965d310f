"""How a lock stands for which pods may be moved: with no plan, with one that is shown, or with one under way.

    no plan --found--> shown --approved, or automatically--> under way --room--> the lock is active
       ^                 |                                       |
       +-- holds no more +----------------- given up ------------+

A token names the evictions themselves, and no attempt: whoever plans the same, be it after a failover, gives
it the same token. What is begun is stored before anybody is evicted, so a next process goes on with it.
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
    """A pod that is to be evicted, and the node that has room for its replacement."""

    key: Key
    uid: str
    to: str


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Evictions that make room on a node.

    `begun_at`, in seconds since the epoch, is set once it is under way. `tried` are the uids of pods that
    were evicted by it, or may have been.
    """

    node: str
    token: str
    moves: tuple[Migration, ...]
    begun_at: float | None = None
    tried: frozenset[str] = frozenset()

    @property
    def under_way(self) -> bool:
        """Whether its pods are being evicted."""
        return self.begun_at is not None

    @property
    def text(self) -> str:
        """Say who would leave the node for which other."""
        moves = ", ".join(f"{move.key} to {move.to}" for move in self.moves)
        pods = "1 pod" if len(self.moves) == 1 else f"{len(self.moves)} pods"
        return f"{pods} of {self.node}: {moves}"

    def begun(self, now: float) -> "MigrationPlan":
        """Have it be under way from now on."""
        return replace(self, begun_at=round(now, 3))

    def trying(self, uid: str) -> "MigrationPlan":
        """Note that a pod is being evicted."""
        return replace(self, tried=self.tried | {uid})

    def spared(self, uid: str) -> "MigrationPlan":
        """Note that a pod was not evicted after all."""
        return replace(self, tried=self.tried - {uid})


def token_of(reservation_uid: str, node_uid: str, pod_uids: Iterable[str]) -> str:
    """Name the eviction of these pods from this node for this lock."""
    text = "\n".join((reservation_uid, node_uid, *sorted(pod_uids)))
    return sha256(text.encode()).hexdigest()[:_TOKEN_DIGITS]


def migration_asked(reservation: Reservation) -> MayMove | None:
    """Give what a spec says of pods that may be moved, if anything."""
    return reservation.spec.may_move if reservation.spec is not None else None


def approved(reservation: Reservation, plan: MigrationPlan) -> bool:
    """Whether the spec has this plan be carried out."""
    asks = migration_asked(reservation)
    return asks is not None and (asks.automatically is True or asks.approve == plan.token)


def migration_is_stored(reservation: Reservation, plan: MigrationPlan) -> bool:
    """Whether the stored status tells of the plan, and that it is under way if it is."""
    told, wanted = reservation.status.get("plan"), render_plan(plan)
    return isinstance(told, dict) and all(told.get(name) == wanted.get(name) for name in ("token", "begunAt"))


def read_plan(status: MovePlan | None) -> MigrationPlan | None:
    """Read a plan from a status; of one that is under way, any pod may have been evicted."""
    if status is None:
        return None
    moves = tuple(Migration(Key(each.namespace, each.name), each.uid, each.to) for each in status.evictions)
    plan = MigrationPlan(status.node_name, status.token, moves)
    if status.begun_at is None:
        return plan
    return replace(plan, begun_at=from_datetime(status.begun_at), tried=frozenset(each.uid for each in moves))


def render_plan(plan: MigrationPlan) -> dict[str, object]:
    """Write a plan as plain JSON values."""
    told: dict[str, object] = {
        "token": plan.token,
        "nodeName": plan.node,
        "evictions": [
            {"namespace": move.key.namespace, "name": move.key.name, "uid": move.uid, "to": move.to}
            for move in plan.moves
        ],
    }
    return told if plan.begun_at is None else told | {"begunAt": format_instant(plan.begun_at)}
