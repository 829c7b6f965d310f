"""GangScheduling: the pods of a PodGroup wait until the group exists and has as many pods as it needs.

The pods are then placed all or nothing (`scheduler/core/pod_group_scheduler`). Source: kube-scheduler 1.37,
framework/plugins/gangscheduling. There the feature gate GenericWorkload adds the plugin to the default
profile. Here the profiles that enable the plugin have the feature.
"""

from collections.abc import Sequence

from tidelock.cluster.pod_groups import group_of
from tidelock.framework.api import SUCCESS, Code, EnqueueExtensions, PreEnqueue, Status
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod

MEMBERS_AWAITED = "waiting for minCount pods from a gang to appear in scheduling queue"


class GangScheduling(PreEnqueue, EnqueueExtensions):
    """Keeps pods of incomplete PodGroups out of the active queue."""

    name = "GangScheduling"

    def pre_enqueue(self, pod: Pod) -> Status:
        """Gate a pod of a group that does not exist, can't be read, or has too few pods."""
        key = group_of(pod)
        if key is None:
            return SUCCESS
        groups = self.handle.objects.pod_groups
        group = groups.of_pod(pod)
        if group is None:
            reason = group_awaited(key.name)
        elif group.meta.unreadable:
            reason = f'pod group "{key.name}" can\'t be read: {group.meta.unreadable}'
        elif len(groups.pods(key)) < group.min_count:
            reason = MEMBERS_AWAITED
        else:
            return SUCCESS
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: pods of the same group that come or go, and changes of the group."""
        waiting = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD | Action.DELETE)
        placed = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
        return (
            Registration(waiting, _same_group),
            Registration(placed, _same_group),
            Registration(ClusterEvent(Resource.POD_GROUP, Action.ADD | Action.UPDATE), _needs_less),
        )


def group_awaited(name: str) -> str:
    """Return the reason for which a pod waits for its group, in kube-scheduler's words."""
    return f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'


def _same_group(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    other = new if new is not None else old
    group = group_of(pod)
    return other is not None and group is not None and group_of(other) == group


def _needs_less(pod: Pod, old: PodGroup | None, new: PodGroup) -> bool:
    """Return whether the pod's group is new, can be read again, or needs fewer pods than before."""
    if group_of(pod) != new.key:
        return False
    return old is None or bool(old.meta.unreadable) or new.min_count < old.min_count
