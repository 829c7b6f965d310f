"""Decides which pods may move: they are evicted for a reservation, and controllers replace them elsewhere.

A pod without a controller that replaces it never moves. In the reservation's own namespace, pods of the usual
controllers may move. In other namespaces, the pod or its namespace must agree by the annotation
`tidelock.dev/movable: "true"`, because the reservation is not theirs. So must, everywhere, a pod of any other
controller. "false" keeps a pod where it is, and so does the annotation that cluster-autoscaler reads.
"""

from math import inf

from tidelock.cluster.placed import Placed
from tidelock.framework.api import Handle
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import OwnerReference

MOVABLE = "tidelock.dev/movable"
"""Annotation of a pod or a namespace: whether its pods may be moved."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

_SYSTEM = "kube-system"
# Controllers, by group and kind, that make another pod for one that is evicted, which may go to another node.
_REPLACING = frozenset(
    {
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("", "ReplicationController"),
        ("apps.kruise.io", "CloneSet"),
        ("apps.kruise.io", "StatefulSet"),
    }
)
# Kinds that have their pods on the very node.
_ROOTED = frozenset({"DaemonSet", "Node"})


def may_be_moved(handle: Handle, placed: Placed, entry: ReservationInfo) -> bool:
    """Return whether a pod may be evicted for a reservation, apart from budgets."""
    pod = placed.pod
    if placed.assumed or pod.leaving or pod.uid in handle.cache.evicting:
        return False
    if pod.spec.priority > entry.priority or pod.run_seconds < inf or pod.borrows:
        return False
    if not _agrees(handle, placed, entry):
        return False
    shared = handle.reservations.shared.occupied_on(placed.node_name)
    in_a_reservation = any(pod.uid in each.occupants for each in shared)
    return not in_a_reservation and not handle.reservations.own(pod)


def _agrees(handle: Handle, placed: Placed, entry: ReservationInfo) -> bool:
    """Return whether a controller replaces the pod and no annotation keeps it."""
    meta, controller = placed.pod.meta, placed.pod.meta.controller
    if controller is None or controller.kind in _ROOTED or meta.namespace == _SYSTEM:
        return False
    movable = meta.annotations.get(MOVABLE)
    if movable == "false" or meta.annotations.get(SAFE_TO_EVICT) == "false":
        return False
    if movable == "true":
        return True
    if not _replaces(controller):
        return False
    if meta.namespace == entry.key.namespace:
        return True
    namespace = handle.objects.namespaces.get(meta.namespace)
    return namespace is not None and namespace.meta.annotations.get(MOVABLE) == "true"


def _replaces(controller: OwnerReference) -> bool:
    group, _, _ = controller.api_version.rpartition("/")
    return (group, controller.kind) in _REPLACING
