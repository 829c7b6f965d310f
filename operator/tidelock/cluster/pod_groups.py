"""The PodGroups, and the pods of each."""

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType

from tidelock.cluster.lister import Lister
from tidelock.model.meta import Key
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod

_NONE: Mapping[str, Pod] = MappingProxyType({})


def group_of(pod: Pod) -> Key | None:
    """Return the name of the PodGroup with which a pod is scheduled, or None if it is scheduled alone."""
    group = pod.spec.scheduling_group
    return Key(pod.meta.namespace, group.pod_group_name) if group is not None else None


class PodGroups(Lister[PodGroup]):
    """The PodGroups by name, and their pods by uid. A group may have pods before it exists."""

    def __init__(self) -> None:
        super().__init__()
        self._pods: defaultdict[Key, dict[str, Pod]] = defaultdict(dict)

    def of_pod(self, pod: Pod) -> PodGroup | None:
        """Return the group of a pod, or None if the pod names none, or one that does not exist."""
        key = group_of(pod)
        return self.get(key.name, key.namespace) if key is not None else None

    def pods(self, key: Key) -> Mapping[str, Pod]:
        """Return the pods of a group by uid: those that wait, and those on nodes."""
        return self._pods.get(key, _NONE)

    def join(self, pod: Pod) -> bool:
        """Add a pod to its group, or update it. Return whether it is new there."""
        key = group_of(pod)
        if key is None:
            return False
        new = pod.uid not in self.pods(key)
        self._pods[key][pod.uid] = pod
        return new

    def leave(self, pod: Pod) -> bool:
        """Remove a pod from its group. Return whether it was there."""
        key = group_of(pod)
        if key is None or self.pods(key).get(pod.uid) is None:
            return False
        del self._pods[key][pod.uid]
        if not self._pods[key]:
            del self._pods[key]
        return True
