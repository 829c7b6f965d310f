"""A simulated week of day and night work, with and without a tide: python -m bench.tides [--json FILE].

Services are used by day. Batch work is queued each night, more than the nodes take until the morning. The
installed profile places all pods. Four WaterLevels are compared: a low limit of use, a high one, and two with
a tide by night that has the high limit. One of these also packs the nodes by night, with half of the weight.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from bench.balance import policy
from bench.balance_report import OURS
from bench.figures import columns
from tidelock.model.api.water_level import Tide
from tidelock.simulation.cluster import EPOCH
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS, Mask
from tidelock.simulation.results import WARM_UP, as_numbers, estimate, figures
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, NightWork, Setting, day_and_night_world

_HOUR = 3600.0
_DAY = 24 * _HOUR
_STEPS_AN_HOUR = round(_HOUR / STEP)
_SERVICES = 4  # for each node

LOW, HIGH = 60, 90
"""The limits of use by day and by night, in percent."""


def _limit(percent: int) -> dict[str, Any]:
    return {"overloadLimits": {"cpuPercent": percent}}


NIGHT: Mapping[str, Any] = MappingProxyType(
    {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", **_limit(HIGH)}
)
"""The tide."""
_PACKED = {**NIGHT, "target": {"mode": "Static", "percent": 70}, "weightPercent": 50}

LEVELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        f"{LOW} % always": _limit(LOW),
        f"{HIGH} % always": _limit(HIGH),
        "tide": {**_limit(LOW), "tides": [dict(NIGHT)]},
        "tide that packs": {**_limit(LOW), "tides": [_PACKED]},
    }
)
"""The specs of the WaterLevels, without their source."""


class TideFigures(msgspec.Struct, frozen=True):
    """The figures of a WaterLevel in a week.

    Attributes:
        day, night: figures of the use outside of the tide and within it, as `RunFigures` has them.
        done: core-hours of the night's work that are done on a day, on average.
        wait: mean hours for which the night's work waits for a node. What waits at the end counts until then.
        services_wait: the same for the pods of services, in minutes.
        hourly: mean use of all nodes in each hour, in percent.

    """

    day: dict[str, float]
    night: dict[str, float]
    done: float
    wait: float
    services_wait: float
    hourly: list[float]


class Week(msgspec.Struct, frozen=True):
    """The results of a world, by the names of `LEVELS`."""

    seed: int
    pods: int
    levels: dict[str, TideFigures]


def play(seed: int, days: int, nodes: int) -> Week:
    """Simulate a week under each WaterLevel."""
    world = world_of_week(seed, days, nodes)
    return Week(seed, world.pods, {name: play_level(world, name, seed) for name in LEVELS})


def world_of_week(seed: int, days: int, nodes: int) -> SimulatedWorld:
    """Return services that are used by day, and work of each night for about 75 pods a node."""
    setting = Setting(
        nodes=nodes,
        workloads=_SERVICES * nodes,
        fill=0.35,
        overcommit=3.0,
        life=7 * _DAY,
        noise=0.5,
        steps=days * STEPS_A_DAY,
    )
    return day_and_night_world(setting, NightWork(jobs=75 * nodes), EPOCH % _DAY / _HOUR, seed)


def play_level(world: SimulatedWorld, name: str, seed: int) -> TideFigures:
    """Simulate a world under one of the WaterLevels."""
    ours = replace(policy(OURS), water_level=LEVELS[name])
    return _figures(world, Simulation(world, ours, seed, timing=DEFAULT_METRICS).run())


def within_tide(steps: int) -> Mask:
    """Return whether the tide is in force in each step."""
    instants = EPOCH + np.arange(steps) * STEP
    spans = Tide.model_validate(NIGHT).times.spans(EPOCH - _DAY, float(instants[-1]))
    within: Mask = np.any([(span.start <= instants) & (instants < span.end) for span in spans], axis=0)
    return within


def _figures(world: SimulatedWorld, run: Run) -> TideFigures:
    night, warm = within_tide(world.steps), np.arange(world.steps) * STEP >= WARM_UP
    end = world.steps * STEP
    bound = np.minimum(run.bound, end)
    waited = bound - world.arrives
    batch = world.workload >= _SERVICES * len(world.machines)
    ran = np.minimum(bound + world.lives, end) - bound
    cores = world.cpu.mean(axis=1) / 1000
    return TideFigures(
        day=as_numbers(figures(_part(run, ~night & warm), 0)),
        night=as_numbers(figures(_part(run, night & warm), 0)),
        done=round(float((cores * ran)[batch].sum() / _HOUR / (end / _DAY)), 1),
        wait=round(float(waited[batch].mean() / _HOUR), 2),
        services_wait=round(float(waited[~batch].mean() / 60), 2),
        hourly=run.cpu.mean(axis=1).reshape(-1, _STEPS_AN_HOUR).mean(axis=1).round(1).tolist(),
    )


def _part(run: Run, steps: Mask) -> Run:
    """Return some steps of a run."""
    return replace(run, cpu=run.cpu[steps], pending=run.pending[steps], unserved=run.unserved[steps])


def report(weeks: Sequence[Week]) -> None:
    """Print the means of the weeks, with intervals between them for the main figures."""
    print(f"\n{len(weeks)} weeks, {np.mean([week.pods for week in weeks]):.0f} pods each:")
    rows: list[tuple[str, ...]] = [
        (
            "",
            "by day: over 80 %",
            "unserved %",
            "by night: over 80 %",
            "unserved %",
            "night work, core-hours a day",
            "its wait, hours",
            "services' wait, minutes",
        )
    ]
    for name in LEVELS:
        each = [week.levels[name] for week in weeks]
        values = (
            *([of[field] for of in part] for part in _parts(each) for field in ("hot", "unserved")),
            *([getattr(of, field) for of in each] for field in ("done", "wait", "services_wait")),
        )
        rows.append((name, *(str(estimate(found)) for found in values)))
    print(columns(rows))


def _parts(each: Sequence[TideFigures]) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Return the figures by day, and those by night."""
    return [found.day for found in each], [found.night for found in each]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tides", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of weeks")
    parser.add_argument("--days", type=int, default=7, help="length of a week")
    parser.add_argument("--nodes", type=int, default=10, help="of 16 cores each")
    parser.add_argument("--json", type=Path, help="file of all weeks, which are reused")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Simulate the weeks that the file lacks, print the results and return the exit status."""
    options = parse(arguments)
    file: Path | None = options.json
    weeks: list[Week] = []
    if file is not None and file.exists():
        weeks = msgspec.json.decode(file.read_bytes(), type=list[Week])
    for seed in range(len(weeks), options.seeds):
        weeks.append(play(seed, options.days, options.nodes))
        if file is not None:
            file.write_bytes(msgspec.json.encode(weeks) + b"\n")
    report(weeks)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
