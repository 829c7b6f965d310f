"""NodeVolumeLimits: a node has no more volumes of a CSI driver than its CSINode allows.

A driver can also require that it is installed on the node (`preventPodSchedulingIfMissing`). Semantics of
kube-scheduler 1.37, plugins/nodevolumelimits/csi.go. Volumes of in-tree drivers that are migrated to CSI are
not counted: they are those of no driver here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP,
    SKIP_ALIKE,
    SUCCESS,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.framework.pod_claims import claim_not_found, of_used_claims
from tidelock.model.pods import Pod
from tidelock.model.storage import CsiDriver, CsiNode, VolumeAttachment
from tidelock.plugins.node_volume_limits.attachments import Attachable, Attachments

TOO_MANY_VOLUMES = "node(s) exceed max volume count"
DRIVER_MISSING = "CSI driver is not installed on the node"


@dataclass(slots=True)
class _Wanted:
    """The units of the pod's claims, their problem, and other pods that would move, by volume and node.

    `required` are the drivers, in order, that must be installed on the node.
    """

    volumes: frozenset[Attachable] = frozenset()
    problem: str = ""
    required: tuple[str, ...] = ()
    moves: Counter[tuple[Attachable, str]] = field(default_factory=Counter)

    def clone(self) -> "_Wanted":
        return _Wanted(self.volumes, self.problem, self.required, self.moves.copy())


class NodeVolumeLimits(PreFilter, Filter, EnqueueExtensions):
    """Rules out nodes where a driver of the pod's volumes is missing, or has reached its limit."""

    name = "NodeVolumeLimits"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, args)
        self._attachments = Attachments(handle.cache, handle.objects)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the pod's volumes. Skip pods with neither limited ones nor ones whose driver is required."""
        if not pod.claims:
            return SKIP_ALIKE
        problem, volumes = self._volumes(pod)
        limited = frozenset(each for each in volumes if self._attachments.limited(each.driver))
        required = tuple(sorted(filter(self._is_required, {each.driver for each in volumes})))
        if not problem and not limited and not required:
            return SKIP
        state.write(_Wanted(limited, problem, required))
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Count the volumes of another pod on its node."""
        self._move(state, other, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Placed, snapshot: Snapshot) -> None:
        """Leave out the volumes of another pod, but for those that others use there."""
        self._move(state, other, -1)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Return the nodes that have the required drivers, and can attach all missing volumes of the pod."""
        wanted = state.expect(_Wanted)
        if wanted.problem:
            return np.zeros(len(snapshot), np.bool_)
        attachments, columns = self._attachments, self.handle.columns
        mask = np.ones(len(columns), np.bool_)
        for driver, number in Counter(volume.driver for volume in wanted.volumes).items():
            mask &= attachments.free_slots(driver) >= number
        others = {name for _, name in wanted.moves}
        for name in others.union(*map(attachments.nodes_using, wanted.volumes)):
            if (row := columns.row_of.get(name)) is not None:
                mask[row] = attachments.fits(name, wanted.volumes, wanted.moves)
        for driver in wanted.required:
            mask &= attachments.installed(driver)
        fits: Mask = mask[snapshot.rows]
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return the problem of the pod's claims, a missing driver, or that the limit is reached."""
        wanted = state.expect(_Wanted)
        if wanted.problem:
            return (wanted.problem,)
        for driver in wanted.required:
            if not self._attachments.installed(driver)[snapshot.rows][row]:
                return (f"{driver} {DRIVER_MISSING}",)
        return (TOO_MANY_VOLUMES,)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return True unless a claim is the problem, which no eviction mends."""
        return not state.expect(_Wanted).problem

    def _is_required(self, driver: str) -> bool:
        known = self.handle.objects.csi_drivers.get(driver)
        return known is not None and known.required

    def _move(self, state: CycleState, other: Placed, number: int) -> None:
        wanted = state.read(_Wanted)
        if wanted is not None and other.pod.claims:
            for volume in self._volumes(other.pod)[1]:
                wanted.moves[volume, other.node_name] += number

    def _volumes(self, pod: Pod) -> tuple[str, set[Attachable]]:
        """Return the units of a pod's claims, and a missing claim."""
        problem, volumes = "", set()
        for use in pod.claims:
            claim = self.handle.objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
            if claim is None:
                missing = claim_not_found(use.name)
                problem = problem or f"looking up PVC {pod.meta.namespace}/{use.name}: {missing}"
            elif (volume := self._attachments.volume(claim)) is not None:
                volumes.add(volume)
        return problem, volumes

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: drivers with larger limits, volumes of them that go, and claims of the pod.

        kube-scheduler has neither the event of a node, which has no limit until its CSINode comes, nor that
        of a driver, nor that of a claim that gets another volume. There the pod waits for a later event.
        """
        changes = Action.ADD | Action.UPDATE
        driver_changes = ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE | Action.DELETE)
        return (
            Registration(ClusterEvent(Resource.CSI_NODE, changes), self._takes_more),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._pod_frees),
            Registration(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), self._detached),
            of_used_claims(changes),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            Registration(driver_changes, self._not_required),
        )

    def _drivers(self, pod: Pod) -> set[str]:
        """Return the drivers of a pod's volumes."""
        return {volume.driver for volume in self._volumes(pod)[1]}

    def _takes_more(self, pod: Pod, old: CsiNode | None, new: CsiNode) -> bool:
        """Return whether a node has a new driver of the pod's volumes, or a larger limit of one."""
        before = frozenset(old.drivers) if old is not None else frozenset[str]()
        limits = old.limits if old is not None else {}
        larger = {name for name, limit in limits.items() if new.limits.get(name, inf) > limit}
        return not self._drivers(pod).isdisjoint(larger | (set(new.drivers) - before))

    def _pod_frees(self, pod: Pod, old: Pod, _: None) -> bool:
        """Return whether a pod that goes has used a driver of the pod, as far as its claims are known."""
        missing, volumes = self._volumes(old)
        return bool(missing) or not self._drivers(pod).isdisjoint(volume.driver for volume in volumes)

    def _detached(self, pod: Pod, old: VolumeAttachment, _: None) -> bool:
        return old.spec.attacher in self._drivers(pod)

    def _not_required(self, pod: Pod, old: CsiDriver, new: CsiDriver | None) -> bool:
        required = new is not None and new.required
        return old.required and not required and old.meta.name in self._drivers(pod)
