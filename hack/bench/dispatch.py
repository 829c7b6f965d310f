"""A simulation of the benefit of reservations for managers that race for the last GPUs.

Usage: python -m bench.dispatch --traces DIR. The GPU nodes of a production trace (openb) are distributed over
member clusters, each with the real scheduler on a virtual clock. Two managers send jobs of that trace to
clusters with visible free capacity, and teams create some of their own in a cluster. A manager's view of the
clusters is seconds old, and its jobs arrive seconds later. If another job took the capacity meanwhile, the
job waits there, although it would fit elsewhere. With reservations, a manager asks the cluster before it
sends, and the capacity is held until the job arrives.

Every size of cluster and load is simulated twice with the same jobs: without reservations and with them. The
output has the share of jobs that found no capacity in their cluster, and how long these waited there. It also
has the time of managers' jobs from their creation to their node, and the share of GPUs in use. The share that
was held for jobs on their way is the cost of reservations. The exit status is 1 if a job with a reservation
found no capacity.
"""

import argparse
import heapq
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas

from bench.command import add_counts, add_json, is_quick
from bench.figures import Figure, columns, percentile
from bench.members import Amounts, Job, Member
from bench.record import Record
from devcluster.output import say
from tidelock.simulation.cluster import VirtualClock
from tidelock.simulation.traces import TracedPod, TraceError, read_openb_nodes, read_openb_pods
from tidelock.simulation.world import Machine

_NODES, _PODS = "openb_node_list_all_node.csv.gz", "openb_pod_list_default.csv.gz"
_MANAGERS = 2
# Share of jobs that teams create in a cluster themselves.
_LOCAL = 0.2
# Seconds between two looks of a manager at the clusters, and seconds until a reservation is answered.
_LOOK, _ANSWER = 5.0, 0.05
# The lifetime of a reservation, as a multiple of the average time that a job takes to arrive.
_PATIENCE = 3
# Jobs of a backlog that are tried at one look after the first that fits nowhere.
_BACKFILL = 20
_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a simulation.

    Attributes:
        nodes: nodes of all clusters.
        load: GPUs wanted at any time, as a share of all.
        delay: seconds a job is on the way, on average.
        seconds: length of the simulation.
        warm_up: seconds at its beginning that do not count.
        life: seconds a job runs, on average.

    """

    nodes: int
    load: float
    delay: float
    seconds: float
    warm_up: float
    life: float


@dataclass
class DispatchResult:
    """The result of one simulation.

    Attributes:
        sent: jobs of managers that have arrived.
        stranded: number of sent jobs that found no capacity in their cluster.
        waits: seconds from the creation of each manager's job to its node, or to the end without one.
        stuck: seconds from the arrival of each stranded job to its node, or to the end without one.
        used: GPU-seconds of bound pods, as a share of all.
        held: GPU-seconds that reservations held, as a share of all.

    """

    sent: int = 0
    stranded: int = 0
    waits: list[float] = field(default_factory=list)
    stuck: list[float] = field(default_factory=list)
    used: float = 0.0
    held: float = 0.0

    @property
    def figures(self) -> list[Figure]:
        """The figures of a record."""
        waits = [
            Figure.once(f"{name}, p{percent}", "s", percentile(seconds, percent))
            for name, seconds in (("waited there", self.stuck), ("have a node after", self.waits))
            if seconds
            for percent in (50, 99)
        ]
        return [
            Figure.once("sent", "jobs", self.sent),
            Figure.once("found no capacity", "%", _PERCENT * _share(self)),
            *waits,
            Figure.once("GPUs in use", "%", _PERCENT * self.used),
            Figure.once("GPUs held", "%", _PERCENT * self.held),
        ]


class SettingResult(NamedTuple):
    """A setting, and its results without reservations and with them."""

    setting: Setting
    without: DispatchResult
    having: DispatchResult


class DispatchSimulation:
    """One simulation: the clusters, the jobs and the events in time order."""

    def __init__(
        self,
        machines: Sequence[Machine],
        shapes: Sequence[TracedPod],
        setting: Setting,
        *,
        reservations: bool,
        members: int,
    ) -> None:
        """Distribute the machines over the members in turn."""
        self.setting = setting
        self.reservations = reservations
        self.clock = VirtualClock()
        self.result = DispatchResult()
        self._rng = Random(0)  # noqa: S311 -- repeatable, and the same with reservations and without
        self._shapes = shapes
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._wanted: dict[str, float] = {}
        self._stranded: dict[str, float] = {}
        self._home: dict[str, Member] = {}
        self._due: dict[Member, float] = {}
        self.members = [
            Member(machines[number::members], self.clock, self._bound) for number in range(members)
        ]
        self.gpus = sum(member.gpus for member in self.members)
        self.managers = [Manager(self) for _ in range(_MANAGERS)]

    def run(self) -> DispatchResult:
        """Fill the clusters, run the simulation and return its result."""
        setting = self.setting
        for job in self._filling():
            self.arrive(job, self._rng.choice(self.members))
        for number, manager in enumerate(self.managers):
            self.at(_LOOK * number / _MANAGERS, manager.look)
        for instant, job in self._wishes():
            self.at(instant, partial(self._wish, job, self._rng.random(), self._rng.choice(self.members)))
        before = 0.0
        while self._events and self._events[0][0] <= setting.seconds:
            instant, _, happen = heapq.heappop(self._events)
            if before >= setting.warm_up:
                self._weigh(instant - before)
            before = self.clock.elapsed = instant
            happen()
        self.result.waits += [
            setting.seconds - wanted for wanted in self._wanted.values() if wanted >= setting.warm_up
        ]
        self.result.stuck += [setting.seconds - arrived for arrived in self._stranded.values()]
        return self.result

    def at(self, instant: float, happen: Callable[[], None]) -> None:
        """Schedule a call at a second."""
        heapq.heappush(self._events, (instant, next(self._order), happen))

    def arrive(self, job: Job, member: Member) -> None:
        """Create a job's pod in a cluster."""
        self._home[job.name] = member
        counts = job.name in self._wanted and self.clock.elapsed >= self.setting.warm_up
        member.create(job)
        self._decide(member)
        self.result.sent += counts
        if counts and job.name in self._wanted:  # not bound at once
            self.result.stranded += 1
            self._stranded[job.name] = self.clock.elapsed

    def reservation(self, job: Job, member: Member) -> bool:
        """Create a reservation in a cluster, and return whether it is Active."""
        active = member.reservation(job, math.ceil(_PATIENCE * self.setting.delay))
        self._decide(member)
        return active

    def _wish(self, job: Job, lot: float, home: Member) -> None:
        if lot < _LOCAL:
            self.arrive(job, home)
        else:
            self._wanted[job.name] = self.clock.elapsed
            self.managers[int((lot - _LOCAL) / (1 - _LOCAL) * _MANAGERS)].want(job)

    def _bound(self, job: Job) -> None:
        now = self.clock.elapsed
        if job.name in self._stranded:
            self.result.stuck.append(now - self._stranded.pop(job.name))
        wanted = self._wanted.pop(job.name, None)
        if wanted is not None and wanted >= self.setting.warm_up:
            self.result.waits.append(now - wanted)
        self.at(now + job.life, partial(self._end, job))

    def _end(self, job: Job) -> None:
        member = self._home.pop(job.name)
        member.delete(job)
        self._decide(member)

    def _decide(self, member: Member) -> None:
        member.decide()
        due = member.next_due()
        if due is not None and due < self._due.get(member, math.inf):
            self._due[member] = due
            self.at(due, partial(self._wake, member))

    def _wake(self, member: Member) -> None:
        if self._due.get(member) == self.clock.elapsed:  # otherwise an earlier instant was scheduled since
            del self._due[member]
        self._decide(member)

    def _weigh(self, seconds: float) -> None:
        share = seconds / ((self.setting.seconds - self.setting.warm_up) * self.gpus)
        self.result.used += share * sum(member.bound for member in self.members)
        self.result.held += share * sum(member.held for member in self.members)

    def _job(self, name: str) -> Job:
        shape = self._rng.choice(self._shapes)
        return Job(name, shape.cpu, shape.memory, shape.gpus, self._rng.expovariate(1 / self.setting.life))

    def _filling(self) -> Iterator[Job]:
        """Yield jobs for the GPUs that are in use at the beginning."""
        gpus = 0
        for number in count():
            job = self._job(f"old-{number}")
            gpus += job.gpus
            if gpus > self.setting.load * self.gpus:
                return
            yield job

    def _wishes(self) -> Iterator[tuple[float, Job]]:
        """Yield jobs at random times, so many that the average demand is the setting's load."""
        typical = sum(shape.gpus for shape in self._shapes) / len(self._shapes)
        rate = self.setting.load * self.gpus / (typical * self.setting.life)
        instant = 0.0
        for number in count():
            instant += self._rng.expovariate(rate)
            if instant > self.setting.seconds:
                return
            yield instant, self._job(f"job-{number}")


class Manager:
    """A manager that sends each job to the fullest cluster with visible capacity, or keeps it."""

    def __init__(self, simulation: DispatchSimulation) -> None:
        self._simulation = simulation
        self._rng = Random(len(simulation.members))  # noqa: S311 -- repeatable
        self._backlog: list[Job] = []
        self._under_way: dict[str, tuple[Job, Member]] = {}
        self._views: dict[Member, Amounts] = {}

    def want(self, job: Job) -> None:
        """Send a job, after those that wait."""
        self._backlog.append(job)
        self._work_off()

    def look(self) -> None:
        """Read the free amounts, and subtract jobs on their way that the clusters do not count yet."""
        self._views = {member: member.free() for member in self._simulation.members}
        if not self._simulation.reservations:
            for job, member in self._under_way.values():
                self._take(member, job)
        self._work_off()
        self._simulation.at(self._simulation.clock.elapsed + _LOOK, self.look)

    def _work_off(self) -> None:
        kept, failures = [], 0
        for place, job in enumerate(self._backlog):
            if failures > _BACKFILL:
                kept += self._backlog[place:]
                break
            if not self._send(job):
                kept.append(job)
                failures += 1
        self._backlog = kept

    def _send(self, job: Job) -> bool:
        """Send a job to the fullest cluster that takes it, and return whether there is one."""
        for member in sorted(self._views, key=lambda each: self._views[each][:, each.gpu].sum()):
            if not self._take(member, job):
                continue
            late = self._simulation.setting.delay * self._rng.uniform(0.5, 1.5)
            if self._simulation.reservations:
                if not self._simulation.reservation(job, member):
                    continue
                late += _ANSWER
            self._under_way[job.name] = (job, member)
            self._simulation.at(self._simulation.clock.elapsed + late, partial(self._arrive, job, member))
            return True
        return False

    def _take(self, member: Member, job: Job) -> bool:
        """Subtract a job from the view of a cluster, on the fullest node, and return whether it fits."""
        free, needs = self._views[member], member.needs(job)
        rows = np.flatnonzero(((free >= needs) | (needs == 0)).all(axis=1))
        if not len(rows):
            return False
        free[rows[free[rows, member.gpu].argmin()]] -= needs
        return True

    def _arrive(self, job: Job, member: Member) -> None:
        del self._under_way[job.name]
        self._simulation.arrive(job, member)


def compare(
    machines: Sequence[Machine], shapes: Sequence[TracedPod], settings: Sequence[Setting], members: int
) -> list[SettingResult]:
    """Simulate each setting without reservations and with them."""
    results = []
    for setting in settings:
        say(f"{setting.nodes} nodes, {setting.load:.0%} of the GPUs wanted.")
        chosen = machines[:: len(machines) // setting.nodes or 1][: setting.nodes]
        without, having = (
            DispatchSimulation(chosen, shapes, setting, reservations=reservations, members=members).run()
            for reservations in (False, True)
        )
        results.append(SettingResult(setting, without, having))
    return results


def table(results: Sequence[SettingResult]) -> str:
    """Format the figures as a table."""
    rows = [
        (
            "nodes",
            "wanted",
            "",
            "sent",
            "found no capacity",
            "waited there",
            "wait p50",
            "p99",
            "in use",
            "held",
        )
    ]
    for setting, without, having in results:
        for name, result in (("without reservations", without), ("with reservations", having)):
            rows.append(
                (
                    str(setting.nodes),
                    f"{setting.load:.0%}",
                    name,
                    str(result.sent),
                    f"{_share(result):.2%}",
                    f"{percentile(result.stuck, 50):.0f} s" if result.stuck else "",
                    f"{percentile(result.waits, 50):.0f} s",
                    f"{percentile(result.waits, 99):.0f} s",
                    f"{result.used:.2%}",
                    f"{result.held:.2%}",
                )
            )
    return columns(rows)


def plot(results: Sequence[SettingResult], members: int, file: Path) -> None:
    """Draw the shares of stranded jobs, of GPUs in use and of held GPUs over the load."""
    canvas = Canvas(figsize=(9, 4.4), layout="constrained")
    stranded, used = canvas.subplots(1, 2)
    sizes = sorted({each.setting.nodes for each in results})
    for size, style in zip(sizes, ("-", "--", ":", "-."), strict=False):
        chosen = [each for each in results if each.setting.nodes == size]
        loads = [_PERCENT * each.setting.load for each in chosen]
        clusters = f"{members} clusters of {size // members} nodes"
        for of_kind, label, colour in (
            ([each.without for each in chosen], "without reservations", "#868e96"),
            ([each.having for each in chosen], "with reservations", "#0b7285"),
        ):
            look = {"marker": "o", "linestyle": style, "color": colour, "label": f"{label}, {clusters}"}
            stranded.plot(loads, [_PERCENT * _share(result) for result in of_kind], **look)
            used.plot(loads, [_PERCENT * result.used for result in of_kind], **look)
        both = [_PERCENT * (each.having.used + each.having.held) for each in chosen]
        used.plot(
            loads,
            both,
            linestyle=style,
            color="#66d9e8",
            label=f"in use or held, with reservations, {clusters}",
        )
    stranded.set_ylabel("jobs that found no capacity where sent, %")
    used.set_ylabel("GPUs in use, %")
    for axis in (stranded, used):
        axis.set_xlabel("GPUs wanted, % of all")
        axis.grid(alpha=0.3)
    # Below both, as lines go through every part of a small one.
    canvas.legend(*used.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    canvas.savefig(file, dpi=110)


def _share(result: DispatchResult) -> float:
    """Return the share of sent jobs that found no capacity."""
    return result.stranded / max(result.sent, 1)


def main(arguments: Sequence[str]) -> int:
    """Simulate all settings, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="bench.dispatch", description="Measure the benefit of reservations for managers."
    )
    quick = is_quick(parser, arguments, "fewer nodes, a shorter time")
    parser.add_argument(
        "--traces", type=Path, required=True, metavar="DIR", help=f"folder of {_NODES} and {_PODS}"
    )
    counts = (
        ("members", 3, 3, "clusters"),
        ("minutes", 360, 60, "length of a simulation, without the first sixth, which does not count"),
        ("life", 120, 30, "minutes of a job, on average"),
        ("delay", 30, 30, "seconds a job is on the way, on average"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[90] if quick else [90, 600], help="nodes of all clusters"
    )
    parser.add_argument(
        "--loads", type=int, nargs="+", default=[80, 85, 90, 95, 100], help="percent of the GPUs"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    record = Record.begin(options)
    seconds = 60.0 * options.minutes
    settings = [
        Setting(nodes, load / _PERCENT, options.delay, seconds, seconds / 6, 60.0 * options.life)
        for nodes in options.nodes
        for load in options.loads
    ]
    try:
        machines = [each for each in read_openb_nodes(options.traces / _NODES) if each.gpus]
        shapes = [each for each in read_openb_pods(options.traces / _PODS) if each.gpus]
    except TraceError as error:
        parser.error(str(error))
    results = compare(machines, shapes, settings, options.members)
    print(table(results))
    for setting, without, having in results:
        subject = (
            f"{options.members} clusters of {setting.nodes // options.members} nodes, {setting.load:.0%}"
        )
        key = f"{setting.nodes}-nodes-{setting.load * _PERCENT:.0f}"
        record.add(without.figures, subject, "without reservations", key)
        record.add(having.figures, subject, "with reservations", key)
    for name, several in (
        ("without reservations", [each.without for each in results]),
        ("with reservations", [each.having for each in results]),
    ):
        total = DispatchResult(sum(each.sent for each in several), sum(each.stranded for each in several))
        stranded = Figure.once("found no capacity", "%", _PERCENT * _share(total), headline=True)
        record.add([stranded], "all clusters and loads", name, "all")
    record.write(options.json)
    if options.plot:
        plot(results, options.members, options.plot)
    return 1 if any(each.having.stranded for each in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
