"""Reservations that are answered in the response to their creation, beside creations without an answer.

The floor is a webhook in the place of the operator that gives everyone the same answer. It shows what the API
server's call of any webhook costs.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.figures import Figure, percentile
from bench.locks import Reservations, reservation
from bench.programs import cpu_seconds, fixed_answer, server_seconds, tidelock
from bench.world import NAMESPACE, each
from devcluster import Component, LocalCluster
from devcluster.binders import NAMES, webhook_configuration
from devcluster.identity import EXTENDER, operator_kubeconfig
from devcluster.keys import Keys
from devcluster.loopback import free_ports
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import MUTATING_WEBHOOKS, RESERVATIONS, KubeClient
from tidelock.model.answer import ANSWER

_COLLECTION = RESERVATIONS.collection(NAMESPACE)
_MILLI = 1000
_POLL = 0.2
_PATIENCE = 60.0


@dataclass
class CreationSpeed:
    """The speed of creations, from the start of the request to its response."""

    typical: Figure = field(default_factory=lambda: Figure("one at a time, p50", "ms"))
    slow: Figure = field(default_factory=lambda: Figure("one at a time, p99", "ms", 20))
    slowest: Figure = field(default_factory=lambda: Figure("one at a time, max", "ms"))
    burst: Figure = field(default_factory=lambda: Figure("at once", "creations/s", more_is_better=True))
    own: Figure = field(default_factory=lambda: Figure("at once, CPU each, program", "ms"))
    stored: Figure = field(default_factory=lambda: Figure("at once, CPU each, API server and etcd", "ms"))

    @property
    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [self.typical, self.slow, self.slowest, self.burst, self.own, self.stored]


@dataclass
class Creations:
    """A writer of reservations that asks for answers in the responses.

    Attributes:
        program: the program that answers, or None without answers.
        decides: whether statuses follow the answers.
        annotations: the annotations of the last answer.
        unanswered: number of responses without a grant, though one was expected.
        moved: reservations whose status says something else than their answer.

    """

    client: KubeClient
    names: Reservations
    program: Component | None = None
    decides: bool = True
    annotations: dict[str, str] = field(default_factory=dict)
    unanswered: int = 0
    moved: list[str] = field(default_factory=list)
    _granted: dict[str, str] = field(default_factory=dict)

    async def measure(self, cluster: LocalCluster, speed: CreationSpeed, *, locks: int, burst: int) -> None:
        """Create reservations one at a time, then at once, and add the round to the figures."""
        await each(self._create, self.names.names(burst))  # opens the connections
        await self._check_and_clear()
        taken = []
        for name in self.names.names(locks):
            start = time.perf_counter()
            await self._create(name)
            taken.append(time.perf_counter() - start)
        speed.typical.add(percentile(taken, 50) * _MILLI)
        speed.slow.add(percentile(taken, 99) * _MILLI)
        speed.slowest.add(max(taken) * _MILLI)
        await self._check_and_clear()
        before, own = server_seconds(cluster), self._own_seconds
        start = time.perf_counter()
        await each(self._create, self.names.names(burst))
        speed.burst.add(burst / (time.perf_counter() - start))
        speed.stored.add((server_seconds(cluster) - before) / burst * _MILLI)
        speed.own.add((self._own_seconds - own) / burst * _MILLI)
        await self._check_and_clear()

    @property
    def _own_seconds(self) -> float:
        return 0.0 if self.program is None else cpu_seconds(self.program)

    async def _create(self, name: str) -> None:
        body = reservation(name, answer="Immediate")
        created = msgspec.json.decode(await self.client.create(_COLLECTION, body))
        if self.program is None:
            return
        self.annotations = created["metadata"].get("annotations", {})
        text = self.annotations.get(ANSWER)
        status: dict[str, Any] = msgspec.json.decode(text)["status"] if text else {}
        if status.get("phase") == "Active":
            self._granted[name] = status["nodeName"]
        else:
            self.unanswered += 1

    async def _check_and_clear(self) -> None:
        """Compare answers with the statuses that follow, and delete everything."""
        for name, node in self._granted.items() if self.decides else ():
            await self.names.seen(name)
            found = msgspec.json.decode(await self.client.get(RESERVATIONS.item(name, NAMESPACE)))
            if found["status"].get("nodeName") != node:
                self.moved.append(f"{name} was answered {node}, and has {found['status'].get('nodeName')}")
        self._granted.clear()
        await self.names.clear()
        await asyncio.sleep(1)


@asynccontextmanager
async def answering(cluster: LocalCluster, client: KubeClient) -> AsyncIterator[Component]:
    """Run the operator with the webhook of creations, and wait until the API server calls it."""
    (port,) = free_ports(1)
    kubeconfig = operator_kubeconfig(cluster, cluster.directory, EXTENDER)
    options = ("--answers", f"--tls-port={port}", f"--tls-names={','.join(NAMES)}")
    program = tidelock(cluster, kubeconfig, options=options)
    configuration = await asyncio.to_thread(webhook_configuration, cluster, port, MUTATING_WEBHOOKS.kind)
    async with _called(program, client, configuration):
        yield program


@asynccontextmanager
async def answering_always(
    cluster: LocalCluster, client: KubeClient, annotations: dict[str, str]
) -> AsyncIterator[Component]:
    """Run the webhook with a fixed answer, configured as the operator's, and wait until it is called.

    The annotations are those of an answer of the operator that has run last. The API server refuses others.
    """
    (port,) = free_ports(1)
    file = cluster.directory / "fixed-answer.json"
    file.write_bytes(msgspec.json.encode(annotations))
    configuration = await asyncio.to_thread(webhook_configuration, cluster, port, MUTATING_WEBHOOKS.kind)
    authority = Keys.under(cluster.directory / "keys").authority.read_bytes()
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    program = fixed_answer(cluster, port, file)
    async with _called(program, client, configuration):
        yield program


@asynccontextmanager
async def _called(
    program: Component, client: KubeClient, configuration: dict[str, Any]
) -> AsyncIterator[None]:
    """Run a program, and configure its webhooks. The context begins when the API server calls it."""
    await asyncio.to_thread(program.start)
    await client.create(MUTATING_WEBHOOKS.collection(), configuration)
    try:
        async with asyncio.timeout(_PATIENCE):
            while not await _is_answered(client):  # noqa: ASYNC110 -- no event announces it
                await asyncio.sleep(_POLL)
        yield
    finally:
        await client.delete(MUTATING_WEBHOOKS.item(CONFIGURATION))
        await asyncio.to_thread(program.stop)


async def _is_answered(client: KubeClient) -> bool:
    body = reservation("trial", answer="Immediate")
    created = msgspec.json.decode(await client.create(f"{_COLLECTION}?dryRun=All", body))
    return ANSWER in created["metadata"].get("annotations", {})
