"""Answers to quotes, as the operator writes them at `NOW`."""

from typing import Any

from builders import NOW, Json
from tidelock.model.instants import format_instant
from unit.cli.scenes import condition


def status_json(feasible: str, reason: str, message: str, **fields: Any) -> Json:
    """Return an answer that was written at NOW."""
    return {
        "observedGeneration": 1,
        "answeredAt": format_instant(NOW),
        "validUntil": format_instant(NOW + 10),
        "count": 0,
        "conditions": [condition("Feasible", feasible, reason, message)],
        **fields,
    }


FITS = status_json("True", "Fits", "fits on node-a now, and 3 of it in all", nodeName="node-a", count=3)
REFUSED = (
    "0/4 nodes are available: 4 Insufficient cpu. node-a: cpu 9 needed, 4 free, 2 reserved by shop/batch."
)
LATER = status_json(
    "False",
    "InsufficientCapacity",
    REFUSED,
    fitsAt=format_instant(NOW + 1776),
    earliestStart=format_instant(NOW + 600),
    blockers={
        "reasons": [{"reason": "Insufficient cpu", "nodes": 4}],
        "nodeName": "node-a",
        "shortfall": {"cpu": "5", "memory": "1Gi"},
        "locks": [
            {
                "namespace": "shop",
                "name": "batch",
                "resources": {"cpu": "2"},
                "expiresAt": format_instant(NOW + 600),
            },
            {"namespace": "shop", "name": "endless", "resources": {"memory": "1Gi"}},
        ],
        "pods": [{"namespace": "shop", "name": "db-0", "resources": {"cpu": "3"}}],
    },
)
NEVER = status_json("False", "NoMatchingNode", "0/4 nodes are available: 4 node(s) didn't match.")
UNKNOWN = status_json("Unknown", "PluginFailed", "NodeAffinity: Filter: boom")


def quote_json(status: Json) -> Json:
    """Return a quote as the API server stores it."""
    metadata = {"name": "quote-x7", "namespace": "shop", "uid": "u", "generation": 1, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"resources": {"cpu": "1"}}, "status": status}
