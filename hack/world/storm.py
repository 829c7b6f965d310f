"""Scenarios of operators before a scripted API server, and their histories."""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NoReturn

import aiohttp

from tidelock.settings import Settings
from world.faults import Weather, death_at
from world.host import Host
from world.operator import import_all, launch_operator, write_kubeconfig
from world.scripted_api import HOST, URL, ScriptedApi
from world.world import World

METRICS = 8080

# Seconds between two scrapes of metrics, and for each.
_SCRAPES = 15.0
_PATIENCE = 5.0


@dataclass
class Stage:
    """A world with an API server, and its operators by name."""

    world: World
    api: ScriptedApi
    kubeconfig: Path

    @classmethod
    def of(cls, world: World, folder: Path) -> "Stage":
        """Start the API server."""
        host = world.host(HOST)
        api = ScriptedApi(host)
        host.launch(api.run())
        return cls(world, api, write_kubeconfig(folder / "kubeconfig", URL))

    def operator(self, name: str, *, skew: float = 0.0, drift: float = 0.0) -> Host:
        """Start an operator on a machine of its own."""
        host = self.world.host(name, skew=skew, drift=drift)
        settings = Settings(kubeconfig=str(self.kubeconfig), instance=name, port=METRICS)
        launch_operator(host, settings)
        return host

    def holder(self) -> str:
        """Return the identity in the Lease."""
        for path, stored in self.api.stored.items():
            if path.endswith("/leases/tidelock"):
                return str(stored["spec"]["holderIdentity"])
        return ""


async def storm(stage: Stage, seconds: float) -> None:
    """Run two operators through deaths, partitions, clock steps, stalls and bad weather, beside a prober."""
    world = stage.world
    rng = world.rng("storm")
    names = ("operator-0.world", "operator-1.world")
    hosts = {
        name: stage.operator(name, skew=rng.uniform(-2, 2), drift=rng.uniform(-1e-4, 1e-4)) for name in names
    }
    world.host("prober.world").launch(_probe(names))
    world.network.interfere.append(Weather(rng=world.rng("weather")))
    while world.loop.now < seconds:
        await asyncio.sleep(rng.uniform(1, 20))
        await _strike(world, hosts[rng.choice(names)], rng)
        for name in names:
            if not hosts[name].alive:
                hosts[name] = stage.operator(name)


async def _strike(world: World, host: Host, rng: Random) -> None:
    """Let a fault of the machine of an operator happen."""
    fault = rng.choice(("kill", "death at a step", "partition", "clock step", "stall", "cut"))
    world.fired(fault)
    match fault:
        case "kill":
            host.kill()
        case "death at a step":
            world.loop.before_step[:] = [death_at(host, host.steps + rng.randrange(1000))]
        case "partition":
            world.network.part(host.name, HOST)
            await asyncio.sleep(rng.uniform(0, 30))
            world.network.join(host.name, HOST)
        case "clock step":
            host.step_clock(rng.uniform(-60, 60))
        case "stall":
            host.stall(rng.uniform(0, 20))
        case _:
            for connection in world.network.connections(host.name)[:3]:
                connection.cut()


async def _probe(names: Sequence[str]) -> NoReturn:
    """Read the metrics of operators, as Prometheus does."""
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            for name in names:
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"http://{name}:{METRICS}/metrics") as answer:
                        await answer.read()
            await asyncio.sleep(_SCRAPES)


def run_storm(seed: str, seconds: float) -> World:
    """Run a storm, and return its world."""
    world = World(seed)

    async def main(folder: Path) -> None:
        await storm(Stage.of(world, folder), seconds)

    import_all()
    with tempfile.TemporaryDirectory() as folder:
        world.run(main(Path(folder)))
    return world
