"""Live copies of the objects that some plugins read beside pods, nodes and reservations."""

from dataclasses import dataclass, field

from tidelock.cluster.index.budgets import Budgets
from tidelock.cluster.index.devices import DeviceClasses, ResourceClaims, ResourceSlices
from tidelock.cluster.lister import Lister
from tidelock.cluster.pod_groups import PodGroups
from tidelock.model.devices import DeviceTaintRule
from tidelock.model.namespaces import Namespace
from tidelock.model.quotas import ReservationQuota, ResourceQuota
from tidelock.model.resource_claims import ResourceClaimTemplate
from tidelock.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tidelock.model.water_level import WaterLevel
from tidelock.model.workloads import Service, Workload


@dataclass(frozen=True, slots=True)
class Objects:
    """A lister for each resource. The fields have the names of the API in Python's spelling."""

    namespaces: Lister[Namespace] = field(default_factory=Lister)
    services: Lister[Service] = field(default_factory=Lister)
    replication_controllers: Lister[Service] = field(default_factory=Lister)
    replica_sets: Lister[Workload] = field(default_factory=Lister)
    stateful_sets: Lister[Workload] = field(default_factory=Lister)
    pod_disruption_budgets: Budgets = field(default_factory=Budgets)
    persistent_volume_claims: Lister[PersistentVolumeClaim] = field(default_factory=Lister)
    persistent_volumes: Lister[PersistentVolume] = field(default_factory=Lister)
    storage_classes: Lister[StorageClass] = field(default_factory=Lister)
    csi_nodes: Lister[CsiNode] = field(default_factory=Lister)
    csi_drivers: Lister[CsiDriver] = field(default_factory=Lister)
    csi_storage_capacities: Lister[CsiStorageCapacity] = field(default_factory=Lister)
    volume_attachments: Lister[VolumeAttachment] = field(default_factory=Lister)
    resource_claims: ResourceClaims = field(default_factory=ResourceClaims)
    resource_claim_templates: Lister[ResourceClaimTemplate] = field(default_factory=Lister)
    resource_slices: ResourceSlices = field(default_factory=ResourceSlices)
    device_classes: DeviceClasses = field(default_factory=DeviceClasses)
    device_taint_rules: Lister[DeviceTaintRule] = field(default_factory=Lister)
    resource_quotas: Lister[ResourceQuota] = field(default_factory=Lister)
    reservation_quotas: Lister[ReservationQuota] = field(default_factory=Lister)
    water_levels: Lister[WaterLevel] = field(default_factory=Lister)
    pod_groups: PodGroups = field(default_factory=PodGroups)
