"""A benchmark of a tenant's worst objects: python -m bench.worst [--quick] [--profile] [--kinds A,B].

A cluster of 1,000 nodes and 10,000 placed pods is built in memory. For each kind of object, the benchmark
takes the worst one that the limits allow, and one far beyond the limits. Three stalls are measured, each the
longest time in which the event loop is blocked:

- taking in: an event of the object, from its JSON to the ledger and the cache, or to the answer of a quote.
- deciding: a step of the decider about the object, in some cases also some seconds later.
- beside: a step of the decider about any other pod, after that.

All times are processor time, as the machine may have other work, and the event loop is one thread that does
not wait here. A Reservation or schedule with a spec that can't be read counts as refused. A refused object is
no worst case, unless it is one beyond the limits.
"""

import argparse
import cProfile
import gc
import os
import pstats
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from bench.command import add_counts, add_json, is_quick
from bench.decisions import DEFAULT, NOW, furnished, pods
from bench.extreme_objects import Thing
from bench.extremes import Case, cases
from bench.figures import Figure, columns
from bench.record import Record
from devcluster.output import say
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.reservation import decode_reservation
from tidelock.model.reservation_quote import decode_quote
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.running import collect_seldom
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.informers.informers import decoder_of

TARGET = 250.0  # milliseconds
_BESIDE = 20  # other pods
_TOP = 25  # functions of a profile


@dataclass
class Stall:
    """The longest stalls by a kind of object, in milliseconds.

    `load` is the machine's load average over 1 minute. `taken` and `refused` count the objects.
    """

    kind: str
    taking_in: float = 0.0
    deciding: float = 0.0
    beside: float = 0.0
    taken: int = 0
    refused: int = 0
    load: float = 0.0

    @property
    def worst(self) -> float:
        """The longest of the three stalls."""
        return max(self.taking_in, self.deciding, self.beside)

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        return "met" if self.worst <= TARGET else "missed"

    @property
    def figures(self) -> list[Figure]:
        """The figures of a record."""
        stalls = (("taking in", self.taking_in), ("deciding", self.deciding), ("beside", self.beside))
        return [Figure(name, "ms", values=[value], loads=[self.load]) for name, value in stalls]


@dataclass
class _Stage:
    """A decider with its event handlers, and the object's stalls so far."""

    decider: Decider
    event_handlers: EventHandlers
    stall: Stall = field(init=False)

    def take_in(self, thing: Thing) -> None:
        """Decode an object and pass it to the event handlers, as a watch does."""
        raw, problem = msgspec.json.encode(thing.body), ""
        begin = time.process_time()
        match thing.kind:
            case "pod":
                self.event_handlers.pods.upsert(None, decode_pod(raw))
            case "node":
                self.event_handlers.nodes.upsert(None, decode_node(raw))
            case "reservation":
                reservation = decode_reservation(raw)
                self.event_handlers.reservations.upsert(None, reservation)
                problem = reservation.problem
            case "schedule":
                schedule = decode_schedule(raw)
                schedule.missed(NOW, 0.0)
                schedule.to_come(NOW)
                problem = schedule.problem
            case "quote":
                quote = decode_quote(raw)
                problem = quote.problem
                if quote.pod is not None:
                    self.decider.quote(quote.pod, NOW)
            case name:
                getattr(self.decider.objects, name).upsert(None, decoder_of(name)(raw))
        self.stall.taking_in = max(self.stall.taking_in, _milliseconds(begin))
        self.stall.taken += 1
        self.stall.refused += bool(problem)

    def decide(self, now: float = NOW) -> float:
        """Run steps until none is due, and return the time of the longest."""
        longest = 0.0
        begin = time.process_time()
        for _ in due_steps(self.decider, lambda: now):
            longest = max(longest, _milliseconds(begin))
            begin = time.process_time()
        return longest


def measure(case: Case, options: argparse.Namespace) -> Stall:
    """Measure the stalls of one kind of object in a new cluster."""
    gc.collect()  # otherwise the garbage of the previous case would be collected while the time counts
    stage = _Stage(*furnished(DEFAULT, options.nodes, options.placed))
    stage.stall = Stall(case.name)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    for thing in case.things(options.nodes):
        stage.take_in(thing)
    stage.stall.deciding = stage.decide()
    if case.later:
        stage.stall.deciding = max(stage.stall.deciding, stage.decide(NOW + case.later))
    for pod in pods(DEFAULT, _BESIDE, alike=False):
        stage.event_handlers.pods.upsert(None, pod)
        stage.stall.beside = max(stage.stall.beside, stage.decide())
    if options.profile:
        profile.disable()
        pstats.Stats(profile).strip_dirs().sort_stats("cumtime").print_stats(_TOP)
    stage.stall.load = os.getloadavg()[0]
    return stage.stall


def table(stalls: Sequence[Stall]) -> str:
    """Format the figures as a table."""
    rows: list[tuple[str, ...]] = [
        ("object", "taking in", "deciding", "beside", f"at most {TARGET:.0f} ms", "refused", "load")
    ]
    for each in stalls:
        figures = (f"{value:.1f} ms" for value in (each.taking_in, each.deciding, each.beside))
        refused = f"{each.refused} of {each.taken}"
        rows.append((each.kind, *figures, each.verdict, refused, f"{each.load:.1f}"))
    return columns(rows)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.worst", description="Measure the worst objects of tenants.")
    quick = is_quick(parser, arguments, "a smaller cluster, for a first look")
    counts = (
        ("nodes", 1_000, 200, "nodes of the cluster"),
        ("placed", 10_000, 2_000, "pods that are already placed"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--kinds", metavar="A,B", help="only these kinds of objects, by name")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and slow it down")
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    known = {case.name: case for case in cases()}
    wanted = options.kinds.split(",") if options.kinds else list(known)
    if unknown := sorted(set(wanted).difference(known)):
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(known)}")
    options.chosen = [known[name] for name in wanted]
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    options = parse(arguments)
    record = Record.begin(options)
    collect_seldom()  # as the operator does
    stalls = []
    for case in options.chosen:
        say(f"{case.name}.")
        stalls.append(measure(case, options))
    print(f"Stalls of the loop at {options.nodes} nodes and {options.placed} placed pods.")
    print(table(stalls))
    for stall in stalls:
        record.add(stall.figures, stall.kind)
    record.add([Figure.once("longest stall", "ms", max(stall.worst for stall in stalls), TARGET)])
    record.write(options.json)
    return 0


def _milliseconds(begin: float) -> float:
    return (time.process_time() - begin) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
