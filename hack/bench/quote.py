"""A benchmark of quotes without an API server: python -m bench.quote [--locks N] [--json FILE].

The same run also measures decisions about equal pods. All times are processor time, as in bench.cycle.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import msgspec

from bench.command import add_json
from bench.decisions import furnished, pods, seconds_a_decision, workloads
from bench.figures import Figure, table
from bench.record import Record
from tidelock.model.pods import Pod
from tidelock.model.reservation_quote import decode_quote
from tidelock.scheduler.core.decider import Decider

_NOW = 1_800_000_000.0
_WARM_UP = 20
_PLACED = 30_000
_TARGET = 1_000.0  # quotes a second


def ask(number: int, cpu: str, *, alike: bool) -> Pod:
    """Return the reserve pod of a quote. If quotes are not alike, no two request the same memory."""
    memory = f"{(256 << 10) + (0 if alike else number)}Ki"
    metadata = {"name": f"ask-{number}", "namespace": "bench", "uid": f"ask-{number}", "generation": 1}
    plain = {"metadata": metadata, "spec": {"resources": {"cpu": cpu, "memory": memory}}}
    pod = decode_quote(msgspec.json.encode(plain)).pod
    if pod is None:
        raise ValueError(f"quote {number} can't be read")
    return pod


def rate(decider: Decider, asks: Sequence[Pod], *, feasible: bool) -> tuple[float, float]:
    """Return the quotes a second of processor time, and of wall-clock time."""
    for each in asks[:_WARM_UP]:
        decider.quote(each, _NOW)
    begin, wall = time.process_time(), time.perf_counter()
    for each in asks[_WARM_UP:]:
        if decider.quote(each, _NOW).feasible is not feasible:
            raise ValueError(f"{each.meta.name}: another answer than this measures")
    count = len(asks) - _WARM_UP
    return count / (time.process_time() - begin), count / (time.perf_counter() - wall)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    parser = argparse.ArgumentParser(prog="bench.quote", description="Measure quotes alone.")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--quotes", type=int, default=1_000)
    parser.add_argument("--locks", type=int, default=10_000)
    add_json(parser, arguments)
    options = parser.parse_args(arguments)
    record = Record.begin(options)
    (workload,) = [each for each in workloads(options.locks) if each.name == "locks"]
    decider, event_handlers = furnished(workload, options.nodes, _PLACED)
    print(f"{options.nodes} nodes, {_PLACED} placed pods, {options.locks} locks.")
    kinds: tuple[tuple[str, str], ...] = (("feasible", "1"), ("not feasible", "10000"))
    for name, cpu in kinds:
        for alike in (True, False):
            asks = [ask(number, cpu, alike=alike) for number in range(options.quotes + _WARM_UP)]
            by_processor, by_wall = rate(decider, asks, feasible=name == "feasible")
            figures = [
                Figure.once("of processor time", "quotes/s", by_processor, _TARGET, more_is_better=True),
                Figure.once("of wall-clock time", "quotes/s", by_wall, more_is_better=True),
            ]
            subject = f"{name}, {'alike' if alike else 'no two the same'}"
            print(f"\n{subject}\n{table(figures)}")
            record.add(figures, subject)
    waiting = pods(workload, options.quotes + _WARM_UP, alike=True)
    seconds_a_decision(decider, event_handlers, waiting[:_WARM_UP], 5.0)
    seconds = seconds_a_decision(decider, event_handlers, waiting[_WARM_UP:], 5.0)
    decisions = [Figure.once("of processor time", "decisions/s", 1 / seconds, more_is_better=True)]
    print(f"\ndecisions, alike\n{table(decisions)}")
    record.add(decisions, "decisions, alike")
    record.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
