"""Claims, volumes and storage classes as the scheduler sees them."""

import msgspec

from tidelock.model.meta import ObjectMeta
from tidelock.model.selectors import LabelSelector, NodeSelector


class _Stored(msgspec.Struct, frozen=True):
    metadata: ObjectMeta

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    """A link to an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


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


class PersistentVolumeClaim(_Stored, frozen=True):
    """A claim to a volume."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


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


class PersistentVolume(_Stored, frozen=True):
    """A volume."""

    spec: _VolumeSpec = _VolumeSpec()
    status: _VolumeStatus = _VolumeStatus()


class _TopologyRequirement(msgspec.Struct, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class _TopologyTerm(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple[_TopologyRequirement, ...] = ()


class StorageClass(_Stored, frozen=True, rename="camel"):
    """How volumes are provided, and when they are bound."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_TopologyTerm, ...] = ()


class _Allocatable(msgspec.Struct, frozen=True):
    count: int | None = None


class _NodeDriver(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] | None = None
    allocatable: _Allocatable | None = None


class _CsiNodeSpec(msgspec.Struct, frozen=True):
    drivers: tuple[_NodeDriver, ...] = ()


class CsiNode(_Stored, frozen=True):
    """The CSI drivers of the node of the same name."""

    spec: _CsiNodeSpec = _CsiNodeSpec()


class _DriverSpec(msgspec.Struct, frozen=True, rename="camel"):
    storage_capacity: bool = False


class CsiDriver(_Stored, frozen=True):
    """A CSI driver."""

    spec: _DriverSpec = _DriverSpec()


class CsiStorageCapacity(_Stored, frozen=True, rename="camel"):
    """How much a driver can still provide in a part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
