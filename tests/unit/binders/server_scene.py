"""A node, and a binder server that listens on a socket."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import aiohttp

from builders import Json, node, pod_json
from devcluster.keys import Keys
from devcluster.loopback import HOST
from isolating import Isolating
from tidelock.binders.admission_check import AdmissionCheck
from tidelock.binders.certificate_rotator import CertificateRotator
from tidelock.binders.endpoint import SERVICE, Endpoint
from tidelock.binders.server import BinderServer
from tidelock.binders.unbound_pods import UnboundPods
from tidelock.clock import SystemClock
from tidelock.model.meta import Key
from tidelock.telemetry import Telemetry
from unit.binders.cluster_store import SECRET, ClusterStore
from unit.scheduler.machinery import Core


class ServerScene:
    """A node of two cores and a binder server. Pods arrive by the watch, or are read from the API server."""

    def __init__(self, schedulers: Keys) -> None:
        self._schedulers = schedulers
        self.core = Core(node("a", cpu="2"))
        self.api = ClusterStore()
        self.telemetry = Telemetry(self.core.clock.monotonic, Random(1))  # noqa: S311 -- no secret
        self.check = AdmissionCheck(self.core.decider)
        self.unbound_pods = UnboundPods(self.core.event_handlers.pods, self.check, self.core.clock)
        self.ready = True
        self.woken = asyncio.Event()
        with socket.create_server((HOST, 0)) as free:
            self.port = free.getsockname()[1]
        self.rotator = CertificateRotator(self.api, Key("system", "tls"), (HOST,), SystemClock())
        self.rotator.trust(schedulers.authority)
        self.server = BinderServer(
            self.check,
            self.unbound_pods,
            self.rotator,
            Endpoint(self.api, Key("system", SERVICE), "10.0.0.7", self.port),
            self.api,
            self.core.clock,
            self.telemetry,
            Isolating(),
            address=HOST,
            port=self.port,
            ready=lambda: self.ready,
            wake=self.woken.set,
            extender=True,
            admission=True,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve, and clean up at the end. The context begins once the webhooks have the certificate."""
        task = asyncio.create_task(self.server.run())
        try:
            async with asyncio.timeout(30):
                while not any("caBundle" in str(patch) for _, patch in self.api.patches):
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.01)
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def tls(self, keys: Keys | None = None) -> ssl.SSLContext:
        """Return a TLS context that trusts the server and authenticates with these keys."""
        trust = base64.b64decode(self.api.objects[SECRET]["data"]["ca.crt"]).decode()
        tls = ssl.create_default_context(cadata=trust)
        if keys is not None:
            tls.load_cert_chain(keys.admin_certificate, keys.admin_key)
        return tls

    async def post(self, path: str, body: Any) -> tuple[int, str]:
        """Send a request as the API server or a scheduler does."""
        if path == "/admission":
            (path,) = self.api.paths
        tls = self.tls(self._schedulers if path.startswith("/extender") else None)
        return await self.ask(path, body, tls)

    async def ask(self, path: str, body: Any, tls: ssl.SSLContext) -> tuple[int, str]:
        url = f"https://{HOST}:{self.port}{path}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body, ssl=tls) as response:
            return response.status, await response.text()

    async def review(self, name: str = "web-0", uid: str = "") -> Json:
        """Send a review of the binding of a pod to the node."""
        metadata = {"name": name} | ({"uid": uid} if uid else {})
        request = {
            "uid": "question",
            "resource": {"group": "", "resource": "pods"},
            "subResource": "binding",
            "namespace": "shop",
            "name": name,
            "object": {"metadata": metadata, "target": {"name": "a"}},
        }
        status, text = await self.post("/admission", {"request": request})
        assert status == 200, text
        response: Json = json.loads(text)["response"]
        return response

    def store(self, name: str, **fields: Any) -> None:
        self.api.objects[f"/api/v1/namespaces/shop/pods/{name}"] = pod_json(name, **fields)
