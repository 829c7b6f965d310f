"""The command line of the development cluster: python -m devcluster up | down | status."""

import argparse
import os
import sys
from collections.abc import Sequence

from devcluster import binaries, resident
from devcluster.build import NEWEST, OLDER
from devcluster.errors import DevClusterError
from devcluster.output import say
from devcluster.provider import VARIABLE, Provider


def main(arguments: Sequence[str]) -> int:
    """Run one command. The exit status is 1 if it failed, or if `status` finds no complete cluster."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "up":
                if options.kubernetes:
                    os.environ[binaries.VARIABLE] = options.kubernetes
                resident.up(
                    options.provider or os.environ.get(VARIABLE),
                    scheduler=options.scheduler,
                    kubelets=options.kubelets,
                )
            case "down":
                resident.down()
            case "status":
                return 0 if resident.status() else 1
    except DevClusterError as error:
        say(str(error))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devcluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start the cluster unless it runs, and print how to use it")
    up.add_argument("--provider", choices=list(Provider), help=f"default: ${VARIABLE}, or an installed one")
    up.add_argument(
        "--kubernetes",
        choices=[*OLDER, NEWEST],
        help=f"version, for the provider go. Default: ${binaries.VARIABLE}, or {NEWEST}",
    )
    up.add_argument(
        "--scheduler", action="store_true", help="with the stock kube-scheduler (kind always has it)"
    )
    up.add_argument(
        "--kubelets",
        type=_count,
        default=0,
        metavar="N",
        help="with N nodes of 1 CPU and real kubelets, named worker-1 and so on, for the provider go",
    )
    commands.add_parser("down", help="stop it and delete its data")
    commands.add_parser("status", help="show what runs")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes such as 2")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
