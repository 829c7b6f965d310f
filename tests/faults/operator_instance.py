"""One instance of the operator, wired as in `process.operate`.

The Lease is missing, as `tests/model` and `tests/cluster/test_lease.py` cover it. So are measurements, as no
source answers, and watches of resources that only some plugins read. Kopf runs only with WaterLevels.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import kopf

from faults.hasty import JumpingClock
from faults.history import BUDGETS, OF_DEVICES
from isolating import Isolating
from tidelock.binders.creation_webhook import CreationWebhook
from tidelock.framework.config import default_configuration
from tidelock.handlers import login, water_levels
from tidelock.handlers.supervision import SupervisedOperator, running
from tidelock.kube.client import (
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
    KubeClient,
)
from tidelock.kube.config import Connection
from tidelock.kube.events import EventRecorder
from tidelock.kube.watch import Reflector, WatchSettings
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.load.loop import LoadLoop
from tidelock.load.metrics import LoadMetrics
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_quote import decode_quote
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.evictions import Evictor
from tidelock.scheduler.actions.extender_calls import ExtenderCaller
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.gates import GateReporter
from tidelock.scheduler.actions.loop import Loop
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.actions.tasks import FairApi, Tasks
from tidelock.scheduler.controllers.groups import GroupController
from tidelock.scheduler.controllers.quotas import QuotaController
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController
from tidelock.scheduler.controllers.water_levels import WaterLevelController
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.informers.event_handlers import EventHandlers, ObjectEventHandler
from tidelock.scheduler.informers.informers import decoder_of
from tidelock.scheduler.views.recent_decisions import RecentDecisions
from tidelock.telemetry import Telemetry

SCHEDULER = "tidelock-scheduler"

# Small pages let lists break between two pages. The operator waits less for bookmarks than in production.
_WATCHES = WatchSettings(page_limit=2, silence=15.0)

# Runs are short, so a wait counts as long sooner than in production.
EARMARK_AFTER = 5.0
_LOOK = 0.05
# Conditions have whole seconds, so another operator might act that much earlier.
_ROUNDED = 1.0
_QUOTAS = "reservation_quotas"
_BUDGETS = "pod_disruption_budgets"


class OperatorInstance:
    """An operator from its start to its end, which may be a crash."""

    def __init__(
        self,
        connection: Connection,
        url: str,
        clock: JumpingClock,
        rng: Random,
        epoch: int = 0,
        *,
        keys: Sequence[bytes] = (),
        levels: bool = False,
        devices: bool = False,
    ) -> None:
        """Wire the parts, with the keys of answers, and those for WaterLevels and devices."""
        self.clock = clock
        configuration = default_configuration(SCHEDULER, BUILTINS)
        self._client = KubeClient(
            replace(connection, server=url),
            user_agent="tidelock/faults",
            manager=lambda: f"tidelock-{epoch}",
        )
        self.isolation = Isolating()
        self.tasks = Tasks(rng, self.isolation)
        telemetry = Telemetry(clock.monotonic, rng)
        self.decider = Decider(
            configuration,
            earmark_after=EARMARK_AFTER,
            api=FairApi(self._client, self.tasks),
            recorder=telemetry,
            epoch=epoch,
        )
        self._extenders = Extenders(())
        self._recorder = EventRecorder(
            self._client,
            "tidelock.dev/operator",
            "faults",
            busy=lambda: self.tasks.busy,
            monotonic=clock.monotonic,
        )
        context = WriterContext(
            self._client, self._recorder, telemetry, clock, self.tasks, RecentDecisions(), self.isolation
        )
        self.publisher = StatusWriter(context, self.decider.ledger, lambda: self._loop.wake())  # noqa: PLW0108 -- made below
        self.groups = GroupController(context, self.decider.ledger)
        self.schedules = ScheduleController(context, self.decider.ledger)
        self.quotes = QuoteController(context, self.decider)
        self._reporter = QuotaController(context, self.decider.ledger.quotas)
        binder = Binder(context, self.decider, self._extenders)
        self._gates = GateReporter(context, self.decider, binder)
        self._loop = Loop(
            self.decider,
            ExtenderCaller(context, self.decider, self._extenders),
            binder,
            Evictor(context, self.decider),
            self.publisher,
            self._gates,
            telemetry,
            clock,
            self.isolation,
        )
        decider = self.decider
        decider.ledger.answers.keys.use(*keys)
        self.creations = CreationWebhook(
            decider.ledger, clock, self._loop.wake, lambda: None, self.tasks.note_request
        )
        self._loop.on_answers = self.creations.decided
        self.event_handlers = EventHandlers(
            decider.cache,
            decider.ledger,
            decider.queue,
            decider.waiting_pods,
            clock,
            self._loop.wake,
            {
                _QUOTAS: decider.objects.reservation_quotas,
                _BUDGETS: decider.objects.pod_disruption_budgets,
                **{name: getattr(decider.objects, name) for name in OF_DEVICES if devices},
            },
        )
        self._reflectors = self._make_reflectors(rng, devices=devices)
        self._load = LoadLoop(
            self._client,
            decider.cache,
            decider.objects.replica_sets,
            self._recorder,
            LoadMetrics(telemetry.registry, clock.now),
            clock,
            busy=lambda: self.tasks.busy,
            ready=lambda: self.event_handlers.ready,
            isolation=self.isolation,
        )
        registry = kopf.OperatorRegistry()
        login.register(registry, replace(connection, server=url))
        water_levels.register(registry, WaterLevelController(context, self._load))
        water = SupervisedOperator(WATERLEVELS, lambda: registry, "tidelock-0", telemetry, rng)
        self._kopf = [water] if levels else []

    def _make_reflectors(self, rng: Random, *, devices: bool) -> dict[str, Reflector[Any]]:
        """Return a reflector for each resource, by its plural name."""
        handlers = self.event_handlers
        sources: tuple[tuple[ApiResource, Callable[[bytes], Any], Any], ...] = (
            (NODES, decode_node, handlers.nodes),
            (PODS, decode_pod, handlers.pods),
            (RESERVATIONS, decode_reservation, handlers.reservations),
            (RESERVATIONQUOTAS, decode_reservation_quota, handlers.others[_QUOTAS]),
            (BUDGETS, decoder_of(_BUDGETS), handlers.others[_BUDGETS]),
            (RESERVATIONQUOTES, decode_quote, self.quotes),
            (RESERVATIONGROUPS, decode_group, self.groups),
            (RESERVATIONSCHEDULES, decode_schedule, self.schedules),
            *((*OF_DEVICES[name], handlers.others[name]) for name in OF_DEVICES if devices),
        )
        return {
            resource.plural: Reflector(
                self._client,
                resource,
                decode,
                sink,
                rng=rng,
                on_listed=sink.listed if isinstance(sink, ObjectEventHandler) else lambda _version: (),
                settings=_WATCHES,
            )
            for resource, decode, sink in sources
        }

    async def run(self) -> None:
        """Run until cancelled. A cancellation is a crash, so no unfinished work is completed."""
        kopf_runs = running(self._kopf, self._loop.started, asyncio.Event())
        async with kopf_runs, self._client, self._extenders:
            await self._recorder.__aenter__()
            work = [
                asyncio.create_task(each)
                for each in (
                    *(reflector.run() for reflector in self._reflectors.values()),
                    self._loop.run(self.event_handlers),
                    self._gates.run(self._loop.started),
                    self._reporter.run(self._loop.started),
                    self.quotes.run(self._loop.started),
                    self.groups.run(self._loop.started),
                    self.schedules.run(self._loop.started),
                    self.isolation.crash(),
                    *(self._load.run() for _ in self._kopf),
                )
            ]
            try:
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                ended = await asyncio.gather(*work, return_exceptions=True)
                while self.tasks:  # a time-out at the same instant hides that a task was cancelled
                    await self.tasks.drain(0.0)
                    await asyncio.sleep(_LOOK)
                await self._recorder.aclose(0.0)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def next_due(self) -> float | None:
        """Return the instant at which the operator has something to do without any event."""
        kept = (self.groups, self.schedules)
        ahead = self.clock.now() - self.clock.monotonic()
        awake = [instant + ahead for controller in kept if (instant := controller._awake.next()) is not None]
        asked = [controller._due.next() for controller in kept]
        due = (self.decider.next_due(), self.quotes._ends.next(), *asked, *awake)
        return min((instant for instant in due if instant is not None), default=None)

    def unrest(self, now: float) -> str:
        """Return why the operator is not at rest, or an empty text."""
        decider = self.decider
        due, monotonic = self.next_due(), self.clock.monotonic()
        steady = (decider.queue._steady, decider.ledger.waiting_reservations.steady)
        lagging = [
            self._lag(entry) for key, entry in decider.ledger.entries.items() if self.publisher.lags(key)
        ]
        hoping = [
            f"{waiting.pod.key} {waiting.queue}"
            for waiting in decider.queue._pods.values()
            if waiting.queue not in {QueueName.UNSCHEDULABLE, QueueName.GATED}
        ]
        moving = [str(entry.key) for entry in decider.ledger.entries.values() if self._is_moving(entry)]
        controllers = (self.groups, self.schedules)
        kept = [str(key) for controller in controllers for key in controller._kept if controller.lags(key)]
        refused = [
            str(key)
            for controller in controllers
            for key, pause in controller._creations._pauses.items()
            if pause.until > monotonic
        ]
        reasons = {
            "it has not listed everything": not self.event_handlers.ready,
            "its clock was set back, which it has not noticed": any(each._last > now for each in steady),
            "it has something to decide": due is not None and due <= now + _ROUNDED,
            f"writes are under way ({len(self.tasks)})": bool(self.tasks),
            f"statuses lag: {lagging}": bool(lagging),
            "changes or claims are unheard": bool(
                self.publisher.unwritten
                or self.publisher.waiting
                or decider.ledger.effects.statuses
                or decider.ledger.effects.claims
            ),
            f"pods hope: {hoping}": bool(hoping),
            f"plans of moves are under way: {moving}": bool(moving),
            f"groups or schedules lag: {kept}": bool(kept),
            f"groups or schedules were refused a moment ago: {refused}": bool(refused),
            "quotes wait": bool(self.quotes._waiting or self.quotes._writing or self.quotes._paused),
            "quotas lag": bool(
                decider.ledger.quotas.changed or self._reporter._writing or self._reporter._paused
            ),
            "gated pods are to be told": bool(
                self._gates._due or decider.queue.gated or self._gates._changed
            ),
            "creations have not been seen": bool(decider.ledger.answers._unseen),
            "Kopf does not work": any(each.problem for each in self._kopf),
        }
        return "; ".join(text for text, holds in reasons.items() if holds)

    def _is_moving(self, entry: ReservationInfo) -> bool:
        """Return whether a reservation has a plan under way that does not wait for a leaving pod."""
        if entry.plan is None or not entry.plan.under_way:
            return False
        return not any(each.pod.leaving for each in self.decider.cache.pods_on(entry.plan.node))

    def _lag(self, entry: ReservationInfo) -> str:
        """Return how a reservation's object differs from its intended status."""
        wanted, stored = render_reservation(entry, self.clock.now()), entry.reservation.status
        fields = [name for name in wanted.keys() | stored.keys() if wanted.get(name) != stored.get(name)]
        version, due = entry.reservation.meta.resource_version, deadlines.removable_at(entry)
        return f"{entry.key} at {version}, to be removed at {due}, differs in {fields}"

    def knows(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Return uid and version of each object in the operator's caches, by kind and name."""
        levels = ((name, group.body["metadata"]) for name, group in self._load._groups.items())
        return {
            (kind, key.name): (stored.meta.uid, stored.meta.resource_version)
            for kind, reflector in self._reflectors.items()
            for key, stored in reflector.store.items()
        } | {("waterlevels", name): (meta["uid"], meta["resourceVersion"]) for name, meta in levels}


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
