"""What is watched, and where it goes."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from tidelock.kube.client import (
    NODES,
    PODS,
    RESERVATIONQUOTAS,
    RESERVATIONS,
    RESOURCEQUOTAS,
    WATERLEVELS,
    KubeClient,
    Resource,
)
from tidelock.kube.watch import Reflector, Sink
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.groups import decode_water_level
from tidelock.model.limits import decode_reservation_quota, decode_resource_quota
from tidelock.model.locks import decode_reservation
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.raw import keeping_raw
from tidelock.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tidelock.model.workloads import Service, Workload
from tidelock.scheduler.feed import Feed

_STORAGE = "storage.k8s.io"

# What only plugins read, by the field of Objects that holds it.
OTHERS: dict[str, tuple[Resource, type]] = {
    "namespaces": (Resource("", "v1", "namespaces", "Namespace", namespaced=False), Namespace),
    "services": (Resource("", "v1", "services", "Service"), Service),
    "replication_controllers": (
        Resource("", "v1", "replicationcontrollers", "ReplicationController"),
        Service,
    ),
    "replica_sets": (Resource("apps", "v1", "replicasets", "ReplicaSet"), Workload),
    "stateful_sets": (Resource("apps", "v1", "statefulsets", "StatefulSet"), Workload),
    "pod_disruption_budgets": (
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        PodDisruptionBudget,
    ),
    "persistent_volume_claims": (
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        PersistentVolumeClaim,
    ),
    "persistent_volumes": (
        Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
        PersistentVolume,
    ),
    "storage_classes": (
        Resource(_STORAGE, "v1", "storageclasses", "StorageClass", namespaced=False),
        StorageClass,
    ),
    "csi_nodes": (Resource(_STORAGE, "v1", "csinodes", "CSINode", namespaced=False), CsiNode),
    "csi_drivers": (Resource(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False), CsiDriver),
    "csi_storage_capacities": (
        Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
        CsiStorageCapacity,
    ),
    "volume_attachments": (
        Resource(_STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
        VolumeAttachment,
    ),
}

# The same of Tidelock's own resources and of what is read for them, with how it is decoded.
OWN: dict[str, tuple[Resource, Callable[[bytes | msgspec.Raw], Any]]] = {
    "water_levels": (WATERLEVELS, decode_water_level),
    "reservation_quotas": (RESERVATIONQUOTAS, decode_reservation_quota),
    "resource_quotas": (RESOURCEQUOTAS, decode_resource_quota),
}


def reflectors(
    client: KubeClient, feed: Feed, pods: Sink[Pod], rng: Random, *, whole: bool
) -> Iterator[Reflector[Any]]:
    """Make a reflector for every resource that decisions need; `whole` pods and nodes keep their JSON.

    `pods` passes pods on to the feed, or is its own sink for them.
    """
    to_node, to_pod = (
        (keeping_raw(decode_node), keeping_raw(decode_pod)) if whole else (decode_node, decode_pod)
    )
    yield Reflector(client, NODES, to_node, feed.nodes, rng=rng)
    yield Reflector(client, PODS, to_pod, pods, rng=rng)
    yield Reflector(client, RESERVATIONS, decode_reservation, feed.reservations, rng=rng)
    for name, sink in feed.others.items():
        resource = (OWN if name in OWN else OTHERS)[name][0]
        # A cluster may be older than the newest of Tidelock's own resources, which then limits nothing.
        optional = resource is RESERVATIONQUOTAS
        yield Reflector(client, resource, decoder_of(name), sink, rng=rng, optional=optional)


def decoder_of(name: str) -> Callable[[bytes | msgspec.Raw], Any]:
    """Tell how objects of OTHERS or OWN are decoded."""
    return OWN[name][1] if name in OWN else msgspec.json.Decoder(OTHERS[name][1]).decode
