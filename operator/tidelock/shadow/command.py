"""The command `tidelock shadow`: watches a cluster, replays each decision, and writes a report."""

import argparse
import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from tidelock.framework.config import Configuration
from tidelock.framework.config_file import ConfigurationError, parse_duration
from tidelock.handlers import lifecycle
from tidelock.kube.config import ConfigError, Connection, load_connection
from tidelock.kube.errors import ApiError
from tidelock.logs import configure_logs
from tidelock.model.printable import printable
from tidelock.plugins.registry import read_configuration_file
from tidelock.settings import DEFAULT_SCHEDULER_NAME
from tidelock.shadow.cluster_watch import METRICS_SERVER, NothingSeenError, watch_cluster
from tidelock.shadow.page import page
from tidelock.shadow.report import report_of
from tidelock.shadow.results import ShadowOptions, ShadowResults
from tidelock.shadow.terminal import print_report

logger = logging.getLogger(__name__)

_DEFAULTS = ShadowOptions()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_duration,
        default=parse_duration("24h"),
        metavar="DURATION",
        help="how long to watch, such as 30m or 24h. Ctrl-C and SIGTERM end it earlier. Default: 24h",
    )
    parser.add_argument("--kubeconfig", help="kubeconfig file. Default: as for run")
    parser.add_argument("--context", default="", help="context of the kubeconfig. Default: the current one")
    parser.add_argument(
        "--config", default="", help="file with the KubeSchedulerConfiguration to replay with"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("tidelock-shadow"),
        metavar="FOLDER",
        help="folder for report.json and report.html. Default: tidelock-shadow",
    )
    parser.add_argument(
        "--lead",
        dest="leads",
        type=_duration,
        action="append",
        metavar="DURATION",
        help="lead time of reservations, several times for several. Default: 10s, 1m, 5m and 15m",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--prometheus", default="", metavar="URL", help="Prometheus server with the measured use of nodes"
    )
    source.add_argument(
        "--metrics-server", action="store_true", help="read the measured use of nodes from metrics.k8s.io"
    )
    parser.add_argument(
        "--look-every",
        dest="look_seconds",
        type=_duration,
        default=_DEFAULTS.look_seconds,
        metavar="DURATION",
        help="time between two looks at waiting pods and levels. Default: 5s",
    )
    parser.add_argument(
        "--report-every",
        dest="report_seconds",
        type=_duration,
        default=_DEFAULTS.report_seconds,
        metavar="DURATION",
        help="time between two reports of a run that goes on. Default: 5m",
    )
    parser.add_argument("--seed", type=int, default=_DEFAULTS.seed, help="seed of the samples")


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    configure_logs("text", "info")
    logging.getLogger("tidelock.kube.watch").setLevel(logging.ERROR)  # gaps and unread resources are reported
    try:
        configuration = read_configuration_file(arguments.config, DEFAULT_SCHEDULER_NAME)
        configuration = replace(configuration, extenders=())  # they are not called
        connection = load_connection(arguments.kubeconfig or None, context=arguments.context)
        arguments.output.mkdir(parents=True, exist_ok=True)
        results = asyncio.run(_watch(connection, configuration, arguments))
        print_report(report_of(results))
        _write(results, arguments.output)
        sys.stdout.write(f"\nreport.html and report.json are in {printable(str(arguments.output))}\n")
    except ConfigurationError as error:
        sys.stderr.write(f"tidelock: configuration {arguments.config}: {printable(str(error))}\n")
        return 1
    except (ApiError, ConfigError, NothingSeenError, OSError) as error:
        sys.stderr.write(f"tidelock: {printable(str(error))}\n")
        return 1
    return 0


async def _watch(
    connection: Connection, configuration: Configuration, arguments: argparse.Namespace
) -> ShadowResults:
    def report(results: ShadowResults) -> None:
        try:
            _write(results, arguments.output)
        except OSError as error:  # the run goes on, and the next report may succeed
            logger.warning("the report was not written", extra={"error": str(error)})

    stop = asyncio.Event()
    lifecycle.set_on_signals(stop)
    return await watch_cluster(
        connection, configuration, _options(arguments), arguments.seconds, stop, report
    )


def _options(arguments: argparse.Namespace) -> ShadowOptions:
    return ShadowOptions(
        leads=tuple(arguments.leads or _DEFAULTS.leads),
        look_seconds=arguments.look_seconds,
        report_seconds=arguments.report_seconds,
        seed=arguments.seed,
        profile=f"the profiles of {Path(arguments.config).name}" if arguments.config else _DEFAULTS.profile,
        source=METRICS_SERVER if arguments.metrics_server else arguments.prometheus,
    )


def _write(results: ShadowResults, folder: Path) -> None:
    """Write both files. Each is replaced as a whole."""
    json = msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"
    for name, content in (("report.json", json), ("report.html", page(report_of(results)).encode())):
        unfinished = folder / f".{name}"
        unfinished.write_bytes(content)
        unfinished.replace(folder / name)


def _duration(text: str) -> float:
    """Parse a duration of more than no time."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} should be longer than no time")
    return seconds
