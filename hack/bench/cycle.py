"""A benchmark of decisions without an API server: python -m bench.cycle [--quick] [--profile].

For each set of plugins it measures the processor time of a decision, for equal pods and for pods that all
differ, on clusters of several sizes. It also estimates how the time grows with the number of nodes.
"""

import argparse
import cProfile
import os
import pstats
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

from bench.command import add_counts, add_json, is_quick
from bench.decisions import Workload, furnished, pods, seconds_a_decision, workloads
from bench.figures import Figure, columns, exponent
from bench.record import Record
from devcluster.output import say
from tidelock.plugins.registry import REGISTRY

# Decisions a second at _AT nodes with the default profile, for equal pods and for pods that differ.
_TARGETS = {True: 5_000, False: 1_500}
_AT = 5_000
_WARM_UP = 20  # decisions
_TOP = 40  # functions of a profile


@dataclass
class Growth:
    """Decisions of one kind on clusters of several sizes.

    Attributes:
        workload: name of the set of plugins.
        alike: whether the pods are equal.
        per_second: decisions a second of processor time, by the number of nodes.
        load: the machine's load average (1 minute) at the end.
        note: why there are no figures. Empty if there are.

    """

    workload: str
    alike: bool
    per_second: dict[int, float] = field(default_factory=dict)
    load: float = 0.0
    note: str = ""

    @property
    def exponent(self) -> float:
        """Power of the number of nodes with which the time of a decision grows, or NaN for one size."""
        return exponent(list(self.per_second), [1 / rate for rate in self.per_second.values()])

    @property
    def power(self) -> str:
        """The exponent as text, empty for one size."""
        return "" if isnan(self.exponent) else f"n^{self.exponent:.2f}"

    @property
    def verdict(self) -> str:
        """Whether the target is met, as text, empty without a target."""
        return "".join(f"{figure.verdict} at {_AT}" for figure in self.figures if figure.target)

    @property
    def figures(self) -> list[Figure]:
        """The figures of a record: decisions a second, of which one size has a target, and the exponent."""
        rates = [
            Figure(
                f"{size} nodes",
                "decisions/s",
                _TARGETS[self.alike] if size == _AT else None,
                more_is_better=True,
                values=[rate],
                loads=[self.load],
            )
            for size, rate in self.per_second.items()
        ]
        return [*rates, Figure("exponent", "", values=[self.exponent], loads=[self.load])]


def measure(workload: Workload, options: argparse.Namespace, *, alike: bool) -> Growth:
    """Measure decisions of one kind on all sizes."""
    growth = Growth(workload.name, alike)
    if missing := sorted(workload.plugins.difference(REGISTRY)):
        growth.note = f"not supported yet: there is no {', '.join(missing)}"
        return growth
    for nodes in options.nodes:
        say(f"{workload.name}, pods {_kind(alike)}, {nodes} nodes.")
        placed = nodes * options.density if options.density else options.placed
        decider, event_handlers = furnished(workload, nodes, placed)
        waiting = pods(workload, options.decisions + _WARM_UP, alike=alike)
        seconds_a_decision(decider, event_handlers, waiting[:_WARM_UP], options.seconds)
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        seconds = seconds_a_decision(decider, event_handlers, waiting[_WARM_UP:], options.seconds)
        growth.per_second[nodes] = 1 / seconds
        if options.profile:
            profile.disable()
            pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(_TOP)
    growth.load = os.getloadavg()[0]
    return growth


def table(growths: Sequence[Growth], sizes: Sequence[int]) -> str:
    """Format the figures as a table."""
    rows = [("plugins", "pods", *(f"{size} nodes" for size in sizes), "grows with", "target", "load")]
    for growth in growths:
        rates = [f"{growth.per_second[size]:.0f}/s" if size in growth.per_second else "" for size in sizes]
        fitted = (
            ("", growth.note, "") if growth.note else (growth.power, growth.verdict, f"{growth.load:.1f}")
        )
        rows.append((growth.workload, _kind(growth.alike), *rates, *fitted))
    return columns(rows)


def _kind(alike: bool) -> str:
    return "alike" if alike else "different"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.cycle", description="Measure decisions alone.")
    quick = is_quick(parser, arguments, "fewer sizes and decisions, for a first look")
    sizes = [1_000, _AT] if quick else [1_000, 2_500, _AT, 10_000, 15_000]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes, metavar="N", help="sizes of clusters")
    counts = (
        ("placed", 30_000, 30_000, "pods that are already placed"),
        ("density", 0, 0, "placed pods a node, instead of the same number for each size"),
        ("locks", 5_000, 5_000, "active reservations, in the set with reservations"),
        ("decisions", 3_000, 1_000, "at most so many of each kind and size"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time for each kind and size")
    parser.add_argument("--sets", metavar="A,B", help="only these sets of plugins, by name")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and slow it down")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    known = {workload.name: workload for workload in workloads(options.locks)}
    wanted = options.sets.split(",") if options.sets else list(known)
    if unknown := sorted(set(wanted).difference(known)):
        parser.error(f"no such set: {', '.join(unknown)}; there are {', '.join(known)}")
    options.chosen = [known[name] for name in known if name in wanted]
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    options = parse(arguments)
    record = Record.begin(options)
    kinds = [(workload, alike) for workload in options.chosen for alike in (True, False)]
    growths = [measure(workload, options, alike=alike) for workload, alike in kinds]
    beside = f"{options.density} placed pods a node" if options.density else f"{options.placed} placed pods"
    print(f"Decisions a second of processor time beside {beside}.")
    print(table(growths, options.nodes))
    for growth in growths:
        record.add(growth.figures, f"{growth.workload}, {_kind(growth.alike)}")
    record.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
