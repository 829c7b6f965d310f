"""What an earlier process wrote down of workloads: read once, at the start."""

import logging
from collections.abc import Iterator

import msgspec

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.wire import parse_page
from tidelock.load.annotator import workload_resource
from tidelock.load.slices import in_slices, paced
from tidelock.model.levels import (
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


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta


_decode_object = msgspec.json.Decoder(_Object).decode


async def stored_uses(client: KubeClient) -> dict[WorkloadKey, PodUsage]:
    """Read the annotations of all workloads; a kind that can't be listed is left out and told of."""
    found: dict[WorkloadKey, PodUsage] = {}
    for kind, group in WORKLOAD_KINDS.items():
        try:
            await _read(client, kind, f"{group}/{_VERSIONS.get(group, 'v1')}", found)
        except NotFound:
            continue  # its CRD is not installed
        except ApiError as error:
            logger.warning("stored use of pods was not read", extra={"kind": kind, "error": str(error)})
    return found


async def _read(client: KubeClient, kind: str, api_version: str, found: dict[WorkloadKey, PodUsage]) -> None:
    path, token = workload_resource(kind, api_version).collection(), ""
    while True:
        params = {"limit": _PAGE} | ({"continue": token} if token else {})
        page = parse_page(await client.get(path, params))
        await in_slices(_decode(kind, page.items or [], found))
        token = page.metadata.token
        if not token:
            return


def _decode(kind: str, items: list[msgspec.Raw], found: dict[WorkloadKey, PodUsage]) -> Iterator[None]:
    for raw in paced(items):
        if raw is None:
            yield
            continue
        meta = _decode_object(raw).metadata
        text = meta.annotations.get(POD_USAGE)
        if text is None:
            continue
        usage = decode_pod_usage(text)
        if isinstance(usage, Unreadable):
            fields = {"kind": kind, "workload": f"{meta.namespace}/{meta.name}", "error": usage.problem}
            logger.warning("stored use of pods is unreadable", extra=fields)
        else:
            found[WorkloadKey(kind, meta.namespace, meta.name)] = usage
