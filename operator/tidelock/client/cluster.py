"""One cluster: its connection, its time limits, and one watch for each namespace in use."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from tidelock import __version__
from tidelock.client.errors import Misconfigured, translated
from tidelock.client.informer import Informer
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import ConfigError, load_connection
from tidelock.kube.errors import ApiError

MANAGER = "tidelock-client"
"""The default fieldManager of the client's writes."""


class Cluster:
    """A connection to one cluster; use it as an async context manager.

    Each request ends within `timeout` seconds, so a cluster that can't be reached never delays the others.
    Opening sends no request. All methods raise the errors of `tidelock.client`, and no others.

    Args:
        name: the manager's name for the cluster, which errors carry.
        kubeconfig: file with the address and the credentials. Default: $KUBECONFIG, the pod's service
            account or ~/.kube/config, in this order.
        context: context of the kubeconfig. Default: the current one.
        namespace: namespace of the reservations. Default: that of the context or of the pod.
        timeout: seconds for each request.
        manager: name of the manager, as the API server records it with each write.

    """

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: str | Path | None = None,
        context: str = "",
        namespace: str = "",
        timeout: float = 5.0,
        manager: str = MANAGER,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.timeout = timeout
        self._kubeconfig = kubeconfig
        self._context = context
        self._manager = manager
        self._client: KubeClient
        self._stack = AsyncExitStack()
        self._informers: dict[tuple[ApiResource, str], Informer] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"

    async def __aenter__(self) -> Self:
        try:
            connection = await asyncio.to_thread(load_connection, self._kubeconfig, context=self._context)
            self._client = await self._stack.enter_async_context(
                KubeClient(
                    connection,
                    user_agent=f"{self._manager}/{__version__}",
                    timeout_seconds=self.timeout,
                    manager=lambda: self._manager,
                )
            )
        except ConfigError as error:
            raise Misconfigured(str(error), cluster=self.name) from error
        self.namespace = self.namespace or connection.namespace
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def get(self, resource: ApiResource, name: str, namespace: str = "") -> bytes:
        """Read an object of any kind and return its JSON."""
        with self._errors():
            return await self._client.get(resource.item(name, namespace or self.namespace))

    async def create(self, resource: ApiResource, body: object, namespace: str = "") -> bytes:
        """Create an object of any kind and return its JSON. An unknown field is an error."""
        params = {"fieldManager": self._manager, "fieldValidation": "Strict"}
        with self._errors():
            return await self._client.request(
                "POST", resource.collection(namespace or self.namespace), params=params, body=body
            )

    async def patch(self, resource: ApiResource, name: str, body: object, namespace: str = "") -> bytes:
        """Change an object by a JSON merge patch and return its JSON."""
        with self._errors():
            return await self._client.patch(resource.item(name, namespace or self.namespace), body)

    async def delete(self, resource: ApiResource, name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, if it has that uid."""
        with self._errors():
            await self._client.delete(resource.item(name, namespace or self.namespace), uid=uid or None)

    def informer(self, resource: ApiResource, namespace: str) -> Informer:
        """Return the shared watch of a kind in a namespace, which begins with its first use."""
        key = (resource, namespace)
        if key not in self._informers:
            self._informers[key] = informer = Informer(self._client, resource, namespace)
            self._tasks.add(asyncio.create_task(informer.run()))
        return self._informers[key]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise translated(error, self.name) from error
        except ConfigError as error:
            raise Misconfigured(str(error), cluster=self.name) from error
