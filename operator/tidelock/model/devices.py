"""Devices as drivers publish them, classes of devices, and taints on devices (resource.k8s.io/v1).

Alpha fields of Kubernetes 1.37 are not read, except for lists as attributes, and for those with which a slice
can't be used.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ForeignObject
from tidelock.model.quantities import parse_nanos
from tidelock.model.selectors import NodeSelector, Taint

AttributeScalar = int | bool | str
AttributeList = tuple[int, ...] | tuple[bool, ...] | tuple[str, ...]

_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"


class DeviceId(NamedTuple):
    """The name of a device, which is unique in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class DeviceAttribute(msgspec.Struct, frozen=True):
    """A property of a device. It has one of the types. Lists are alpha in 1.37."""

    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    text: str | None = msgspec.field(default=None, name="string")
    version: str | None = None
    numbers: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    flags: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    texts: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    versions: tuple[str, ...] | None = None

    @property
    def typed(self) -> tuple[str, AttributeScalar | AttributeList] | None:
        """The type and the value, or None for a type that is not known here."""
        for kind in ("text", "number", "flag", "version", "numbers", "flags", "texts", "versions"):
            if (value := getattr(self, kind)) is not None:
                return kind, value
        return None


class CapacityRange(msgspec.Struct, frozen=True):
    """The amounts that can be consumed: from `min` to `max` in steps. All are quantities."""

    min: str | int | None = None
    max: str | int | None = None
    step: str | int | None = None


class CapacityRequestPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How requests for a part of a capacity are rounded up and limited."""

    default: str | int | None = None
    valid_values: tuple[str | int, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(msgspec.Struct, frozen=True, rename="camel"):
    """An amount of something that a device has."""

    value: str | int = 0
    request_policy: CapacityRequestPolicy | None = None


class SharedCounter(msgspec.Struct, frozen=True):
    """An amount that the partitions of a device share."""

    value: str | int = 0

    @property
    def nanos(self) -> int:
        """The amount in billionths."""
        return parse_nanos(self.value)


class CounterSet(msgspec.Struct, frozen=True):
    """Named counters that devices of the pool consume."""

    name: str
    counters: dict[str, SharedCounter] = {}


class CounterConsumption(msgspec.Struct, frozen=True, rename="camel"):
    """The amounts of a counter set that a device consumes while it is allocated."""

    counter_set: str
    counters: dict[str, SharedCounter] = {}
    compatibility_groups: tuple[str, ...] = ()


class Device(msgspec.Struct, frozen=True, rename="camel"):
    """One device, or one partition of a device."""

    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False

    def attribute(self, name: str, driver: str) -> DeviceAttribute | None:
        """Return an attribute by its qualified name. The driver's own domain can be left out in the slice."""
        if (found := self.attributes.get(name)) is not None:
            return found
        domain, slash, short = name.partition("/")
        return self.attributes.get(short) if slash and domain == driver else None


class _Pool(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Some devices of a pool, or its shared counters, and the nodes that have access to them."""

    driver: str = ""
    pool: _Pool = _Pool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class PoolId(NamedTuple):
    """The name of a pool of devices, which is unique in the cluster."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class ResourceSlice(ForeignObject, frozen=True):
    """A part of a pool of devices."""

    spec: ResourceSliceSpec = ResourceSliceSpec()

    @property
    def pool(self) -> PoolId:
        """The pool."""
        return PoolId(self.spec.driver, self.spec.pool.name)

    @cached_property
    def usable(self) -> bool:
        """Whether all of it can be read, and no device has compatibility groups, which are alpha in 1.37."""
        consumed = (each for device in self.spec.devices for each in device.consumes_counters)
        return not self.meta.unreadable and not any(each.compatibility_groups for each in consumed)

    def id_of(self, device: Device) -> DeviceId:
        """Return the full name of one of its devices."""
        return DeviceId(self.spec.driver, self.spec.pool.name, device.name)


class _CelSelector(msgspec.Struct, frozen=True):
    expression: str = ""


class RequestSelector(msgspec.Struct, frozen=True):
    """An expression that selects devices. None is a type of selector that is not known here."""

    cel: _CelSelector | None = None


class OpaqueConfiguration(msgspec.Struct, frozen=True):
    """A driver, and parameters that only it understands."""

    driver: str = ""
    parameters: Any = None


class ClassConfiguration(msgspec.Struct, frozen=True):
    """Parameters for a driver."""

    opaque: OpaqueConfiguration | None = None


class _ClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    selectors: tuple[RequestSelector, ...] = ()
    config: tuple[ClassConfiguration, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(ForeignObject, frozen=True):
    """A kind of devices that can be requested."""

    spec: _ClassSpec = _ClassSpec()

    @property
    def extended_resources(self) -> tuple[str, ...]:
        """The resources that pods can request in place of a claim: that of the name, and that of the spec."""
        implicit = f"{_RESOURCE_PREFIX}{self.meta.name}"
        explicit = self.spec.extended_resource_name
        return (implicit, explicit) if explicit else (implicit,)


class _TaintSelector(msgspec.Struct, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _TaintRuleSpec(msgspec.Struct, frozen=True, rename="camel"):
    taint: Taint | None = None
    device_selector: _TaintSelector | None = None


class DeviceTaintRule(ForeignObject, frozen=True):
    """A taint that a rule sets on devices, in addition to those that their driver publishes."""

    spec: _TaintRuleSpec = _TaintRuleSpec()

    def taint_of(self, device: DeviceId) -> Taint | None:
        """Return the taint that the rule sets on a device, if any. A rule without a selector matches none."""
        selector = self.spec.device_selector
        if selector is None:
            return None
        wanted = (selector.driver, selector.pool, selector.device)
        matches = all(each in (None, name) for each, name in zip(wanted, device, strict=True))
        return self.spec.taint if matches else None


def quantities_of(slice_: ResourceSlice) -> Iterator[str | int]:
    """Yield all quantities of a slice."""
    for counters in slice_.spec.shared_counters:
        yield from (each.value for each in counters.counters.values())
    for device in slice_.spec.devices:
        for consumed in device.consumes_counters:
            yield from (each.value for each in consumed.counters.values())
        for capacity in device.capacity.values():
            yield capacity.value
            if (policy := capacity.request_policy) is not None:
                limits = policy.valid_range or CapacityRange()
                known = (policy.default, *policy.valid_values, limits.min, limits.max, limits.step)
                yield from (each for each in known if each is not None)


def _check_slice(slice_: ResourceSlice) -> None:
    """Raise QuantityError for a bad quantity, before it could fail a decision."""
    for each in quantities_of(slice_):
        parse_nanos(each)


_MARKS = r"metadata\.(annotations|labels|ownerReferences).*"

decode_slice = Reader(ResourceSlice, spare=_MARKS, check=_check_slice)
decode_device_class = Reader(DeviceClass, spare=_MARKS)
decode_taint_rule = Reader(DeviceTaintRule, spare=_MARKS)
