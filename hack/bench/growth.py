"""How both schedulers scale: python -m bench.growth [--quick] [--json FILE] [--plot FILE.png].

The drains of bench.throughput on clusters of several sizes, whose nodes already have pods.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.command import add_counts, add_json, is_quick, run_alone
from bench.record import Record
from bench.scenarios import growth
from bench.throughput import run


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.growth", description="Compare with kube-scheduler, by size.")
    quick = is_quick(parser, arguments, "smaller clusters, for a first look")
    sizes = [100, 200] if quick else [1_000, 2_500, 5_000, 10_000, 15_000]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes, metavar="N", help="sizes of clusters")
    counts = (
        ("density", 10, 10, "placed pods a node"),
        ("pods", 2_500, 200, "pods of a drain"),
        ("rounds", 1, 1, "rounds of each program, in turn"),
        ("limit", 3_600, 180, "seconds after which a round fails"),
    )
    add_counts(parser, counts, quick=quick)
    add_json(parser, arguments)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the figures there")
    options = parser.parse_args(arguments)
    if options.plot and not options.json:
        parser.error("--plot needs --json, as it draws the record")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    options = parse(arguments)
    chosen = [growth(nodes, options.pods, options.density) for nodes in options.nodes]
    # `run` takes the options of bench.throughput.
    theirs = {**vars(options), "chosen": chosen, "fsync": False, "profile": None, "plot": None}
    status = run_alone(run, argparse.Namespace(**theirs))
    if options.plot:
        from bench.plot import plot_growth  # noqa: PLC0415 -- takes a second, and few runs need it

        record = msgspec.json.decode(options.json.read_bytes(), type=Record)
        plot_growth(record.figures.values(), options.plot)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
