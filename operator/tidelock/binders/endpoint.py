"""The leader's address: the one endpoint of a Service that selects no pods.

A standby has seen no bindings and no objects. So it must not answer, although its probe reports ready.
"""

import asyncio
import ipaddress
import logging
from typing import NoReturn

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.meta import Key

logger = logging.getLogger(__name__)

SLICES = ApiResource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE = "tidelock-binders"
"""Name of the Service for other binders, and of its EndpointSlice."""
WEB_SERVICE = "tidelock-web"
"""The same for the web view."""
_MANAGER = "tidelock.dev"
# Seconds between two checks of the EndpointSlice, and after an error.
_LOOK = 60.0
_RETRY = 2.0


class Endpoint:
    """The endpoint of a Service. Without an address of this process, another component manages it.

    Args:
        client: the API server.
        service: the Service.
        address: IP address of this process.
        port: its port.
        port_name: name of that port in the Service.

    """

    def __init__(
        self, client: KubeClient, service: Key, address: str, port: int, port_name: str = "https"
    ) -> None:
        self._client = client
        self._service = service
        self._address = address
        self._port = port
        self._port_name = port_name

    async def keep(self) -> NoReturn:
        """Direct requests for the Service to this process forever, again if the endpoint is reverted."""
        while True:
            pause = _LOOK
            try:
                await self.announce()
            except ApiError as error:
                pause = _RETRY
                fields = {"service": str(self._service), "error": str(error)}
                logger.warning("a Service does not lead to this process yet", extra=fields)
            await asyncio.sleep(pause)

    async def announce(self) -> None:
        """Direct requests for the Service to this process, or raise ApiError."""
        if not self._address:
            return
        family = "IPv6" if ipaddress.ip_address(self._address).version == 6 else "IPv4"  # noqa: PLR2004
        path = SLICES.item(self._service.name, self._service.namespace)
        body = {
            "apiVersion": SLICES.api_version,
            "kind": SLICES.kind,
            "metadata": {
                "name": self._service.name,
                "namespace": self._service.namespace,
                "labels": {
                    "kubernetes.io/service-name": self._service.name,
                    "endpointslice.kubernetes.io/managed-by": _MANAGER,
                },
            },
            "addressType": family,
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            "ports": [{"name": self._port_name, "port": self._port, "protocol": "TCP"}],
        }
        try:
            await self._client.patch(path, body)
        except NotFound:
            await self._client.create(SLICES.collection(self._service.namespace), body)
