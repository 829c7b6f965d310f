"""The pods that wait for a node, by kind: pods of a kind get the same verdict about each node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from tidelock.cluster.workloads import workload_of
from tidelock.model.pods import Pod
from tidelock.shadow.world import ShadowWorld

_ENCODE = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class OpenPod:
    """A pod that is neither bound nor gated, from the moment in which it was first seen.

    Attributes:
        pod: its newest version.
        since: when it was first seen without a node and without a gate.
        manager: the workload or the namespace that it belongs to.
        refused: whether its scheduler has reported it as unschedulable.
        lost_at: when another pod took the last capacity that it had, if one did.
        waited: seconds for which it was seen waiting, after the first few.
        fitted: seconds of these in which some node fitted it.

    """

    pod: Pod
    since: float
    manager: str
    refused: bool = False
    lost_at: float | None = None
    waited: float = 0.0
    fitted: float = 0.0


def is_open(pod: Pod) -> bool:
    """Return whether a scheduler may bind the pod now."""
    return not (pod.node_name or pod.leaving or pod.spec.scheduling_gates)


def is_refused(pod: Pod) -> bool:
    """Return whether the pod's scheduler reports that no node fits."""
    return any(
        (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable")
        for each in pod.status.conditions
    )


def manager_of(pod: Pod, world: ShadowWorld) -> str:
    """Return the name of the workload that creates such pods, or of the namespace of a bare pod."""
    workload = workload_of(pod, world.replica_sets)
    if workload is not None:
        return f"{workload.kind} {workload.namespace}/{workload.name}"
    owner = pod.meta.controller
    if owner is not None:
        return f"{owner.kind} {pod.meta.namespace}/{owner.name}"
    return f"namespace {pod.meta.namespace}"


class OpenPods:
    """The open pods of a cluster, by uid and by kind."""

    def __init__(self, world: ShadowWorld) -> None:
        self._world = world
        self._pods: dict[str, OpenPod] = {}
        self._kind_of: dict[str, object] = {}
        self._kinds: dict[object, dict[str, OpenPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[OpenPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> OpenPod | None:
        """Return an open pod, or None."""
        return self._pods.get(uid)

    def put(self, pod: Pod, now: float) -> OpenPod:
        """Add an open pod, or update it."""
        known = self._pods.get(pod.uid)
        if known is None:
            known = OpenPod(pod, now, manager_of(pod, self._world))
        known.pod = pod
        self._unlist(pod.uid)
        self._pods[pod.uid] = known
        kind = self._kind_of[pod.uid] = _kind(pod)
        self._kinds.setdefault(kind, {})[pod.uid] = known
        return known

    def remove(self, uid: str) -> OpenPod | None:
        """Remove a pod that is bound, gated or gone. Return it if it was open."""
        self._unlist(uid)
        return self._pods.pop(uid, None)

    def kinds(self, most: int) -> Iterable[list[OpenPod]]:
        """Return the pods of each kind, for at most so many kinds, those that came last first."""
        newest = list(self._kinds.values())[: -most - 1 : -1]
        return [list(pods.values()) for pods in newest]

    @property
    def kind_count(self) -> int:
        """The number of kinds."""
        return len(self._kinds)

    def _unlist(self, uid: str) -> None:
        kind = self._kind_of.pop(uid, None)
        if kind is None:
            return
        del self._kinds[kind][uid]
        if not self._kinds[kind]:
            del self._kinds[kind]


def _kind(pod: Pod) -> object:
    """Return a key that is equal for pods with the same demands, neighbours, priority and nomination."""
    spec = pod.spec
    return (
        pod.placement_key,
        pod.meta.namespace,
        tuple(sorted(pod.meta.labels.items())),
        _ENCODE((spec.affinity, spec.topology_spread_constraints)),
        spec.scheduler_name,
        spec.priority,
        pod.uid if pod.status.nominated_node_name else "",
    )
