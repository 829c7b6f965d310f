"""The pods that belong together with a pod, by its Services and its controller.

The semantics are those of kube-scheduler 1.36, plugins/helper, DefaultSelector.
"""

from tidelock.cluster.index.selection import Selection
from tidelock.cluster.objects import Objects
from tidelock.model.pod_limits import CONDITIONS, LIMITS
from tidelock.model.pods import Pod
from tidelock.model.selectors import LabelSelector

_ANYTHING = LabelSelector()
_EMPTY = Selection()


def default_selection(pod: Pod, objects: Objects) -> Selection:
    """Join the selectors of the Services that select a pod and of the controller that made it.

    The result is empty if there are none.
    """
    namespace, labels = pod.meta.namespace, pod.meta.labels
    plain: dict[str, str] = {}
    for service in objects.services.of(namespace):
        wanted = service.spec.selector
        if wanted and wanted.items() <= labels.items():
            plain |= wanted
    owned = _ANYTHING
    owner = pod.meta.controller
    if owner is not None:
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                replication = objects.replication_controllers.get(owner.name, namespace)
                plain |= replication.spec.selector if replication else {}
            case "apps/v1", "ReplicaSet":
                replicas = objects.replica_sets.get(owner.name, namespace)
                owned = replicas.spec.selector if replicas else owned
            case "apps/v1", "StatefulSet":
                stateful = objects.stateful_sets.get(owner.name, namespace)
                owned = stateful.spec.selector if stateful else owned
            case _:
                pass
    if owned.size > LIMITS[CONDITIONS]:
        owned = _ANYTHING  # the author of a selector must not decide how long a decision takes
    return Selection.of(owned, *plain.items()) if plain or owned is not _ANYTHING else _EMPTY
