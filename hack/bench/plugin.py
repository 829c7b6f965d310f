"""A benchmark of short commands of kubectl tidelock: python -m bench.plugin [--quick].

Each command runs as a user types it: kubectl finds the plugin on the PATH and starts it, and the plugin asks
a real API server. The plugin is the one of the virtual environment, or the single file of `python -m plugin`.
A command of kubectl itself runs beside it, in turn. The cluster has one node, one reservation and two pods,
and no operator, since these commands only read.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.command import add_counts, add_json, is_quick, run_alone
from bench.figures import Figure
from bench.record import ROOT, Record
from bench.world import NAMESPACE, install
from devcluster import LocalCluster
from devcluster.binaries import find_binaries
from plugin.__main__ import build

_EXAMPLES = ROOT / "docs" / "examples" / "quickstart"
_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Pair:
    """A command of the plugin, and one of kubectl with a similar answer."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    target: float | None = None  # ms


_IN = f"--namespace={NAMESPACE}"
PAIRS = (
    Pair(("status", _IN), ("get", "reservations", _IN), 300.0),
    Pair(("why", "stranger", _IN), ("describe", "pod", "stranger", _IN)),
    Pair(("--version",), ("version", "--client")),
    Pair(("--help",), ("--help",)),
)


def milliseconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command, and return the time until it has ended.

    Raises:
        CalledProcessError: the command failed. It has printed the reason.

    """
    begin = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=_TIMEOUT)
    return (time.perf_counter() - begin) * 1e3


async def run(cluster: LocalCluster, options: argparse.Namespace) -> int:
    """Time all commands, and return the exit status."""
    record = Record.begin(options)
    install(cluster)
    for file in ("node-and-reservation.yaml", "pods.yaml"):
        cluster.kubectl("apply", _IN, "--filename", str(_EXAMPLES / file))
    folder = cluster.directory / "plugin"
    build(folder, "https://localhost")
    kubectl = str(find_binaries().programs["kubectl"])
    installed, single_file = environments(cluster, folder)
    for pair in PAIRS:
        programs = {
            "": ([kubectl, "tidelock", *pair.ours], installed),
            "single file": ([kubectl, "tidelock", *pair.ours], single_file),
            "kubectl": ([kubectl, *pair.theirs], installed),
        }
        figures = {name: Figure("time", "ms", pair.target) for name in programs}
        for number in range(options.rounds + 1):
            for name, (command, environment) in programs.items():
                took = milliseconds(command, environment)
                if number:  # the first round compiles modules and unpacks the single file
                    figures[name].add(took)
        for name, figure in figures.items():
            print(f"{pair.ours[0]} {name}: {statistics.median(figure.values):.0f} ms")
            record.add([figure], pair.ours[0], name, aimed=name != "kubectl")
    record.write(options.json)
    return 0


def environments(cluster: LocalCluster, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables with which kubectl finds the installed plugin, and those for that of a folder."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    installed = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(folder / "kubectl"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": path,
    }
    installed.pop("PYTHONDONTWRITEBYTECODE", None)  # without compiled modules each start compiles all of them
    return installed, {**installed, "PATH": os.pathsep.join((str(folder), path))}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.plugin", description="Time commands of kubectl tidelock.")
    quick = is_quick(parser, arguments, "fewer rounds, for a first look")
    add_counts(parser, (("rounds", 20, 3, "times that each command runs"),), quick=quick)
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark on a new control plane, and return the exit status."""
    return run_alone(run, parse(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
