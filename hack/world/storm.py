"""Scenarios of operators before a scripted API server, and their histories."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tidelock.settings import Settings
from world.faults import Weather
from world.host import Host
from world.operator import import_all, launch_operator, write_kubeconfig
from world.scripted_api import HOST, URL, ScriptedApi
from world.world import World

METRICS = 8080


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
    """Run two operators through kills, a partition, clock steps and bad weather."""
    world = stage.world
    rng = world.rng("storm")
    names = ["operator-0.world", "operator-1.world"]
    hosts = {
        name: stage.operator(name, skew=rng.uniform(-2, 2), drift=rng.uniform(-1e-4, 1e-4)) for name in names
    }
    world.network.interfere.append(Weather(rng=world.rng("weather")))
    while world.loop.now < seconds:
        await asyncio.sleep(rng.uniform(1, 20))
        name = rng.choice(names)
        host = hosts[name]
        match rng.randrange(5):
            case 0:
                world.fired("kill")
                host.kill()
            case 1:
                world.fired("partition")
                world.network.part(name, HOST)
                await asyncio.sleep(rng.uniform(0, 30))
                world.network.join(name, HOST)
            case 2:
                world.fired("clock step")
                host.step_clock(rng.uniform(-60, 60))
            case 3:
                world.fired("stall")
                host.stall(rng.uniform(0, 20))
            case _:
                for connection in world.network.connections(name)[:3]:
                    world.fired("cut")
                    connection.cut()
        for each in names:
            if not hosts[each].alive:
                hosts[each] = stage.operator(each)


def run_storm(seed: str, seconds: float) -> World:
    """Run a storm, and return its world."""
    world = World(seed)

    async def main(folder: Path) -> None:
        await storm(Stage.of(world, folder), seconds)

    import_all()
    with tempfile.TemporaryDirectory() as folder:
        world.run(main(Path(folder)))
    return world
