"""The workload that a pod is one of, found by owner references."""

from tidelock.cluster.lister import Lister
from tidelock.model.meta import OwnerReference
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import WORKLOAD_KINDS, WorkloadKey
from tidelock.model.workloads import Workload

_REPLICA_SET = ("apps", "ReplicaSet")


def workload_of(pod: Pod, replica_sets: Lister[Workload]) -> WorkloadKey | None:
    """Return the workload for which use is kept. A ReplicaSet stands for its Deployment."""
    owner = workload_reference(pod, replica_sets)
    return None if owner is None else WorkloadKey(owner.kind, pod.meta.namespace, owner.name)


def workload_reference(pod: Pod, replica_sets: Lister[Workload]) -> OwnerReference | None:
    """Find the same workload with its uid, as its pods or its ReplicaSet refer to it."""
    owner = pod.meta.controller
    if owner is not None and (_group(owner), owner.kind) == _REPLICA_SET:
        replica_set = replica_sets.get(owner.name, pod.meta.namespace)
        owner = replica_set.meta.controller if replica_set is not None else None
    return owner if owner is not None and WORKLOAD_KINDS.get(owner.kind) == _group(owner) else None


def _group(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]
