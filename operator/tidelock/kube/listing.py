"""All objects of a resource as they are now, for callers that read once and follow nothing."""

import msgspec

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.wire import parse_page

_PAGE_LIMIT = 500


async def list_all(
    client: KubeClient, resource: ApiResource, namespace: str | None = None
) -> list[msgspec.Raw]:
    """Return the objects of a resource, in one namespace or in all, page by page. Raises an ApiError."""
    objects: list[msgspec.Raw] = []
    token = ""
    while True:
        params = {"limit": str(_PAGE_LIMIT)} | ({"continue": token} if token else {})
        page = parse_page(await client.get(resource.collection(namespace), params))
        objects += page.items or ()
        token = page.metadata.token
        if not token:
            return objects
