"""UnreadableObjects: nothing is placed by an object that can't be read, nor a pod that is too large.

A node has one if it can't be read itself, or a pod on it: how much it has left is not known. kube-scheduler
has no such plugin: its client fails as a whole where an object can't be decoded. It decides on pods of any
size. A pod beyond the limits (`model/pod_limits`) that is bound counts in full, and its node takes others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tidelock.cluster.lister import Named
from tidelock.cluster.placed import Placed
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SKIP,
    SUCCESS,
    Code,
    EnqueueExtensions,
    Handle,
    Mask,
    PreFilter,
    SingleReasonFilter,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.meta import ObjectMeta
from tidelock.model.pod_limits import excess_of_decided, too_large_text
from tidelock.model.pod_volumes import ClaimUse
from tidelock.model.pods import Pod
from tidelock.model.storage import CsiNode

_CHANGES = Action.ADD | Action.UPDATE
_OF_CLAIMS = (
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.PERSISTENT_VOLUME,
    Resource.STORAGE_CLASS,
    Resource.CSI_DRIVER,
)


class UnreadableObjects(PreFilter, SingleReasonFilter, EnqueueExtensions):
    """Refuses pods that can't be read, or are too large, and rules out nodes with an unreadable object."""

    name = "UnreadableObjects"
    reason = "node(s) had an unreadable object"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, args)
        self._pods: Counter[str] = Counter()  # placed pods that can't be read, by node
        self._csi_nodes: set[str] = set()
        handle.cache.on_move(self._move)
        for csi_node in handle.objects.csi_nodes.all():
            self._put_csi_node(None, csi_node)
        handle.objects.csi_nodes.on_change(self._put_csi_node)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Reject unreadable and too large pods. Skip others as long as all nodes are readable."""
        if problem := self._problem(pod):
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (problem,))
        barred = self._pods or (pod.claims and self._csi_nodes) or snapshot.traits.unreadable.any()
        return SUCCESS if barred else SKIP

    def allowed(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask | None:
        """Allow the nodes that the filter keeps: of the others too little is known for any other reason."""
        return self.filter(state, pod, snapshot)

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Keep nodes that can be read with all their pods, and their CSINode if the pod has volumes."""
        names = self._pods.keys() | self._csi_nodes if pod.claims else self._pods.keys()
        return ~(snapshot.traits.unreadable | snapshot.called(names))

    def preemption_may_help(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> bool:
        """Return False: no eviction makes an object readable."""
        return False

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: new nodes, and any other version of an unreadable object."""
        goes = Action.DELETE | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.NODE, _CHANGES), _may_fit),
            Registration(ClusterEvent(Resource.CSI_NODE, goes), _may_fit),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, goes), _may_fit),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE)),
            *(Registration(ClusterEvent(resource, _CHANGES), self._is_read) for resource in _OF_CLAIMS),
        )

    def _is_read(self, pod: Pod, _: Named | None, new: Named) -> bool:
        """Return whether a claim of a pod is judged by an object, unless the pod is too large itself."""
        metas = (meta for use in pod.claims for _, meta in self._read_for(pod, use))
        return not excess_of_decided(pod) and any(meta is new.meta for meta in metas)

    def _problem(self, pod: Pod) -> str:
        """Return why a pod can't be decided, by itself or by one of its volumes, or an empty text."""
        if pod.meta.unreadable:
            return f"pod can't be read: {pod.meta.unreadable}"
        if too_much := excess_of_decided(pod):
            return too_large_text(too_much)
        for use in pod.claims:
            for kind, meta in self._read_for(pod, use):
                if meta.unreadable:
                    return f'{kind} "{meta.name}" can\'t be read: {meta.unreadable}'
        return ""

    def _read_for(self, pod: Pod, use: ClaimUse) -> Iterator[tuple[str, ObjectMeta]]:
        """Yield the objects by which a claim is judged. A claim with a volume needs no class."""
        objects = self.handle.objects
        claim = objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
        if claim is None:
            return
        yield "persistentvolumeclaim", claim.meta
        if (volume := objects.persistent_volumes.get(claim.spec.volume_name)) is not None:
            yield "persistentvolume", volume.meta
        if claim.bound or (storage_class := objects.storage_classes.get(claim.class_name)) is None:
            return
        yield "storageclass", storage_class.meta
        if (driver := objects.csi_drivers.get(storage_class.provisioner)) is not None:
            yield "csidriver", driver.meta

    def _move(self, placed: Placed, sign: int) -> None:
        if not placed.pod.meta.unreadable:
            return
        self._pods[placed.node_name] += sign
        if not self._pods[placed.node_name]:
            del self._pods[placed.node_name]

    def _put_csi_node(self, old: CsiNode | None, new: CsiNode | None) -> None:
        if old is not None:
            self._csi_nodes.discard(old.meta.name)
        if new is not None and new.meta.unreadable:
            self._csi_nodes.add(new.meta.name)


def _may_fit(pod: Pod, old: Named | None, _: Named | None) -> bool:
    """Return whether an object is new or was unreadable. A pod that is too large waits for itself."""
    return not excess_of_decided(pod) and (old is None or bool(old.meta.unreadable))
