"""VolumeBinding: a pod goes where its claims can be bound, and they are bound before the pod is.

Semantics of kube-scheduler 1.37, plugins/volumebinding. A bound claim allows the nodes from which its volume
can be reached. A claim that waits for its first consumer gets the smallest suitable volume that the node can
reach. Otherwise the provisioner of its class is asked for one there. The choice is assumed at Reserve,
written at PreBind, and carried out by the PV controller and provisioners.

Nodes are scored by the share of their storage that the claims would use (`storage_score`). Volumes of in-tree
drivers are taken as they are, without their migration to CSI.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP,
    SKIP_ALIKE,
    SUCCESS,
    Code,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreBind,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Registration
from tidelock.framework.function_shape import MAX_UTILIZATION, ShapePoint, scores_of, shape_problems
from tidelock.framework.plugin_args import read_args, refuse_args
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.meta import Key
from tidelock.model.pod_limits import excess_of_claims, too_large_text
from tidelock.model.pod_volumes import ClaimUse
from tidelock.model.pods import Pod
from tidelock.model.selectors import Requirement
from tidelock.model.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tidelock.plugins.volume_binding.binder import PodVolumes, VolumeBinder
from tidelock.plugins.volume_binding.hints import VolumeHints
from tidelock.plugins.volume_binding.label_rows import LabelRows
from tidelock.plugins.volume_binding.storage_score import StorageUse, bounded
from tidelock.plugins.volume_binding.volumes import Volumes

VOLUME_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_FREE_STORAGE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
_NODE_CONFLICT, _NO_VOLUME, _NO_SPACE, _VOLUME_GONE = (1 << bit for bit in range(4))
_REASONS = {
    _NODE_CONFLICT: VOLUME_NODE_CONFLICT,
    _NO_VOLUME: NO_VOLUME_TO_BIND,
    _NO_SPACE: NO_FREE_STORAGE,
    _VOLUME_GONE: VOLUME_GONE,
}

_FREE_SPACE = (ShapePoint(0, 10), ShapePoint(MAX_UTILIZATION, 0))

_Problems = npt.NDArray[np.uint8]


class _Args(msgspec.Struct, frozen=True, rename="camel"):
    """VolumeBindingArgs."""

    bind_timeout_seconds: Annotated[int, msgspec.Meta(ge=0)] = 600
    shape: tuple[ShapePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class _Match:
    """The suitable volumes of a claim, and the chosen one on each row, or -1 for a new one."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    chosen: Rows


@dataclass(frozen=True, slots=True)
class _Findings:
    """The problems of each row of the columns as bits, claims to match, and claims to provision."""

    problems: _Problems
    matches: tuple[_Match, ...]
    provided: tuple[PersistentVolumeClaim, ...]


class VolumeBinding(PreFilter, Filter, PreScore, Score, Reserve, PreBind, EnqueueExtensions):
    """Rejects nodes on which a claim can't be bound, and binds the claims on the chosen node."""

    name = "VolumeBinding"
    depends_on_placement = False

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Take `bindTimeoutSeconds` and `shape`. Raises ValueError if one is invalid."""
        read = read_args(self.name, args, _Args)
        shape = read.shape or _FREE_SPACE
        refuse_args(self.name, shape_problems("shape", shape))
        super().__init__(handle, {})
        self._points = scores_of(shape)
        self._objects = handle.objects
        self._volumes = Volumes(handle.objects)
        self._labels = LabelRows(handle.columns)
        self._binder = VolumeBinder(handle, self._volumes, read.bind_timeout_seconds)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Find the volume of each claim for each node. Skip pods that fit on any node."""
        if not pod.claims:
            return SKIP_ALIKE
        claims = []
        for use in pod.claims:
            found = self._claim(pod, use)
            if isinstance(found, str):
                return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (found,))
            claims.append(found)
        bound = [claim for claim in claims if claim.bound]
        waiting = [claim for claim in claims if not claim.bound]
        if not all(self._waits(claim) for claim in waiting):
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (UNBOUND_IMMEDIATE,))
        if too_much := excess_of_claims([claim.spec.selector for claim in waiting]):
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (too_large_text(too_much),))
        problems = np.zeros(len(snapshot), np.uint8)
        self._check_bound(bound, problems)
        findings = self._check_waiting(waiting, problems)
        if not waiting and not problems.any():
            return SKIP
        state.write(findings)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes where all claims are met or can be."""
        fits: Mask = state.expect(_Findings).problems[snapshot.rows] == 0
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return the problems of the bound and the waiting claims."""
        problems = int(state.expect(_Findings).problems[snapshot.rows][row])
        return tuple(text for problem, text in _REASONS.items() if problems & problem)

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction moves a volume."""
        return False

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods without an unbound claim."""
        findings = state.read(_Findings)
        return SUCCESS if findings is not None and (findings.matches or findings.provided) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score by the share that the claims use of their volumes, or else of the node's storage."""
        findings, total = state.read(_Findings), len(self.handle.columns)
        if findings is None:
            return np.zeros(len(rows))
        volumes, storage = StorageUse(total), StorageUse(total)
        has_volumes = np.zeros(total, np.bool_)
        for claim in findings.provided:
            self._add_provision(storage, claim, np.ones(total, np.bool_))
        for match in findings.matches:
            where = match.chosen >= 0
            if where.any():
                sizes = np.array([bounded(volume.capacity) for volume in match.volumes], np.int64)
                size = bounded(match.claim.size)
                volumes.add_volumes(match.claim.class_name, where, size, sizes[match.chosen])
                has_volumes |= where
            self._add_provision(storage, match.claim, ~where)
        scores = np.where(has_volumes, volumes.scores(self._points), storage.scores(self._points))
        chosen: Scores = scores[snapshot.rows][rows]
        return chosen

    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Assume the volumes and claims, so no other pod gets them."""
        findings = state.read(_Findings)
        row = self.handle.columns.row_of.get(node_name)
        if findings is None or row is None:
            return SUCCESS
        bindings, provisions = [], list(findings.provided)
        for match in findings.matches:
            place = int(match.chosen[row])
            if place < 0:
                provisions.append(match.claim)
            else:
                bindings.append((match.volumes[place], match.claim))
        for volume, claim in bindings:
            owner = ObjectReference(claim.meta.name, claim.meta.namespace, claim.meta.uid)
            self._volumes.owners.make(volume.key, owner, pod.uid)
        for claim in provisions:
            self._volumes.nodes.make(claim.key, node_name, pod.uid)
        state.write(PodVolumes(tuple(bindings), tuple(provisions)))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Undo assumptions. Written values stay, as the API server has them."""
        work = state.read(PodVolumes)
        if work is None:
            return
        for volume, _ in work.bindings:
            self._volumes.owners.release(volume.key, pod.uid)
        for claim in work.provisions:
            self._volumes.nodes.release(claim.key, pod.uid)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip pods with no claim to bind."""
        work = state.read(PodVolumes)
        return SUCCESS if work is not None and (work.bindings or work.provisions) else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Write the choice, and wait until every claim is bound. Raises ApiError if a write fails."""
        problem = await self._binder.bind(pod, node_name, state.expect(PodVolumes))
        return Status(Code.ERROR, (f"binding volumes: {problem}",)) if problem else SUCCESS

    def _claim(self, pod: Pod, use: ClaimUse) -> PersistentVolumeClaim | str:
        """Return a claim, or why it can't be used."""
        claim = self._objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
        if claim is None:
            if use.ephemeral:
                return claim_awaited(use.name)
            return claim_not_found(use.name)
        if claim.status.phase == "Lost":
            return claim_lost(use.name, claim.spec.volume_name)
        if claim.meta.deletion_timestamp is not None:
            return claim_deleted(use.name)
        owner = claim.meta.controller
        if use.ephemeral and (owner is None or owner.uid != pod.uid):
            return claim_not_owned(claim.key, pod.key)
        return claim

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether an unbound claim is left to the scheduler."""
        storage_class = self._objects.storage_classes.get(claim.class_name)
        return storage_class is not None and storage_class.waits and not claim.spec.volume_name

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], problems: _Problems) -> None:
        """Note the nodes from which the volume of a bound claim can't be reached, by the first such claim."""
        left = np.ones(len(problems), np.bool_)
        for claim in claims:
            volume = self._objects.persistent_volumes.get(claim.spec.volume_name)
            if volume is None:
                problems[left] |= _VOLUME_GONE
                return
            if volume.affinity is not None:
                reached = self._labels.mask(self._labels.of_node_selector(volume.affinity))
                problems[left & ~reached] |= _NODE_CONFLICT
                left &= reached

    def _check_waiting(self, claims: Sequence[PersistentVolumeClaim], problems: _Problems) -> _Findings:
        """Match claims with volumes, and note the nodes where that can't be and none can be made either."""
        left = np.ones(len(problems), np.bool_)
        selected = {claim.key: node for claim in claims if (node := self._volumes.selected_node(claim))}
        for node in selected.values():
            row = self.handle.columns.row_of.get(node)
            left &= self._labels.mask(np.array([] if row is None else [row], np.intp))
        problems[~left] |= _NO_VOLUME
        provided = tuple(claim for claim in claims if claim.key in selected)
        needs = [(claim, left.copy()) for claim in provided]
        matches: list[_Match] = []
        to_match = (claim for claim in claims if claim.key not in selected)
        for claim in sorted(to_match, key=lambda claim: claim.size or 0):
            matches.append(self._match(claim, left, matches))
            needs.append((claim, left & (matches[-1].chosen < 0)))
        for claim, rows in needs:
            lacking = self._check_provision(claim, rows & left, problems)
            left &= ~lacking
        return _Findings(problems, tuple(matches), provided)

    def _match(self, claim: PersistentVolumeClaim, wanted: Mask, earlier: Sequence[_Match]) -> _Match:
        """Choose a volume on each of the wanted rows: the one set aside for the claim, or the smallest free.

        A volume that an earlier claim of the pod would get on a row is not free there.
        """
        given = self._volumes.group_committed(claim)
        if given is not None:
            chosen = np.full(len(wanted), -1, np.intp)
            rows = self._labels.reached(given.affinity)
            chosen[rows[wanted[rows]]] = 0
            return _Match(claim, (given,), chosen)
        shelf = self._volumes.free(claim.class_name)
        promised = [key.name for key, _ in self._volumes.owners.items()]
        taken = [match.chosen for match in earlier if match.volumes is shelf.volumes]
        chosen = shelf.choose(claim, wanted, self._labels, promised=promised, taken=taken)
        return _Match(claim, shelf.volumes, chosen)

    def _check_provision(self, claim: PersistentVolumeClaim, rows: Mask, problems: _Problems) -> Mask:
        """Note where no volume can be provisioned for a claim. Return these rows."""
        storage_class = self._objects.storage_classes.get(claim.class_name)
        if storage_class is None or not storage_class.provisions:
            problems[rows] |= _NO_VOLUME
            return rows
        outside = rows & ~self._allowed(storage_class)
        problems[outside] |= _NO_VOLUME
        lacking: Mask = outside
        if (space := self._space(storage_class, claim)) is not None:
            full = rows & ~outside & (space < 0)
            problems[full] |= _NO_SPACE
            lacking = outside | full
        return lacking

    def _allowed(self, storage_class: StorageClass) -> Mask:
        """Return the nodes in the topology of a class."""
        if not storage_class.allowed_topologies:
            return np.ones(len(self.handle.columns), np.bool_)
        allowed = np.zeros(len(self.handle.columns), np.bool_)
        for term in storage_class.allowed_topologies:
            wanted = [Requirement(each.key, "In", each.values) for each in term.match_label_expressions]
            if wanted:
                allowed[self._labels.of_all(wanted)] = True
        return allowed

    def _space(
        self, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> npt.NDArray[np.int64] | None:
        """Return the bytes that the driver has for each node, by the first report that suffices for a claim.

        -1 is too little. None if the driver does not report its capacity, or the claim has no size.
        """
        driver = self._objects.csi_drivers.get(storage_class.provisioner)
        if claim.size is None or driver is None or not driver.spec.storage_capacity:
            return None
        space = np.full(len(self.handle.columns), -1, np.int64)
        for capacity in self._volumes.capacities(storage_class.meta.name):
            if capacity.node_topology is not None and capacity.limit >= claim.size:
                rows = self._labels.of_label_selector(capacity.node_topology)
                space[rows[space[rows] < 0]] = bounded(capacity.size)
        return space

    def _add_provision(self, storage: StorageUse, claim: PersistentVolumeClaim, where: Mask) -> None:
        """Add a claim to provision on these rows, if the driver reports its capacity."""
        storage_class = self._objects.storage_classes.get(claim.class_name)
        space = None if storage_class is None else self._space(storage_class, claim)
        if space is not None:
            storage.add_provision(claim.class_name, where & (space >= 0), bounded(claim.size), space)

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: objects that can bind claims, and volumes that another pod has freed."""
        return VolumeHints(self._objects).registrations()


def claim_awaited(name: str) -> str:
    """Say that an ephemeral claim is not there yet, as the others in kube-scheduler's words."""
    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'


def claim_lost(name: str, volume_name: str) -> str:
    """Say that a claim has lost its volume."""
    return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"'


def claim_deleted(name: str) -> str:
    """Say that a claim is being deleted."""
    return f'persistentvolumeclaim "{name}" is being deleted'


def claim_not_owned(claim: Key | str, pod: Key | str) -> str:
    """Say that an ephemeral claim belongs to another pod."""
    return f"PVC {claim} was not created for pod {pod} (pod is not owner)"
