"""The watched resources and their event handlers."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tidelock.cluster.lister import Lister
from tidelock.kube.client import (
    NODES,
    PODGROUPS,
    PODS,
    RESERVATIONQUOTAS,
    RESERVATIONS,
    RESOURCEQUOTAS,
    WATERLEVELS,
    ApiResource,
)
from tidelock.kube.errors import ApiError, Forbidden, NotFound
from tidelock.kube.watch import EventHandler, MakeReflector, Reflector
from tidelock.model.budgets import decode_budget
from tidelock.model.devices import decode_device_class, decode_slice, decode_taint_rule
from tidelock.model.namespaces import decode_namespace
from tidelock.model.nodes import decode_node
from tidelock.model.pod_group import decode_pod_group
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quotas import decode_reservation_quota, decode_resource_quota
from tidelock.model.raw import keeping_raw
from tidelock.model.reservation import decode_reservation
from tidelock.model.resource_claims import decode_resource_claim, decode_resource_claim_template
from tidelock.model.storage import (
    decode_attachment,
    decode_capacity,
    decode_claim,
    decode_csi_driver,
    decode_csi_node,
    decode_storage_class,
    decode_volume,
)
from tidelock.model.unusable import unusable
from tidelock.model.water_level import decode_water_level
from tidelock.model.workloads import decode_service, decode_workload
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.informers.event_handlers import EventHandlers

_STORAGE = "storage.k8s.io"
_DEVICES = "resource.k8s.io"

Decode = Callable[[bytes | msgspec.Raw], Any]

# Resources that only plugins read, by their field of Objects, with their decoders.
OTHERS: dict[str, tuple[ApiResource, Decode]] = {
    "namespaces": (ApiResource("", "v1", "namespaces", "Namespace", namespaced=False), decode_namespace),
    "services": (ApiResource("", "v1", "services", "Service"), decode_service),
    "replication_controllers": (
        ApiResource("", "v1", "replicationcontrollers", "ReplicationController"),
        decode_service,
    ),
    "replica_sets": (ApiResource("apps", "v1", "replicasets", "ReplicaSet"), decode_workload),
    "stateful_sets": (ApiResource("apps", "v1", "statefulsets", "StatefulSet"), decode_workload),
    "pod_disruption_budgets": (
        ApiResource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        decode_budget,
    ),
    "persistent_volume_claims": (
        ApiResource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        decode_claim,
    ),
    "persistent_volumes": (
        ApiResource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
        decode_volume,
    ),
    "storage_classes": (
        ApiResource(_STORAGE, "v1", "storageclasses", "StorageClass", namespaced=False),
        decode_storage_class,
    ),
    "csi_nodes": (ApiResource(_STORAGE, "v1", "csinodes", "CSINode", namespaced=False), decode_csi_node),
    "csi_drivers": (
        ApiResource(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False),
        decode_csi_driver,
    ),
    "csi_storage_capacities": (
        ApiResource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
        decode_capacity,
    ),
    "volume_attachments": (
        ApiResource(_STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
        decode_attachment,
    ),
    "resource_claims": (
        ApiResource(_DEVICES, "v1", "resourceclaims", "ResourceClaim"),
        decode_resource_claim,
    ),
    "resource_claim_templates": (
        ApiResource(_DEVICES, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
        decode_resource_claim_template,
    ),
    "resource_slices": (
        ApiResource(_DEVICES, "v1", "resourceslices", "ResourceSlice", namespaced=False),
        decode_slice,
    ),
    "device_classes": (
        ApiResource(_DEVICES, "v1", "deviceclasses", "DeviceClass", namespaced=False),
        decode_device_class,
    ),
    "device_taint_rules": (
        ApiResource(_DEVICES, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False),
        decode_taint_rule,
    ),
}

# The same for Tidelock's own resources and for those that they need.
OWN: dict[str, tuple[ApiResource, Decode]] = {
    "water_levels": (WATERLEVELS, decode_water_level),
    "reservation_quotas": (RESERVATIONQUOTAS, decode_reservation_quota),
    "resource_quotas": (RESOURCEQUOTAS, decode_resource_quota),
}

# The same for features that profiles may have.
OPTIONAL: dict[str, tuple[ApiResource, Decode]] = {"pod_groups": (PODGROUPS, decode_pod_group)}

_OF_DEVICES = [resource for resource, _ in OTHERS.values() if resource.group == _DEVICES]

# A cluster may lack the newest of Tidelock's own resources. Without ReservationQuotas nothing is limited, but
# the decisions wait for the right to read existing ones. Without WaterLevels pods are scored by their
# requests, so nothing waits for them. PodGroups are served with the feature gate GenericWorkload alone.
# Before Kubernetes 1.34 there are no claims to devices, and before 1.37 no rules about them. Pods with claims
# wait without the right to read these.
_ABSENT_IF: dict[ApiResource, tuple[type[ApiError], ...]] = {
    RESERVATIONQUOTAS: (NotFound,),
    WATERLEVELS: (NotFound, Forbidden),
    PODGROUPS: (NotFound,),
    **dict.fromkeys(_OF_DEVICES, (NotFound, Forbidden)),
}
_EXPECTED: dict[ApiResource, tuple[type[ApiError], ...]] = dict.fromkeys(_OF_DEVICES, (NotFound,))
_ADVICE: dict[ApiResource, dict[type[ApiError], str]] = {
    PODGROUPS: {NotFound: "run Kubernetes 1.37 or later with the feature gate GenericWorkload"}
}

WATCHED: Mapping[str, tuple[ApiResource, Decode]] = MappingProxyType(
    {
        "nodes": (NODES, decode_node),
        "pods": (PODS, decode_pod),
        "reservations": (RESERVATIONS, decode_reservation),
        **OTHERS,
        **OWN,
    }
)
"""All resources that decisions need with any configuration."""


def listers_of(decider: Decider) -> dict[str, Lister[Any]]:
    """Return the objects that only plugins read, by the names of their resources."""
    names = (*OTHERS, *OWN, *(OPTIONAL if decider.schedules_groups else ()))
    return {name: getattr(decider.objects, name) for name in names}


def reflectors(
    make: MakeReflector,
    event_handlers: EventHandlers,
    pods: EventHandler[Pod],
    *,
    whole: bool,
) -> Iterator[Reflector[Any]]:
    """Return a reflector for every resource that decisions need; `whole` pods and nodes keep their JSON.

    `make` takes a resource, its decoder, its sink and options of Reflector. `pods` is the handler of pods,
    which may pass them on to the event handlers.
    """
    to_node, to_pod = (
        (keeping_raw(decode_node), keeping_raw(decode_pod)) if whole else (decode_node, decode_pod)
    )
    yield make(NODES, to_node, event_handlers.nodes, unusable=unusable)
    yield make(PODS, to_pod, pods, unusable=unusable)
    yield make(RESERVATIONS, decode_reservation, event_handlers.reservations, unusable=unusable)
    for name, sink in event_handlers.others.items():
        resource, decode = {**OTHERS, **OWN, **OPTIONAL}[name]
        yield make(
            resource,
            decode,
            sink,
            absent_if=_ABSENT_IF.get(resource, ()),
            expected=_EXPECTED.get(resource, ()),
            advice=_ADVICE.get(resource, {}),
            on_listed=sink.listed,
            unusable=unusable,
        )


def decoder_of(name: str) -> Decode:
    """Return the decoder of a resource of WATCHED or OPTIONAL."""
    return {**WATCHED, **OPTIONAL}[name][1]
