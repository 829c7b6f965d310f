"""The common parts of the benchmarks' commands: options for counts, and a new control plane."""

import argparse
import asyncio
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from bench.locks import ReservationLostError
from devcluster import LocalCluster, start_cluster
from devcluster.output import say
from devcluster.programs import APISERVER_GOGC

Count = tuple[str, int, int, str]
"""An option: its name, its default, its default with --quick, and its help text."""


def is_quick(parser: argparse.ArgumentParser, arguments: Sequence[str], text: str) -> bool:
    """Add --quick, which changes other options' defaults, and return whether it is given."""
    parser.add_argument("--quick", action="store_true", help=text)
    alone = argparse.ArgumentParser(add_help=False)  # --help is for the parser that knows all options
    alone.add_argument("--quick", action="store_true")
    return bool(alone.parse_known_args(arguments)[0].quick)


def add_counts(parser: argparse.ArgumentParser, counts: Iterable[Count], *, quick: bool) -> None:
    """Add counts as options."""
    for name, full, small, text in counts:
        parser.add_argument(f"--{name}", type=int, default=small if quick else full, help=text)


def add_json(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Add the option for the file of the run's record, and the record's names of the benchmark and command.

    An absolute path in the command is cut to its name, as it is of no use on other machines.
    """
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record of the run there")
    words = ("python", "-m", parser.prog, *(re.sub("(^|=)/.*/", r"\1", word) for word in arguments))
    parser.set_defaults(bench=parser.prog.removeprefix("bench."), command=shlex.join(words))


def add_fsync(parser: argparse.ArgumentParser) -> None:
    """Add the option by which etcd writes to the disk itself."""
    parser.add_argument("--fsync", action="store_true", help="let etcd write to the disk itself")


def control_plane(*, fsync: bool) -> str:
    """Describe the control plane of `run_alone`."""
    disk = "with" if fsync else "without"
    return (
        f"{os.cpu_count()} CPUs for everything; etcd {disk} fsync; kube-apiserver with GOGC={APISERVER_GOGC}"
    )


def run_alone(
    run: Callable[[LocalCluster, argparse.Namespace], Coroutine[Any, Any, int]],
    options: argparse.Namespace,
    *,
    fsync: bool = False,
) -> int:
    """Run a benchmark on a new control plane without controllers and kubelets, and return its exit status.

    The exit status is 1 if a reservation lost its capacity.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-bench-") as directory,
        start_cluster(Path(directory), controller_manager=False, kwok=False, fsync=fsync) as cluster,
    ):
        status = 1
        try:
            # As in `tidelock run`: the benchmark takes little of the processors that it measures on.
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                status = runner.run(run(cluster, options))
        except* ReservationLostError as lost:
            say("; ".join(str(error) for error in lost.exceptions))
        return status
