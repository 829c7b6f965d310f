"""The replicas of a workload that wait for a node, as pods of any scheduler, for Karmada's descheduler.

The scheduler's own queue has no pods of other schedulers, so the API server is asked. As in Karmada's
estimator (pkg/estimator/server/replica, version 1.18), a Deployment has the pods of its newest ReplicaSet,
and a pod is unschedulable if its scheduler says so in the condition PodScheduled.
"""

from tidelock.cluster.objects import Objects
from tidelock.integrations.karmada.requests import UnschedulableRequest
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.listing import list_all
from tidelock.model.instants import from_datetime
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.workloads import Workload

_GROUP = "apps"
_REVISION = "deployment.kubernetes.io/revision"
_UNSCHEDULABLE = ("PodScheduled", "False", "Unschedulable")


class UnsupportedKindError(ValueError):
    """Pods of workloads of this kind can't be found."""


class UnknownWorkloadError(ValueError):
    """No watch has shown such a workload."""


async def count_unschedulable(
    client: KubeClient, objects: Objects, request: UnschedulableRequest, now: float
) -> int:
    """Return how many pods of a workload have been unschedulable for longer than its threshold.

    Args:
        client: lists the pods that are not bound.
        objects: finds the ReplicaSet or StatefulSet that owns them.
        request: the workload.
        now: seconds since the epoch.

    Raises:
        UnsupportedKindError: the workload is neither a Deployment, a ReplicaSet nor a StatefulSet.
        UnknownWorkloadError: there is no such workload, or it has no pods yet.
        ApiError: the API server did not answer.

    """
    owner = _owner(objects, request)
    if owner is None:
        raise UnknownWorkloadError(f"{request.kind} {request.namespace}/{request.name} is not known")
    chosen = {"fieldSelector": "spec.nodeName="}
    if labels := owner.spec.selector.match_labels:
        chosen["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
    pods = map(decode_pod, await list_all(client, PODS, request.namespace, chosen))
    return sum(_waits(pod, owner, now - request.seconds) for pod in pods)


def _owner(objects: Objects, request: UnschedulableRequest) -> Workload | None:
    """Return the object that controls the pods of a workload."""
    group = request.api_version.rpartition("/")[0]
    match request.kind if group == _GROUP else "":
        case "Deployment":
            theirs = (
                each
                for each in objects.replica_sets.of(request.namespace)
                if (owner := each.meta.controller) is not None
                and (owner.kind, owner.name) == ("Deployment", request.name)
            )
            return max(theirs, key=_revision, default=None)
        case "ReplicaSet":
            return objects.replica_sets.get(request.name, request.namespace)
        case "StatefulSet":
            return objects.stateful_sets.get(request.name, request.namespace)
    raise UnsupportedKindError(f"{request.api_version} {request.kind} is not supported")


def _revision(replica_set: Workload) -> int:
    """Return the number by which a Deployment's controller orders its ReplicaSets."""
    text = replica_set.meta.annotations.get(_REVISION, "")
    return int(text) if text.isdecimal() else 0


def _waits(pod: Pod, owner: Workload, since: float) -> bool:
    controller = pod.meta.controller
    return (
        controller is not None
        and controller.uid == owner.meta.uid
        and any(
            (each.type, each.status, each.reason) == _UNSCHEDULABLE
            and each.last_transition_time is not None
            and from_datetime(each.last_transition_time) < since
            for each in pod.status.conditions
        )
    )
