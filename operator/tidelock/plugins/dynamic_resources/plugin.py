"""DynamicResources: a pod goes where its resource claims have devices or can get some.

Semantics of kube-scheduler 1.37, plugins/dynamicresources, with its default feature gates. A claim without
devices gets some on each node that is asked about (`tidelock.devices`). Those of the chosen node are in
flight from Reserve on, and PreBind writes them. A pod waits for devices with binding conditions.

A pod can also request devices as an extended resource of a DeviceClass. They are allocated to a claim that
PreBind creates.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from tidelock.cluster.columns import NO_ROW, Columns, Rows
from tidelock.cluster.pod_groups import group_of
from tidelock.cluster.snapshot import Snapshot
from tidelock.devices.allocator import DeviceAllocator
from tidelock.devices.errors import AllocationError
from tidelock.devices.requests import PreparedClaim, prepare
from tidelock.devices.results import results
from tidelock.devices.selection import DeviceSelection
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SKIP_ALIKE,
    SUCCESS,
    Code,
    Counts,
    EnqueueExtensions,
    Filter,
    FilterResult,
    Handle,
    Mask,
    PostFilter,
    PostFilterResult,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    Scores,
    Status,
)
from tidelock.framework.config_file import parse_duration
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.devices_to_hold import DevicesToHold
from tidelock.framework.events import (
    ASSIGNED_POD_DELETE,
    RESERVATION_FREED,
    Action,
    ClusterEvent,
    Registration,
    Resource,
)
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.plugin_args import read_args, refuse_args
from tidelock.framework.selector_compiler import compile_device_selector
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import devices_text
from tidelock.model.devices import DeviceClass, DeviceId
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.resource_claims import AllocationResult, ResourceClaim, ResourceClaimTemplate
from tidelock.plugins.dynamic_resources.binding_conditions import Readiness, readiness
from tidelock.plugins.dynamic_resources.claim_words import being_allocated, being_deallocated
from tidelock.plugins.dynamic_resources.claim_writer import ClaimWriter, OwnClaim, ReservedClaims
from tidelock.plugins.dynamic_resources.equal_claims import beside_each_other
from tidelock.plugins.dynamic_resources.extended_resources import backed_resources, claim_for
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE, NodeAllocations, NodeGroup
from tidelock.plugins.dynamic_resources.own_devices import devices_taken, devices_to_hold, own_devices
from tidelock.plugins.dynamic_resources.pod_claims import claims_in_spec, resource_claims_of
from tidelock.plugins.dynamic_resources.search_results import ResultsByKind, SearchResults

_NAMED_RESERVATIONS = 16
_NO_HELP = PostFilterResult(Status(Code.UNSCHEDULABLE))
_DELETED = Status(Code.UNSCHEDULABLE, ("deletion of ResourceClaim completed",))
_DEALLOCATED = Status(Code.UNSCHEDULABLE, ("deallocation of ResourceClaim completed",))


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    """DynamicResourcesArgs. The search for devices has a limit of steps instead of `filter_timeout`."""

    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


class DynamicResources(
    PreEnqueue,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    PreBind,
    EnqueueExtensions,
):
    """Rejects nodes on which a pod's claims have no devices, and allocates those of the chosen node."""

    name = "DynamicResources"
    depends_on_placement = False

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take both timeouts. Raises ValueError for those that kube-scheduler refuses."""
        read = read_args(self.name, args, _Args)
        refuse_args(self.name, _problems(read))
        super().__init__(handle, {})
        self._binding_timeout = parse_duration(read.binding_timeout)
        objects = handle.objects
        self._claims, self._classes, self._rules = (
            objects.resource_claims,
            objects.device_classes,
            objects.device_taint_rules,
        )
        self._reserved = objects.resource_claims.reserved
        self._pools = objects.resource_slices.pools
        self._selection = DeviceSelection(compile_device_selector)
        self._results = ResultsByKind(
            partial(SearchResults, handle.columns, self._pools, self._claims), self._classes, self._rules
        )
        self._writer = ClaimWriter(self._claims, handle.api, self._binding_timeout, handle.device_reports)

    def pre_enqueue(self, pod: Pod) -> Status:
        """Keep a pod until all of its claims exist."""
        if not pod.spec.resource_claims:
            return SUCCESS
        claims = resource_claims_of(pod, self.handle.objects)
        return _refused(claims) if isinstance(claims, str) else SUCCESS

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Look at the claims, and at extended resources that devices provide. Skip pods without any."""
        classes = self._classes.by_resource
        resources = backed_resources(pod, classes) if classes else ()
        if not pod.spec.resource_claims and not resources:
            may_be_backed = "/" in "".join(pod.requests)  # by a class that comes later
            return SKIP if may_be_backed else SKIP_ALIKE
        stored = resource_claims_of(pod, self.handle.objects)
        if isinstance(stored, str):
            return _refused(stored)
        if not stored and not resources:
            return SKIP
        shared = dict(self._shared_with_group(pod, stored))
        claims = [
            claim.with_allocation(shared[claim.key]) if claim.key in shared else claim for claim in stored
        ]
        try:
            groups = tuple(self._groups(pod, claims, resources))
        except AllocationError as error:
            return _refused(str(error))
        now = state.expect(DecisionTime).now
        unready = (Readiness.FAILED, Readiness.TIMED_OUT)
        stuck = frozenset(
            index
            for index, claim in enumerate(claims)
            if claim.allocation is not None and readiness(claim, now, self._binding_timeout) in unready
        )
        self._selection.begin()
        found = NodeAllocations(
            tuple(claims),
            tuple(stored),
            groups,
            DeviceAllocator(self._claims.allocated, self._selection, tuple(self._rules.all())),
            self._pools,
            self.handle.columns,
            stuck,
            own_devices(state, pod, self.handle.reservations) if self._reserved else {},
            claims_in_spec(pod),
            self._claims.of_extended_resources.get(pod.uid) if resources else None,
            shared,
        )
        state.write(found, temporary=True)
        if isinstance(pod, ReservePod):
            state.write(DevicesToHold(partial(devices_to_hold, found)))
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes within reach of the allocated claims, where the others can get devices."""
        found = state.expect(NodeAllocations)
        hopeless = found.stuck or found.leftover is not None
        mask: Mask = np.full(len(snapshot), not hopeless, np.bool_)
        for index, reached in found.reachable(snapshot):
            if not reached.all():
                found.unavailable.add(index)
            mask &= reached
        return found.fitting(snapshot, mask)

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return whether a claim is out of reach, or why one can't be allocated."""
        return (state.expect(NodeAllocations).reason(snapshot.nodes[row]),)

    def detail(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> str:
        """Return the devices that reservations on a node hold for others."""
        if not self._reserved:
            return ""
        own, name = state.expect(OwnReservations), snapshot.nodes[row].name
        return ", ".join(
            f"{devices_text(entry.devices)} reserved by {entry.key}"
            for entry in islice(self.handle.reservations.held_on(name), _NAMED_RESERVATIONS)
            if entry.devices and entry not in own
        )

    def among_equals(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, counts: Counts, first: Node
    ) -> Counts:
        """Keep as many on each node as get devices beside each other."""
        found = state.read(NodeAllocations)
        if found is None:
            return counts
        for group in found.groups:
            if group.to_allocate:
                here = True if group.rows is None else group.rows[snapshot.rows]
                claims, allocator, allocated = group.to_allocate, found.allocator, self._claims.allocated
                some = np.where(here, counts, 0)
                most = beside_each_other(claims, allocator, allocated, self._pools, snapshot, some, first)
                counts = np.where(here, most, counts)
        return counts

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: the devices of an evicted pod are free only once its claim is.

        kube-scheduler finds out the same on each node, as its plugin has no PreFilterExtensions.
        """
        return False

    def preemption_may_help_on(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return False for each node."""
        return np.zeros(len(rows), np.bool_)

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, filter_result: FilterResult
    ) -> PostFilterResult:
        """Free the devices of one claim that no other pod uses, if they are out of reach on some node.

        Otherwise delete the claim for extended resources of an earlier attempt. If nodes were left out,
        another attempt looks at them.
        """
        found = state.read(NodeAllocations)
        if found is None or isinstance(pod, ReservePod):
            return _NO_HELP
        for index in sorted(found.unavailable):
            claim = found.claims[index]
            others = [each for each in claim.status.reserved_for if each.uid != pod.uid]
            if not others and claim.key not in found.shared and self._writer.deallocate(claim):
                return PostFilterResult(_DEALLOCATED)
        if found.leftover is not None and self._writer.delete(found.leftover):
            return PostFilterResult(_DELETED)
        return PostFilterResult(_NO_HELP.status, unfinished=found.unfinished)

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods without alternatives among their requests."""
        found = state.read(NodeAllocations)
        if found is None:
            return SKIP if pod.spec.resource_claims else SKIP_ALIKE
        requests = (request for claim in found.claims for request in claim.spec.devices.requests)
        return SUCCESS if any(request.first_available for request in requests) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by the alternatives that requests would get, of which the first are preferred."""
        found = state.read(NodeAllocations)
        if found is None:
            return np.zeros(len(rows))
        points = (found.preference(snapshot.nodes[row].name) for row in rows.tolist())
        return np.fromiter(points, np.float64, len(rows))

    def normalize(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """Scale the points: 100 for the most."""
        most = scores.max(initial=0.0)
        normal: Scores = np.floor(MAX_NODE_SCORE * scores / most) if most > 0 else scores
        return normal

    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Put the devices of the node in flight, so no other pod gets them."""
        found = state.read(NodeAllocations)
        if found is None:
            return SUCCESS
        allocations = dict(found.shared)
        group = found.group(node_name)
        if group.to_allocate:
            if node_name in found.own:
                entries = state.expect(OwnReservations).on_node[node_name]
                found.set_own(node_name, devices_taken(entries, pod, node_name, self.handle.reservations))
            solution = found.solution(node_name)
            if solution is None and node_name in found.own:
                return Status(Code.UNSCHEDULABLE, (CANNOT_ALLOCATE,))
            if solution is None:
                return Status(Code.ERROR, ("claim allocation not found for node",))
            allocated = results(group.to_allocate, solution, node_name)
            for prepared, allocation in zip(group.to_allocate, allocated, strict=True):
                allocations[prepared.claim.key] = allocation
        for key, allocation in allocations.items():
            self._claims.in_flight.make(key, allocation, pod.uid)
        if not found.claims and not allocations:
            return SUCCESS
        own = OwnClaim(group.to_allocate[-1].claim, group.mappings) if group.mappings else None
        state.write(ReservedClaims(found.stored, allocations, now, own))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Free devices in flight. Written ones stay, and the pod can use them at its next attempt.

        Only the claim for extended resources is deleted, as it fits this node alone.
        """
        reserved = state.read(ReservedClaims)
        if reserved is not None:
            for key in reserved.allocations:
                self._claims.in_flight.release(key, pod.uid)
            if reserved.own is not None and reserved.own.created:
                self._writer.delete(reserved.own.claim)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip pods without claims."""
        return SKIP if state.read(ReservedClaims) is None else SUCCESS

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Write the devices, and the pod as their user. Raises ApiError if a write fails."""
        problem = await self._writer.bind(pod, state.expect(ReservedClaims), node_name)
        return Status(Code.ERROR, (problem,)) if problem else SUCCESS

    def _groups(
        self, pod: Pod, claims: Sequence[ResourceClaim], resources: Sequence[str]
    ) -> Iterator[NodeGroup]:
        """Yield the groups of nodes by the extended resources that their devices must provide.

        Raises:
            AllocationError: the pod must wait for a claim.

        """
        named = tuple(self._to_allocate(claims))
        if not resources:
            yield NodeGroup(named, self._results.of(named))
            return
        for lacking, rows in _by_lacking(resources, self.handle.columns).items():
            claim, mappings = claim_for(pod, lacking, self._classes.by_resource)
            wanted = (*named, prepare(claim, self._classes.get)) if mappings else named
            yield NodeGroup(wanted, self._results.of(wanted), rows, mappings)

    def _shared_with_group(
        self, pod: Pod, claims: Sequence[ResourceClaim]
    ) -> Iterator[tuple[Key, AllocationResult]]:
        """Yield the devices in flight for pods of the same group alone, by claim.

        A gang is reserved as a whole before the first of its claims is written.
        """
        group = group_of(pod)
        if group is None or isinstance(pod, ReservePod):
            return
        members = self.handle.objects.pod_groups.pods(group).keys()
        for claim in claims:
            allocation = self._claims.in_flight.get(claim.key)
            if allocation is not None and self._claims.in_flight.pods(claim.key) <= members:
                yield claim.key, allocation

    def _to_allocate(self, claims: Sequence[ResourceClaim]) -> Iterator[PreparedClaim]:
        """Yield the claims without devices. Raises AllocationError if the pod must wait for one."""
        for claim in claims:
            if self._writer.deallocating(claim):
                raise AllocationError(being_deallocated(claim.key))
            if claim.allocation is not None:
                continue
            if self._claims.in_flight.get(claim.key) is not None:
                raise AllocationError(being_allocated(claim.key))
            yield prepare(claim, self._classes.get)

    # Events.

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: claims, classes and slices that come or change, and devices that get free.

        kube-scheduler has neither the event of a pod that goes nor that of a class that goes. No claim shows
        devices in flight of such a pod, and an older class may provide the extended resource of such a class.
        """
        changes = Action.ADD | Action.UPDATE
        node_changes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            Registration(ClusterEvent(Resource.NODE, node_changes)),
            Registration(
                ClusterEvent(Resource.RESOURCE_CLAIM, changes | Action.DELETE),
                self._claim_helps,
                only_users=_frees_nothing,
            ),
            Registration(
                ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                self._has_claims,
            ),
            Registration(ClusterEvent(Resource.RESOURCE_CLAIM_TEMPLATE, changes), _names_template),
            Registration(ClusterEvent(Resource.RESERVATION, Action.ACTIVE), _is_owner),
            Registration(RESERVATION_FREED, _held_devices),
            Registration(ASSIGNED_POD_DELETE, self._gives_back),
            Registration(ClusterEvent(Resource.DEVICE_CLASS, changes | Action.DELETE), _may_provide),
            Registration(ClusterEvent(Resource.RESOURCE_SLICE, changes)),
            Registration(ClusterEvent(Resource.DEVICE_TAINT_RULE, Action.UPDATE | Action.DELETE)),
        )

    def _claim_helps(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        """Return whether a claim is the pod's and has news, or has freed devices."""
        freed = old is not None and bool(_devices_of(old) - _devices_of(new))
        if new is None:
            return freed or (old is not None and old.extended_resources_of == pod.uid)
        claims = resource_claims_of(pod, self.handle.objects)
        if isinstance(claims, str):
            return False
        if freed:
            return True
        if all(each.meta.uid != new.meta.uid for each in claims):
            return False
        return old is None or old.status != new.status

    def _gives_back(self, _pod: Pod, old: Pod, _: None) -> bool:
        """Return whether a pod that goes may have had devices in flight, which no claim shows."""
        claims = resource_claims_of(old, self.handle.objects)
        if isinstance(claims, str) or any(claim.allocation is None for claim in claims):
            return True
        return bool(backed_resources(old, self._classes.by_resource))

    def _has_claims(self, pod: Pod, _: Pod | None, new: Pod) -> bool:
        return not isinstance(resource_claims_of(new, self.handle.objects), str)


def _devices_of(claim: ResourceClaim | None) -> set[tuple[DeviceId, str | None]]:
    """Return the devices of a claim, and its shares of devices. It may get others than were decided."""
    if claim is None or claim.allocation is None:
        return set()
    return {(each.id, each.share_id) for each in claim.allocation.devices.results}


def _frees_nothing(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """Return whether a change of a claim concerns no other pods, as it frees no devices.

    The pod of a claim for extended resources does not name it.
    """
    if old is None:
        return True
    freed = bool(_devices_of(old) - _devices_of(new))
    return not freed and (new is not None or not old.extended_resources_of)


def _may_provide(pod: Pod, old: DeviceClass | None, new: DeviceClass | None) -> bool:
    """Return whether a class is there, or whether its extended resources may now be those of an older one."""
    return new is not None or (old is not None and not pod.requests.keys().isdisjoint(old.extended_resources))


def _names_template(pod: Pod, _: ResourceClaimTemplate | None, new: ResourceClaimTemplate) -> bool:
    """Return whether a reservation holds devices for claims from a template."""
    names = (each.resource_claim_template_name for each in pod.spec.resource_claims)
    same = isinstance(pod, ReservePod) and pod.meta.namespace == new.meta.namespace
    return same and new.meta.name in names


def _is_owner(pod: Pod, _: ReservationInfo | None, new: ReservationInfo) -> bool:
    return is_owner(pod, new.key, new.reservation.spec)


def _held_devices(_pod: Pod, old: ReservationInfo, _new: ReservationInfo) -> bool:
    """Return whether a reservation that has freed capacity can have held devices."""
    pod = old.reservation.pod
    return pod is None or bool(pod.spec.resource_claims) or any("/" in name for name in pod.requests)


def _by_lacking(resources: Sequence[str], columns: Columns) -> dict[tuple[str, ...], Mask]:
    """Return the nodes by the resources of which they have nothing themselves."""
    groups: dict[tuple[str, ...], Mask] = {(): np.ones(len(columns), np.bool_)}
    for resource in resources:
        column = columns.column_of.get(resource, NO_ROW)
        lack = columns.allocatable[: len(columns), column] == 0
        parts = [
            ((*names, resource) if lacking else names, rows & (lack if lacking else ~lack))
            for names, rows in groups.items()
            for lacking in (False, True)
        ]
        groups = {names: rows for names, rows in parts if rows.any()}
    return groups


def _refused(reason: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def _problems(args: _Args) -> Iterator[str]:
    for field, text, least in (
        ("filterTimeout", args.filter_timeout, 0.0),
        ("bindingTimeout", args.binding_timeout, 1.0),
    ):
        try:
            if parse_duration(text) < least:
                yield f"{field}: {text!r} is less than {least:.0f} s"
        except ValueError as error:
            yield f"{field}: {error}"
