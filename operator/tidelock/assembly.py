"""How a process is put together: the one place that makes all parts and connects them.

The process, the fault suite and the tests call it, so the tested program is the one that ships. Nothing of
the cluster is read or written here, and no part is changed from outside once it is made.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NoReturn

from tidelock.binders.assembly import Binders, assemble_binders, served_webhooks
from tidelock.binders.endpoint import WEB_SERVICE, Endpoint
from tidelock.binders.webhooks import watch_webhooks
from tidelock.clock import Clock
from tidelock.framework.config import Configuration
from tidelock.handlers.assembly import assemble_kopf
from tidelock.handlers.supervision import SupervisedOperator
from tidelock.integrations.autoscalers import parts as autoscalers
from tidelock.integrations.karmada import parts as karmada
from tidelock.integrations.provisioning_requests import parts as provisioning_requests
from tidelock.isolation import Isolation
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.events import EventRecorder
from tidelock.kube.lease import Leadership
from tidelock.kube.other_leaders import OtherLeaders, watch_other_leaders
from tidelock.kube.skew import watch_skew
from tidelock.kube.watch import Reflector
from tidelock.load.cooperative import AT_LEISURE, in_slices
from tidelock.load.loop import LoadLoop
from tidelock.load.metrics import LoadMetrics
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.usage_annotations import MeasuredUses
from tidelock.pace import PACE, Pace
from tidelock.running import watch_lag
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.tasks import Activity, FaultSubject, Tasks
from tidelock.scheduler.assembly import Scheduler, assemble_scheduler, live_options
from tidelock.scheduler.controllers.controllers import Controllers
from tidelock.scheduler.controllers.water_levels import WaterLevelController
from tidelock.scheduler.informers.informers import reflectors
from tidelock.scheduler.informers.unreadable import UnreadableObjectCounts, UnreadableObjectReporter
from tidelock.scheduler.parts import PartContext, ProcessPart
from tidelock.scheduler.scheduler_core import assemble_core
from tidelock.scheduler.views.gauges import Gauges
from tidelock.scheduler.views.recent_decisions import MOST, RecentDecisions
from tidelock.settings import Settings
from tidelock.telemetry import Telemetry

PARTS: tuple[Callable[[PartContext], Iterable[ProcessPart]], ...] = (
    provisioning_requests.parts,
    autoscalers.parts,
    karmada.parts,
)
"""The integrations, each of which yields its parts if the settings ask for it."""

# Seconds that events which wait get at the end, as the next leader waits for them. Most requests take a
# hundredth of that.
_LAST_EVENTS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """All parts of a process, connected, before anything has begun.

    Attributes:
        context: the material of the parts.
        scheduler: decides, and carries the decisions out.
        binders: serves other binders and creations.
        controllers: the controllers of Tidelock's own kinds.
        load: reads the sources of WaterLevels.
        kopf: the Kopf operator of WaterLevels.
        reflectors: all watches.
        parts: everything else that runs.

    """

    context: PartContext
    scheduler: Scheduler
    binders: Binders
    controllers: Controllers
    load: LoadLoop
    kopf: SupervisedOperator
    reflectors: tuple[Reflector[Any], ...]
    parts: tuple[ProcessPart, ...]

    def endless(self) -> Iterator[Coroutine[Any, Any, NoReturn]]:
        """Yield all work that runs for as long as this process leads, except the Lease and Kopf."""
        for reflector in self.reflectors:
            yield reflector.run()
        loop, isolation = self.scheduler.loop, self.context.writers.isolation
        yield loop.run()
        for part in self.parts:
            yield isolation.supervise(part.name, partial(part.run, loop.started), fatal=part.fatal)


def assemble(
    settings: Settings,
    configuration: Configuration,
    connection: Connection,
    client: KubeClient,
    leadership: Leadership,
    clock: Clock,
    rng: Random,
    *,
    pace: Pace = PACE,
    make_isolation: Callable[..., Isolation] = Isolation,
    serve_binders: bool = True,
) -> Assembly:
    """Make all parts of a process that the settings ask for.

    Args:
        settings: the settings of the process.
        configuration: profiles, their plugins and extenders.
        connection: how to reach the API server.
        client: connection to it.
        leadership: whether this process leads, and since when.
        clock: the time of decisions.
        rng: random generator for pauses.
        pace: periods that are no settings.
        make_isolation: makes the handler of faults, from the arguments of `Isolation`.
        serve_binders: whether other binders are served. Otherwise the webhook is made without a server.

    Raises:
        ConfigurationError: a file that is named in the configuration can't be used.
        ClientsError: the certificates of schedulers can't be used.

    """
    writers, wakeup = _make_writers(settings, client, clock, rng, make_isolation), asyncio.Event()
    options = live_options(writers, settings, pace)
    context = PartContext(
        settings=settings,
        connection=connection,
        client=client,
        leadership=leadership,
        clock=clock,
        rng=rng,
        writers=writers,
        core=assemble_core(configuration, clock, wakeup.set, options),
        wakeup=wakeup,
        pace=pace,
        on_faults=UnreadableObjectReporter(writers.recorder.record).noted,
    )
    return _connect(context, Extenders(configuration.extenders), serve_binders=serve_binders)


def _connect(context: PartContext, extenders: Extenders, *, serve_binders: bool) -> Assembly:
    """Make all parts around the core."""
    writers, core = context.writers, context.core
    binders = assemble_binders(context, serve=serve_binders)
    scheduler = assemble_scheduler(
        core,
        extenders,
        writers,
        context.wakeup,
        borrower_grace=context.settings.borrower_grace_seconds,
        gate_renewal=context.pace.gate_renewal,
        on_answers=binders.on_answers,
    )
    controllers, load = Controllers.of(writers, core.decider), _make_load(context)
    parts = (
        ProcessPart("gates", scheduler.gates.run),
        *controllers.parts(context),
        ProcessPart("load", lambda _started: load.run()),
        *(part for make in PARTS for part in make(context)),
        *_make_watchers(context),
        *binders.parts,
    )
    watches_of_core = reflectors(
        context.reflector, core.event_handlers, binders.pods, whole=extenders.configured
    )
    assembly = Assembly(
        context=context,
        scheduler=scheduler,
        binders=binders,
        controllers=controllers,
        load=load,
        kopf=assemble_kopf(context, WaterLevelController(writers, load)),
        reflectors=(*watches_of_core, *(each for part in parts for each in part.reflectors)),
        parts=parts,
    )
    _export_metrics(assembly)
    return assembly


def _make_writers(
    settings: Settings,
    client: KubeClient,
    clock: Clock,
    rng: Random,
    make_isolation: Callable[..., Isolation],
) -> WriterContext:
    """Make the parts that all writers share."""
    telemetry, activity = Telemetry(clock.monotonic, rng), Activity()
    recorder = EventRecorder(
        client,
        "tidelock.dev/operator",
        settings.instance,
        busy=activity.busy,
        last_seconds=_LAST_EVENTS,
        monotonic=clock.monotonic,
        now=clock.now,
    )
    isolation = make_isolation(telemetry.object_failed, recorder.record, clock.monotonic)
    tasks = Tasks(rng, isolation, activity)
    recent = RecentDecisions(MOST if settings.web_view else 0)
    return WriterContext(client, recorder, telemetry, clock, tasks, recent, isolation)


def _make_load(context: PartContext) -> LoadLoop:
    """Make the load loop. The decisions take over its measurements in slices."""
    writers, decider, handlers = context.writers, context.core.decider, context.core.event_handlers
    about = FaultSubject("measurements", WATERLEVELS, ObjectMeta(""))

    def take(uses: MeasuredUses) -> None:
        writers.tasks.spawn(in_slices(decider.measurements.take(uses), AT_LEISURE), about)

    return LoadLoop(
        context.client,
        decider.cache,
        decider.objects.replica_sets,
        writers.recorder,
        LoadMetrics(writers.telemetry.registry, context.clock.now),
        context.clock,
        on_uses=take,
        busy=writers.tasks.activity.busy,
        ready=lambda: handlers.ready,
        isolation=writers.isolation,
        garbage_collection=context.pace.garbage_collection,
    )


def _make_watchers(context: PartContext) -> Iterator[ProcessPart]:
    """Make the parts that look after the clock, other leaders, webhooks and the address of the web view."""
    settings, client, telemetry = context.settings, context.client, context.writers.telemetry
    namespace = settings.lease_namespace or context.connection.system_namespace
    lease = Key(namespace if settings.leader_elect else "", settings.lease_name)
    web = Endpoint(client, Key(namespace, WEB_SERVICE), settings.web_address, settings.port, "web")
    skew, others = telemetry.clock_skew.set, telemetry.other_leaders.set
    lag, monotonic = telemetry.event_loop_lag.observe, context.clock.monotonic
    yield ProcessPart("lag", lambda _started: watch_lag(monotonic, lag))
    yield ProcessPart("clock", lambda _started: watch_skew(client, context.clock.now, skew))
    period = context.pace.other_leaders
    yield ProcessPart(
        "leaders",
        lambda _started: watch_other_leaders(OtherLeaders(client, lease, monotonic), others, period),
    )
    served, compared = served_webhooks(settings), telemetry.webhook_mismatch
    yield ProcessPart(
        "webhooks",
        lambda _started: watch_webhooks(client, served, compared, context.pace.webhooks),
    )
    yield ProcessPart("web", lambda _started: web.keep())


def _export_metrics(assembly: Assembly) -> None:
    """Export the state of the parts, which is read at each scrape."""
    core, telemetry = assembly.context.core, assembly.context.writers.telemetry
    decider = core.decider
    telemetry.registry.register(UnreadableObjectCounts(assembly.reflectors))
    telemetry.registry.register(Gauges(decider.ledger, decider.columns, decider.queue))
    telemetry.ready.set_function(lambda: float(core.event_handlers.ready))
    telemetry.tasks.set_function(lambda: float(len(asyncio.all_tasks())))
