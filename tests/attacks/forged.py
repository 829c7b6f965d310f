"""Statuses that are forged to take capacity or to end the operator, by an account that may restore them."""

from collections.abc import Mapping

from attacks.tenant import Tenant
from cluster.api import Api, Manifest
from cluster.live import Live, Lock, Node

LONG_AGO, NEVER, ODD = "1970-01-01T00:00:01Z", "9999-12-31T23:59:59.9999999Z", "2035-01-01t00:00:00z"
_AT = {
    "type": "Active",
    "status": "True",
    "reason": "Admitted",
    "message": "",
    "lastTransitionTime": LONG_AGO,
}


def of_reservation(node: Node) -> Mapping[str, Manifest]:
    """Return statuses that would hold a node's four cores, or that are difficult to read."""
    held = {"phase": "Active", "nodeName": node.name, "nodeUID": node.uid, "resources": {"cpu": "4"}}
    active = held | {"activatedAt": LONG_AGO, "conditions": [_AT], "observedGeneration": 1, "epoch": 1}
    lease = {"renewedAt": LONG_AGO, "renewBy": NEVER, "renewTime": NEVER, "lostAt": NEVER}
    commit = {"dueAt": NEVER, "committedAt": LONG_AGO, "token": "x" * 64, "holds": 9}
    plan = {"begunAt": NEVER, "token": "a", "evictions": [], "nodeName": node.name}
    return {
        "active for long": active | {"expiresAt": NEVER},
        "of a leadership to come": active | {"epoch": 2**53 - 1, "expiresAt": ODD},
        "more than all nodes have": active | {"resources": {"cpu": "999T", "nvidia.com/gpu": "9"}},
        "leased and committed": active | {"lease": lease, "commit": commit},
        "of a pod that is not there": held | {"phase": "Bound", "boundPod": {"name": "a", "uid": "b"}},
        "finished in the last year": {"phase": "Expired", "finishedAt": NEVER, "observedGeneration": -1},
        "first in line": {
            "phase": "Pending",
            "queue": {"position": 1, "place": "1", "estimatedStart": ODD, "length": 1},
        },
        "planned": {"phase": "Planned", "plan": plan},
    }


def forge(api: Api, live: Live, status: Manifest) -> None:
    """Overwrite a status."""
    api.merge(f"{live.path}/status", {"status": status})


def attack(tenant: Tenant, node: Node) -> list[Lock]:
    """Create Reservations that wait for a full node, and forge a status of each as an administrator."""
    forger = tenant.admin
    reservations = []
    for number, status in enumerate(of_reservation(node).values()):
        reservation = tenant.reservation(
            f"forged-{number}", "4", node, pendingDeadlineSeconds=3600, retention="Retain"
        )
        reservation.until_condition("Active", "False", "InsufficientCapacity")
        forge(forger, reservation, status)
        reservations.append(reservation)
    for made in (tenant.group(members=[{"name": "worker", "resources": {"cpu": "9"}}]), tenant.schedule()):
        made.until(lambda found: found.get("status"), "have a status")
        status = {"finishedAt": ODD, "phase": "Active", "active": 9} if "group" in made.path else {}
        forge(forger, made, status or {"lastStart": ODD, "windows": [{"name": "a", "startAt": ODD}]})
    return reservations
