"""Builders of claims, volumes and related objects, as the API server would return them."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from builders import NAMESPACE, NOW, Json, encode
from tidelock.cluster.lister import Lister
from tidelock.cluster.objects import Objects
from tidelock.model.instants import format_instant
from tidelock.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

T = TypeVar("T")

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"

_LISTERS = {
    PersistentVolumeClaim: "persistent_volume_claims",
    PersistentVolume: "persistent_volumes",
    StorageClass: "storage_classes",
    CsiNode: "csi_nodes",
    CsiDriver: "csi_drivers",
    CsiStorageCapacity: "csi_storage_capacities",
    VolumeAttachment: "volume_attachments",
}

Stored = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
)


def put(objects: Objects, *things: Stored) -> None:
    """Add these objects to the listers, or replace their earlier versions."""
    for each in things:
        lister: Lister[Any] = getattr(objects, _LISTERS[type(each)])
        lister.upsert(lister.get(each.meta.name, each.meta.namespace), each)


def drop(objects: Objects, *things: Stored) -> None:
    """Remove these objects from the listers."""
    for each in things:
        lister: Lister[Any] = getattr(objects, _LISTERS[type(each)])
        lister.remove(lister.get(each.meta.name, each.meta.namespace))


def using(*claims: str) -> Json:
    """Build the part of a pod's spec that uses claims."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def on_nodes(*names: str) -> Json:
    """Build a volume's affinity to nodes with these host names."""
    return labelled("kubernetes.io/hostname", *names)


def labelled(label: str, *values: str) -> Json:
    """Build a volume's affinity to nodes with one of these values of a label."""
    wanted = {"key": label, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def claim(
    name: str = "data",
    *,
    namespace: str = NAMESPACE,
    volume: str = "",
    completed: bool | None = None,
    storage_class: str | None = "local",
    size: str | None = "1Gi",
    modes: Iterable[str] = ("ReadWriteOnce",),
    selected_node: str = "",
    phase: str = "",
    owner: str = "",
    deleted: bool = False,
    version: int = 1,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Build a claim. It is bound if it has a volume, unless its binding is not `completed`."""
    annotations = {}
    if volume if completed is None else completed:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if selected_node:
        annotations["volume.kubernetes.io/selected-node"] = selected_node
    metadata = _metadata(name, namespace, version, deleted=deleted) | {"annotations": annotations}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    wanted = {"requests": {} if size is None else {"storage": size}}
    return _decode(
        PersistentVolumeClaim,
        metadata=metadata,
        spec={
            "accessModes": list(modes),
            "resources": wanted,
            "storageClassName": storage_class,
            "volumeName": volume,
            **spec,
        },
        status={"phase": phase or ("Bound" if volume else "Pending")},
    )


def volume(
    name: str = "disk",
    *,
    capacity: str = "1Gi",
    storage_class: str = "local",
    modes: Iterable[str] = ("ReadWriteOnce",),
    affinity: Json | None = None,
    claimed_by: str = "",
    claim_uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    phase: str = "Available",
    handle: str = "",
    driver: str = DRIVER,
    deleted: bool = False,
    version: int = 1,
    **spec: Any,
) -> PersistentVolume:
    """Build a volume, which is of a CSI driver if it has a handle, and may be reserved for a claim."""
    if claimed_by:
        uid = f"uid-{claimed_by}" if claim_uid is None else claim_uid
        spec["claimRef"] = {"namespace": NAMESPACE, "name": claimed_by, "uid": uid}
    if handle:
        spec["csi"] = {"driver": driver, "volumeHandle": handle}
    return _decode(
        PersistentVolume,
        metadata=_metadata(name, "", version, deleted=deleted) | {"labels": dict(labels or {})},
        spec={
            "accessModes": list(modes),
            "capacity": {"storage": capacity},
            "storageClassName": storage_class,
            "nodeAffinity": affinity,
            **spec,
        },
        status={"phase": phase},
    )


def storage_class(
    name: str = "local",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
    topologies: Iterable[Mapping[str, list[str]]] = (),
) -> StorageClass:
    """Build a storage class. A topology maps labels to their allowed values."""
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
        for term in topologies
    ]
    return _decode(
        StorageClass,
        metadata=_metadata(name, "", 1),
        provisioner=provisioner,
        volumeBindingMode=mode,
        allowedTopologies=terms,
    )


def csi_node(name: str = "node-a", **limits: int | None) -> CsiNode:
    """Build a node's drivers with their limits. Dots of a driver's name are written as underscores."""
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name, "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    return _decode(CsiNode, metadata=_metadata(name, "", 1), spec={"drivers": drivers})


def csi_driver(name: str = DRIVER, *, storage_capacity: bool = True, required: bool = False) -> CsiDriver:
    spec = {"storageCapacity": storage_capacity, "preventPodSchedulingIfMissing": required}
    return _decode(CsiDriver, metadata=_metadata(name, "", 1), spec=spec)


def storage_capacity(
    name: str, capacity: str | None, *, storage_class: str = "fast", topology: Json | None = None, **rest: Any
) -> CsiStorageCapacity:
    return _decode(
        CsiStorageCapacity,
        metadata=_metadata(name, "kube-system", 1),
        storageClassName=storage_class,
        capacity=capacity,
        nodeTopology=topology,
        **rest,
    )


def attachment(name: str, volume: str, node: str, *, driver: str = DRIVER) -> VolumeAttachment:
    return _decode(
        VolumeAttachment,
        metadata=_metadata(name, "", 1),
        spec={"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    )


def _metadata(name: str, namespace: str, version: int, *, deleted: bool = False) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return metadata | ({"deletionTimestamp": format_instant(NOW)} if deleted else {})


def _decode(kind: type[T], **plain: Any) -> T:
    return msgspec.json.decode(encode(plain), type=kind)
