"""The same world in a real cluster and in the simulator, in which nodes must be used equally evenly.

It needs an API server that runs pods of Deployments, which the scheduler places.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from devcluster import Cluster
from devcluster.identity import operator_kubeconfig
from devcluster.prometheus import PrometheusServer
from replay.exporter import SECONDS, Exporter
from replay.manifests import configuration, water_level_manifest
from replay.pool import DEPLOYMENTS, Placement, Pool
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.model.usage_annotations import POD_USAGE
from tidelock.simulation.engine import Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import STEP, Machine, SimulatedWorkload, SimulatedWorld

GIBI = 2**30
NODES, CORES = 4, 8
# Cores that a pod of each Deployment uses in the mean. All pods request half a core and may use two.
USE = (0.08, 0.04, 0.451, 0.319, 0.9, 0.226, 0.113, 0.16, 0.637, 0.057)
# The use goes up and down within three steps, so any whole number of periods has the same mean.
SWELL = (-0.1, 0.0, 0.1)
STEPS = 12
# The arrival of the second pod of each Deployment. The first pods have been measured by then.
SECOND_WAVE = 6 * STEP
NOWHERE_YET = "http://127.0.0.1:9"


def make_world() -> SimulatedWorld:
    """Build a world of two waves, each with one pod of every Deployment, one after the other."""
    kinds = len(USE)
    waves = [wave + 0.5 * number for wave in (0.0, SECOND_WAVE) for number in range(kinds)]
    load = [
        [1000 * use * (1 + SWELL[(step + number) % len(SWELL)]) for step in range(STEPS)]
        for number, use in enumerate(USE)
    ]
    return SimulatedWorld(
        title="two waves",
        machines=tuple(Machine(f"node-{row}", CORES * 1000, 4 * CORES * GIBI) for row in range(NODES)),
        workloads=tuple(
            SimulatedWorkload(f"app-{number}", 500, GIBI // 2, 2000, GIBI // 2) for number in range(kinds)
        ),
        workload=np.tile(np.arange(kinds), 2),
        arrives=np.array(waves),
        lives=np.full(2 * kinds, inf),
        cpu=np.array(load * 2, np.float32),
        memory=np.full(2 * kinds, GIBI / 4),
    )


def spread(pool: Pool, placement: Placement) -> float:
    """Return the deviation between the nodes in points of CPU, over a period of the load."""
    return float(np.mean([pool.use(placement, step).cpu.std() for step in range(len(SWELL))]))


def simulated(pool: Pool, policy: str) -> float:
    run = Simulation(pool.world, POLICIES[policy], timing=DEFAULT_METRICS).run()
    return spread(pool, Placement((), pool.world.workload, run.node))


@asynccontextmanager
async def replaying(pools: list[Pool], exporter: Exporter) -> AsyncIterator[None]:
    """Replay the load repeatedly while the context lasts, with one step each second."""

    async def play() -> None:
        step = 0
        while True:
            for pool in pools:
                placement = await pool.placement()
                pool.tell(exporter, placement, pool.use(placement, step))
            step = (step + 1) % STEPS
            await asyncio.sleep(1)

    playing = asyncio.create_task(play())
    try:
        yield
    finally:
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing


async def until_measured(pool: Pool) -> None:
    """Wait until all Deployments are annotated with the use of one pod."""
    while True:  # pytest's time-out is the limit
        deployments = msgspec.json.decode(await pool.client.get(DEPLOYMENTS.collection(pool.name)))["items"]
        told = [each["metadata"].get("annotations", {}).get(POD_USAGE, "") for each in deployments]
        if all("cpu" in text for text in told):
            return
        await asyncio.sleep(0.5)


@pytest.fixture
def names() -> dict[str, str]:
    """Return the common name of a pool and its scheduler for each policy."""
    suffix = secrets.token_hex(4)
    return {policy: f"replay-{policy}-{suffix}" for policy in ("default", "water-level")}


@pytest.fixture
def operator(controlplane: Cluster, names: dict[str, str], tmp_path: Path) -> Iterator[OperatorProcess]:
    install_crds(controlplane)
    file = tmp_path / "profiles.yaml"
    file.write_text(configuration({name: POLICIES[policy] for policy, name in names.items()}))
    identity = operator_kubeconfig(controlplane, tmp_path)
    with OperatorProcess(identity, tmp_path, "--config", str(file)) as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.mark.nightly
async def test_pods_of_deployments_spread_as_in_the_simulator(
    controlplane: Cluster,
    names: dict[str, str],
    operator: OperatorProcess,
    exporter: Exporter,
    prometheus: PrometheusServer,
) -> None:
    """Compare spreads and not nodes, because any of equally good nodes can be chosen."""
    world = make_world()
    async with KubeClient(load_connection(controlplane.kubeconfig), user_agent="tidelock-test") as client:
        pools = {policy: Pool(client, world, name) for policy, name in names.items()}
        spec = POLICIES["water-level"].water_level or {}
        found = {}
        try:
            for pool in pools.values():
                await pool.furnish()
                # No use is measured yet, as in the simulator's first minutes.
                manifest = water_level_manifest(pool.name, pool.selector, NOWHERE_YET, **spec)
                await client.create(WATERLEVELS.collection(), manifest)
            await asyncio.gather(*(fill(pool, 1) for pool in pools.values()))
            async with replaying(list(pools.values()), exporter):
                await asyncio.sleep(SECONDS + 5)  # until rates cover whole periods
                for pool in pools.values():
                    address = {"spec": {"source": {"prometheus": {"address": prometheus.url}}}}
                    await client.patch(WATERLEVELS.item(pool.name), address)
                await asyncio.gather(*(until_measured(pool) for pool in pools.values()))
                await asyncio.gather(*(fill(pool, 2) for pool in pools.values()))
                found = {policy: spread(pool, await pool.placement()) for policy, pool in pools.items()}
        finally:
            for pool in pools.values():
                await client.delete(WATERLEVELS.item(pool.name))
                await pool.clear()

    expected = {policy: simulated(pool, policy) for policy, pool in pools.items()}
    assert found == pytest.approx(expected, rel=0.1)
    assert expected["water-level"] < 0.5 * expected["default"]


async def fill(pool: Pool, replicas: int) -> None:
    """Create the next pods of all Deployments one by one, each when the previous one is bound."""
    for number in range(len(USE)):
        await pool.scale([number], replicas)
