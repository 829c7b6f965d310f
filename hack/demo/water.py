"""A demo of load on a real control plane, with the default scores and with WaterLevelBalance.

    python -m demo.water [--load TRACE.csv.gz] [--plot FILE.png] [--quick]

Two pools of nodes without machines have the same Deployments and the same load. One pool has a profile that
scores by requests, the other one with WaterLevelBalance alone. An exporter reports the use of pods and nodes
to a real Prometheus. `tidelock run` reads it, and places the pods that replace those at the end of their
life. Five minutes of the load take some seconds. At the end the simulator plays the same pods, with the times
of the demo: those of its load, its scrapes and its readings. The nodes' use is drawn.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from demo.operator import running_operator
from devcluster import Cluster, start_cluster
from devcluster.identity import operator_kubeconfig
from devcluster.output import say
from devcluster.prometheus import PrometheusServer
from replay.exporter import SECONDS, Exporter, exporting
from replay.manifests import REFRESH, configuration, water_level_manifest
from replay.picture import draw
from replay.playing import Course, play
from replay.pool import Pool
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import ApiError
from tidelock.load.history import STEPS
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import MetricsFaults, MetricsTiming
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import WARM_UP, RatioEstimate, figures
from tidelock.simulation.traces import read_planetlab
from tidelock.simulation.world import STEP, Indices, SimulatedWorld, reordered
from tidelock.simulation.worlds import Setting, synthetic_load, world_of

_ROOT = Path(__file__).resolve().parents[2]
_POLICIES = {"by-requests": POLICIES["default"], "by-use": POLICIES["water-level"]}
_TITLES = {"by-requests": "By requests", "by-use": "WaterLevelBalance"}
_TARGET = "tidelock_water_level_percent"
_ROWS = 1000
_ORDERS = 20  # in which the simulator places pods that arrive at once
_SCRAPE = 1.0  # seconds between two scrapes of the exporter
_SCRAPE_TIMEOUT = 5.0  # seconds
_SAY_EVERY = 12  # steps


@dataclass
class Lives:
    """The lifetimes of pods, as in the simulator's worlds, in seconds of the demo."""

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


def _world(options: argparse.Namespace) -> SimulatedWorld:
    setting = Setting(
        nodes=options.nodes, workloads=options.workloads, steps=options.steps, fill=options.fill, noise=0.0
    )
    if options.load is None:
        load, title = synthetic_load(_ROWS, setting.steps, options.seed), "synthetic load"
    else:
        load, title = read_planetlab(options.load), options.load.name
    return world_of(title, load, setting, options.seed)


def _replicas(world: SimulatedWorld) -> list[int]:
    """Return the constant number of pods of each workload, which is that at the beginning of the world."""
    begin = world.arrives <= STEP / 5
    counts: list[int] = np.bincount(world.workload[begin], minlength=len(world.workloads)).tolist()
    return counts


async def _staged(client: KubeClient, world: SimulatedWorld, url: str) -> list[Pool]:
    """Create both pools, still empty and not measured."""
    pools = [Pool(client, world, name) for name in _POLICIES]
    for pool in pools:
        await pool.furnish()
        spec = _POLICIES["by-use"].water_level or {}
        manifest = water_level_manifest(pool.name, pool.selector, url, **spec)
        await client.create(WATERLEVELS.collection(), manifest)
    return pools


async def _fill(pool: Pool, replicas: Sequence[int]) -> None:
    """Create all pods and wait until they are placed, before any measurement."""
    for workload, count in enumerate(replicas):
        await pool.scale([workload], count)


def _target(port: int) -> Callable[[Pool], float]:
    """Return a function that reads the target of a pool's water level from the operator's metrics."""

    def read(pool: Pool) -> float:
        with suppress(URLError, TimeoutError), urlopen(url, timeout=_SCRAPE_TIMEOUT) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    if sample.name == _TARGET and sample.labels == wanted | {"waterlevel": pool.name}:
                        return float(sample.value)
        return float("nan")

    url, wanted = f"http://127.0.0.1:{port}/metrics", {"resource": "cpu", "statistic": "target"}
    return read


async def _played(cluster: Cluster, port: int, options: argparse.Namespace, scene: "_Scene") -> list[Course]:
    world = _world(options)
    replicas = _replicas(world)
    rng = np.random.default_rng(options.seed)
    async with KubeClient(load_connection(cluster.kubeconfig), user_agent="tidelock-demo") as client:
        pools = await _staged(client, world, scene.prometheus.url)
        say(f"{len(world.machines)} nodes and {sum(replicas)} pods, twice; {world.title}.")
        await asyncio.gather(*(_fill(pool, replicas) for pool in pools))
        courses = [Course(pool) for pool in pools]
        lives = [Lives(pool, Setting().life / STEP * options.step_seconds, rng) for pool in pools]
        deletions: set[asyncio.Task[None]] = set()
        start = time.monotonic()

        def at_step(step: int, seen: Sequence[Course]) -> None:
            for each, life in zip(seen, lives, strict=True):
                names = each.placement.names if each.placement else ()
                for name in life.due(names, time.monotonic() - start):
                    task = asyncio.create_task(_deleted(life.pool.end_pod(name)))
                    deletions.add(task)
                    task.add_done_callback(deletions.discard)
            if (step + 1) % _SAY_EVERY == 0:
                spreads = ", ".join(f"{each.pool.name} {each.cpu[-1].std():.1f}" for each in seen)
                say(f"step {step + 1} of {world.steps}: deviation between nodes {spreads}.")

        await play(courses, scene.exporter, options.step_seconds, _target(port), at_step)
        await asyncio.gather(*deletions)
        return courses


async def _deleted(deletion: Awaitable[None]) -> None:
    with suppress(ApiError):  # the pod is already gone, or the next step tries again
        await deletion


@dataclass(frozen=True)
class _Scene:
    exporter: Exporter
    prometheus: PrometheusServer


@contextmanager
def _scene(folder: Path) -> Iterator[tuple[Cluster, int, _Scene]]:
    """Run a control plane, Prometheus, and the operator with a profile for each pool."""
    file = folder / "profiles.yaml"
    file.write_text(configuration(_POLICIES))
    with start_cluster(folder / "cluster") as cluster, exporting() as exporter:
        cluster.kubectl("apply", "--filename", str(_ROOT / "crds"))
        identity = operator_kubeconfig(cluster, folder)
        with (
            PrometheusServer(folder / "prometheus", [exporter.address]) as prometheus,
            running_operator(identity, folder / "operator.log", "--config", str(file)) as port,
        ):
            yield cluster, port, _Scene(exporter, prometheus)


def _timing(step_seconds: float) -> MetricsTiming:
    """Return the times of the demo's measurements, with the longest time from a scrape to its reading."""
    steps = max(round(SECONDS / step_seconds), 1)
    return MetricsTiming(
        interval=step_seconds, lag=_SCRAPE + REFRESH, settling=0.0, span=steps * step_seconds
    )


def _simulated(course: Course, seed: int, warm_up: int) -> RatioEstimate:
    """Return the deviation that the simulator has for the pods of a pool.

    The windows have the slots of the demo, which begin at whole minutes of the clock. The order of pods that
    arrive at once decides between equal nodes. So this is the mean over several orders, with the range in
    which 95 % of them lie. The warm-up is a number of steps.
    """
    seconds, policy = course.seconds, _POLICIES[course.pool.name]
    lead = int(course.began % max(STEPS.values()) // seconds)
    world, rng = course.lived(lead), np.random.default_rng(seed)
    unmeasured = MetricsFaults(down=(0.0, lead * seconds))

    def run(order: Indices) -> Run:
        some = reordered(world, order)
        return Simulation(some, policy, timing=_timing(seconds), faults=unmeasured).run()

    spreads = [
        figures(run(rng.permutation(world.pods)), (lead + warm_up) * seconds).spread for _ in range(_ORDERS)
    ]
    low, high = np.percentile(spreads, (2.5, 97.5))
    return RatioEstimate(float(np.mean(spreads)), float(low), float(high))


def _report(courses: Sequence[Course], options: argparse.Namespace) -> list[str]:
    """Print how evenly the nodes were used, here and in the simulator, and return a title for each panel."""
    first = min(round(WARM_UP / STEP), options.steps // 2)
    titles = []
    for timer in courses:
        spread = float(np.array(timer.cpu[first:]).std(axis=1).mean())
        simulated = _simulated(timer, options.seed, first)
        pending = max(timer.pending[first:])
        print(
            f"{_TITLES[timer.pool.name]}: deviation between nodes {spread:.2f} points of CPU, "
            f"{spread / simulated.mean - 1:+.1%} of the simulator's {simulated}; "
            f"at most {pending} pods without a node"
        )
        titles.append(f"{_TITLES[timer.pool.name]}: deviation {spread:.1f} points")
    return titles


def main(arguments: Sequence[str]) -> int:
    """Run the demo, report and draw, and return the exit status."""
    parser = argparse.ArgumentParser(prog="demo.water", description="Run load on a real control plane.")
    parser.add_argument("--quick", action="store_true", help="smaller counts, for a first look")
    quick = parser.parse_known_args(arguments)[0].quick
    parser.add_argument("--load", type=Path, help="PlanetLab day (CSV, .gz). Default: synthetic load")
    parser.add_argument("--nodes", type=int, default=4 if quick else 20, help="of each pool")
    parser.add_argument("--workloads", type=int, default=8 if quick else 40, help="Deployments of each pool")
    parser.add_argument("--fill", type=float, default=0.6, help="share of all cores requested")
    parser.add_argument("--steps", type=int, default=12 if quick else 120, help="five minutes of load each")
    parser.add_argument("--step-seconds", type=float, default=4.0, help="duration of a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the nodes' use there")
    options = parser.parse_args(arguments)
    logging.getLogger("tidelock").addHandler(logging.NullHandler())  # for messages of the simulator's plugins
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-water-") as folder,
        _scene(Path(folder)) as (cluster, port, scene),
    ):
        courses = asyncio.run(_played(cluster, port, options, scene))
    titles = _report(courses, options)
    if options.plot is not None:
        draw(courses, titles, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
