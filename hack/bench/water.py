"""Load on a real control plane, placed by the default profile and by the installed one, beside the simulator.

    python -m bench.water [--load TRACE.csv.gz] [--plot FILE.png] [--json FILE] [--quick]

A world is two pools of nodes without machines, which have the same Deployments and the same load. One pool
has the default profile, which goes by requests, the other one the profile that a user gets. Several worlds
are replayed at once. An exporter reports the use of pods and nodes to a real Prometheus. `tidelock run` reads
it, and places the pods that replace those at the end of their life. Five minutes of the load take some
seconds. At the end the simulator places the same pods, in the order and at the times in which they were
created and deleted, with the times of these measurements. The nodes' use in the first world is drawn.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from bench.command import add_json, is_quick
from bench.figures import Figure, columns
from bench.record import Record
from demo.operator import running_operator
from devcluster import Cluster, start_cluster
from devcluster.identity import operator_kubeconfig
from devcluster.output import say
from devcluster.prometheus import PrometheusServer
from replay.exporter import NODE_CPU, SECONDS, SETTLED_POD_CPU, Exporter, exporting
from replay.manifests import REFRESH, configuration, water_level_manifest
from replay.picture import draw
from replay.pool import Pool
from replay.pool_history import AtStep, PoolHistory, replay, watching
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import ApiError
from tidelock.load.history import STEPS
from tidelock.simulation.engine import Simulation
from tidelock.simulation.measuring import MetricsFaults, MetricsTiming
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import WARM_UP, estimate, figures
from tidelock.simulation.traces import read_planetlab
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import Setting, synthetic_load, world_of

_ROOT = Path(__file__).resolve().parents[2]
_POLICIES = ("default", "shipped")
_RATIO = "ratio"
_TITLES = {"default": "by requests", "shipped": "under a WaterLevel", _RATIO: "ratio of both"}
_TARGET = "tidelock_water_level_percent"
_ROWS = 1000
_SCRAPE = 1.0  # seconds between two scrapes of the exporter
_SCRAPE_TIMEOUT = 5.0  # seconds
_SAY_EVERY = 12  # steps
_PERCENT = 100.0
_NEAR = 10.0
"""The aim: the mean difference from the simulator, in percent of the simulator's deviation."""

Histories = Mapping[str, Sequence[PoolHistory]]
"""The history of each world's pool, by the policy."""


@dataclass
class Lives:
    """The lifetimes of pods, as in the simulator's worlds, in seconds of the replay."""

    pool: Pool
    mean: float
    rng: np.random.Generator
    _ends: dict[str, float] = field(default_factory=dict)

    def due(self, names: Sequence[str], now: float) -> list[str]:
        """Return the pods at the end of their life. The first pods have random ages."""
        first = not self._ends
        for name in names:
            if name not in self._ends:
                share = self.rng.uniform(0, 1) if first else self.rng.uniform(0.5, 1.5)
                self._ends[name] = now + share * self.mean
        return [name for name in names if self._ends[name] <= now]


def _worlds(options: argparse.Namespace) -> list[SimulatedWorld]:
    """Return a world for each seed."""
    setting = Setting(
        nodes=options.nodes, workloads=options.workloads, steps=options.steps, fill=options.fill, noise=0.0
    )
    seeds = range(options.seed, options.seed + options.worlds)
    if options.load is None:
        return [
            world_of("synthetic load", synthetic_load(_ROWS, setting.steps, seed), setting, seed)
            for seed in seeds
        ]
    load = read_planetlab(options.load)
    return [world_of(options.load.name, load, setting, seed) for seed in seeds]


def _pool_name(policy: str, number: int) -> str:
    return f"{policy}-{number}"


def _replicas(world: SimulatedWorld) -> list[int]:
    """Return the constant number of pods of each workload, which is that at the beginning of the world."""
    begin = world.arrives <= STEP / 5
    counts: list[int] = np.bincount(world.workload[begin], minlength=len(world.workloads)).tolist()
    return counts


async def _staged(pool: Pool, url: str) -> None:
    """Create a pool, still empty and not measured, with its WaterLevel."""
    await pool.furnish()
    queries = {"nodeCPU": NODE_CPU, "podCPU": SETTLED_POD_CPU}
    source = {"prometheus": {"address": url, "queries": queries}}
    manifest = water_level_manifest(pool.name, pool.selector, url, source=source)
    await pool.client.create(WATERLEVELS.collection(), manifest)


async def _fill(pool: Pool, replicas: Sequence[int]) -> None:
    """Create all pods and wait until they are placed, before any measurement."""
    for workload, count in enumerate(replicas):
        await pool.scale([workload], count)


def _target(port: int, shown: Collection[str]) -> Callable[[Pool], Awaitable[float]]:
    """Return a function that reads the target of a pool's water level from the operator's metrics.

    It is NaN for pools that are not shown, as each reading costs the operator some milliseconds.
    """
    url, wanted = f"http://127.0.0.1:{port}/metrics", {"resource": "cpu", "statistic": "target"}

    def read(pool: Pool) -> float:
        with suppress(URLError, TimeoutError), urlopen(url, timeout=_SCRAPE_TIMEOUT) as answer:
            lines = (line for line in answer.read().decode().splitlines() if line.startswith(_TARGET))
            for family in text_string_to_metric_families("\n".join(lines)):
                for sample in family.samples:
                    if sample.labels == wanted | {"waterlevel": pool.name}:
                        return float(sample.value)
        return nan

    async def target(pool: Pool) -> float:
        return await asyncio.to_thread(read, pool) if pool.name in shown else nan

    return target


async def _replayed(cluster: Cluster, port: int, options: argparse.Namespace, scene: "_Scene") -> Histories:
    worlds = _worlds(options)
    replicas = [_replicas(world) for world in worlds]
    say(f"{options.worlds} worlds, each with two pools of {options.nodes} nodes; {worlds[0].title}.")
    say(f"Pods in a pool: {', '.join(str(sum(of)) for of in replicas)}.")
    async with (
        KubeClient(load_connection(cluster.kubeconfig), user_agent="tidelock-bench") as client,
        AsyncExitStack() as watches,
    ):
        histories: dict[str, list[PoolHistory]] = {policy: [] for policy in _POLICIES}
        for number, world in enumerate(worlds):
            for policy, of in histories.items():
                pool = Pool(client, world, _pool_name(policy, number))
                await _staged(pool, scene.prometheus.url)
                of.append(PoolHistory(await watches.enter_async_context(watching(pool))))
        every = [history for of in histories.values() for history in of]
        await asyncio.gather(*(_fill(each.pool, of) for each, of in zip(every, 2 * replicas, strict=True)))
        async with _ending(every, options) as at_step:
            target = _target(port, [_pool_name(policy, 0) for policy in _POLICIES])
            await replay(every, scene.exporter, options.step_seconds, target, at_step)
        return histories


@asynccontextmanager
async def _ending(histories: Sequence[PoolHistory], options: argparse.Namespace) -> AsyncIterator[AtStep]:
    """Yield a function for each step that deletes the pods at the end of their life, and reports."""
    rng, start = np.random.default_rng(options.seed), time.monotonic()
    mean = Setting().life / STEP * options.step_seconds
    lives = [Lives(each.pool, mean, rng) for each in histories]
    deletions: set[asyncio.Task[None]] = set()

    def at_step(step: int, seen: Sequence[PoolHistory]) -> None:
        for each, life in zip(seen, lives, strict=True):
            names = each.placement.names if each.placement else ()
            for name in life.due(names, time.monotonic() - start):
                task = asyncio.create_task(_deleted(life.pool.end_pod(name)))
                deletions.add(task)
                task.add_done_callback(deletions.discard)
        if (step + 1) % _SAY_EVERY == 0:
            spreads = ", ".join(f"{each.pool.name} {each.cpu[-1].std():.1f}" for each in seen)
            say(f"step {step + 1} of {options.steps}: deviation between nodes {spreads}.")

    yield at_step
    await asyncio.gather(*deletions)


async def _deleted(deletion: Awaitable[None]) -> None:
    with suppress(ApiError):  # the pod is already gone, or the next step tries again
        await deletion


@dataclass(frozen=True)
class _Scene:
    exporter: Exporter
    prometheus: PrometheusServer


@contextmanager
def _scene(folder: Path, worlds: int) -> Iterator[tuple[Cluster, int, _Scene]]:
    """Run a control plane, Prometheus, and the operator with a profile for each pool."""
    file = folder / "profiles.yaml"
    names = {_pool_name(name, number): name for name in _POLICIES for number in range(worlds)}
    file.write_text(configuration({pool: POLICIES[name] for pool, name in names.items()}))
    with start_cluster(folder / "cluster") as cluster, exporting() as exporter:
        cluster.kubectl("apply", "--filename", str(_ROOT / "crds"))
        identity = operator_kubeconfig(cluster, folder)
        with (
            PrometheusServer(folder / "prometheus", [exporter.address]) as prometheus,
            running_operator(identity, folder / "operator.log", "--config", str(file)) as port,
        ):
            yield cluster, port, _Scene(exporter, prometheus)


def _timing(seconds: float) -> MetricsTiming:
    """Return the times of these measurements, for steps of some seconds.

    A sample is as old on average as in the replay, when it is used: there a reading comes every few seconds,
    with a scrape before it, and here with each step. A pod counts when its rate covers the whole range.
    """
    steps = max(round(SECONDS / seconds), 1)
    return MetricsTiming(
        interval=seconds,
        lag=max((_SCRAPE + REFRESH - seconds) / 2, 0.0),
        settling=(steps - 0.5) * seconds,  # half a step less, as a sum of steps may be rounded
        span=steps * seconds,
    )


def spreads(history: PoolHistory, policy: str, warm_up: int) -> tuple[float, float]:
    """Return the deviation of a pool's nodes as it was, and as it is in the simulator.

    The windows have the slots of the replay, which begin at whole minutes of the clock. The warm-up is a
    number of steps.
    """
    seconds = history.seconds
    lead = int(history.began % max(STEPS.values()) // seconds)
    past = history.recorded(lead)
    unmeasured = MetricsFaults(down=(0.0, lead * seconds))
    simulation = Simulation(past.world, POLICIES[policy], timing=_timing(seconds), faults=unmeasured)
    live, simulated = (
        figures(run, (lead + warm_up) * seconds) for run in (past.as_it_was(), simulation.run())
    )
    return live.spread, simulated.spread


def _report(histories: Histories, warm_up: int, record: Record) -> None:
    """Print how evenly the nodes were used, here and in the simulator, and add it to the record."""
    of_policy = {
        policy: np.array([spreads(each, policy, warm_up) for each in of]) for policy, of in histories.items()
    }
    default, shipped = of_policy.values()
    unit = dict.fromkeys(of_policy, "points") | {_RATIO: ""}
    rows = [("", "world", "live", "simulated", "difference")]
    for name, pairs in (of_policy | {_RATIO: shipped / default}).items():
        live, simulated = pairs.T
        difference = _PERCENT * (live / simulated - 1)
        rows += [
            (_TITLES[name], str(number), f"{one:.2f}", f"{two:.2f}", f"{more:+.1f} %")
            for number, (one, two, more) in enumerate(zip(live, simulated, difference, strict=True))
        ]
        mean = estimate([[value] for value in difference])
        rows.append((_TITLES[name], "mean", f"{live.mean():.2f}", f"{simulated.mean():.2f}", f"{mean} %"))
        ends = [] if isnan(mean.low) else [mean.low, mean.high]
        found = [
            _figure("live", unit[name], live),
            _figure("simulated", unit[name], simulated),
            _figure("difference", "%", difference),
            _figure("mean difference", "%", [mean.mean]),
            Figure("distance of the mean", "%", _NEAR, values=[abs(mean.mean)], loads=[0.0]),
            _figure("95 % of the mean", "%", ends),
        ]
        record.add(found, _TITLES[name])
    print(columns(rows))
    pending = [max(each.pending[warm_up:]) for of in histories.values() for each in of]
    record.add([_figure("most pods without a node", "", pending)], "all pools")
    print(f"At most {max(pending)} pods of a pool were without a node at a time.")


def _figure(name: str, unit: str, values: Iterable[float]) -> Figure:
    """Return a figure with a value for each world."""
    of = [float(value) for value in values]
    return Figure(name, unit, values=of, loads=[os.getloadavg()[0]] * len(of))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.water", description="Run load on a real control plane.")
    quick = is_quick(parser, arguments, "smaller counts, for a first look")
    parser.add_argument("--load", type=Path, help="PlanetLab day (CSV, .gz). Default: synthetic load")
    parser.add_argument("--worlds", type=int, default=1 if quick else 4, help="replayed at once")
    parser.add_argument("--nodes", type=int, default=4 if quick else 20, help="of each pool")
    parser.add_argument("--workloads", type=int, default=8 if quick else 40, help="Deployments of each pool")
    parser.add_argument("--fill", type=float, default=0.6, help="share of all cores requested")
    parser.add_argument("--steps", type=int, default=12 if quick else 120, help="five minutes of load each")
    parser.add_argument("--step-seconds", type=float, default=4.0, help="duration of a step")
    parser.add_argument("--seed", type=int, default=0, help="of the first world")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the nodes' use there")
    add_json(parser, arguments)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the replay, report and draw, and return the exit status."""
    options = _parser(arguments).parse_args(arguments)
    logging.getLogger("tidelock").addHandler(logging.NullHandler())  # for messages of the simulator's plugins
    record = Record.begin(options)
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-water-") as folder,
        _scene(Path(folder), options.worlds) as (cluster, port, scene),
    ):
        histories = asyncio.run(_replayed(cluster, port, options, scene))
    warm_up = min(round(WARM_UP / STEP), options.steps // 2)
    _report(histories, warm_up, record)
    record.write(options.json)
    if options.plot is not None:
        first = [of[0] for of in histories.values()]
        spread = [np.array(each.cpu[warm_up:]).std(axis=1).mean() for each in first]
        titles = [
            f"{_TITLES[policy]}: {points:.1f} points"
            for policy, points in zip(histories, spread, strict=True)
        ]
        draw(first, titles, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
