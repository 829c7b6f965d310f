"""The allocations to write for a solution: devices, parameters for their drivers, and the nodes.

Semantics of Kubernetes 1.37, dynamic-resource-allocation/structured (incubating, Allocate).
"""

from collections.abc import Iterator, Sequence
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidelock.devices.allocator import ChosenDevice, Solution
from tidelock.devices.requests import PreparedClaim
from tidelock.model.quantities import format_nanos
from tidelock.model.resource_claims import (
    AllocatedConfiguration,
    AllocatedDevice,
    AllocatedDevices,
    AllocationResult,
    ResourceClaim,
)
from tidelock.model.selectors import NodeSelector, NodeSelectorTerm, Requirement

_FROM_CLASS = "FromClass"
_FROM_CLAIM = "FromClaim"


def results(
    claims: Sequence[PreparedClaim], solution: Solution, node_name: str
) -> tuple[AllocationResult, ...]:
    """Return the allocation of each claim on a node."""
    return tuple(
        _result(claim, devices, alternatives, node_name)
        for claim, devices, alternatives in zip(claims, solution.devices, solution.alternatives, strict=True)
    )


def _result(
    claim: PreparedClaim, devices: Sequence[ChosenDevice], alternatives: Sequence[int], node_name: str
) -> AllocationResult:
    allocated = tuple(_device(claim.claim, place, each) for place, each in enumerate(devices))
    config = tuple(_without_needless_names(claim, alternatives))
    return AllocationResult(AllocatedDevices(allocated, config), _node_selector(devices, node_name))


def _device(claim: ResourceClaim, place: int, chosen: ChosenDevice) -> AllocatedDevice:
    candidate, wanted = chosen.candidate, chosen.alternative.wanted
    shared = chosen.consumed is not None
    return AllocatedDevice(
        chosen.alternative.name,
        *candidate.id,
        admin_access=wanted.admin_access or None,
        tolerations=wanted.tolerations,
        binding_conditions=candidate.device.binding_conditions,
        binding_failure_conditions=candidate.device.binding_failure_conditions,
        share_id=_share_id(claim, place) if shared else None,
        consumed_capacity={name: format_nanos(nanos) for name, nanos in (chosen.consumed or {}).items()},
    )


def _share_id(claim: ResourceClaim, place: int) -> str:
    """Return an id for a share, which differs for each allocation of each claim.

    kube-scheduler draws it. This way the same decision gives the same result.
    """
    return str(uuid5(NAMESPACE_OID, f"{claim.meta.uid}/{claim.meta.resource_version}/{place}"))


# Parameters.


def _without_needless_names(
    claim: PreparedClaim, alternatives: Sequence[int]
) -> Iterator[AllocatedConfiguration]:
    """Yield the parameters for drivers. Those for all requests name none."""
    requests = [each.request for each in claim.requests]
    names = [{each.name, each.name_of(chosen)} for each, chosen in zip(requests, alternatives, strict=True)]
    for each in (*_of_classes(claim, alternatives), *_of_claim(claim.claim, names)):
        everywhere = all(not known.isdisjoint(each.requests) for known in names)
        yield msgspec.structs.replace(each, requests=()) if everywhere else each


def _of_classes(claim: PreparedClaim, alternatives: Sequence[int]) -> Iterator[AllocatedConfiguration]:
    """Yield the parameters of each class once, for all requests of the class."""
    names: dict[str, list[str]] = {}
    config = {}
    for request, index in zip(claim.requests, alternatives, strict=True):
        chosen = request.alternatives[index]
        names.setdefault(chosen.of_class.meta.name, []).append(chosen.name)
        config[chosen.of_class.meta.name] = chosen.of_class.spec.config
    for of_class, requests in names.items():
        for each in config[of_class]:
            yield AllocatedConfiguration(_FROM_CLASS, tuple(requests), each.opaque)


def _of_claim(claim: ResourceClaim, names: Sequence[set[str]]) -> Iterator[AllocatedConfiguration]:
    """Yield the parameters of a claim, without those for other alternatives than the chosen ones."""
    for each in claim.spec.devices.config:
        if not each.requests or any(not known.isdisjoint(each.requests) for known in names):
            yield AllocatedConfiguration(_FROM_CLAIM, each.requests, each.opaque)


# Nodes.


def _node_selector(devices: Sequence[ChosenDevice], node_name: str) -> NodeSelector | None:
    """Return the nodes on which all devices can be used, or None for all nodes."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for each in devices:
        if each.candidate.node_name or each.candidate.device.binds_to_node:
            only = Requirement("metadata.name", "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
        if (selector := each.candidate.node_selector) is not None:
            for term in selector.node_selector_terms:
                _add_new(term.match_expressions, expressions)
                _add_new(term.match_fields, fields)
    if not expressions and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(requirements: Sequence[Requirement], known: list[Requirement]) -> None:
    for each in requirements:
        if not any(_same(each, other) for other in known):
            known.append(each)


def _same(left: Requirement, right: Requirement) -> bool:
    return (left.key, left.operator, {*left.values}) == (right.key, right.operator, {*right.values})
