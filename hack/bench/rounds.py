"""One program's round of one scenario: its steps and its figures."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.audit import audit_pods
from bench.bindings import Bindings, bindings
from bench.device_claims import audit_claims
from bench.figures import Figure, percentile
from bench.histograms import Histogram
from bench.pods import add_background, add_pod, add_pods, clear_pods, pod_name, scheduled_events
from bench.programs import cpu_seconds, resident_bytes, scrape
from bench.scenarios import BOUND, Scenario
from devcluster import Component
from tidelock.kube.client import KubeClient

_MILLI = 1000
_MEBI = 2**20
_DECISIONS = "scheduler_scheduling_algorithm_duration_seconds"
_LOOK_AGAIN = 1.0  # seconds between two looks for events
# Seconds without a new event after which the benchmark stops waiting, as a program may drop some events.
_EVENTS_PATIENCE = 15.0
_WARM_UP = 1.0  # seconds between a program's readiness and the first pod of an open loop


class RoundError(Exception):
    """A round failed and can't be counted. The message has the reason."""


@dataclass(frozen=True)
class Contestant:
    """A program under test, and the scheduler name of its pods."""

    name: str
    program: Component
    scheduler_name: str
    knows_reservations: bool


@dataclass
class Round:
    """The result of a round: values by the figure's name, in its unit. NaN means that a value is unknown.

    Attributes:
        load: the machine's load average (1 minute) at the end of the work.
        faults: a text for each overcommitted node, and for each pod that breaks the scenario's rule.

    """

    values: dict[str, float] = field(default_factory=dict)
    load: float = 0.0
    faults: list[str] = field(default_factory=list)


def figures(scenario: Scenario) -> list[Figure]:
    """Return the figures of a scenario's rounds, still without values."""
    drain = [
        Figure(BOUND, "pods/s", more_is_better=True),
        Figure("between 10 % and 90 %", "pods/s", more_is_better=True),
        Figure("launch to first bound", "s"),
        Figure("launch to last bound", "s"),
        Figure("first bound to all events", "s"),
    ]
    open_loop = [
        Figure("create to bound, p50", "ms"),
        Figure("create to bound, p99", "ms"),
        Figure("create to bound, max", "ms"),
        Figure("pods made", "pods/s", more_is_better=True),
    ]
    return [
        *(drain if scenario.rate is None else open_loop),
        Figure("events told", "pods", more_is_better=True),
        Figure("CPU until the first is bound", "s"),
        Figure("CPU a pod after it", "ms"),
        Figure("resident at the end", "MiB"),
        Figure("decision, mean", "ms"),
        Figure("decision, p50", "ms"),
        Figure("decision, p99", "ms"),
    ]


async def run_round(client: KubeClient, scenario: Scenario, contestant: Contestant, limit: float) -> Round:
    """Run one round within a time limit in seconds, and leave no pod and no program behind.

    Raises:
        RoundError: the round did not end within the limit.

    """
    seen = Bindings()
    try:
        async with asyncio.timeout(limit), bindings(client) as seen:
            await add_background(client, scenario, contestant.scheduler_name)
            result = await (_drain if scenario.rate is None else _open_loop)(
                client, scenario, contestant, seen
            )
            result.faults += scenario.rule(
                {number_of(pod): number_of(node) for pod, node in seen.nodes.items()}
            )
            if scenario.claim is not None:
                result.faults += await audit_claims(client, seen.nodes)
            result.faults += await audit_pods(client, beside_reservations=contestant.knows_reservations)
            return result
    except TimeoutError as error:
        raise RoundError(
            f"{scenario.title}: {contestant.name} had bound {len(seen.seen)} of {scenario.pods} pods "
            f"after {limit:g} s"
        ) from error
    finally:
        await asyncio.to_thread(contestant.program.stop)
        await clear_pods(client)


async def _drain(client: KubeClient, scenario: Scenario, contestant: Contestant, seen: Bindings) -> Round:
    """Create all pods before the program starts, and measure how it binds them."""
    program = contestant.program
    await add_pods(client, scenario, contestant.scheduler_name)
    launch = time.perf_counter()
    program.launch()
    await seen.wait(1)
    start_cpu = cpu_seconds(program)
    await seen.wait(scenario.pods)
    result = Round(load=os.getloadavg()[0])
    instants = sorted(seen.seen.values())
    result.values = {
        BOUND: rate(instants, 0, 100),
        "between 10 % and 90 %": rate(instants, 10, 90),
        "launch to first bound": instants[0] - launch,
        "launch to last bound": instants[-1] - launch,
    }
    events, when = await _await_events(client, scenario.pods)
    result.values |= {"events told": events, "first bound to all events": when - instants[0]}
    result.values |= _costs(program, start_cpu, scenario.pods)
    return result


async def _open_loop(client: KubeClient, scenario: Scenario, contestant: Contestant, seen: Bindings) -> Round:
    """Create pods at a fixed rate, whether they are bound or not, and measure their latency."""
    if scenario.rate is None:
        raise ValueError(f"{scenario.name} has no rate")
    program = contestant.program
    await asyncio.to_thread(program.start)
    await asyncio.sleep(_WARM_UP)
    start_cpu = cpu_seconds(program)
    begins: dict[str, float] = {}

    async def make(number: int) -> None:
        begin = await add_pod(client, scenario, contestant.scheduler_name, number)
        begins[pod_name(number)] = begin

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(scenario.pods):
            await asyncio.sleep(max(start + number / scenario.rate - time.perf_counter(), 0.0))
            group.create_task(make(number))
    await seen.wait(scenario.pods)
    result = Round(load=os.getloadavg()[0])
    latencies = [(seen.seen[name] - begin) * _MILLI for name, begin in begins.items()]
    result.values = {
        "create to bound, p50": percentile(latencies, 50),
        "create to bound, p99": percentile(latencies, 99),
        "create to bound, max": max(latencies),
        "pods made": rate(sorted(begins.values()), 0, 100),
    }
    result.values["events told"], _ = await _await_events(client, scenario.pods)
    result.values |= _costs(program, start_cpu, scenario.pods)
    return result


async def _await_events(client: KubeClient, pods: int) -> tuple[int, float]:
    """Wait until every pod has its event, or no more events come.

    Returns the number of pods with an event, and when the last change of the number was seen.
    """
    events, since = 0, time.perf_counter()
    while events < pods and time.perf_counter() - since < _EVENTS_PATIENCE:
        await asyncio.sleep(_LOOK_AGAIN)
        now_there = await scheduled_events(client)
        if now_there > events:
            events, since = now_there, time.perf_counter()
    return events, since


def _costs(program: Component, start_cpu: float, pods: int) -> dict[str, float]:
    decisions = Histogram.parse(scrape(program), _DECISIONS)
    return {
        "CPU until the first is bound": start_cpu,
        "CPU a pod after it": (cpu_seconds(program) - start_cpu) / pods * _MILLI,
        "resident at the end": resident_bytes(program) / _MEBI,
        "decision, mean": decisions.mean * _MILLI,
        "decision, p50": decisions.quantile(0.5) * _MILLI,
        "decision, p99": decisions.quantile(0.99) * _MILLI,
    }


def number_of(name: str) -> int:
    """Return the number at the end of the name of a pod or node."""
    return int(name.rpartition("-")[2])


def rate(instants: Sequence[float], lower: int, upper: int) -> float:
    """Return the events a second between two percentages of them. The instants are in order."""
    first = len(instants) * lower // 100
    last = max(len(instants) * upper // 100 - 1, first)
    seconds = instants[last] - instants[first]
    return (last - first) / seconds if seconds else float("inf")
