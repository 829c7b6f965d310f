"""Binds the volumes that were chosen for a pod, and waits until its claims are bound.

Semantics of kube-scheduler 1.36, plugins/volumebinding/binder.go.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tidelock.framework.api import Api, Handle
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.pods import Pod
from tidelock.model.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tidelock.plugins.volume_binding.volumes import Volumes

# Longest time in seconds after which a pod or node is noticed that goes while volumes are bound.
_LONGEST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes chosen for a pod's claims, and the claims for which volumes must be provisioned."""

    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    provisions: tuple[PersistentVolumeClaim, ...]

    def claims(self) -> Iterator[PersistentVolumeClaim]:
        """Yield all claims."""
        yield from (claim for _, claim in self.bindings)
        yield from self.provisions


class VolumeBinder:
    """Writes volumes and claims, and follows them.

    Args:
        handle: the nodes, pods and objects, and the API.
        volumes: the assumed values of volumes and claims.
        timeout: seconds after which claims that are not bound count as failed.

    """

    def __init__(self, handle: Handle, volumes: Volumes, timeout: float) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._volumes = volumes
        self._timeout = timeout
        self._waiting: defaultdict[Key, set[asyncio.Event]] = defaultdict(set)
        handle.objects.persistent_volume_claims.on_change(self._claim_changed)
        handle.objects.persistent_volumes.on_change(self._volume_changed)

    async def bind(self, pod: Pod, node_name: str, work: PodVolumes) -> str:
        """Bind a pod's volumes. Return the problem, or an empty text.

        Raises:
            ApiError: a write failed.

        """
        api = self._handle.api
        if api is None:
            raise RuntimeError("volumes can't be bound where decisions are only tried out")
        versions: dict[Key, int] = {}  # the versions that the listers must have reached
        for volume, claim in work.bindings:
            if problem := await self._write_owner(api, volume.key, claim, versions):
                return problem
        for claim in work.provisions:
            if problem := await self._write_node(api, claim.key, node_name, versions):
                return problem
        try:
            async with asyncio.timeout(self._timeout):
                return await self._until_bound(pod, node_name, work, versions)
        except TimeoutError:
            return "context deadline exceeded"

    async def _write_owner(
        self, api: Api, key: Key, claim: PersistentVolumeClaim, versions: dict[Key, int]
    ) -> str:
        """Reserve a volume for a claim, unless it is already. Return the problem, if there is one."""
        volume = self._objects.persistent_volumes.get(key.name)
        if volume is None:
            return f'persistentvolume "{key.name}" not found'
        owner = volume.spec.claim_ref
        if owner is not None and not owner.names(claim.meta):
            return f'volume "{key.name}" already bound to a different claim.'
        versions[key] = volume.meta.version
        if owner is not None and owner.uid:
            return ""
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.meta.namespace,
            "name": claim.meta.name,
            "uid": claim.meta.uid,
            "resourceVersion": claim.meta.resource_version,
        }
        # A volume that a user has reserved stays without the annotation.
        annotations = {BOUND_BY_CONTROLLER: "yes"} if owner is None else {}
        body = {"metadata": _unchanged(volume.meta, annotations), "spec": {"claimRef": reference}}
        answer = await api.patch(f"/api/v1/persistentvolumes/{key.name}", body)
        versions[key] = _version(answer)
        self._volumes.owners.wrote(key, versions[key])
        return ""

    async def _write_node(self, api: Api, key: Key, node_name: str, versions: dict[Key, int]) -> str:
        """Request a volume for a claim on a node. Return the problem, if there is one."""
        claim = self._objects.persistent_volume_claims.get(key.name, key.namespace)
        if claim is None:
            return claim_not_found(key.name)
        versions[key] = claim.meta.version
        if claim.selected_node == node_name:
            return ""
        body = {"metadata": _unchanged(claim.meta, {SELECTED_NODE: node_name})}
        path = f"/api/v1/namespaces/{key.namespace}/persistentvolumeclaims/{key.name}"
        versions[key] = _version(await api.patch(path, body))
        self._volumes.nodes.wrote(key, versions[key])
        return ""

    async def _until_bound(self, pod: Pod, node_name: str, work: PodVolumes, versions: dict[Key, int]) -> str:
        """Wait until all claims are bound. Return the problem, or an empty text."""
        event = asyncio.Event()
        for claim in work.claims():
            self._waiting[claim.key].add(event)
        try:
            while (result := self._look(pod, node_name, work, versions)) is None:
                event.clear()
                handle = asyncio.get_running_loop().call_later(_LONGEST_WAIT, event.set)
                try:
                    await event.wait()
                finally:
                    handle.cancel()
            return result
        finally:
            for claim in work.claims():
                self._waiting[claim.key].discard(event)
                if not self._waiting[claim.key]:
                    del self._waiting[claim.key]

    def _look(self, pod: Pod, node_name: str, work: PodVolumes, versions: dict[Key, int]) -> str | None:
        """Return a problem, an empty text if all claims are bound, or None while that is open."""
        if self._handle.cache.get(pod.uid) is None:
            return f'pod does not exist any more: pod "{pod.meta.name}" not found'
        row = self._handle.columns.row_of.get(node_name)
        if row is None:
            return f'failed to get node "{node_name}": node "{node_name}" not found'
        verdicts = [self._look_at_binding(binding, row, versions) for binding in work.bindings]
        verdicts += [self._look_at_provision(claim.key, row, versions) for claim in work.provisions]
        return next(filter(None, verdicts), None if None in verdicts else "")

    def _look_at_binding(
        self, binding: tuple[PersistentVolume, PersistentVolumeClaim], row: int, versions: dict[Key, int]
    ) -> str | None:
        key, claim_key = binding[0].key, binding[1].key
        volume = self._objects.persistent_volumes.get(key.name)
        claim = self._objects.persistent_volume_claims.get(claim_key.name, claim_key.namespace)
        if volume is None:
            return f'failed to check binding: persistentvolume "{key.name}" not found'
        if claim is None:
            return f"failed to check binding: {claim_not_found(claim_key)}"
        if volume.meta.version < versions[key]:
            return None
        if not self._reaches(volume, row):
            return self._unreachable(volume, row)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            return f'ClaimRef got reset for pv "{key.name}"'
        return "" if claim.bound else None

    def _look_at_provision(self, key: Key, row: int, versions: dict[Key, int]) -> str | None:
        claim = self._objects.persistent_volume_claims.get(key.name, key.namespace)
        if claim is None:
            return f"failed to check provisioning pvc: {claim_not_found(key)}"
        if claim.meta.version < versions[key]:
            return None
        if claim.selected_node != self._handle.columns.nodes[row].name:
            return f'provisioning failed for PVC "{key.name}"'
        if claim.spec.volume_name:
            volume = self._objects.persistent_volumes.get(claim.spec.volume_name)
            if volume is None:
                return None
            if not self._reaches(volume, row):
                return self._unreachable(volume, row)
        return "" if claim.bound else None

    def _reaches(self, volume: PersistentVolume, row: int) -> bool:
        labels = self._handle.columns.nodes[row].meta.labels
        return volume.affinity is None or volume.affinity.matches("", labels)

    def _unreachable(self, volume: PersistentVolume, row: int) -> str:
        names = f'"{volume.meta.name}"', f'"{self._handle.columns.nodes[row].name}"'
        return "pv {} node affinity doesn't match node {}: no matching NodeSelectorTerms".format(*names)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        if claim is not None:
            self._wake(claim.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for volume in (old, new):
            if volume is not None and (owner := volume.spec.claim_ref) is not None:
                self._wake(Key(owner.namespace, owner.name))

    def _wake(self, claim: Key) -> None:
        for event in self._waiting.get(claim, ()):
            event.set()


def _unchanged(meta: ObjectMeta, annotations: dict[str, str]) -> dict[str, object]:
    """Return the metadata of a patch that is refused if the object has changed since it was seen."""
    return {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations}


class _Answer(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def _version(answer: bytes) -> int:
    return msgspec.json.decode(answer, type=_Answer).metadata.version
