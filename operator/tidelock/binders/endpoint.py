"""The leader's address: the one endpoint of a Service that selects no pods.

A standby has seen no bindings and must not answer, although its probe reports ready.
"""

import ipaddress

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.errors import NotFound
from tidelock.model.meta import Key

SLICES = ApiResource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE = "tidelock-binders"
"""Name of the Service, and of its EndpointSlice."""
_MANAGER = "tidelock.dev"


class Endpoint:
    """The endpoint of a Service. Without an address of this process, another component manages it."""

    def __init__(
        self, client: KubeClient, service: Key, address: str, port: int, port_name: str = "https"
    ) -> None:
        self._client = client
        self._service = service
        self._address = address
        self._port = port
        self._port_name = port_name

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
