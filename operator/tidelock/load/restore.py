"""Measured use of workloads that an earlier process stored, read once at the start."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.wire import parse_page
from tidelock.load.annotator import workload_resource
from tidelock.load.cooperative import in_slices, paced
from tidelock.model.lenient import decode
from tidelock.model.meta import OwnerReference
from tidelock.model.usage_annotations import (
    POD_USAGE,
    WORKLOAD_KINDS,
    PodUsage,
    Unreadable,
    WorkloadKey,
    decode_pod_usage,
)

logger = logging.getLogger(__name__)

_PAGE = "500"
_VERSIONS = {"apps.kruise.io": "v1alpha1"}


class StoredUse(NamedTuple):
    """The stored use of one pod of a workload, and the workload as its pods refer to it."""

    usage: PodUsage
    owner: OwnerReference


class _Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta


async def stored_uses(client: KubeClient) -> dict[WorkloadKey, StoredUse]:
    """Read the annotations of all workloads. A kind that can't be listed is left out and logged."""
    found: dict[WorkloadKey, StoredUse] = {}
    for kind, group in WORKLOAD_KINDS.items():
        try:
            await _read(client, kind, f"{group}/{_VERSIONS.get(group, 'v1')}", found)
        except NotFound:
            continue  # its CRD is not installed
        except ApiError as error:
            logger.warning("stored use of pods was not read", extra={"kind": kind, "error": str(error)})
    return found


async def _read(client: KubeClient, kind: str, api_version: str, found: dict[WorkloadKey, StoredUse]) -> None:
    resource, token = workload_resource(kind, api_version), ""
    while True:
        params = {"limit": _PAGE} | ({"continue": token} if token else {})
        page = parse_page(await client.get(resource.collection(), params))
        await in_slices(_decode(resource, page.items or [], found))
        token = page.metadata.token
        if not token:
            return


def _decode(
    resource: ApiResource, items: list[msgspec.Raw], found: dict[WorkloadKey, StoredUse]
) -> Iterator[None]:
    kind = resource.kind
    for raw in paced(items):
        if raw is None:
            yield
            continue
        meta = decode(raw, _Object).metadata
        text = meta.annotations.get(POD_USAGE)
        if text is None:
            continue
        usage = decode_pod_usage(text)
        if isinstance(usage, Unreadable):
            fields = {"kind": kind, "workload": f"{meta.namespace}/{meta.name}", "error": usage.problem}
            logger.warning("stored use of pods is unreadable", extra=fields)
        else:
            owner = OwnerReference(resource.api_version, kind, meta.name, meta.uid)
            found[WorkloadKey(kind, meta.namespace, meta.name)] = StoredUse(usage, owner)
