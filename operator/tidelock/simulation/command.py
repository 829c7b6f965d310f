"""The command `tidelock simulate`: simulates a world under several policies and shows the results."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec

from tidelock.clock import SystemClock
from tidelock.framework.config_file import parse_duration
from tidelock.load.access import folder_access
from tidelock.load.promql import Access
from tidelock.load.source import SourceError
from tidelock.model.instants import parse_instant
from tidelock.model.printable import printable
from tidelock.simulation.engine import Run, Scheduler, Simulation, quickest_scheduler, whole_scheduler
from tidelock.simulation.measuring import DEFAULT_METRICS, FAULTS, SLOW_METRICS, MetricsTiming
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.recorder import RecordedSpan, record
from tidelock.simulation.recording import RecordedWorld, recorded_world
from tidelock.simulation.results import RatioEstimate, RunFigures, as_numbers, by_day, figures
from tidelock.simulation.traces import (
    read_openb_nodes,
    read_openb_pods,
    read_planetlab,
    read_task_usage,
)
from tidelock.simulation.world import SimulatedWorld
from tidelock.simulation.worlds import (
    STEPS_A_DAY,
    Lifetimes,
    LoadShape,
    Rows,
    Setting,
    openb_world,
    synthetic_load,
    world_of,
)

_EXTRA = "in a checkout, pip install '.[operator,simulation]'"
_SYNTHETIC_ROWS = 1000
_DEFAULT = "default"
_COLUMNS = {
    "spread": "deviation",
    "range": "max - min",
    "mean": "mean",
    "p99": "p99",
    "hot": "over 80 %",
    "pending": "pending",
    "unserved": "unserved",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    defaults = Setting()
    known = ", ".join(POLICIES)
    parser.add_argument(
        "--policies", default="default,least-used,water-level", help=f"comma-separated names: {known}"
    )
    parser.add_argument("--load", type=Path, help="PlanetLab day (CSV, .gz); default: synthetic load")
    parser.add_argument(
        "--task-usage", type=Path, nargs="+", help="task_usage files of Google's trace of 2011 (CSV, .gz)"
    )
    parser.add_argument("--openb-nodes", type=Path, help="node list of the openb trace (CSV, .gz)")
    parser.add_argument("--openb-pods", type=Path, help="pod list of the openb trace (CSV, .gz)")
    _add_prometheus(parser)
    parser.add_argument("--nodes", type=int, default=defaults.nodes)
    parser.add_argument(
        "--cores", type=int, nargs="+", default=list(defaults.cores), help="sizes of nodes in cores, in turn"
    )
    parser.add_argument("--workloads", type=int, default=defaults.workloads, help="number of Deployments")
    parser.add_argument("--fill", type=float, default=defaults.fill, help="share of all cores requested")
    parser.add_argument(
        "--overcommit", type=float, default=defaults.overcommit, help="limits as multiples of requests"
    )
    parser.add_argument(
        "--life-hours", type=float, default=defaults.life / 3600, help="mean lifetime of a pod"
    )
    parser.add_argument(
        "--noise", type=float, default=defaults.noise, help="difference between replicas, 0 for none"
    )
    parser.add_argument(
        "--rollouts", type=int, default=defaults.rollouts, help="roll-outs of whole Deployments"
    )
    _add_shapes(parser, defaults)
    parser.add_argument("--steps", type=int, default=STEPS_A_DAY, help="number of steps of five minutes")
    parser.add_argument(
        "--interval",
        type=float,
        help=f"seconds between measurements. Default: {SLOW_METRICS.interval:g}; of the past, "
        f"{DEFAULT_METRICS.interval:g}",
    )
    parser.add_argument(
        "--lag",
        type=float,
        help=f"delay of measurements in seconds. Default: {SLOW_METRICS.lag:g}; of the past, "
        f"{DEFAULT_METRICS.lag:g}",
    )
    parser.add_argument(
        "--whole-scheduler", action="store_true", help="also simulate API objects and queues: the slow way"
    )
    parser.add_argument(
        "--fault", choices=tuple(FAULTS), default="none", help="faults of the measurements and the scheduler"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--plots", type=Path, help="folder to write pictures to")


def _add_prometheus(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the past of a real cluster."""
    parser.add_argument(
        "--from-prometheus",
        default="",
        metavar="URL",
        help="simulate the nodes, pods and use of a real cluster, by kube-state-metrics and cAdvisor",
    )
    parser.add_argument(
        "--days", type=float, default=7.0, help="how much of the past to simulate. Default: 7"
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end of these days. Default: now")
    parser.add_argument(
        "--step", default="5m", metavar="DURATION", help="length of a step of the past. Default: 5m"
    )
    parser.add_argument(
        "--login",
        type=Path,
        metavar="FOLDER",
        help="folder with the files token, or username and password, and ca.crt, as in a WaterLevel's Secret",
    )
    parser.add_argument(
        "--matchers", default="", help='label matchers of all series of the past, such as cluster="east"'
    )


def _add_shapes(parser: argparse.ArgumentParser, defaults: Setting) -> None:
    """Add the arguments for requests, replicas, lifetimes and the shape of the load."""
    shape = LoadShape()
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=list(defaults.sizes), help="requests of pods in millicores"
    )
    parser.add_argument(
        "--request-error",
        type=float,
        help="requests follow the mean use, with this deviation of their logarithm. Default: they do not",
    )
    parser.add_argument(
        "--replica-shape", type=float, default=defaults.replica_shape, help="Pareto's shape of replicas"
    )
    parser.add_argument("--lifetimes", choices=get_args(Lifetimes), default=defaults.lifetimes)
    parser.add_argument(
        "--rows", choices=get_args(Rows), default=defaults.rows, help="owner of a row of the load"
    )
    parser.add_argument("--load-factor", type=float, default=defaults.load, help="factor of all use")
    parser.add_argument(
        "--memory",
        type=float,
        default=defaults.memory,
        help="memory for each core, as a multiple of the nodes'",
    )
    parser.add_argument("--apart", action="store_true", help="each pod is a separate Deployment")
    parser.add_argument("--mean", type=float, default=shape.mean, help="mean of synthetic load, from 0 to 1")
    parser.add_argument("--swing", type=float, default=shape.swing, help="daily swing of synthetic load")
    parser.add_argument("--wander", type=float, default=shape.wander, help="changes of synthetic load")
    parser.add_argument("--peaks", type=float, default=shape.peaks, help="share of steps with a peak")


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    logging.getLogger("tidelock").addHandler(logging.NullHandler())  # plugins' warnings are expected
    try:
        names = _policies(arguments.policies)
        past = _past(arguments) if arguments.from_prometheus else None
        world = _world(arguments) if past is None else past.world
        with _progress(len(names) * world.steps, "simulating") as advance:
            runs = [_simulate(world, name, arguments, advance) for name in names]
        if past is not None and past.steady:
            runs.insert(0, past.as_it_was())
        results = {run.policy: figures(run) for run in runs}
        base = next((run for run in runs if run.policy == _DEFAULT), runs[0])
        ratios = {run.policy: ratio for run in runs if run is not base and (ratio := by_day(run, base))}
        _show(world, results)
        for name, ratio in ratios.items():
            sys.stdout.write(f"{name} leaves {ratio} of the deviation of {base.policy}, by day.\n")
        if past is not None:
            sys.stdout.writelines(f"{printable(remark)}\n" for remark in past.remarks)
        if arguments.json is not None:
            _write(world, arguments.seed, results, ratios, arguments.json)
        if arguments.plots is not None:
            _draw(runs, arguments.plots)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "rich"):
            raise
        sys.stderr.write(f"tidelock: simulate needs {error.name}: {_EXTRA}\n")
        return 1
    except (SourceError, ValueError, OSError) as error:
        sys.stderr.write(f"tidelock: {printable(str(error))}\n")
        return 1
    return 0


def _policies(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in POLICIES:
            raise ValueError(f"--policies: {name!r} is not one of {', '.join(POLICIES)}")
    if len(set(names)) < len(names):
        raise ValueError(f"--policies: {text!r} names a policy twice")
    return names


def _past(arguments: argparse.Namespace) -> RecordedWorld:
    """Read the past of a real cluster."""
    for name in ("load", "task_usage", "openb_nodes", "openb_pods"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--from-prometheus and --{name.replace('_', '-')} exclude each other")
    try:
        step = round(parse_duration(arguments.step))
    except ValueError as error:
        raise ValueError(f"--step: {arguments.step!r} {error}") from error
    try:
        end = parse_instant(arguments.until) if arguments.until else SystemClock().now()
    except ValueError as error:
        raise ValueError(f"--until: {error}") from error
    span = RecordedSpan.until(end, arguments.days, step)
    _timing(arguments).intervals(span.step)
    access = Access() if arguments.login is None else folder_access(arguments.login)
    with _progress(span.queries, "reading") as advance:
        return recorded_world(
            asyncio.run(record(arguments.from_prometheus, access, span, arguments.matchers, advance))
        )


def _timing(arguments: argparse.Namespace) -> MetricsTiming:
    default = DEFAULT_METRICS if arguments.from_prometheus else SLOW_METRICS
    given = {name: value for name in ("interval", "lag") if (value := getattr(arguments, name)) is not None}
    return replace(default, **given)


def _world(arguments: argparse.Namespace) -> SimulatedWorld:
    setting = Setting(
        nodes=arguments.nodes,
        cores=arguments.cores,
        workloads=arguments.workloads,
        fill=arguments.fill,
        overcommit=arguments.overcommit,
        life=arguments.life_hours * 3600,
        noise=arguments.noise,
        rollouts=arguments.rollouts,
        steps=arguments.steps,
        sizes=arguments.sizes,
        request_error=arguments.request_error,
        replica_shape=arguments.replica_shape,
        lifetimes=arguments.lifetimes,
        rows=arguments.rows,
        load=arguments.load_factor,
        memory=arguments.memory,
        apart=arguments.apart,
    )
    if arguments.load is not None and arguments.task_usage is not None:
        raise ValueError("--load and --task-usage exclude each other")
    if arguments.task_usage is not None:
        title, load = arguments.task_usage[0].name, read_task_usage(arguments.task_usage)
    elif arguments.load is None:
        rows = max(_SYNTHETIC_ROWS, setting.workloads)
        shape = LoadShape(
            mean=arguments.mean, swing=arguments.swing, wander=arguments.wander, peaks=arguments.peaks
        )
        title, load = "synthetic", synthetic_load(rows, setting.steps, arguments.seed, shape)
    else:
        title, load = arguments.load.name, read_planetlab(arguments.load)
    if (arguments.openb_nodes is None) != (arguments.openb_pods is None):
        raise ValueError("--openb-nodes and --openb-pods belong together")
    if arguments.openb_nodes is None:
        return world_of(title, load, setting, arguments.seed)
    machines = read_openb_nodes(arguments.openb_nodes)
    pods = read_openb_pods(arguments.openb_pods)
    return openb_world(f"openb, {title}", machines, pods, load, setting, arguments.seed)


def _simulate(
    world: SimulatedWorld, name: str, arguments: argparse.Namespace, advance: Callable[[str], None]
) -> Run:
    policy, faults = POLICIES[name], FAULTS[arguments.fault]
    if arguments.whole_scheduler:
        scheduler: Scheduler = whole_scheduler(world, policy, arguments.seed)
    else:
        scheduler = quickest_scheduler(world, policy, arguments.seed, faults)
    simulation = Simulation(
        world, policy, arguments.seed, timing=_timing(arguments), faults=faults, scheduler=scheduler
    )
    return simulation.run(lambda _: advance(name))


@contextmanager
def _progress(steps: int, title: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of some work, and yield a function to call after each step with its subject."""
    from rich.console import Console  # noqa: PLC0415 -- an optional extra
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=steps)
        yield lambda name: bar.update(task, advance=1, description=name)


def _show(world: SimulatedWorld, results: dict[str, RunFigures]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    sizes = f"{len(world.machines)} nodes, {world.pods} pods, {world.steps} steps"
    table = Table(title=f"{printable(world.title)}: {sizes}")
    table.add_column("policy", no_wrap=True)
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right")
    for name, of in results.items():
        table.add_row(name, *(f"{getattr(of, column):.2f}" for column in _COLUMNS))
    Console(markup=False).print(table)


def _write(
    world: SimulatedWorld,
    seed: int,
    results: dict[str, RunFigures],
    ratios: dict[str, RatioEstimate],
    file: Path,
) -> None:
    report = {
        "world": {
            "title": world.title,
            "nodes": len(world.machines),
            "pods": world.pods,
            "steps": world.steps,
        },
        "seed": seed,
        "policies": {name: as_numbers(of) for name, of in results.items()},
        "by_day": ratios,
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def _draw(runs: Sequence[Run], folder: Path) -> None:
    from tidelock.simulation.plots import plot_nodes, plot_spread  # noqa: PLC0415 -- loads matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    plot_spread(runs, folder / "spread.png")
    plot_nodes(runs, folder / "nodes.png")
