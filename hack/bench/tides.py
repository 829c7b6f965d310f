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
from bench.placement_bounds import Demands
from tidelock.model.api.water_level import Tide
from tidelock.simulation.cluster import EPOCH
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import DEFAULT_METRICS, Mask
from tidelock.simulation.results import WARM_UP, estimate
from tidelock.simulation.world import STEP, Floats, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, NightWork, Setting, day_and_night_world

_CORE = 1000.0
_HOT = 80.0
_MINUTE = 60.0
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
        hot_by_day, hot_by_night: percent of the nodes' five-minute samples that are over 80 %.
        short_by_day, short_by_night: percent of the cpu that services wanted and did not get.
        done: core-hours that the night's work got on a day, on average.
        wait: mean hours for which the night's work waits for a node. What waits at the end counts until then.
        services_wait: the same for the pods of services, in minutes.
        hourly: mean use of all nodes in each hour, in percent.

    """

    hot_by_day: float
    hot_by_night: float
    short_by_day: float
    short_by_night: float
    done: float
    wait: float
    services_wait: float
    hourly: list[float]


class Week(msgspec.Struct, frozen=True):
    """The results of a world, by the names of `LEVELS`."""

    seed: int
    pods: int
    levels: dict[str, TideFigures]


def simulate(seed: int, days: int, nodes: int) -> Week:
    """Simulate a week under each WaterLevel."""
    world = world_of_week(seed, days, nodes)
    return Week(seed, world.pods, {name: simulate_level(world, name, seed) for name in LEVELS})


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


def simulate_level(world: SimulatedWorld, name: str, seed: int) -> TideFigures:
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
    warm = np.arange(world.steps) * STEP >= WARM_UP
    night = within_tide(world.steps) & warm
    day = warm & ~night
    batch = world.workload >= _SERVICES * len(world.machines)
    end = world.steps * STEP
    waited = np.minimum(run.bound, end) - world.arrives
    wanted, got = _wanted_and_got(world, run, ~batch)
    _, done = _wanted_and_got(world, run, batch)
    return TideFigures(
        hot_by_day=_percent((run.cpu[day] > _HOT).mean()),
        hot_by_night=_percent((run.cpu[night] > _HOT).mean()),
        short_by_day=_percent(1 - got[day].sum() / wanted[day].sum()),
        short_by_night=_percent(1 - got[night].sum() / wanted[night].sum()),
        done=round(float(done.sum()) / _CORE * STEP / _HOUR / (end / _DAY), 1),
        wait=round(float(waited[batch].mean()) / _HOUR, 2),
        services_wait=round(float(waited[~batch].mean()) / _MINUTE, 2),
        hourly=run.cpu.mean(axis=1).reshape(-1, _STEPS_AN_HOUR).mean(axis=1).round(1).tolist(),
    )


def _percent(part: float) -> float:
    return round(100 * float(part), 3)


def _wanted_and_got(world: SimulatedWorld, run: Run, pods: Mask) -> tuple[Floats, Floats]:
    """Return the millicores that some pods wanted in each step, and the part that they got (T each).

    All pods of a full node get the same part of their demands.
    """
    demands = Demands.of(world, run).cpu
    wanted, got = np.zeros(world.steps), np.zeros(world.steps)
    for row, machine in enumerate(world.machines):
        here = run.node == row
        granted = np.minimum(machine.cpu / np.maximum(demands[here].sum(axis=0), 1), 1)
        of_pods = demands[here & pods].sum(axis=0)
        wanted += of_pods
        got += of_pods * granted
    return wanted, got


def report(weeks: Sequence[Week]) -> None:
    """Print the means of the weeks' figures, with the intervals between the weeks."""
    print(f"\n{len(weeks)} weeks, {np.mean([week.pods for week in weeks]):.0f} pods each:")
    fields = [field for field in TideFigures.__struct_fields__ if field != "hourly"]
    rows: list[tuple[str, ...]] = [("", *(field.replace("_", " ") for field in fields))]
    for name in LEVELS:
        found = ([getattr(week.levels[name], field) for week in weeks] for field in fields)
        rows.append((name, *(str(estimate(values)) for values in found)))
    print(columns(rows))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tides", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of weeks")
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
        weeks.append(simulate(seed, options.days, options.nodes))
        if file is not None:
            file.write_bytes(msgspec.json.encode(weeks) + b"\n")
    report(weeks)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
