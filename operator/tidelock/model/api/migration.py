"""Wire types of a lock for which other pods may be moved, and of the plan that is shown before any is."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import StatusWire, Subdomain, Timestamp, Uid, Wire

MOST_MOVED = 8
MigrationToken = Annotated[str, Field(min_length=1, max_length=64)]


class MayMove(Wire):
    """Has the operator look for a few pods whose move makes room, while the lock waits and there is none."""

    max_pods: Annotated[int, Field(ge=1, le=MOST_MOVED)] = 3
    """How many pods may be evicted for the lock, in all."""
    approve: MigrationToken | None = None
    """Has the plan with this token in status.plan.token be carried out; another one is not."""
    automatically: bool | None = None
    """True: a plan is carried out, without being approved, once it is stored in the status."""


class PlannedMove(StatusWire):
    """A pod that is to be evicted."""

    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    name: Subdomain
    """Name of the pod."""
    uid: Uid
    """UID of the pod; a later pod of the same name is left alone."""
    to: Subdomain
    """Node that has room for its replacement: a forecast, which holds nothing there."""


class MovePlan(StatusWire):
    """The evictions that make room for the lock."""

    token: MigrationToken
    """What approves these evictions; others have another one."""
    node_name: Subdomain
    """Node on which they make room."""
    evictions: Annotated[list[PlannedMove], Field(max_length=MOST_MOVED)]
    """The pods that are to be evicted, in this order."""
    begun_at: Timestamp | None = None
    """When the plan was approved and its room set aside; absent while it is only shown."""
