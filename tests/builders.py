"""Builders of nodes, pods and Reservations. A test passes the fields that matter to it, the rest is ordinary.

Each `..._json` returns the object as the API server would, and its namesake decodes it as the operator does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.instants import format_instant
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.model.usage_annotations import (
    Measured,
    NodeLevel,
    PodMeans,
    PodUsage,
    Stat,
    WindowName,
    Windows,
    encode_node_level,
)
from tidelock.model.water_level import WaterLevel, decode_water_level

NAMESPACE = "shop"
SCHEDULER = "tidelock-scheduler"
NOW = 1_800_000_000.0
TOO_DEEP = 50_000
"""More nested levels of JSON than any decoder of Python supports: 1,000 in 3.12, and 10,000 in 3.13."""

_SPANS = ("15m", "1h", "1d")

Json = dict[str, Any]


def node_json(
    name: str = "node-a",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    cordoned: bool = False,
    ready: bool | None = None,
    images: Mapping[str, int] | None = None,
    features: Iterable[str] = (),
    version: int = 1,
    annotations: Mapping[str, str] | None = None,
    **extended: str,
) -> Json:
    """Build a node.

    Taints are written `key=value:Effect`, and other resources are keyword arguments. `images` are sizes in
    bytes by name.
    """
    conditions = [] if ready is None else [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": _metadata(name, "", uid, version)
        | {"labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"unschedulable": cordoned, "taints": [_taint(text) for text in taints]},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **extended},
            "conditions": conditions,
            "images": [{"names": [name], "sizeBytes": size} for name, size in (images or {}).items()],
            "declaredFeatures": list(features),
        },
    }


def node(name: str = "node-a", **fields: Any) -> Node:
    return decode_node(encode(node_json(name, **fields)))


def pod_json(
    name: str = "web-0",
    *,
    requests: Mapping[str, str] | None = None,
    namespace: str = NAMESPACE,
    node_name: str = "",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    controller: str = "",
    phase: str = "",
    deleted: bool = False,
    scheduler: str = SCHEDULER,
    version: int = 1,
    status: Mapping[str, Any] | None = None,
    limits: Mapping[str, str] | None = None,
    bound_at: float | None = None,
    created: float | None = None,
    **spec: Any,
) -> Json:
    """Build a pod with one container. `controller` is written `apps/v1/StatefulSet/web`."""
    metadata = _metadata(name, namespace, uid, version) | {
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if controller:
        api_version, kind, owner = controller.rsplit("/", 2)
        metadata["ownerReferences"] = [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": owner,
                "uid": f"uid-{owner}",
                "controller": True,
            }
        ]
    if deleted:
        metadata["deletionTimestamp"] = format_instant(NOW)
    if created is not None:
        metadata["creationTimestamp"] = format_instant(created)
    container = {
        "name": "main",
        "resources": {
            "requests": dict({"cpu": "1"} if requests is None else requests),
            "limits": dict(limits or {}),
        },
    }
    if bound_at is not None:
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_instant(bound_at)}
        status = {"conditions": [scheduled], **(status or {})}
    return {
        "metadata": metadata,
        "spec": {"nodeName": node_name, "schedulerName": scheduler, "containers": [container], **spec},
        "status": {"phase": phase, **(status or {})},
    }


def pod(name: str = "web-0", **fields: Any) -> Pod:
    return decode_pod(encode(pod_json(name, **fields)))


def reservation_json(
    name: str = "lock",
    *,
    namespace: str = NAMESPACE,
    owner: str = "web-0",
    uid: str = "",
    generation: int = 1,
    version: int = 1,
    created: float = NOW,
    status: Json | None = None,
    annotations: Mapping[str, str] | None = None,
    deleted: bool = False,
    writes: Sequence[Json] = (),
    **spec: Any,
) -> Json:
    """Build a Reservation of one cpu for a pod for ten minutes. None removes a field from the spec.

    `writes` are the managedFields, in which the API server records each write.
    """
    defaults = {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": owner}}], "ttlSeconds": 600}
    metadata = _metadata(name, namespace, uid, version) | {
        "generation": generation,
        "creationTimestamp": format_instant(created),
        "annotations": dict(annotations or {}),
        "managedFields": list(writes),
    }
    if deleted:
        metadata["deletionTimestamp"] = format_instant(NOW)
    wanted = {field: value for field, value in (defaults | spec).items() if value is not None}
    return {
        "metadata": metadata,
        "spec": wanted,
        "status": {"observedGeneration": -1} if status is None else status,
    }


def reservation(name: str = "lock", **fields: Any) -> Reservation:
    return decode_reservation(encode(reservation_json(name, **fields)))


def quota(name: str = "team", *, namespace: str = NAMESPACE, **spec: Any) -> ReservationQuota:
    """Build a ReservationQuota. Without fields it allows any priority, and preemption."""
    allowed = {"maxPriority": 1_000_000_000, "preemptionPolicy": "PreemptLowerPriority"}
    metadata = {"name": name, "namespace": namespace, "generation": 3}
    return decode_reservation_quota(encode({"metadata": metadata, "spec": spec or allowed}))


def level(
    cpu: float = 0,
    memory: float = 0,
    *,
    at: float = NOW,
    windows: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """Encode the annotation of a node's level: the same in all windows, or (cpu, memory) by window.

    The maximum and the 95th percentile equal the mean.
    """
    return encode_node_level(NodeLevel(at, _windows(windows or dict.fromkeys(_SPANS, (cpu, memory)))))


def usage(cpu: float = 0, memory: float = 0, *, at: float = NOW) -> PodUsage:
    """Build the use of one pod of a workload in cores and bytes, the same in all windows."""
    return PodUsage(at, _windows(dict.fromkeys(_SPANS, (cpu, memory))))


def pod_use(cpu: float = 0, memory: float = 0, *, at: float = NOW) -> PodMeans:
    """Build the use of a pod in cores and bytes, the same in all windows."""
    return PodMeans(at, (cpu, memory) * len(_SPANS))


def _windows(means: Mapping[str, tuple[float, float]]) -> Windows:
    laid = {
        name: {"cpu": Stat(*[cpu] * 3), "memory": Stat(*[memory] * 3)}
        for name, (cpu, memory) in means.items()
    }
    return msgspec.convert(laid, dict[WindowName, dict[Measured, Stat]])


def water_level(name: str = "all", *, created: float = NOW, **spec: Any) -> WaterLevel:
    """Build a WaterLevel that reads the metrics API."""
    metadata = {"name": name, "creationTimestamp": format_instant(created)}
    plain = {"metadata": metadata, "spec": {"source": {"metricsServer": {}}, **spec}}
    return decode_water_level(encode(plain))


def budget(
    name: str = "budget", *, allowed: int = 0, labels: Mapping[str, str] | None = None, **fields: Any
) -> PodDisruptionBudget:
    """Build a PodDisruptionBudget that allows a number of disruptions of the pods with these labels."""
    plain = {
        "metadata": _metadata(name, fields.get("namespace", NAMESPACE), "", 1),
        "spec": {} if labels is None else {"selector": {"matchLabels": dict(labels)}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": fields.get("disrupted", {})},
    }
    return msgspec.json.decode(encode(plain), type=PodDisruptionBudget)


def _metadata(name: str, namespace: str, uid: str, version: int) -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }


def _taint(text: str) -> Json:
    mark, effect = text.rsplit(":", 1)
    key, _, value = mark.partition("=")
    return {"key": key, "value": value, "effect": effect}


def encode(plain: Json) -> bytes:
    return json.dumps(plain).encode()
