"""A small cluster with objects of every kind, as the API server would list them at `NOW`."""

from typing import Any

import msgspec

from builders import NOW, Json, encode, level, node_json, pod_json, reservation_json
from tidelock.cli.cluster_state import ClusterState
from tidelock.model.instants import format_instant
from tidelock.model.reservation import Reservation, decode_reservation


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_instant(NOW),
    }


def active_json(
    name: str,
    node: str = "node-a",
    *,
    cpu: str = "2",
    owner: str = "other",
    ends: float = NOW + 600,
    **fields: Any,
) -> Json:
    """Return a reservation that holds cpu and 1Gi on a node."""
    room = {"cpu": cpu, "memory": "1Gi"}
    told = f"cpu {cpu}, memory 1Gi held on {node}"
    status = {
        "observedGeneration": 1,
        "phase": "Active",
        "nodeName": node,
        "nodeUID": f"uid-{node}",
        "activatedAt": format_instant(NOW),
        "expiresAt": format_instant(ends),
        "resources": room,
        "owner": f"pod/{owner}",
        "conditions": [
            condition("Active", "True", "Admitted", told),
            condition("Ready", "True", "Held", told),
        ],
    }
    return reservation_json(name, owner=owner, resources=room, status=status, **fields)


def prepared_json(name: str = "hold", token: str = "", *, committed: bool = False) -> Json:
    """Return a two-phase reservation that holds capacity, with this token in its spec."""
    hold = f"uid-{name}.1"
    plain = active_json(name, commit={"withinSeconds": 30} | ({"token": token} if token else {}))
    due = format_instant(NOW + 30)
    plain["status"]["commit"] = {"holds": 1, "token": hold, "dueAt": due}
    by = f"to be committed with spec.commit.token {hold} by {due}"
    reason, told = ("TokenMismatch", f"spec.commit.token {token} is of another hold; {by}")
    if committed:
        reason, told = "Committed", f"committed at {format_instant(NOW)}"
    elif token in ("", hold):
        reason, told = "AwaitingCommit", by
    plain["status"]["conditions"].append(condition("Committed", str(committed), reason, told))
    return plain


def expired_json(name: str = "hold") -> Json:
    """Return the tombstone of a two-phase reservation that was not committed."""
    plain = prepared_json(name)
    told = "its time was over"
    plain["status"] |= {
        "phase": "Expired",
        "conditions": [
            condition("Active", "False", "NotCommitted", told),
            condition("Expired", "True", "NotCommitted", told),
            condition("Committed", "False", "NotCommitted", told),
        ],
    }
    return plain


def pending_json(name: str = "large", reason: str = "InsufficientCapacity", **fields: Any) -> Json:
    """Return a reservation that waits for capacity."""
    told = "0/4 nodes are available: 4 Insufficient cpu. node-a: cpu 9 needed, 4 free."
    status = {
        "observedGeneration": 1,
        "phase": "Pending",
        "resources": {"cpu": "9"},
        "owner": "pod/large",
        "conditions": [
            condition("Active", "False", reason, told),
            condition("Ready", "False", reason, told),
            condition("Reconciling", "True", reason, told),
        ],
    }
    return reservation_json(name, owner="large", resources={"cpu": "9"}, status=status, **fields)


def consumed_json(name: str = "used", **fields: Any) -> Json:
    """Return the tombstone of a reservation that its owner consumed after two minutes."""
    status = {
        "observedGeneration": 1,
        "phase": "Consumed",
        "nodeName": "node-b",
        "activatedAt": format_instant(NOW - 600),
        "expiresAt": format_instant(NOW),
        "finishedAt": format_instant(NOW - 480),
        "resources": {"cpu": "1"},
        "owner": "pod/used",
        "conditions": [condition("Active", "False", "Consumed", "pod shop/used is bound to node-b")],
    }
    return reservation_json(
        name, owner="used", status=status, retention="Retain", created=NOW - 600, **fields
    )


def lock(plain: Json) -> Reservation:
    return decode_reservation(encode(plain))


def raw(*objects: Json) -> list[msgspec.Raw]:
    return [msgspec.Raw(encode(each)) for each in objects]


NODES = (
    node_json("node-a", cpu="4", annotations={"tidelock.dev/water-level": level(41, 63)}),
    node_json("node-b", cpu="2", cordoned=True),
    node_json("node-c", cpu="4", taints=["gpu=yes:NoSchedule"]),
    node_json("node-d", cpu="8", annotations={"tidelock.dev/water-level": level(12, 20, at=NOW - 3600)}),
)
PODS = (
    pod_json(
        "web-0",
        requests={"cpu": "3", "memory": "1Gi"},
        status={
            "conditions": [
                condition("PodScheduled", "False", "Unschedulable", "0/4 nodes are available: ...")
            ]
        },
    ),
    pod_json("resident", requests={"cpu": "6"}, node_name="node-d"),
)
LOCKS = (active_json("batch"), pending_json(), consumed_json())


def world(
    *more: Json,
    nodes: tuple[Json, ...] = NODES,
    pods: tuple[Json, ...] = PODS,
    reservations: tuple[Json, ...] = LOCKS,
) -> ClusterState:
    """Return that cluster with `more` pods."""
    return ClusterState(
        {"nodes": raw(*nodes), "pods": raw(*pods, *more), "reservations": raw(*reservations)}, ()
    )
