"""Measurements of the operator's health, by /healthz and by the latency of another tenant's Reservations."""

import asyncio
import http.client
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

import msgspec

from devcluster.loopback import HOST
from fuzz.verdict import decode
from tidelock.kube.client import RESERVATIONS, KubeClient
from tidelock.kube.errors import ApiError

_PROBE_EVERY = 0.1  # seconds
_PROBE_TIMEOUT = 5.0
_POLL_EVERY = 0.02
_RESERVE_EVERY = 0.5
_TIMEOUT = 60.0


@dataclass
class HealthSamples:
    """The measurements of a run.

    Attributes:
        probes: seconds of each probe of /healthz, or infinity for a failed one.
        reservations: seconds until each Reservation was Active, or infinity for one that never was.

    """

    probes: list[float] = field(default_factory=list)
    reservations: list[float] = field(default_factory=list)


@contextmanager
def probing(samples: HealthSamples, port: int) -> Iterator[None]:
    """Probe the health of a process while the context lasts."""
    ended = Event()

    def probe() -> None:
        while not ended.wait(_PROBE_EVERY):
            samples.probes.append(_probe(port))

    thread = Thread(target=probe)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _probe(port: int) -> float:
    begin = time.perf_counter()
    connection = http.client.HTTPConnection(HOST, port, timeout=_PROBE_TIMEOUT)
    try:
        connection.request("GET", "/healthz")
        well = connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        well = False
    finally:
        connection.close()
    return time.perf_counter() - begin if well else float("inf")


class LatencyProbe:
    """Measures how long small Reservations of another tenant take, on a node of their own."""

    def __init__(self, client: KubeClient, namespace: str, node: str) -> None:
        self._client, self._namespace, self._node = client, namespace, node
        self._numbers = itertools.count()

    async def measure(self) -> float:
        """Create a Reservation, delete it, and return the seconds from its storage until it was Active.

        They are infinite if it is never Active. The API server's time to store it does not count.
        """
        name = f"probe-{next(self._numbers)}"
        spec = {"nodeName": self._node, "resources": {"cpu": "100m"}, "owners": [{"pod": {"name": name}}]}
        manifest = {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "metadata": {"name": name},
            "spec": spec | {"ttlSeconds": 600, "tolerations": [{"operator": "Exists"}]},
        }
        await self._client.create(RESERVATIONS.collection(self._namespace), manifest)
        stored = time.perf_counter()
        path = RESERVATIONS.item(name, self._namespace)
        while (taken := time.perf_counter() - stored) < _TIMEOUT:
            seen = decode(await self._client.get(path))
            if seen.status is not None and seen.status.phase == "Active":
                break
            await asyncio.sleep(_POLL_EVERY)
        else:
            taken = float("inf")
        await self._client.delete(path)
        return taken

    async def repeat(self, samples: HealthSamples) -> None:
        """Measure for ever."""
        while True:
            with suppress(ApiError, msgspec.MsgspecError):
                samples.reservations.append(await self.measure())
            await asyncio.sleep(_RESERVE_EVERY)
