"""The PodGroups, and the pods of each."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelock.cluster.lister import Lister
from tidelock.cluster.placed import Placed
from tidelock.model.meta import Key
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod


def group_of(pod: Pod) -> Key | None:
    """Return the name of the PodGroup with which a pod is scheduled, or None if it is scheduled alone."""
    group = pod.spec.scheduling_group
    return Key(pod.meta.namespace, group.pod_group_name) if group is not None else None


class CommonFields(NamedTuple):
    """The fields that must be equal in all pods of a group."""

    scheduler_name: str
    preemption_policy: str
    priority: int

    @classmethod
    def of(cls, pod: Pod) -> "CommonFields":
        """Return the fields of a pod."""
        return cls(pod.spec.scheduler_name, pod.spec.preemption_policy, pod.spec.priority)


@dataclass(slots=True)
class _Members:
    """The pods of a group by uid, the uids of those on nodes, and how many pods have which common fields.

    `due` is the end of the group's backoff, by the steady clock of the queue.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    fields: Counter[CommonFields] = field(default_factory=Counter)
    due: float = 0.0


class PodGroups(Lister[PodGroup]):
    """The PodGroups by name, and their pods by uid. A group may have pods before it exists."""

    def __init__(self) -> None:
        super().__init__()
        self._members: defaultdict[Key, _Members] = defaultdict(_Members)

    def of_pod(self, pod: Pod) -> PodGroup | None:
        """Return the group of a pod, or None if the pod names none, or one that does not exist."""
        key = group_of(pod)
        return self.get(key.name, key.namespace) if key is not None else None

    def pods(self, key: Key) -> Mapping[str, Pod]:
        """Return the pods of a group by uid: those that wait, and those on nodes."""
        return self._members[key].pods if key in self._members else {}

    def placed(self, key: Key) -> Collection[str]:
        """Return the uids of the pods of a group that are on nodes, or are being bound."""
        return self._members[key].placed if key in self._members else ()

    def common_fields(self, key: Key) -> Iterable[CommonFields]:
        """Return the different values of the fields that should be equal in all pods of a group."""
        return self._members[key].fields if key in self._members else ()

    def due(self, key: Key) -> float:
        """Return when the backoff of a group ends, or 0 if it was never refused."""
        return self._members[key].due if key in self._members else 0.0

    def back_off(self, key: Key, due: float) -> None:
        """Note when the backoff of a group ends. Pods that come later wait until then, too."""
        self._members[key].due = due

    def join(self, pod: Pod) -> bool:
        """Add a pod to its group, or update it. Return whether it is new there."""
        key = group_of(pod)
        if key is None:
            return False
        members = self._members[key]
        known = members.pods.get(pod.uid)
        if known is not None:
            _discount(members.fields, known)
        members.pods[pod.uid] = pod
        members.fields[CommonFields.of(pod)] += 1
        return known is None

    def leave(self, pod: Pod) -> bool:
        """Remove a pod from its group. Return whether it was there."""
        key = group_of(pod)
        if key is None or (known := self.pods(key).get(pod.uid)) is None:
            return False
        members = self._members[key]
        del members.pods[pod.uid]
        _discount(members.fields, known)
        self._drop_empty(key)
        return True

    def count_move(self, placed: Placed, sign: int) -> None:
        """Note that a pod came to a node (sign 1), or left it (-1)."""
        key = group_of(placed.pod)
        if key is None:
            return
        uids = self._members[key].placed
        (uids.add if sign > 0 else uids.discard)(placed.pod.uid)
        self._drop_empty(key)

    def _drop_empty(self, key: Key) -> None:
        members = self._members[key]
        if not members.pods and not members.placed:
            del self._members[key]


def _discount(counts: Counter[CommonFields], pod: Pod) -> None:
    fields = CommonFields.of(pod)
    counts[fields] -= 1
    if not counts[fields]:
        del counts[fields]
