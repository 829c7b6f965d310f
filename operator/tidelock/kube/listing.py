"""All objects of a resource as they are now, for callers that read once and follow nothing."""

from collections.abc import AsyncIterator
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
    return [each async for page in pages(client, resource, namespace, chosen) for each in page]


async def pages(
    client: KubeClient,
    resource: ApiResource,
    namespace: str | None = None,
    chosen: Params = NO_SELECTORS,
    *,
    limit: int = _PAGE_LIMIT,
) -> AsyncIterator[list[msgspec.Raw]]:
    """Yield the same objects in lists of at most `limit`. Raises an ApiError."""
    token = ""
    while True:
        params = {**chosen, "limit": str(limit)} | ({"continue": token} if token else {})
        page = parse_page(await client.get(resource.collection(namespace), params))
        yield page.items or []
        token = page.metadata.token
        if not token:
            return
