"""One instance of the operator, as `assembly.assemble` makes it for a process.

The Lease is missing, as `tests/model` and `tests/cluster/test_lease.py` cover it. So is the server of the
webhook, which the runs call themselves. Kopf runs only with WaterLevels.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from faults.exceptions import is_planted
from faults.hasty import JumpingClock
from isolating import Isolating
from tidelock.assembly import assemble
from tidelock.framework.config import default_configuration
from tidelock.handlers.supervision import running
from tidelock.kube.client import WATERLEVELS, ApiResource, KubeClient
from tidelock.kube.config import Connection
from tidelock.kube.lease import NoElection
from tidelock.kube.watch import WatchSettings
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.pace import Pace
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.settings import Settings

SCHEDULER = "tidelock-scheduler"

# Small pages let lists break between two pages. The operator waits less for bookmarks than in production.
_PACE = Pace(watches=WatchSettings(page_limit=2, silence=15.0))

# Runs are short, so a wait counts as long sooner than in production.
EARMARK_AFTER = 5.0
_SETTINGS = Settings(
    instance="faults", scheduler_name=SCHEDULER, earmark_after_seconds=EARMARK_AFTER, answers=True
)
_LOOK = 0.05
# Conditions have whole seconds, so another operator might act that much earlier.
_ROUNDED = 1.0


class _Leading(NoElection):
    """A leadership with a given number, as the suite elects."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


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
        resources: Collection[ApiResource] = (),
        levels: bool = False,
    ) -> None:
        """Assemble the parts, with the keys of answers. `resources` are those of the run.

        Kopf runs only with `levels`.
        """
        self.clock = clock
        self._resources = resources
        self.isolation = Isolating(expected=is_planted)
        there = replace(connection, server=url)
        self._client = KubeClient(there, user_agent="tidelock/faults", manager=lambda: f"tidelock-{epoch}")
        self.assembly = made = assemble(
            _SETTINGS,
            default_configuration(SCHEDULER, BUILTINS),
            there,
            self._client,
            _Leading(epoch),
            clock,
            rng,
            pace=_PACE,
            make_isolation=self.isolation.to,
            serve_binders=False,
        )
        self.tasks, self._recorder = made.context.writers.tasks, made.context.writers.recorder
        self.decider, self.event_handlers = made.context.core.decider, made.context.core.event_handlers
        self.publisher, self._gates = made.scheduler.status_writer, made.scheduler.gates
        self.groups, self.schedules = made.controllers.groups, made.controllers.schedules
        self.quotes, self._reporter = made.controllers.quotes, made.controllers.quotas
        self._load = made.load
        self._kopf = [made.kopf] if levels else []
        webhook = made.binders.webhook
        assert webhook is not None
        self.creations = webhook
        self.decider.ledger.lead(epoch)
        self.decider.ledger.answers.keys.use(*keys)
        webhook.provided()

    async def run(self) -> None:
        """Run until cancelled. A cancellation is a crash, so no unfinished work is completed."""
        scheduler = self.assembly.scheduler
        kopf_runs = running(self._kopf, scheduler.loop.started, asyncio.Event())
        async with kopf_runs, self._client, scheduler.extenders:
            await self._recorder.__aenter__()
            endless = (*self.assembly.endless(), self.isolation.crash())
            work = [asyncio.create_task(each) for each in endless]
            try:
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                ended = await asyncio.gather(*work, return_exceptions=True)
                async with self.tasks.drained(0.0):
                    pass
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
            "events come again": any(
                each._behind or each._retries._timers for each in self.assembly.reflectors
            ),
            "parts of a step rest, or records are rebuilt": bool(
                decider._parts or decider.ledger.recovery.next_due() is not None
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
            (reflector.resource.plural, key.name): (stored.meta.uid, stored.meta.resource_version)
            for reflector in self.assembly.reflectors
            if reflector.resource in self._resources and reflector.resource != WATERLEVELS
            for key, stored in reflector.store.items()
        } | {("waterlevels", name): (meta["uid"], meta["resourceVersion"]) for name, meta in levels}


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
