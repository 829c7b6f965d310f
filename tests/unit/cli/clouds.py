"""A cluster with the long names that cloud providers give to nodes, and reservations on these."""

from builders import NOW, Json, node_json, reservation_json
from tidelock.cli.cluster_state import ClusterState
from tidelock.model.instants import format_instant
from unit.cli.scenes import PODS, active_json, consumed_json, pending_json, world

EKS = [f"ip-10-0-133-{number}.eu-central-1.compute.internal" for number in (27, 8, 114)]
GKE = [f"gke-prod-pool-1-a1b2c3d4-{suffix}" for suffix in ("x9z8", "k2p7")]
AKS = [f"aks-nodepool1-12345678-vmss00000{number}" for number in (1, 2, 3)]
NAMES = (*EKS, *GKE, *AKS)
WIDTHS = (80, 120, 200)
"""Cells of a line on common terminals."""


def planned_json(name: str, node: str, start: float, end: float, cpu: str = "1") -> Json:
    """Return a reservation whose window begins later."""
    status = {
        "observedGeneration": 1,
        "phase": "Planned",
        "nodeName": node,
        "nodeUID": f"uid-{node}",
        "expiresAt": format_instant(end),
        "resources": {"cpu": cpu},
        "owner": f"pod/{name}",
        "conditions": [
            {
                "type": "Active",
                "status": "False",
                "reason": "Planned",
                "message": f"cpu {cpu} on {node} from {format_instant(start)}",
                "lastTransitionTime": format_instant(NOW),
            }
        ],
    }
    return reservation_json(
        name,
        owner=name,
        resources={"cpu": cpu},
        startAt=format_instant(start),
        expireAt=format_instant(end),
        ttlSeconds=None,
        status=status,
    )


LOCKS = (
    active_json("checkout-7f9c-0", EKS[0], owner="checkout-7f9c-0"),
    active_json("batch", AKS[0], cpu="500m", owner="batch"),
    pending_json("nightly-report"),
    planned_json("midnight", GKE[0], NOW + 3600, NOW + 7200, cpu="1500m"),
    consumed_json("paid"),
)
_CPU = ("4", "2", "8", "16", "16", "3900m", "3900m", "2")


def cloud_world() -> ClusterState:
    """Return eight nodes: one is cordoned, two have a taint, and the others have little or much capacity."""
    nodes = tuple(
        node_json(
            name,
            cpu=cpu,
            cordoned=name == EKS[1],
            taints=["gpu=yes:NoSchedule"] if name in GKE else [],
        )
        for name, cpu in zip(NAMES, _CPU, strict=True)
    )
    return world(nodes=nodes, pods=PODS[:1], reservations=LOCKS)
