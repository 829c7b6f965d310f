"""The claims of a pod, for the queueing hints of the volume plugins."""

from collections.abc import Iterator

from tidelock.cluster.objects import Objects
from tidelock.model.pods import Pod
from tidelock.model.storage import PersistentVolumeClaim


def uses_claim(pod: Pod, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """Return whether a pod uses a claim that is new or has changed. This is a queueing hint."""
    return new.meta.namespace == pod.meta.namespace and any(use.name == new.meta.name for use in pod.claims)


def known_claims(pod: Pod, objects: Objects) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims of a pod that exist."""
    for use in pod.claims:
        claim = objects.persistent_volume_claims.get(use.name, pod.meta.namespace)
        if claim is not None:
            yield claim
