"""Events in a cluster that may help a rejected pod: a resource, and an action on it.

Names, and the distinction of changes, are those of kube-scheduler 1.37 (framework/types.go,
framework/events.go). The resources Reservation and WaterLevel are Tidelock's own.
A rule that taints devices is a resource of its own here, and there a change of the slices with its devices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntFlag, StrEnum, auto
from typing import Any

from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import covers


class Resource(StrEnum):
    """The resource of an event."""

    POD = "Pod"
    """For registering alone: assigned, unscheduled and rejected pods."""
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    """An unbound pod that is new in its group, or has left it. Other changes of such pods are no events."""
    TARGET_POD = "TargetPod"
    """The rejected pod itself."""
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_CLAIM_TEMPLATE = "resource.k8s.io/ResourceClaimTemplate"
    """For reservations alone: a pod waits for its claim."""
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"
    RESERVATION = "Reservation"
    WATER_LEVEL = "WaterLevel"
    ANY = "*"
    """For registering alone: every resource."""


class Action(IntFlag):
    """The action. A change without a special action is an UPDATE of everything."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """The taints changed, or the node was uncordoned."""
    UPDATE_NODE_CONDITION = auto()
    """A condition changed, or all that decisions need of the node can be read again."""
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_SCALE_UP = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ACTIVE = auto()
    """A reservation has got capacity. The object is its `ReservationInfo`."""
    LENT = auto()
    """A reservation is active, and borrowers use some of it. The object is as for `ACTIVE`."""
    FREED = auto()
    """A reservation has freed capacity, or some of it. The object is its `ReservationInfo`."""
    ALL = ADD | DELETE | UPDATE | ACTIVE | LENT | FREED


_NAMES = {action: "".join(part.title() for part in (action.name or "").split("_")) for action in Action} | {
    Action.UPDATE: "Update",
    Action.ALL: "All",
}
_COVERED = {
    Resource.POD: frozenset(
        {Resource.POD, Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD}
    ),
    Resource.ANY: frozenset(Resource),
}


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and an action. Plugins can register for several actions at once."""

    resource: Resource
    action: Action

    @property
    def label(self) -> str:
        """The event's name in metrics."""
        return f"{self.resource}{_NAMES[self.action]}"

    def covers(self, event: "ClusterEvent") -> bool:
        """Return whether a registration for this event covers another one."""
        resources = _COVERED.get(self.resource)
        of_interest = event.resource in resources if resources else event.resource is self.resource
        return of_interest and not event.action & ~self.action


Hint = Callable[[Pod, Any, Any], bool]
"""Returns whether a rejected pod may fit now, from the pod and an object before and after the change, each of
which may be None. A hint that raises counts as a yes.
"""


OnlyUsers = Callable[[Any, Any], bool]
"""Returns whether a change of a claim concerns only the pods that name it, from the claim before and after,
each of which may be None. It is called once for all pods, and the hint only for the pods that remain.
"""


@dataclass(frozen=True, slots=True)
class Registration:
    """Events that may help a pod which a plugin refused: all of them, or those of which the hint says so.

    `only_users` is for claims of volumes and of devices alone. (kube-scheduler: PreQueueingHint)
    """

    event: ClusterEvent
    hint: Hint | None = None
    only_users: OnlyUsers | None = None


ANY_EVENT = Registration(ClusterEvent(Resource.ANY, Action.ALL))

ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
UNSCHEDULED_POD_DELETE = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
RESOURCE_CLAIM_DELETE = ClusterEvent(Resource.RESOURCE_CLAIM, Action.DELETE)
RESERVATION_ACTIVE = ClusterEvent(Resource.RESERVATION, Action.ACTIVE)
RESERVATION_LENT = ClusterEvent(Resource.RESERVATION, Action.LENT)
RESERVATION_FREED = ClusterEvent(Resource.RESERVATION, Action.FREED)

# Why pods enter a queue without any event.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"


def pod_changes(old: Pod, new: Pod) -> Iterator[ClusterEvent]:
    """Return the changes of a pod, as specifically as possible, or nothing if scheduling does not read them.

    A change without a special action is an UPDATE. Only the requests of the status count.
    """
    resource = Resource.ASSIGNED_POD if new.node_name else Resource.TARGET_POD
    actions = tuple(_pod_actions(old, new))
    if not actions and _wishes(old) != _wishes(new):
        actions = (Action.UPDATE,)
    return (ClusterEvent(resource, action) for action in actions)


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.meta.labels != new.meta.labels:
        yield Action.UPDATE_POD_LABEL
    if old.requests != new.requests:
        if not covers(new.requests, old.requests):
            yield Action.UPDATE_POD_SCALE_DOWN
        if not covers(old.requests, new.requests):
            yield Action.UPDATE_POD_SCALE_UP
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):  # they can be added, and not be changed
        yield Action.UPDATE_POD_TOLERATION
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _wishes(pod: Pod) -> tuple[object, ...]:
    meta = pod.meta
    return (pod.spec, meta.annotations, meta.owner_references, meta.deletion_timestamp, meta.unreadable)


def node_changes(old: Node, new: Node) -> Iterator[ClusterEvent]:
    """Return the changes of a node, or nothing if scheduling does not read them."""
    return (ClusterEvent(Resource.NODE, action) for action in _node_actions(old, new))


def _node_actions(old: Node, new: Node) -> Iterator[Action]:
    if old.allocatable != new.allocatable:
        yield Action.UPDATE_NODE_ALLOCATABLE
    if old.meta.labels != new.meta.labels:
        yield Action.UPDATE_NODE_LABEL
    if old.taints != new.taints or (old.unschedulable and not new.unschedulable):
        yield Action.UPDATE_NODE_TAINT
    heard = old.status.conditions != new.status.conditions and _states(old) != _states(new)
    if heard or (old.meta.unreadable and not new.meta.unreadable):
        yield Action.UPDATE_NODE_CONDITION
    if old.meta.annotations != new.meta.annotations:
        yield Action.UPDATE_NODE_ANNOTATION
    if old.declared_features != new.declared_features:
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def _states(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
