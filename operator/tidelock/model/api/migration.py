"""Wire types of a reservation for which pods may be moved, and of the plan that is shown first."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import StatusWire, Subdomain, Timestamp, Uid, Wire

MOST_MOVED = 8
MigrationToken = Annotated[str, Field(min_length=1, max_length=64)]


class MayMove(Wire):
    """Search for a few pods to move, which frees capacity while the reservation waits without any."""

    max_pods: Annotated[int, Field(ge=1, le=MOST_MOVED)] = 3
    """Largest number of pods that may be evicted for the reservation, in total."""
    approve: MigrationToken | None = None
    """Token of the approved plan, as in status.plan.token. A plan with another token is not carried out."""
    automatically: bool | None = None
    """True: a plan is carried out without approval, once it is stored in the status."""


class PlannedMove(StatusWire):
    """A pod that the plan evicts."""

    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    name: Subdomain
    """Name of the pod."""
    uid: Uid
    """UID of the pod. A later pod of the same name is left alone."""
    to: Subdomain
    """Node with capacity for the replacement of the pod. This is a forecast: no capacity is held there."""


class MovePlan(StatusWire):
    """Evictions that free capacity for the reservation."""

    token: MigrationToken
    """Token that approves exactly these evictions. Another plan has another token."""
    node_name: Subdomain
    """Name of the node on which the evictions free capacity."""
    evictions: Annotated[list[PlannedMove], Field(max_length=MOST_MOVED)]
    """Pods to evict, in this order."""
    begun_at: Timestamp | None = None
    """Time at which the plan was approved and its capacity set aside. Absent while the plan is only shown."""
