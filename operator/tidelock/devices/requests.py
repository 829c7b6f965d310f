"""The requests of claims, prepared for the search on one node.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating, validateDeviceRequest).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from tidelock.devices.constraints import AttributeConstraint, constraint_of
from tidelock.devices.consumable_capacity import Consumed, consumed_by, fits
from tidelock.devices.errors import AllocationError
from tidelock.devices.pools import Candidate, NodeDevices
from tidelock.devices.selection import DeviceSelection
from tidelock.model.devices import DeviceClass, DeviceTaintRule
from tidelock.model.resource_claims import (
    ALL_DEVICES,
    EXACT_COUNT,
    MOST_RESULTS,
    ClaimRequest,
    DeviceRequest,
    ResourceClaim,
)
from tidelock.model.selectors import NO_EXECUTE, NO_SCHEDULE, untolerated

ClassLookup = Callable[[str], DeviceClass | None]
"""Returns a class by its name, or None."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to meet a request.

    Attributes:
        wanted: the devices that it wants.
        name: its name in results.
        of_class: the class of the devices.
        claim: the namespace and name of the claim, for messages.

    """

    wanted: DeviceRequest
    name: str
    of_class: DeviceClass
    claim: str
    _class_expressions: tuple[str, ...]
    _expressions: tuple[str, ...]

    @property
    def label(self) -> str:
        """The claim and the request, for messages."""
        return f"claim {self.claim}, request {self.wanted.name or self.name}"

    @property
    def plain(self) -> bool:
        """Whether it wants a number of whole devices for itself."""
        wanted = self.wanted
        return wanted.allocation_mode == EXACT_COUNT and not wanted.admin_access and wanted.capacity is None

    def selects(self, selection: DeviceSelection, candidate: Candidate) -> bool:
        """Return whether class and request select a device. Raises AllocationError for a bad expression."""
        return selection.selects(
            self._class_expressions, candidate, "class", self.of_class.meta.name
        ) and selection.selects(self._expressions, candidate, "claim", self.claim)

    def consumed_of(self, candidate: Candidate) -> Consumed | None:
        """Return the amounts of a device that it consumes, or None if the device does not suit it."""
        try:
            return consumed_by(self.wanted.capacity, candidate.device)
        except AllocationError as error:
            where = f"{self.label}: checking capacity for device {candidate.id}"
            raise AllocationError(f"{where}: {error}") from error

    def tolerates(self, candidate: Candidate, rules: Sequence[DeviceTaintRule]) -> bool:
        """Return whether no taint of a device, or of a rule about it, prevents the allocation."""
        taints = candidate.device.taints
        if rules:
            added = (rule.taint_of(candidate.id) for rule in rules)
            taints = (*taints, *(taint for taint in added if taint is not None))
        hard = (NO_EXECUTE, NO_SCHEDULE)
        return not taints or untolerated(taints, self.wanted.tolerations, hard) is None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One request, with its alternatives in the order of preference."""

    request: ClaimRequest
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True)
class PreparedClaim:
    """One claim, with its requests. It is the same for all nodes."""

    claim: ResourceClaim
    requests: tuple[PreparedRequest, ...]

    @cached_property
    def plain(self) -> bool:
        """Whether the first alternatives want numbers of whole devices, without constraints among them.

        No other alternative wants all devices, which must be known, even if the first one gets some.
        """
        first = [each.alternatives[0] for each in self.requests]
        return (
            not self.claim.spec.devices.constraints
            and all(each.plain for each in first)
            and sum(each.wanted.count for each in first) <= MOST_RESULTS
            and all(
                each.wanted.allocation_mode != ALL_DEVICES
                for request in self.requests
                for each in request.alternatives
            )
        )

    def constraints(self) -> list[AttributeConstraint]:
        """Return the constraints, which count no device yet. Raises AllocationError for an unknown type."""
        found = [constraint_of(each) for each in self.claim.spec.devices.constraints]
        if None in found:
            text = f"constraint #{found.index(None)}: empty constraint (unsupported constraint type?)"
            raise AllocationError(f"claim {self.claim.key}, {text}")
        return [each for each in found if each is not None]


def prepare(claim: ResourceClaim, class_of: ClassLookup) -> PreparedClaim:
    """Check a claim's requests, and find their classes.

    Raises:
        AllocationError: a request can't be met on any node.

    """
    prepared = PreparedClaim(
        claim,
        tuple(
            PreparedRequest(request, tuple(_alternatives(claim, request, class_of)))
            for request in claim.spec.devices.requests
        ),
    )
    prepared.constraints()
    return prepared


def _alternatives(
    claim: ResourceClaim, request: ClaimRequest, class_of: ClassLookup
) -> Iterator[Alternative]:
    if not request.alternatives:
        raise AllocationError(f"resource claim {claim.key}, request {request.name}: unknown request type")
    for index, wanted in enumerate(request.alternatives):
        name = request.name_of(index)
        label = f"claim {claim.key}, request {name}"
        if wanted.derived_attributes:
            problem = "cannot handle request with derived attributes, the feature is disabled"
            raise AllocationError(f"{label}: {problem}")
        if not wanted.device_class_name:
            raise AllocationError(f"{label}: missing device class name (unsupported request type?)")
        of_class = class_of(wanted.device_class_name)
        if of_class is None:
            raise AllocationError(f"request {name}: {class_not_found(wanted.device_class_name)}")
        if problem := of_class.meta.unreadable:
            raise AllocationError(f"device class {wanted.device_class_name} can't be read: {problem}")
        if wanted.allocation_mode not in (ALL_DEVICES, EXACT_COUNT):
            raise AllocationError(f"{label}: unsupported count mode {wanted.allocation_mode}")
        expressions = [
            tuple(each.cel.expression for each in selectors if each.cel is not None)
            for selectors in (of_class.spec.selectors, wanted.selectors)
        ]
        if sum(map(len, expressions)) < len(of_class.spec.selectors) + len(wanted.selectors):
            raise AllocationError(f"{label}: CEL expression empty (unsupported selector type?)")
        yield Alternative(wanted, name, of_class, str(claim.key), *expressions)


def all_devices(
    alternative: Alternative, devices: NodeDevices, selection: DeviceSelection
) -> list[Candidate]:
    """Return all devices of a node that a request for "All" wants, whether they are in use or not.

    Raises:
        AllocationError: a pool is incomplete or invalid, so not all of them are known.

    """
    found = []
    by_pool = {pool: [*group] for pool, group in groupby(devices.candidates, lambda each: each.pool.id)}
    for pool in devices.pools:
        if not pool.complete or pool.invalid:
            state = "invalid" if pool.complete else "being updated"
            problem = f"asks for all devices, but resource pool {pool.id} is currently {state}"
            raise AllocationError(f"{alternative.label}: {problem}")
        for candidate in by_pool.get(pool.id, ()):
            if alternative.selects(selection, candidate):
                consumed = alternative.consumed_of(candidate)
                if consumed is not None and fits(consumed, candidate.device, _nothing_taken):
                    found.append(candidate)
    return found


def size_with(claim: PreparedClaim, request: PreparedRequest, least: int, size: int) -> int:
    """Return the least number of devices of a claim together with one more of its requests.

    Args:
        claim: the claim.
        request: the request.
        least: the number of devices of the alternative that wants the fewest.
        size: the least number of devices of the requests before it.

    Raises:
        AllocationError: the claim wants more devices than it can have.

    """
    if least > MOST_RESULTS - size:
        label = f"claim {claim.claim.key}, request {request.request.name}"
        limit = f"exceeds the claim limit of {MOST_RESULTS}, with {size} already accounted for"
        raise AllocationError(f"{label}: adding {least} devices {limit}")
    return size + least


def _nothing_taken(_: str) -> int:
    return 0


def class_not_found(name: str) -> str:
    """Say that a device class is missing, in kube-scheduler's words."""
    return f"device class {name} does not exist"
