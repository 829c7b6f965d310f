"""Claims to devices: the requests, the allocation, and the pods that use it (resource.k8s.io/v1)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from tidelock.model.devices import DeviceId, OpaqueConfiguration, PoolId, RequestSelector
from tidelock.model.lenient import Reader
from tidelock.model.meta import ForeignObject, ObjectMeta
from tidelock.model.quantities import parse_nanos
from tidelock.model.selectors import NodeSelector, Toleration

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim until no pod uses its devices any more."""
MOST_RESULTS = 32
"""The number of devices that a claim can have (AllocationResultsMaxSize)."""
MOST_ALTERNATIVES = 8
"""The number of alternatives of a request (FirstAvailableDeviceRequestMaxSize)."""
FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
"""Annotation: a scheduler has made the claim for a pod's extended resources, if its value is `true`."""
ALL_DEVICES = "All"
EXACT_COUNT = "ExactCount"


def devices_of_class(name: str) -> str:
    """Return the resource by which quotas count the devices of a DeviceClass (V1ResourceByDeviceClass)."""
    return f"{name}.deviceclass.resource.k8s.io/devices"


class PodResourceClaim(msgspec.Struct, frozen=True, rename="camel"):
    """A claim of a pod: an existing one, or one that is created from a template for the pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The name of the claim that was created from a template, or None if none is needed."""

    name: str
    resource_claim_name: str | None = None


class DeviceToleration(Toleration, frozen=True, rename="camel"):
    """A claim's permission to use tainted devices."""

    toleration_seconds: int | None = None


class CapacityRequirements(msgspec.Struct, frozen=True):
    """The amounts of a device's capacity that are requested."""

    requests: dict[str, str | int] = {}


class _DerivedAttribute(msgspec.Struct, frozen=True):
    name: str = ""


class DeviceRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of one kind: a request by itself, or one of several alternatives, which has a name then."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[RequestSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[_DerivedAttribute, ...] = ()


class ClaimRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One request of a claim, with alternatives in the order of preference or without."""

    name: str
    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceRequest, ...] = ()

    @property
    def alternatives(self) -> Sequence[DeviceRequest]:
        """The alternatives, or the only way to meet the request."""
        return self.first_available or ((self.exactly,) if self.exactly is not None else ())

    def name_of(self, index: int) -> str:
        """Return the name by which results and configurations refer to one of the alternatives."""
        return f"{self.name}/{self.first_available[index].name}" if self.first_available else self.name


def most_devices(requests: Iterable[ClaimRequest]) -> dict[str, int]:
    """Return how many devices requests can get at most, by the resource of their DeviceClass.

    Semantics of Kubernetes 1.37, quota/v1/evaluator/core (claimEvaluator.Usage): of several alternatives each
    class counts with its largest one, and all devices as the number that a claim can have. Other than there,
    admin access counts nothing.
    """
    total = Counter[str]()
    for request in requests:
        most = Counter[str]()
        for each in request.alternatives:
            if each.admin_access:
                continue
            count = MOST_RESULTS if each.allocation_mode == ALL_DEVICES else each.count
            most |= Counter({devices_of_class(each.device_class_name): count})
        total += most
    return dict(total)


class DeviceConstraint(msgspec.Struct, frozen=True, rename="camel"):
    """A condition on all devices of some requests, or of all requests if it names none."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimConfiguration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parameters for a driver, for the devices of some requests, or of all if it names none."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class _DeviceClaim(msgspec.Struct, frozen=True):
    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[ClaimConfiguration, ...] = ()


class _ClaimSpec(msgspec.Struct, frozen=True):
    devices: _DeviceClaim = _DeviceClaim()


class AllocatedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device that a request has got. With a share id it is shared, and some of its capacity is consumed."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str | int] = {}
    skip_node_operations: tuple[str, ...] = ()

    @property
    def id(self) -> DeviceId:
        """The full name of the device."""
        return DeviceId(self.driver, self.pool, self.device)

    @property
    def pool_id(self) -> PoolId:
        """The full name of its pool."""
        return PoolId(self.driver, self.pool)

    @property
    def consumed(self) -> dict[str, int]:
        """The consumed amounts in billionths, by the name of the capacity."""
        return {name: parse_nanos(value) for name, value in self.consumed_capacity.items()}


class AllocatedConfiguration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parameters for a driver, from the class or the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class AllocatedDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices of a claim, and the parameters for them."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class AllocationResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The devices of a claim, and the nodes on which they can be used. No selector stands for all nodes."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None

    @property
    def skips_node_operations(self) -> bool:
        """Whether the kubelet must leave out calls of some driver, so the node must declare that it can.

        A scheduler with the alpha gate DRAOptionalNodeOperations has made such an allocation.
        """
        return any(each.skip_node_operations for each in self.devices.results)

    @property
    def waits(self) -> bool:
        """Whether the pod is bound only after conditions of some device hold."""
        return any(each.binding_conditions for each in self.devices.results)


class ClaimConsumer(msgspec.Struct, frozen=True, rename="camel"):
    """An object that uses the devices of a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class DeviceCondition(msgspec.Struct, frozen=True):
    """A condition that a driver reports about an allocated device."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(msgspec.Struct, frozen=True):
    """The report of a driver about an allocated device."""

    driver: str
    pool: str
    device: str
    conditions: tuple[DeviceCondition, ...] = ()


class _ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ForeignObject, frozen=True):
    """A claim to devices."""

    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def allocation(self) -> AllocationResult | None:
        """The devices, or None before they are allocated."""
        return self.status.allocation

    @property
    def extended_resources_of(self) -> str:
        """The uid of a pod, if a scheduler has made the claim for its extended resources, or empty."""
        owner = self.meta.controller
        made = owner is not None and self.meta.annotations.get(FOR_EXTENDED_RESOURCES) == "true"
        return owner.uid if made and owner is not None else ""

    def with_allocation(self, allocation: AllocationResult) -> "ResourceClaim":
        """Return the claim with these devices."""
        return msgspec.structs.replace(
            self, status=msgspec.structs.replace(self.status, allocation=allocation)
        )

    def reserved_by(self, uid: str) -> bool:
        """Return whether an object is among the users of the devices."""
        return any(each.uid == uid for each in self.status.reserved_for)


class _ClaimTemplateSpec(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class ResourceClaimTemplate(ForeignObject, frozen=True):
    """A template of the claims that are created for pods."""

    spec: _ClaimTemplateSpec = _ClaimTemplateSpec()

    def claim(self, meta: ObjectMeta) -> ResourceClaim:
        """Return a claim with this metadata, as it would be created from the template."""
        faults = self.meta.faults
        return ResourceClaim(metadata=msgspec.structs.replace(meta, faults=faults), spec=self.spec.spec)


def devices_claim(requests: tuple[ClaimRequest, ...]) -> _ClaimSpec:
    """Return the spec of a claim with these requests."""
    return _ClaimSpec(_DeviceClaim(requests))


def _quantities(claim: ResourceClaim) -> Iterator[str | int]:
    for request in claim.spec.devices.requests:
        for each in request.alternatives:
            if each.capacity is not None:
                yield from each.capacity.requests.values()
    if claim.allocation is not None:
        for result in claim.allocation.devices.results:
            yield from result.consumed_capacity.values()


def _check_claim(claim: ResourceClaim) -> None:
    """Raise QuantityError for a bad quantity, before it could fail a decision."""
    for each in _quantities(claim):
        parse_nanos(each)


def _check_template(template: ResourceClaimTemplate) -> None:
    """Raise QuantityError for a bad quantity, before it could fail a decision."""
    _check_claim(template.claim(template.meta))


decode_resource_claim_template = Reader(
    ResourceClaimTemplate, spare=r"metadata\.(annotations|labels|ownerReferences).*", check=_check_template
)
decode_resource_claim = Reader(
    ResourceClaim,
    spare=r"metadata\.(annotations|labels).*|status\.allocation\.allocationTimestamp",
    check=_check_claim,
)
