"""The claims of a pod, for queueing hints."""

from collections.abc import Iterator
from itertools import chain

from tidelock.cluster.objects import Objects
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.meta import Key
from tidelock.model.pod_limits import excess_of_decided
from tidelock.model.pods import Pod
from tidelock.model.storage import PersistentVolumeClaim


def of_used_claims(actions: Action) -> Registration:
    """Return the registration of additions and changes of the claims for volumes that a pod uses."""
    event = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, actions)
    return Registration(event, _uses_claim, only_users=lambda _old, _new: True)


def named_claims(pod: Pod) -> Iterator[tuple[Resource, Key]]:
    """Yield the claims that a pod names: those of its volumes, and those of devices that it names by now.

    A pod that is too large to be decided waits for none.
    """
    if not (pod.spec.volumes or pod.spec.resource_claims) or excess_of_decided(pod):
        return
    namespace = pod.meta.namespace
    for use in pod.claims:
        yield Resource.PERSISTENT_VOLUME_CLAIM, Key(namespace, use.name)
    named = (each.resource_claim_name for each in pod.spec.resource_claims)
    made = (each.resource_claim_name for each in pod.status.resource_claim_statuses)
    for name in chain(named, made):
        if name is not None:
            yield Resource.RESOURCE_CLAIM, Key(namespace, name)


def known_claims(pod: Pod, objects: Objects) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims of a pod that exist."""
    for use in pod.claims:
        claim = objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
        if claim is not None:
            yield claim


def claim_not_found(name: object) -> str:
    """Return the reason for which a pod waits for a claim, in kube-scheduler's words."""
    return f'persistentvolumeclaim "{name}" not found'


def _uses_claim(pod: Pod, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    return new.meta.namespace == pod.meta.namespace and any(use.name == new.meta.name for use in pod.claims)
