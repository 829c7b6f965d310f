"""The one place where the parts are put together, and the `tidelock` command."""

import argparse
import asyncio
import gc
import ipaddress
import logging
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn
from uuid import uuid4

import kopf

from tidelock import __version__
from tidelock.binders.arrivals import Arrivals
from tidelock.binders.endpoint import SERVICE, Endpoint
from tidelock.binders.guard import Guard
from tidelock.binders.keeper import Keeper
from tidelock.binders.server import Door
from tidelock.clock import SystemClock
from tidelock.framework.config import Configuration, default_configuration, read_configuration
from tidelock.framework.configfile import ConfigurationError
from tidelock.framework.installed import load_plugins
from tidelock.handlers import lifecycle, reservations, waterlevels
from tidelock.kube.client import KubeClient
from tidelock.kube.config import ConfigError, Connection, load_connection
from tidelock.kube.errors import ApiError
from tidelock.kube.events import EventRecorder
from tidelock.kube.lease import Alone, Leadership, Lease, LeaseLostError, LeaseTimes
from tidelock.kube.skew import watch_skew
from tidelock.load.loop import LoadLoop
from tidelock.load.metrics import LoadMetrics
from tidelock.load.slices import AT_LEISURE, in_slices
from tidelock.logs import configure_logs
from tidelock.model.meta import Key
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.binding import Binder
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.evictions import Evictor
from tidelock.scheduler.extenders import Extenders
from tidelock.scheduler.feed import Feed
from tidelock.scheduler.gauges import Gauges
from tidelock.scheduler.loop import Loop
from tidelock.scheduler.publisher import Publisher
from tidelock.scheduler.tasks import Tasks, TurnTaking
from tidelock.scheduler.tools import Tools
from tidelock.scheduler.watches import OTHERS, OWN, reflectors
from tidelock.serving import ListenError, MetricsToken, TokenError, serve
from tidelock.settings import Settings
from tidelock.simulation import command as simulate
from tidelock.telemetry import Telemetry

logger = logging.getLogger(__name__)

# Seconds that writes under way get at shutdown, and that a turn of the loop may take.
_DRAIN = 5.0
_STUCK = 30.0
# Connections for the Lease alone: one to watch it, one to write it.
_LEASE_CONNECTIONS = 2
# When to look for cyclic garbage. What is decoded lives long and has no cycles: at Python's pace the search
# would take a third of a start beside 10,000 locks.
_GARBAGE = (50_000, 20, 100)


async def operate(settings: Settings, stop: asyncio.Event) -> None:
    """Run the operator and the scheduler until `stop` is set or a signal comes.

    Raises:
        ConfigurationError: the configuration file is wrong.
        ConfigError: there is no way to reach a cluster.
        ListenError, TokenError: metrics can't be served as configured.
        LeaseLostError: another process leads now, or might.

    """
    configuration = _configuration(settings)
    connection = load_connection(settings.kubeconfig or None)
    clock, rng = SystemClock(), Random()  # noqa: S311 -- for jitter
    telemetry = Telemetry(clock.monotonic, rng)
    user_agent = f"tidelock/{__version__}"
    own = KubeClient(connection, user_agent=user_agent, connections=_LEASE_CONNECTIONS)
    leadership = _leadership(settings, connection, own, rng)
    client = KubeClient(
        connection,
        user_agent=user_agent,
        may_write=leadership.check,
        manager=lambda: leadership.manager,
    )
    extenders = Extenders(configuration.extenders)
    tasks = Tasks(rng)
    decider = Decider(
        configuration,
        move_after=settings.move_after_seconds,
        on_enqueue=telemetry.queued,
        api=TurnTaking(client, tasks),
        recorder=telemetry,
    )
    async with (
        own,
        client,
        extenders,
        EventRecorder(
            client, "tidelock.dev/operator", settings.instance, busy=lambda: tasks.busy
        ) as recorder,
    ):
        telemetry.registry.register(Gauges(decider.book, decider.columns, decider.queue))
        tools = Tools(client, recorder, telemetry, clock, tasks)
        binder = Binder(tools, decider, extenders)
        evictor = Evictor(tools, decider)
        publisher = Publisher(tools, decider.book)
        loop = Loop(decider, binder, evictor, publisher, telemetry, clock)
        others = {name: getattr(decider.objects, name) for name in (*OTHERS, *OWN)}
        feed = Feed(
            decider.cache, decider.book, decider.queue, decider.waiting_pods, clock, loop.wake, others
        )
        door = _door(settings, client, decider, feed, loop, leadership, clock, telemetry)
        pods = door.arrivals if door is not None else feed.pods
        telemetry.ready.set_function(lambda: float(feed.ready))
        telemetry.tasks.set_function(lambda: float(len(asyncio.all_tasks())))
        load = LoadLoop(
            client,
            decider.cache,
            decider.objects.replica_sets,
            recorder,
            LoadMetrics(telemetry.registry, clock.now),
            clock,
            busy=lambda: tasks.busy,
        )
        load.on_uses(lambda uses: tasks.spawn(in_slices(decider.measurements.take(uses), AT_LEISURE)))
        async with serve(
            settings.listen,
            settings.port,
            telemetry.registry,
            alive=lambda: leadership.waiting or clock.monotonic() - loop.last_turn < _STUCK,
            ready=lambda: leadership.waiting or feed.ready,
            token=MetricsToken(Path(settings.metrics_token_file)) if settings.metrics_token_file else None,
        ) as port:
            logger.info(
                "started",
                extra={
                    "version": __version__,
                    "port": port,
                    "server": connection.server,
                    "schedulers": ", ".join(decider.profiles),
                },
            )
            if not await _until(stop, leadership.acquire()):
                return
            decider.book.lead(leadership.epoch)
            async with _background(
                leadership.keep(),
                *(
                    reflector.run()
                    for reflector in reflectors(client, feed, pods, rng, whole=bool(configuration.extenders))
                ),
                loop.run(feed),
                load.run(),
                watch_skew(client, clock.now, telemetry.clock_skew.set),
                tasks.crash(),
                *([door.run()] if door is not None else []),
            ) as crashed:
                registry = _handlers(connection, client, publisher, load, clock, stop)
                operator = asyncio.create_task(_run_kopf(registry, loop.started, stop))
                await asyncio.wait((operator, crashed), return_when=asyncio.FIRST_COMPLETED)
                stop.set()
                await operator
                if crashed.done():
                    crashed.result()
                logger.info("stopping")
        await tasks.drain(_DRAIN)
        await leadership.release()


def _leadership(settings: Settings, connection: Connection, client: KubeClient, rng: Random) -> Leadership:
    if not settings.leader_elect:
        return Alone()
    duration = float(settings.lease_duration_seconds)
    return Lease(
        client,
        name=settings.lease_name,
        namespace=settings.lease_namespace or connection.namespace,
        identity=f"{settings.instance}_{uuid4()}",
        rng=rng,
        times=LeaseTimes(duration=duration, renew_deadline=duration * 2 / 3, retry_period=duration * 2 / 15),
    )


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work unless `stop` is set first; whether it was done."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False
    task.result()
    return True


def _configuration(settings: Settings) -> Configuration:
    """Read the configuration file, if there is one, and tell what is of no effect in it."""
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


def _door(
    settings: Settings,
    client: KubeClient,
    decider: Decider,
    feed: Feed,
    loop: Loop,
    leadership: Leadership,
    clock: SystemClock,
    telemetry: Telemetry,
) -> Door | None:
    """Make what other binders are answered by, if that is asked for; it sees pods before the feed."""
    if not (settings.extender or settings.admission):
        return None
    guard = Guard(decider)
    namespace, _, name = settings.tls_secret.partition("/")

    def ready() -> bool:
        try:
            leadership.check()
        except ApiError:
            return False  # another may have admitted what this process does not know of
        return feed.ready

    return Door(
        guard,
        Arrivals(feed.pods, guard, clock),
        Keeper(client, Key(namespace, name), settings.tls_names, clock),
        Endpoint(client, Key(namespace, SERVICE), settings.tls_address, settings.tls_port),
        client,
        clock,
        telemetry,
        address=settings.listen,
        port=settings.tls_port,
        ready=ready,
        wake=loop.wake,
        extender=settings.extender,
        admission=settings.admission,
    )


@asynccontextmanager
async def _background(*work: Coroutine[Any, Any, NoReturn]) -> AsyncIterator[asyncio.Future[NoReturn]]:
    """Run endless work beside the context; gives a future that ends with the first error."""
    tasks = [asyncio.create_task(endless) for endless in work]
    crashed: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    def ended(task: asyncio.Task[NoReturn]) -> None:
        if not task.cancelled() and not crashed.done() and (error := task.exception()) is not None:
            crashed.set_exception(error)

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield crashed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        crashed.cancel()


def _handlers(
    connection: Connection,
    client: KubeClient,
    publisher: Publisher,
    load: LoadLoop,
    clock: SystemClock,
    stop: asyncio.Event,
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    lifecycle.register(registry, connection, stop)
    reservations.register(registry, publisher)
    waterlevels.register(registry, client, load, clock)
    return registry


async def _run_kopf(registry: kopf.OperatorRegistry, started: asyncio.Event, stop: asyncio.Event) -> None:
    """Run Kopf from the first decision on: locks come first, and by then the CRDs are known to be there."""
    waits = [asyncio.create_task(flag.wait()) for flag in (started, stop)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    if stop.is_set():
        return
    await kopf.operator(registry=registry, clusterwide=True, standalone=True, stop_flag=stop)


def _parser() -> argparse.ArgumentParser:
    defaults = Settings()
    parser = argparse.ArgumentParser(
        prog="tidelock", description="Expiring locks on node capacity for Kubernetes."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the operator and the scheduler")
    run.add_argument("--kubeconfig", default=defaults.kubeconfig, help="file to connect with")
    scheduling = run.add_mutually_exclusive_group()
    scheduling.add_argument(
        "--config",
        default=defaults.config,
        help="file with a KubeSchedulerConfiguration, see docs/configuration.md",
    )
    scheduling.add_argument(
        "--scheduler-name",
        default=defaults.scheduler_name,
        help="schedulerName of pods to schedule with the default profile",
    )
    run.add_argument("--listen", default=defaults.listen, help="address for metrics and probes")
    run.add_argument("--port", type=int, default=defaults.port, help="port for metrics and probes")
    run.add_argument(
        "--metrics-token-file",
        default=defaults.metrics_token_file,
        metavar="FILE",
        help="file with the bearer token that scrapes of the metrics have to show",
    )
    run.add_argument("--log-format", choices=("text", "json"), default=defaults.log_format)
    run.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default=defaults.log_level)
    run.add_argument(
        "--move-after-seconds",
        type=float,
        default=defaults.move_after_seconds,
        help="how long a lock for any node stays on a node that is cordoned or not ready",
    )
    run.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=defaults.leader_elect,
        help="decide only while holding the Lease, so that others can stand by",
    )
    run.add_argument("--lease-name", default=defaults.lease_name, help="name of the Lease")
    run.add_argument(
        "--lease-namespace",
        default=defaults.lease_namespace,
        help="namespace of the Lease; default: the pod's own, or that of the kubeconfig's context",
    )
    run.add_argument(
        "--lease-duration-seconds",
        type=_lease_seconds,
        default=defaults.lease_duration_seconds,
        help="how long others wait for a leader that is silent",
    )
    _add_binders(run, defaults)
    simulate.add_arguments(commands.add_parser("simulate", help="play load under several policies"))
    return parser


def _add_binders(run: argparse.ArgumentParser, defaults: Settings) -> None:
    """Add what keeps other binders from locked room, see docs/other-binders.md."""
    run.add_argument(
        "--extender",
        action="store_true",
        help="serve the extender API, for schedulers that shall honour locks",
    )
    run.add_argument("--admission", action="store_true", help="review the bindings of others")
    run.add_argument("--tls-port", type=int, default=defaults.tls_port, help="port for these, over TLS")
    run.add_argument(
        "--tls-address",
        type=_address,
        default=defaults.tls_address,
        help="address of this process, to be the endpoint of their Service while it leads",
    )
    run.add_argument(
        "--tls-names",
        type=lambda text: tuple(text.split(",")),
        default=defaults.tls_names,
        metavar="NAME,...",
        help="DNS names and addresses that their certificate is made for",
    )
    run.add_argument(
        "--tls-secret",
        type=_namespaced,
        default=defaults.tls_secret,
        metavar="NAMESPACE/NAME",
        help="Secret that their certificate is kept in",
    )


def _address(text: str) -> str:
    """Check an IP address; an empty text is none."""
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: should be an IP address") from None


def _namespaced(text: str) -> str:
    """Check what names a namespaced object."""
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
    """Run the command; gives the exit status."""
    parsed = _parser().parse_args(argv)
    gc.set_threshold(*_GARBAGE)
    if parsed.command == "simulate":
        return simulate.run(parsed)
    arguments = vars(parsed)
    del arguments["command"]
    settings = Settings(**arguments)
    configure_logs(settings.log_format, settings.log_level)
    try:
        asyncio.run(_serve(settings))
    except ConfigurationError as error:
        sys.stderr.write(f"tidelock: configuration {settings.config}: {error}\n")
        return 1
    except (ConfigError, ListenError, TokenError, LeaseLostError) as error:
        sys.stderr.write(f"tidelock: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(lifecycle.close_quietly)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)  # Kopf puts its own in their place
    await operate(settings, stop)


if __name__ == "__main__":
    sys.exit(main())
