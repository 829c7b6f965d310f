"""The `tidelock` command: runs the operator and scheduler, which decide while this process leads."""

import argparse
import asyncio
import ipaddress
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from uuid import uuid4

import uvloop

from tidelock import __version__
from tidelock.binders.certificate_rotator import ClientsError
from tidelock.clock import SystemClock
from tidelock.framework.config import Configuration, default_configuration, read_configuration
from tidelock.framework.config_file import ConfigurationError
from tidelock.framework.installed import load_plugins
from tidelock.handlers import lifecycle
from tidelock.kube.client import KubeClient
from tidelock.kube.config import ConfigError, Connection, load_connection
from tidelock.kube.lease import Alone, Leadership, Lease, LeaseLostError, LeaseTimes
from tidelock.kube.lease_thread import LeaseThread
from tidelock.leader import STUCK, Leader
from tidelock.listening import ListenError
from tidelock.logs import configure_logs
from tidelock.plugins.registry import BUILTINS
from tidelock.running import collect_seldom, end_within, until
from tidelock.serving import MetricsToken, TokenError, serve
from tidelock.settings import Settings
from tidelock.simulation import command as simulate

logger = logging.getLogger(__name__)

# Connections for the Lease alone: one to watch it, one to write it.
_LEASE_CONNECTIONS = 2
# Seconds that the process has to end, by itself, when it has lost its Lease.
_LAST_MOMENT = 2.0


async def operate(settings: Settings, stop: asyncio.Event) -> None:
    """Run the operator and the scheduler until `stop` is set or a signal comes.

    Raises:
        ConfigurationError: the configuration file is wrong.
        ConfigError: there is no way to reach a cluster.
        ListenError, TokenError, ClientsError: metrics or other binders can't be served as configured.
        LeaseLostError: another process leads now, or might.

    """
    logger.debug("configured", extra={"settings": settings})
    configuration = _configuration(settings)
    connection = load_connection(settings.kubeconfig or None)
    clock, rng = SystemClock(), Random()  # noqa: S311 -- for jitter
    agent = f"tidelock/{__version__}"
    async with _leadership(settings, connection, agent, rng) as leadership:
        client = KubeClient(
            connection, user_agent=agent, may_write=leadership.check, manager=lambda: leadership.manager
        )
        leader = Leader(settings, configuration, connection, client, leadership, clock, rng)
        leader.end_within = end_within
        async with client, _served(settings, leader) as port:
            logger.info(
                "started",
                extra={
                    "version": __version__,
                    "port": port,
                    "server": connection.server,
                    "schedulers": ", ".join(leader.profiles),
                },
            )
            if await until(stop, leadership.acquire()):
                await leader.lead(stop)


def _served(settings: Settings, leader: Leader) -> AbstractAsyncContextManager[int]:
    """Serve probes, metrics and the web view over HTTP, from the start of the process on."""
    token = MetricsToken(Path(settings.metrics_token_file)) if settings.metrics_token_file else None
    site = leader.site(token) if settings.web_view else None
    return serve(
        settings.listen,
        settings.port,
        leader.telemetry.registry,
        alive=lambda: leader.alive,
        ready=lambda: leader.ready,
        details=lambda: leader.details,
        token=token,
        site=None if site is None else site.application,
    )


@asynccontextmanager
async def _leadership(
    settings: Settings, connection: Connection, agent: str, rng: Random
) -> AsyncIterator[Leadership]:
    if not settings.leader_elect:
        yield Alone()
        return
    duration = float(settings.lease_duration_seconds)
    client = KubeClient(connection, user_agent=agent, connections=_LEASE_CONNECTIONS)
    lease = Lease(
        client,
        name=settings.lease_name,
        namespace=settings.lease_namespace or connection.namespace,
        identity=f"{settings.instance}_{uuid4()}",
        rng=rng,
        times=LeaseTimes(duration=duration, renew_deadline=duration * 2 / 3, retry_period=duration * 2 / 15),
    )
    thread = LeaseThread(lease, client, patience=STUCK)
    thread.on_lost = partial(end_within, _LAST_MOMENT)
    async with thread.running():
        yield thread


def _configuration(settings: Settings) -> Configuration:
    """Read the configuration file, if there is one, and log its fields without effect."""
    if not settings.config:
        return default_configuration(settings.scheduler_name, BUILTINS)
    try:
        text = Path(settings.config).read_text(encoding="utf-8")
        configuration = read_configuration(text, BUILTINS, partial(load_plugins, builtin=BUILTINS.registry))
    except OSError as error:
        raise ConfigurationError(error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"is not UTF-8: {error}") from error
    if configuration.ignored:
        logger.info(
            "configured without effect",
            extra={"file": settings.config, "fields": ", ".join(configuration.ignored)},
        )
    return configuration


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidelock",
        description="Reservations of node capacity with an expiry, and load-aware placement of pods.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the operator and scheduler")
    run.set_defaults(**asdict(Settings()))
    run.add_argument(
        "--kubeconfig",
        help="kubeconfig file. Default: $KUBECONFIG, the pod's service account, or ~/.kube/config",
    )
    _add_scheduling(run)
    _add_serving(run)
    _add_leading(run)
    _add_binders(run)
    simulate.add_arguments(
        commands.add_parser("simulate", help="simulate a load under several policies, without a cluster")
    )
    return parser


def _add_scheduling(run: argparse.ArgumentParser) -> None:
    scheduling = run.add_mutually_exclusive_group()
    scheduling.add_argument(
        "--config", help="file with a KubeSchedulerConfiguration, as docs/configuration.md describes it"
    )
    scheduling.add_argument(
        "--scheduler-name", help="schedulerName of the pods that the default profile schedules"
    )
    run.add_argument(
        "--move-after-seconds",
        type=float,
        help="how long a reservation that names no node stays on a node that is cordoned or not ready",
    )
    run.add_argument(
        "--earmark-after-seconds",
        type=float,
        help="how long a reservation waits before freed capacity of a node is kept for it",
    )
    run.add_argument(
        "--borrower-grace-seconds",
        type=_positive,
        help="longest grace period, in whole seconds, of a borrower that is evicted for an owner",
    )


def _add_serving(run: argparse.ArgumentParser) -> None:
    """Add the options of probes, metrics, the web view and logs."""
    run.add_argument("--listen", help="address for metrics, probes and the web view")
    run.add_argument(
        "--port", type=_port, help="port for metrics, probes and the web view. 0 is any free port"
    )
    run.add_argument(
        "--metrics-token-file",
        metavar="FILE",
        help="file with the bearer token that scrapes of the metrics must send. Default: no token is needed",
    )
    run.add_argument(
        "--web-view",
        action="store_true",
        help="serve a page at /web/ with nodes, reservations and decisions. It needs the same token",
    )
    run.add_argument("--log-format", choices=("text", "json"), help="format of the log")
    run.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="least severe level that is logged"
    )


def _add_leading(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        help="decide only while this process holds the Lease, so other replicas can stand by",
    )
    run.add_argument("--lease-name", help="name of the Lease")
    run.add_argument(
        "--lease-namespace",
        help="namespace of the Lease. Default: the namespace of the pod, or of the kubeconfig's context",
    )
    run.add_argument(
        "--lease-duration-seconds",
        type=_lease_seconds,
        help="how long other replicas wait for a silent leader",
    )


def _add_binders(run: argparse.ArgumentParser) -> None:
    """Add the options for other binders, see docs/other-binders.md."""
    run.add_argument(
        "--extender",
        action="store_true",
        help="serve the extender API, with which other schedulers respect reservations",
    )
    run.add_argument(
        "--extender-clients",
        metavar="FILE",
        help="PEM file with the certificates of these schedulers, or of authorities that sign only these",
    )
    run.add_argument("--admission", action="store_true", help="review the bindings of other binders")
    run.add_argument("--tls-port", type=_port, help="port for the extender API and admission, over TLS")
    run.add_argument(
        "--tls-address",
        type=_address,
        help="address of this process, as the endpoint of the Service tidelock-binders while it leads",
    )
    run.add_argument(
        "--tls-names",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,...",
        help="DNS names and addresses of the certificate for this port",
    )
    run.add_argument(
        "--tls-secret",
        type=_namespaced,
        metavar="NAMESPACE/NAME",
        help="Secret in which this certificate is kept",
    )


def _address(text: str) -> str:
    """Check an IP address. An empty text stands for none."""
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: should be an IP address") from None


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be a whole number of seconds from 1")
    return number


def _port(text: str) -> int:
    """Check a TCP port. 0 is any that is free."""
    if not text.isdecimal() or not int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: should be a whole number from 0 to 65535")
    return int(text)


def _namespaced(text: str) -> str:
    """Check the name of a namespaced object."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r}: should be NAMESPACE/NAME")
    return text


def _lease_seconds(text: str) -> int:
    shortest, longest = 2, 3600
    if not text.isdecimal() or not shortest <= int(text) <= longest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {shortest} to {longest}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit status."""
    parsed = _parser().parse_args(argv)
    collect_seldom()
    if parsed.command == "simulate":
        return simulate.run(parsed)
    arguments = vars(parsed)
    del arguments["command"]
    settings = Settings(**arguments)
    configure_logs(settings.log_format, settings.log_level)
    try:
        # Half of the processor time of a drain goes into sockets and TLS, which this loop does in C.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except ConfigurationError as error:
        sys.stderr.write(f"tidelock: configuration {settings.config}: {error}\n")
        return 1
    except (ConfigError, ListenError, TokenError, ClientsError, LeaseLostError) as error:
        sys.stderr.write(f"tidelock: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lifecycle.close_quietly)
    lifecycle.set_on_signals(stop)
    await operate(settings, stop)


if __name__ == "__main__":
    sys.exit(main())
