"""A run: users, nodes and foreign schedulers act as planned while the operator crashes and returns."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import aiohttp

from faults.creations import Creations
from faults.devices import Devices
from faults.exceptions import Exceptions
from faults.hasty import JumpingClock
from faults.history import Json
from faults.kinds import LEVELS
from faults.operator_instance import OperatorInstance, cancel
from faults.plan import Plan
from faults.proxy import Proxy
from tidelock.kube.client import RESERVATIONS, ApiResource, KubeClient
from tidelock.kube.config import Connection

# Seconds of the loop.
_DEAD_FOR = 0.5


Action = Callable[..., Awaitable[object]]
"""An action on a run, with the arguments of a step."""


class UnfitError(Exception):
    """The action is impossible for the object of this number, but may be possible for another one."""


class Outages(Protocol):
    """Outages of the API server as a whole."""

    @property
    def actions(self) -> Mapping[str, Action]:
        """The outages, and their ends, by the names of steps."""

    async def elect(self) -> int:
        """Begin another leadership, and return its number."""

    async def mend(self) -> None:
        """End all outages."""


Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Starts an operator, as a process of its own where there are such."""


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a run: an API server, a client with all rights there, and the operator's connection."""

    admin: KubeClient
    session: aiohttp.ClientSession
    operator: Connection
    start: Start = asyncio.create_task


@dataclass(slots=True)
class FaultRun:
    """A run under way."""

    site: Site
    plan: Plan
    world: str
    clock: JumpingClock
    proxy: Proxy
    outages: Outages | None = None
    instance: OperatorInstance | None = None
    starts: int = 0
    epoch: int = 0
    foreign: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    crashes: list[float] = field(default_factory=list)
    holders: set[asyncio.Task[None]] = field(default_factory=set)
    creations: Creations = field(init=False)
    devices: Devices = field(init=False)
    exceptions: Exceptions = field(init=False)

    def __post_init__(self) -> None:
        """Prepare creations that ask for an answer, devices, and exceptions."""
        self.exceptions = Exceptions(self.plan)
        self.devices = Devices(self.site.admin, self.world)
        self.creations = Creations(
            self.proxy, lambda: self.instance, lambda: self.epoch, self.post_reservation
        )

    async def run_operator(self) -> None:
        """Run the operator, and start it again after each crash. End if the operator fails on its own."""
        while True:
            url = await self.proxy.open()
            self.starts += 1
            rng = Random(f"{self.plan.seed}/{self.starts}")  # noqa: S311 -- to be repeated
            async with self.creations.fence:
                self.epoch = await self.outages.elect() if self.outages is not None else self.starts
            # An operator replaces a key long after any answer that it has signed. So no key may be replaced
            # twice by crashes that follow each other within seconds.
            newest = self.starts // 3
            keys = [f"{self.plan.seed}/{number}".encode() for number in (newest, newest - 1)]
            self.instance = OperatorInstance(
                self.site.operator,
                url,
                self.clock,
                rng,
                self.epoch,
                keys=keys,
                resources=self.plan.resources,
                levels=LEVELS.name in self.plan.kinds,
            )
            running = self.site.start(self.instance.run())
            crash = asyncio.create_task(self.proxy.crash.wait())
            try:
                await asyncio.wait((running, crash), return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                    raise AssertionError("the operator has ended")
                self.note("the operator crashes")
                self.crashes.append(asyncio.get_running_loop().time())
            finally:
                crash.cancel()
                self.instance = None
                shutting = asyncio.create_task(self.proxy.shut())
                if not running.done():
                    await cancel(running)
                await shutting
            await asyncio.sleep(_DEAD_FOR)

    def note(self, what: str) -> None:
        self.log.append(f"at {asyncio.get_running_loop().time():.2f}: {what}")

    def name_of(self, node: str) -> str:
        return f"{self.world}-{node}"

    async def post_reservation(self, body: Json) -> Json:
        made: Json = json.loads(await self.site.admin.create(RESERVATIONS.collection(self.world), body))
        self.proxy.stamps.note_made(made["metadata"]["uid"])
        return made

    def reservation_body(self, name: str, spec: Json) -> Json:
        meta = {"name": name, "namespace": self.world}
        return {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "metadata": meta,
            "spec": spec,
        }

    async def create(self, resource: ApiResource, name: str, spec: Json) -> None:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        made = json.loads(await self.site.admin.create(resource.collection(self.world), body))
        self.proxy.stamps.note_made(made["metadata"]["uid"])

    async def stored(self, path: str) -> Json:
        """Return an object, or a list of objects, as the API server has it."""
        found: Json = json.loads(await self.site.admin.get(path))
        return found

    def reservation_path(self, number: int) -> str:
        return RESERVATIONS.item(f"lock-{number}", self.world)
