"""Claims, volumes and storage classes as the scheduler sees them."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ForeignObject, ObjectMeta
from tidelock.model.quantities import parse_quantity
from tidelock.model.selectors import LabelSelector, NodeSelector

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which a provisioner must create the volume."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume: no user bound it to its claim."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""Provisioner of a class with volumes that are created beforehand."""

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE = "storage"
_FILESYSTEM = "Filesystem"


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    """A link to an object. Without a uid it leads to any object with the name."""

    name: str = ""
    namespace: str = ""
    uid: str = ""

    def names(self, meta: ObjectMeta) -> bool:
        """Return whether the link leads to the object of this metadata."""
        return (self.namespace, self.name) == meta.key and self.uid in ("", meta.uid)


class _Amounts(msgspec.Struct, frozen=True):
    requests: dict[str, str | int] = {}


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()
    resources: _Amounts = _Amounts()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""
    volume_attributes_class_name: str | None = None


class _ClaimStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(ForeignObject, frozen=True):
    """A claim to a volume."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def class_name(self) -> str:
        """The class of volumes that the claim requests, or empty for volumes without a class."""
        return self.meta.annotations.get(_BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def bound(self) -> bool:
        """Whether the claim has its volume for good."""
        return bool(self.spec.volume_name) and _BIND_COMPLETED in self.meta.annotations

    @property
    def selected_node(self) -> str:
        """The node for which its volume is being created, or empty if there is none."""
        return self.meta.annotations.get(SELECTED_NODE, "")

    @cached_property
    def size(self) -> int | None:
        """Requested bytes, or None."""
        requests = self.spec.resources.requests
        return parse_quantity(_STORAGE, requests[_STORAGE]) if _STORAGE in requests else None


class _CsiSource(msgspec.Struct, frozen=True, rename="camel"):
    driver: str
    volume_handle: str = ""


class _VolumeNodeAffinity(msgspec.Struct, frozen=True):
    required: NodeSelector | None = None


class _VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str | int] = {}
    claim_ref: ObjectReference | None = None
    csi: _CsiSource | None = None
    node_affinity: _VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class _VolumeStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class PersistentVolume(ForeignObject, frozen=True):
    """A volume."""

    spec: _VolumeSpec = _VolumeSpec()
    status: _VolumeStatus = _VolumeStatus()

    @property
    def class_name(self) -> str:
        """Its class, or empty if it has none."""
        return self.meta.annotations.get(_BETA_CLASS, self.spec.storage_class_name)

    @property
    def affinity(self) -> NodeSelector | None:
        """The nodes from which the volume can be reached, or None for all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None

    @cached_property
    def capacity(self) -> int:
        """Its size in bytes."""
        return parse_quantity(_STORAGE, self.spec.capacity.get(_STORAGE, 0))

    def holds(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a volume that is set aside for a claim can become the claim's."""
        return self.capacity >= (claim.size or 0) and self._agrees(claim)

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a free volume suits the claim, by size, labels and topology."""
        return (
            self._agrees(claim)
            and self.status.phase == "Available"
            and set(claim.spec.access_modes) <= set(self.spec.access_modes)
        )

    def _agrees(self, claim: PersistentVolumeClaim) -> bool:
        mine, wanted = self.spec, claim.spec
        return (
            not self.meta.unreadable
            and self.class_name == claim.class_name
            and (mine.volume_mode or _FILESYSTEM) == (wanted.volume_mode or _FILESYSTEM)
            and (mine.volume_attributes_class_name or "") == (wanted.volume_attributes_class_name or "")
            and self.meta.deletion_timestamp is None
        )


class _TopologyRequirement(msgspec.Struct, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class _TopologyTerm(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple[_TopologyRequirement, ...] = ()


class StorageClass(ForeignObject, frozen=True, rename="camel"):
    """How volumes are provided, and when they are bound."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_TopologyTerm, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether its claims are bound only after a node has been chosen for a pod."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def provisions(self) -> bool:
        """Whether volumes are created on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)


class _Allocatable(msgspec.Struct, frozen=True):
    count: int | None = None


class _NodeDriver(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] | None = None
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(msgspec.Struct, frozen=True):
    drivers: tuple[_NodeDriver, ...] = ()


class CsiNode(ForeignObject, frozen=True):
    """The CSI drivers of the node of the same name."""

    spec: _CsiNodeSpec = _CsiNodeSpec()

    @property
    def drivers(self) -> tuple[str, ...]:
        """The names of the drivers that are installed on the node."""
        return tuple(driver.name for driver in self.spec.drivers)

    @property
    def limits(self) -> Mapping[str, int]:
        """The number of volumes of each driver that the node can have. An absent driver has no limit."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class _DriverSpec(msgspec.Struct, frozen=True, rename="camel"):
    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriver(ForeignObject, frozen=True):
    """A CSI driver."""

    spec: _DriverSpec = _DriverSpec()

    @property
    def required(self) -> bool:
        """Whether a pod with a volume of the driver needs a node where the driver is installed."""
        return self.spec.prevent_pod_scheduling_if_missing


class CsiStorageCapacity(ForeignObject, frozen=True, rename="camel"):
    """The storage that a driver can still provide in a part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None

    @cached_property
    def limit(self) -> int:
        """Bytes of the largest volume that can be created, or -1 if it is unknown."""
        if self.meta.unreadable:
            return -1
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        return -1 if limit is None else parse_quantity(_STORAGE, limit)

    @cached_property
    def size(self) -> int:
        """Bytes that are left for new volumes, or 0 if they are unknown."""
        return 0 if self.capacity is None else parse_quantity(_STORAGE, self.capacity)


class _AttachmentSource(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_name: str | None = None


class _AttachmentSpec(msgspec.Struct, frozen=True, rename="camel"):
    attacher: str = ""
    node_name: str = ""
    source: _AttachmentSource = _AttachmentSource()


class VolumeAttachment(ForeignObject, frozen=True):
    """A volume that is attached to a node, or will be."""

    spec: _AttachmentSpec = _AttachmentSpec()


_MARKS = r"metadata\.(annotations|labels|ownerReferences).*"
_OTHER_ANNOTATIONS = r"metadata\.annotations(\[(?!volume\.|pv\.).*|\.\w+)"

decode_claim = Reader(
    PersistentVolumeClaim, spare=rf"metadata\.labels.*|{_OTHER_ANNOTATIONS}", check=lambda claim: claim.size
)
decode_volume = Reader(
    PersistentVolume,
    spare=rf"metadata\.ownerReferences.*|{_OTHER_ANNOTATIONS}",
    check=lambda volume: volume.capacity,
)
decode_storage_class = Reader(StorageClass, spare=_MARKS)
decode_csi_node = Reader(CsiNode, spare=rf"{_MARKS}|spec\.drivers\[\d+\]\.(nodeID|topologyKeys.*)")
decode_csi_driver = Reader(CsiDriver, spare=_MARKS)
decode_capacity = Reader(CsiStorageCapacity, spare=_MARKS, check=lambda capacity: capacity.limit)
decode_attachment = Reader(VolumeAttachment, spare=_MARKS)
