"""The parts that decide and write while this process leads: their wiring, start and end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidelock.binders.endpoint import SERVICE, WEB_SERVICE, Endpoint
from tidelock.clock import Clock
from tidelock.framework.config import Configuration
from tidelock.handlers import supervision
from tidelock.integrations.autoscalers.wiring import Autoscalers
from tidelock.isolation import Isolation
from tidelock.kube.client import (
    RESERVATIONGROUPS,
    RESERVATIONQUOTES,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    KubeClient,
)
from tidelock.kube.config import Connection
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.events import EventRecorder
from tidelock.kube.lease import Leadership
from tidelock.kube.other_leaders import OtherLeaders, watch_other_leaders
from tidelock.kube.skew import watch_skew
from tidelock.kube.watch import Reflector
from tidelock.load.cooperative import AT_LEISURE, in_slices
from tidelock.load.loop import LoadLoop
from tidelock.load.metrics import LoadMetrics
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_quote import decode_quote
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.running import background, until
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.device_reporter import DeviceReporter
from tidelock.scheduler.actions.evictions import Evictor
from tidelock.scheduler.actions.extender_calls import ExtenderCaller
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.gates import GateReporter
from tidelock.scheduler.actions.loop import Loop
from tidelock.scheduler.actions.pod_group_writer import PodGroupWriter
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.actions.tasks import FairApi, FaultSubject, Tasks
from tidelock.scheduler.controllers.groups import GroupController
from tidelock.scheduler.controllers.quotas import QuotaController
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController
from tidelock.scheduler.controllers.water_levels import WaterLevelController
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.informers.informers import listers_of, reflectors
from tidelock.scheduler.informers.unreadable import UnreadableObjectReporter
from tidelock.scheduler.views.gauges import Gauges
from tidelock.scheduler.views.recent_decisions import MOST, RecentDecisions
from tidelock.settings import Settings
from tidelock.tcp_server import ListenError
from tidelock.telemetry import Telemetry
from tidelock.web.replica_status import ReplicaStatus

if TYPE_CHECKING:
    from kopf import OperatorRegistry

    from tidelock.binders.creation_webhook import CreationWebhook
    from tidelock.binders.server import BinderServer
    from tidelock.integrations.karmada.server import EstimatorServer
    from tidelock.integrations.provisioning_requests.controller import ProvisioningRequestController
    from tidelock.serving import MetricsToken
    from tidelock.web.site import Site

logger = logging.getLogger(__name__)

STUCK = 30.0
"""Seconds that a turn of the decision loop may take."""

# Seconds after which the web view says that the API server is silent: each watch has a bookmark a minute.
_SILENT = 60
# Seconds that writes under way and events that wait get at the end, as the next leader waits for them. Most
# requests take a hundredth of that.
_LAST_WRITES = 0.5
_LAST_EVENTS = 0.25
# Seconds after which a process that must end has ended, whatever its tasks and threads do: after a fault or
# the loss of the Lease, and after a signal.
_LAST_MOMENT = 1.5
_LAST_MOMENT_ASKED = 20.0


class Leader:
    """The scheduler and the operator of one process. Nothing is read or written before `lead`.

    Attributes:
        telemetry: its metrics, from the start of the process on.
        profiles: schedulerNames of the pods that it places.
        isolation: handles the faults that cost an object, or a part, and not the process.
        end_within: ends the process within so many seconds, by force if necessary; `main` sets it.

    Raises:
        ConfigurationError: a file that is named in the configuration can't be used.
        ClientsError: the certificates of schedulers can't be used.

    """

    def __init__(
        self,
        settings: Settings,
        configuration: Configuration,
        connection: Connection,
        client: KubeClient,
        leadership: Leadership,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._connection, self._client, self._leadership = connection, client, leadership
        self._clock, self._rng = clock, rng
        self._instance, self._ending = settings.instance, False
        self.end_within: Callable[[float], None] = lambda _seconds: None
        self.telemetry = Telemetry(clock.monotonic, rng)
        self._extenders = Extenders(configuration.extenders)
        self._recorder = EventRecorder(
            client,
            "tidelock.dev/operator",
            settings.instance,
            busy=lambda: self._tasks.busy,
            last_seconds=_LAST_EVENTS,
        )
        self.isolation = Isolation(self.telemetry.object_failed, self._recorder.record, clock.monotonic)
        self._tasks = tasks = Tasks(rng, self.isolation)
        self._decider = decider = Decider(
            configuration,
            move_after=settings.move_after_seconds,
            earmark_after=settings.earmark_after_seconds,
            on_enqueue=self.telemetry.queued,
            api=FairApi(client, tasks),
            recorder=self.telemetry,
            device_reports=DeviceReporter(self._recorder, self.telemetry),
            on_failure=self.isolation.failed,
        )
        self.profiles = tuple(decider.profiles)
        self._recent = RecentDecisions(MOST if settings.web_view else 0)
        context = WriterContext(
            client, self._recorder, self.telemetry, clock, tasks, self._recent, self.isolation
        )
        self._groups = GroupController(context, decider.ledger)
        self._schedules = ScheduleController(context, decider.ledger)
        self._quotas = QuotaController(context, decider.ledger.quotas)
        self._quotes = QuoteController(context, decider)
        self._requests = self._make_requests(context) if settings.provisioning_requests else None
        self._autoscalers = Autoscalers(
            context, decider, keep_nodes=settings.keep_nodes, request_nodes=settings.request_nodes
        )
        self._gates, self._loop = self._make_loop(context, settings.borrower_grace_seconds)
        self._event_handlers = self._make_event_handlers()
        self._reflectors: list[Reflector[Any]] = []
        self._binder_server = self._make_binder_server(settings)
        namespace = settings.lease_namespace or connection.system_namespace
        self._web = Endpoint(client, Key(namespace, WEB_SERVICE), settings.web_address, settings.port, "web")
        self._lease = Key(namespace if settings.leader_elect else "", settings.lease_name)
        self._estimator = self._make_estimator(settings)
        self._load = self._make_load()
        self._kopf = self._make_kopf(WaterLevelController(context, self._load))
        self._faults = UnreadableObjectReporter(self._recorder.record, lambda: self._reflectors)
        self._export_metrics()

    def _make_loop(self, context: WriterContext, borrower_grace: int) -> tuple[GateReporter, Loop]:
        """Make the decision loop with everything that carries decisions out."""
        decider = self._decider
        binder = Binder(context, decider, self._extenders)
        gates = GateReporter(context, decider, binder)
        loop = Loop(
            decider,
            ExtenderCaller(context, decider, self._extenders),
            binder,
            Evictor(context, decider, borrower_grace),
            StatusWriter(context, decider.ledger, lambda: self._loop.wake()),  # noqa: PLW0108 -- made below
            gates,
            self.telemetry,
            self._clock,
            self.isolation,
        )
        loop.on_groups = PodGroupWriter(context, decider.objects.pod_groups).record
        return gates, loop

    @staticmethod
    def _make_requests(context: WriterContext) -> "ProvisioningRequestController":
        from tidelock.integrations.provisioning_requests.controller import (  # noqa: PLC0415 -- few clusters have them
            ProvisioningRequestController,
        )

        return ProvisioningRequestController(context)

    def _make_event_handlers(self) -> EventHandlers:
        """Make the event handlers of all watches."""
        decider = self._decider
        return EventHandlers(
            decider.cache,
            decider.ledger,
            decider.queue,
            decider.waiting_pods,
            self._clock,
            self._loop.wake,
            listers_of(decider),
        )

    @property
    def under_way(self) -> asyncio.Event:
        """Set shortly after decisions begin."""
        return self._loop.under_way

    @property
    def alive(self) -> bool:
        """Whether decisions are made, or need not be, as another process leads."""
        return self._leadership.waiting or self._clock.monotonic() - self._loop.last_turn < STUCK

    @property
    def ready(self) -> bool:
        """Whether the cluster is read, or need not be, as another process leads."""
        return not self._ending and (self._leadership.waiting or self._event_handlers.ready)

    @property
    def details(self) -> dict[str, str]:
        """The watches and Kopf operators while it leads, and the Lease while it stands by.

        Each comes with the reason if it does not work.
        """
        if self._leadership.waiting:
            return {"lease": self._leadership.silence}
        watches = {
            f"watch/{each.resource.plural}": type(each.lost).__name__ if each.lost is not None else ""
            for each in self._reflectors
        }
        return watches | {f"kopf/{self._kopf.resource.plural}": self._kopf.problem}

    @property
    def replica(self) -> ReplicaStatus:
        """The role of this process in the cluster."""
        holder = self._leadership.holder
        if self._leadership.waiting:
            return ReplicaStatus("standby", self._instance, holder)
        state: Literal["leading", "starting"] = "leading" if self._event_handlers.ready else "starting"
        heard = max((each.last_activity for each in self._reflectors), default=self._clock.monotonic())
        silence = int(self._clock.monotonic() - heard)
        silence = silence if silence > _SILENT else 0
        return ReplicaStatus(state, self._instance, holder, self._leadership.epoch, silence)

    def site(self, token: "MetricsToken | None") -> "Site":
        """Make the web view. A token restricts it to requests that have it."""
        from tidelock.web.site import Site  # noqa: PLC0415 -- many processes have no web view
        from tidelock.web.sources import Sources  # noqa: PLC0415
        from tidelock.web.view import WebView  # noqa: PLC0415

        sources = Sources(self._decider, self._recent, self._groups.objects, self._schedules.objects)
        return Site(WebView(sources).look, lambda: self.replica, self._clock, token)

    async def lead(self, stop: asyncio.Event) -> None:
        """Decide and write until `stop` is set or a signal comes, then give the Lease up.

        The parts end in the opposite order of that in which they begin: first the decisions, then the writes
        under way, their events, and the Lease. Kopf, which may take seconds to end, is last: by then another
        process leads, and this one can't write any more.

        Raises:
            LeaseLostError: another process leads now, or might.
            ListenError: the address for other binders can't be listened at.

        """
        self._decider.ledger.lead(self._leadership.epoch)
        async with (
            supervision.running((self._kopf,), self._loop.under_way, stop) as kopf_task,
            self._leadership.term(),
            self._extenders,
            self._recorder,
            self._tasks.drained(_LAST_WRITES),
            background(*self._endless()) as crashed,
        ):
            ends = (crashed, kopf_task)
            await until(stop, asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED))
            self._ending = True
            self.end_within(_LAST_MOMENT_ASKED if stop.is_set() else _LAST_MOMENT)
            logger.info("stopping")
            for end in ends:
                if end.done():
                    end.result()

    def _endless(self) -> Iterator[Coroutine[Any, Any, NoReturn]]:
        """Yield all work that runs for as long as this process leads."""
        yield self._leadership.keep()
        pods = self._event_handlers.pods if self._binder_server is None else self._binder_server.unbound_pods
        whole = self._extenders.configured
        client, rng, noted, failed = self._client, self._rng, self._faults.noted, self.isolation.failed
        self._reflectors = list(
            reflectors(
                client, self._event_handlers, pods, rng, whole=whole, on_faults=noted, on_failure=failed
            )
        )
        for resource, decode, sink in (
            (RESERVATIONQUOTES, decode_quote, self._quotes),
            (RESERVATIONGROUPS, decode_group, self._groups),
            (RESERVATIONSCHEDULES, decode_schedule, self._schedules),
        ):
            self._reflectors.append(
                Reflector(
                    client,
                    resource,
                    decode,
                    sink,
                    rng=rng,
                    absent_if=(NotFound,),
                    on_faults=noted,
                    on_failure=failed,
                )
            )
        if self._requests is not None:
            self._reflectors.append(self._requests.watch(rng))
            yield self._requests.watch_groups(rng).run()
        self._reflectors += self._autoscalers.reflectors(client, rng, on_faults=noted, on_failure=failed)
        for reflector in self._reflectors:
            yield reflector.run()
        yield self._loop.run(self._event_handlers)
        started, supervise = self._loop.started, self.isolation.supervise
        yield supervise("gates", lambda: self._gates.run(started))
        yield supervise("quotas", lambda: self._quotas.run(started))
        yield supervise("quotes", lambda: self._quotes.run(started))
        yield supervise("groups", lambda: self._groups.run(started))
        yield supervise("schedules", lambda: self._schedules.run(started))
        if (requests := self._requests) is not None:
            yield supervise("provisioning", lambda: requests.run(started))
        yield supervise("load", self._load.run)
        for name, work in self._autoscalers.work(started):
            yield supervise(name, work)
        yield supervise("clock", lambda: watch_skew(client, self._clock.now, self.telemetry.clock_skew.set))
        others, observe = OtherLeaders(client, self._lease), self.telemetry.other_leaders.set
        yield supervise("leaders", lambda: watch_other_leaders(others, observe))
        yield supervise("web", self._web.keep)
        if self._binder_server is not None:
            yield supervise("binders", self._binder_server.run, fatal=(ListenError,))
        if self._estimator is not None:
            yield supervise("estimator", self._estimator.run, fatal=(ListenError,))

    def _make_kopf(self, controller: WaterLevelController) -> supervision.SupervisedOperator:
        """Make the Kopf operator of WaterLevels."""

        def make_registry() -> "OperatorRegistry":
            # Decisions do not need Kopf, so its import waits until after the first one: a fifth of a start.
            from kopf import OperatorRegistry  # noqa: PLC0415

            from tidelock.handlers import login, water_levels  # noqa: PLC0415

            registry = OperatorRegistry()
            login.register(registry, self._connection)
            water_levels.register(registry, controller)
            return registry

        return supervision.SupervisedOperator(
            WATERLEVELS, make_registry, self._instance, self.telemetry, self._rng
        )

    def _make_load(self) -> LoadLoop:
        """Make the load loop. The decisions take over its measurements in slices."""
        decider, tasks = self._decider, self._tasks
        load = LoadLoop(
            self._client,
            decider.cache,
            decider.objects.replica_sets,
            self._recorder,
            LoadMetrics(self.telemetry.registry, self._clock.now),
            self._clock,
            busy=lambda: tasks.busy,
            ready=lambda: self._event_handlers.ready,
            isolation=self.isolation,
        )
        about = FaultSubject("measurements", WATERLEVELS, ObjectMeta(""))
        take = decider.measurements.take
        load.on_uses(lambda uses: tasks.spawn(in_slices(take(uses), AT_LEISURE), about))
        return load

    def _export_metrics(self) -> None:
        """Export the state of the parts, which is read at each scrape."""
        decider = self._decider
        self.telemetry.registry.register(self._faults)
        self.telemetry.registry.register(Gauges(decider.ledger, decider.columns, decider.queue))
        self.telemetry.ready.set_function(lambda: float(self._event_handlers.ready))
        self.telemetry.tasks.set_function(lambda: float(len(asyncio.all_tasks())))

    def _make_binder_server(self, settings: Settings) -> "BinderServer | None":
        """Make the server for other binders and for creations, if it is asked for.

        It sees pods before the event handlers. Answers of earlier leaders count before the first decision, so
        the keys of their signatures are awaited.
        """
        if not (settings.extender or settings.admission or settings.answers):
            return None
        # Two of them import cryptography, which only certificates need.
        from tidelock.binders.admission_check import AdmissionCheck  # noqa: PLC0415
        from tidelock.binders.certificate_rotator import (  # noqa: PLC0415
            BINDINGS,
            CREATIONS,
            CertificateRotator,
        )
        from tidelock.binders.server import BinderServer  # noqa: PLC0415
        from tidelock.binders.unbound_pods import UnboundPods  # noqa: PLC0415

        check = AdmissionCheck(self._decider)
        namespace, _, name = settings.tls_secret.partition("/")
        webhook = self._make_creation_webhook() if settings.answers else None
        rotator = CertificateRotator(
            self._client,
            Key(namespace, name),
            settings.tls_names,
            self._clock,
            [*([BINDINGS] if settings.admission else []), *([CREATIONS] if settings.answers else [])],
            self._decider.ledger.answers.keys if settings.answers else None,
            rotate=settings.tls_rotate,
        )
        if settings.extender and settings.extender_clients:
            rotator.trust(Path(settings.extender_clients))
        return BinderServer(
            check,
            UnboundPods(self._event_handlers.pods, check, self._clock),
            rotator,
            Endpoint(self._client, Key(namespace, SERVICE), settings.tls_address, settings.tls_port),
            self._client,
            self._clock,
            self.telemetry,
            self.isolation,
            address=settings.listen,
            port=settings.tls_port,
            ready=self._answers,
            wake=self._loop.wake,
            extender=settings.extender,
            admission=settings.admission,
            webhook=webhook,
        )

    def _make_estimator(self, settings: Settings) -> "EstimatorServer | None":
        """Make the server for Karmada, if it is asked for."""
        if not settings.karmada_cluster:
            return None
        from tidelock.integrations.karmada import server  # noqa: PLC0415 -- only it needs gRPC

        service = Key(self._connection.system_namespace, server.ENDPOINT)
        return server.EstimatorServer(
            self._decider,
            self._client,
            Endpoint(self._client, service, settings.tls_address, settings.karmada_port, "grpc"),
            self._clock,
            self.telemetry,
            self.isolation,
            cluster=settings.karmada_cluster,
            folder=Path(settings.karmada_tls),
            address=settings.listen,
            port=settings.karmada_port,
            ready=self._answers,
        )

    def _make_creation_webhook(self) -> "CreationWebhook":
        """Make the webhook of creations. Nothing is decided before there are keys for its answers."""
        from tidelock.binders.creation_webhook import CreationWebhook  # noqa: PLC0415

        provided = self._event_handlers.await_resource("answers")
        webhook = CreationWebhook(
            self._decider.ledger, self._clock, self._loop.wake, provided, self._tasks.note_request
        )
        self._loop.on_answers = webhook.decided
        return webhook

    def _answers(self) -> bool:
        """Return whether to answer other programs: all is known, and no other process admits."""
        try:
            self._leadership.check()
        except ApiError:
            return False
        return self._event_handlers.ready
