"""All objects of a resource as they are now, for callers that read once and follow nothing."""

from types import MappingProxyType

import msgspec

from tidelock.kube.client import ApiResource, KubeClient, Params
from tidelock.kube.wire import parse_page

NO_SELECTORS: Params = MappingProxyType({})
_PAGE_LIMIT = 500


async def list_all(
    client: KubeClient, resource: ApiResource, namespace: str | None = None, chosen: Params = NO_SELECTORS
) -> list[msgspec.Raw]:
    """Return the objects of a resource, in one namespace or in all, page by page. Raises an ApiError.

    `chosen` are the selectors of the request, such as `labelSelector`.
    """
    objects: list[msgspec.Raw] = []
    token = ""
    while True:
        params = {**chosen, "limit": str(_PAGE_LIMIT)} | ({"continue": token} if token else {})
        page = parse_page(await client.get(resource.collection(namespace), params))
        objects += page.items or ()
        token = page.metadata.token
        if not token:
            return objects
