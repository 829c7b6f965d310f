"""A simulated cluster with a reservation in each state, objects of all kinds, and long and hostile names."""

from typing import Any

from tidelock.model.instants import format_instant
from tidelock.model.pods import BORROWS, claims_annotation
from webview.scene import Json, Scene

EKS = "ip-10-0-133-27.eu-central-1.compute.internal"
GKE = "gke-prod-pool-1-a1b2c3d4-x9z8"
AKS = "aks-nodepool1-12345678-vmss000001"
EVIL = "<img src=x onerror=alert(1)>"
"""Markup, in the amount of an invalid reservation, whose reason quotes it."""

_NODE = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_USE = {EKS: 71, GKE: 38, AKS: 12}  # percent of cpu
_ONE = {"cpu": "1", "memory": "2Gi"}
_HOUR = 3600


def varied() -> Scene:
    """Simulate a minute, after which each state that a reservation can have is shown once."""
    scene = Scene()
    for name, use in _USE.items():
        scene.node(name, _NODE, scene.level(use, use / 2, age=-50))
    _quotas(scene)
    _live(scene)
    _ended(scene)
    _group(scene)
    _schedule(scene)
    scene.stage.settle()
    for number in range(2):
        scene.store(f"train-worker-{number}")
    scene.clock.advance(60)
    _afterwards(scene)
    scene.stage.settle()
    return scene


def _live(scene: Scene) -> None:
    """Add reservations that wait, are planned, or have capacity."""

    def add(name: str, **spec: Any) -> None:
        fields: Json = {"resources": _ONE, "nodeName": EKS, "ttlSeconds": _HOUR}
        scene.reservation(name, **(fields | spec))

    add("active")
    add("planned", startAt=format_instant(scene.clock.now() + 2 * _HOUR))
    add("renewed", lease={"durationSeconds": 90})
    add("lapsed", lease={"durationSeconds": 30, "graceSeconds": 600})
    add("uncommitted", commit={"withinSeconds": 900})
    add("growing", nodeName=GKE)
    add("lent", borrowable=True, nodeName=GKE)
    add("reused", reuse="Always", nodeName=GKE)
    add("invalid-edit", nodeName=GKE)
    add("cordoned", nodeName=AKS)
    add("violated", nodeName=AKS, resources={"cpu": "12", "memory": "2Gi"})
    add("waiting", nodeName=None, resources={"cpu": "40"}, pendingDeadlineSeconds=300)


def _ended(scene: Scene) -> None:
    """Add reservations that have ended, or will have in a minute."""
    kept: Json = {"nodeName": GKE, "resources": _ONE, "retention": "Retain"}
    scene.reservation("expired", **{**kept, "ttlSeconds": 20})
    scene.reservation("not-committed", **kept, commit={"withinSeconds": 20})
    scene.reservation("rejected", {"cpu": "40"}, pendingDeadlineSeconds=0)
    scene.reservation("invalid", {"cpu": EVIL})
    scene.reservation("consumed", **kept)


def _afterwards(scene: Scene) -> None:
    """Edit objects, and add those that come later."""
    edited = {"generation": 2, "resourceVersion": "2"}
    common: Json = {"nodeName": GKE, "ttlSeconds": _HOUR, "meta": edited}
    scene.reservation("growing", **{**common, "resources": {"cpu": "30"}})
    scene.reservation("invalid-edit", **{**common, "resources": {"cpu": "much"}})
    scene.pod("sweep-0", {"cpu": "500m"}, GKE, annotations={BORROWS: "true"})
    scene.pod("reused", {"cpu": "500m"}, GKE, annotations=claims_annotation(["uid-reused"]))
    scene.pod("consumed", {"cpu": "500m"})
    scene.stage.settle()
    scene.node(AKS, _NODE, scene.level(_USE[AKS], _USE[AKS] / 2), unschedulable=True)
    scene.pod("intruder", {"cpu": "8"}, AKS, schedulerName="another-scheduler")


def _group(scene: Scene) -> None:
    membership = {"name": "train", "uid": "uid-train", "members": 2, "minMembers": 2}
    owners = [{"selector": {"matchLabels": {"job": "train"}}}]
    for number in range(2):
        common: Json = {"owners": owners, "group": membership, "retention": "Retain", "nodeName": EKS}
        scene.reservation(f"train-worker-{number}", _ONE, **common)
    kind = {"name": "worker", "count": 2, "owners": owners, "resources": _ONE}
    reason = {"reason": "Admitted", "message": "2 of 2 reservations held, 0 taken by their pods"}
    status = {
        "phase": "Active",
        "members": 2,
        "ready": 2,
        "consumed": 0,
        "activatedAt": format_instant(scene.clock.now()),
        "expiresAt": format_instant(scene.clock.now() + 600),
        "conditions": [_condition(scene, "Active", "True", reason)],
    }
    scene.group("train", {"members": [kind], "ttlSeconds": 600}, status)
    waits = {"reason": "InsufficientCapacity", "message": "large-worker-0: 0/3 nodes are available"}
    waiting = {"phase": "Pending", "members": 64, "conditions": [_condition(scene, "Active", "False", waits)]}
    many = {
        "members": [{**kind, "count": 64}],
        "ttlSeconds": 600,
        "minMembers": 48,
        "pendingDeadlineSeconds": 900,
    }
    scene.group("large", many, waiting)


def _schedule(scene: Scene) -> None:
    begins = format_instant(scene.clock.now() + 1800)
    owner = {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "ReservationSchedule",
        "name": "nightly",
        "uid": "uid-nightly",
        "controller": True,
    }
    window = "nightly-29933364"
    scene.reservation(window, _ONE, startAt=begins, nodeName=EKS, meta={"ownerReferences": [owner]})
    owners = [{"pod": {"name": "report"}}]
    spec = {
        "schedule": "30 * * * *",
        "timeZone": "Europe/Berlin",
        "durationSeconds": 600,
        "template": {"spec": {"resources": _ONE, "owners": owners}},
    }
    reason = {"reason": "Scheduled", "message": f"1 planned, the next one begins at {begins}"}
    status = {
        "nextStart": begins,
        "planned": 1,
        "active": 0,
        "windows": [{"name": window, "startAt": begins, "phase": "Planned"}],
        "conditions": [_condition(scene, "Ready", "True", reason)],
    }
    scene.schedule("nightly", spec, status)


def _quotas(scene: Scene) -> None:
    scene.quota(
        "team",
        {
            "hard": {"cpu": "80", "memory": "160Gi", "pods": "40"},
            "hardSeconds": {"cpu": "400000"},
            "maxAmounts": {"cpu": "40"},
            "maxLifeSeconds": 86400,
            "weight": 3,
        },
    )
    scene.quota("strict", {"hard": {"cpu": "2"}}, namespace="guests")
    scene.quota("broken", {"hard": {"cpu": EVIL}}, namespace="guests")


def _condition(scene: Scene, kind: str, status: str, reason: Json) -> Json:
    since = format_instant(scene.clock.now())
    return {"type": kind, "status": status, "lastTransitionTime": since, "observedGeneration": 0, **reason}
