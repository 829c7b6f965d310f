"""The process of the operator and scheduler, which decide while this process leads."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import uvloop

from tidelock import __version__
from tidelock.assembly import Assembly, assemble
from tidelock.binders.errors import ClientsError
from tidelock.framework.config import Configuration
from tidelock.framework.config_file import ConfigurationError
from tidelock.handlers import lifecycle
from tidelock.health import STUCK, Health
from tidelock.kube.client import KubeClient
from tidelock.kube.config import ConfigError, Connection, load_connection
from tidelock.kube.lease import Leadership, Lease, LeaseLostError, LeaseTimes, NoElection
from tidelock.kube.lease_thread import LeaseThread
from tidelock.leader import lead
from tidelock.logs import configure_logs
from tidelock.machine import MACHINE, Machine
from tidelock.pace import PACE, Pace
from tidelock.plugins.registry import read_configuration_file
from tidelock.running import background, until
from tidelock.settings import Settings
from tidelock.tcp_server import ServingError, serve_tcp
from tidelock.tokens import read_token

if TYPE_CHECKING:
    from tidelock.serving import MetricsToken
    from tidelock.web.site import Site

logger = logging.getLogger(__name__)

# Connections for the Lease alone: one to watch it, one to write it.
_LEASE_CONNECTIONS = 2
# Seconds that the process has to end, by itself, when it has lost its Lease.
_LAST_MOMENT = 2.0


def run(settings: Settings, pace: Pace = PACE) -> int:
    """Run the operator and the scheduler until a signal comes. Return the exit status."""
    configure_logs(settings.log_format, settings.log_level)
    try:
        # Half of the processor time of a drain goes into sockets and TLS, which this loop does in C.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, pace))
    except ConfigurationError as error:
        sys.stderr.write(f"tidelock: configuration {settings.config}: {error}\n")
        return 1
    except (ConfigError, ServingError, ClientsError, LeaseLostError) as error:
        sys.stderr.write(f"tidelock: {error}\n")
        return 1
    return 0


async def _serve(settings: Settings, pace: Pace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lifecycle.close_quietly)
    lifecycle.set_on_signals(stop)
    await operate(settings, stop, pace)


async def operate(
    settings: Settings, stop: asyncio.Event, pace: Pace = PACE, machine: Machine = MACHINE
) -> None:
    """Run the operator and the scheduler until `stop` is set or a signal comes.

    Raises:
        ConfigurationError: the configuration file is wrong.
        ConfigError: there is no way to reach a cluster.
        ServingError, ClientsError: metrics or other binders can't be served as configured.
        LeaseLostError: another process leads now, or might.

    """
    logger.debug("configured", extra={"settings": settings})
    configuration = _configuration(settings)
    if settings.metrics_token_file:
        read_token(Path(settings.metrics_token_file))  # to report a wrong file before anything else begins
    async with serve_tcp(asyncio.Protocol, settings.listen, settings.port, option="--port"):
        pass  # to report a port that is taken, too
    connection = load_connection(settings.kubeconfig or None)
    agent = f"tidelock/{__version__}"
    async with _leadership(settings, connection, agent, machine) as leadership:
        client = KubeClient(
            connection,
            user_agent=agent,
            may_write=leadership.check,
            manager=lambda: leadership.manager,
            monotonic=machine.clock.monotonic,
        )
        assembly = assemble(
            settings, configuration, connection, client, leadership, machine.clock, machine.rng, pace=pace
        )
        ending = asyncio.Event()
        health = Health(assembly, ending)
        async with client, background(_serve_soon(settings, assembly, health)) as ended:
            ended.add_done_callback(lambda _: stop.set())
            logger.info(
                "started",
                extra={
                    "version": __version__,
                    "server": connection.server,
                    "schedulers": ", ".join(assembly.context.core.decider.profiles),
                },
            )
            if await until(stop, leadership.acquire()):
                await lead(assembly, stop, ending, machine.end_within)
            if ended.done():
                ended.result()


async def _serve_soon(settings: Settings, assembly: Assembly, health: Health) -> NoReturn:
    """Serve probes, metrics and the web view, once decisions are under way or are long in coming.

    The server needs aiohttp, whose import takes a tenth of a start.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(assembly.context.pace.serving):
            await assembly.scheduler.loop.under_way.wait()
    await asyncio.to_thread(import_module, "tidelock.serving")
    async with _served(settings, assembly, health) as port:
        logger.info("serving", extra={"port": port})
        await asyncio.Event().wait()
    raise AssertionError


def _served(settings: Settings, assembly: Assembly, health: Health) -> AbstractAsyncContextManager[int]:
    """Serve probes, metrics and the web view over HTTP while the context lasts. Yields the port."""
    from tidelock.serving import MetricsToken, serve  # noqa: PLC0415 -- see above

    token = MetricsToken(Path(settings.metrics_token_file)) if settings.metrics_token_file else None
    site = _make_site(assembly, health, token) if settings.web_view else None
    return serve(
        settings.listen,
        settings.port,
        assembly.context.writers.telemetry.registry,
        alive=lambda: health.alive,
        ready=lambda: health.ready,
        details=lambda: health.details,
        token=token,
        site=None if site is None else site.application,
    )


def _make_site(assembly: Assembly, health: Health, token: "MetricsToken | None") -> "Site":
    """Make the web view. A token restricts it to requests that have it."""
    from tidelock.web.site import Site  # noqa: PLC0415 -- many processes have no web view
    from tidelock.web.sources import Sources  # noqa: PLC0415
    from tidelock.web.view import WebView  # noqa: PLC0415

    context, controllers = assembly.context, assembly.controllers
    groups, schedules = controllers.groups.objects, controllers.schedules.objects
    sources = Sources(context.core.decider, context.writers.recent, groups, schedules)
    return Site(WebView(sources).look, lambda: health.replica, context.clock, token)


@asynccontextmanager
async def _leadership(
    settings: Settings, connection: Connection, agent: str, machine: Machine
) -> AsyncIterator[Leadership]:
    if not settings.leader_elect:
        yield NoElection()
        return
    duration = float(settings.lease_duration_seconds)
    monotonic = machine.clock.monotonic
    client = KubeClient(connection, user_agent=agent, connections=_LEASE_CONNECTIONS, monotonic=monotonic)
    lease = Lease(
        client,
        name=settings.lease_name,
        namespace=settings.lease_namespace or connection.system_namespace,
        identity=f"{settings.instance}_{uuid4()}",
        rng=machine.rng,
        clock=monotonic,
        wall=machine.clock.now,
        times=LeaseTimes(duration=duration, renew_deadline=duration * 2 / 3, retry_period=duration * 2 / 15),
    )
    leadership = LeaseThread(
        lease,
        client,
        machine.second_loop("lease"),
        patience=STUCK,
        on_lost=partial(machine.end_within, _LAST_MOMENT),
        monotonic=monotonic,
    )
    async with leadership.running():
        yield leadership


def _configuration(settings: Settings) -> Configuration:
    """Read the configuration file, if there is one, and log its fields without effect."""
    configuration = read_configuration_file(settings.config, settings.scheduler_name)
    if configuration.ignored:
        logger.info(
            "configured without effect",
            extra={"file": settings.config, "fields": ", ".join(configuration.ignored)},
        )
    return configuration
