"""The operator's work between its watches and its HTTP server, without an API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from devcluster.loopback import HOST
from tidelock.clock import Clock
from tidelock.ledger.effects import Effects
from tidelock.ledger.output.status import render_reservation
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup
from tidelock.model.reservation_schedule import ReservationSchedule
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.views.recent_decisions import RecentDecisions
from tidelock.serving import MetricsToken, serve
from tidelock.web.replica_status import ReplicaStatus
from tidelock.web.site import Site
from tidelock.web.sources import Sources
from tidelock.web.view import WebView

LEADING = ReplicaStatus("leading", "tidelock-7d9c5-x2x9p", "tidelock-7d9c5-x2x9p_1", epoch=3)
STANDING_BY = ReplicaStatus("standby", "tidelock-7d9c5-k4zqm", "tidelock-7d9c5-x2x9p_1")


@dataclass
class Stage:
    """A decider, groups and schedules with their statuses, and a web view of them."""

    decider: Decider
    clock: Clock
    replica: ReplicaStatus = LEADING
    groups: dict[Key, ReservationGroup] = field(default_factory=dict)
    schedules: dict[Key, ReservationSchedule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recent = RecentDecisions()
        self.view = WebView(Sources(self.decider, self.recent, self.groups, self.schedules))

    def settle(self) -> None:
        """Run all steps that are due now, and apply each decision at once."""
        decider, now = self.decider, self.clock.now()
        effects = Effects()
        for step in due_steps(decider, self.clock.now):
            effects.add(step.effects)
            if isinstance(step.outcome, AssumedPod):
                self.recent.placed(step.outcome, now)
                decider.bound(step.outcome, now)
            elif isinstance(step.outcome, Unschedulable):
                self.recent.refused(step.outcome, now)
        for change in effects.transitions:
            self.recent.changed(change, decider.ledger.entries.get(change.meta.key))
        for key in effects.statuses:
            if (entry := decider.ledger.entries.get(key)) is not None:
                render_reservation(entry, now)  # which notes since when the conditions hold
                self.recent.waits(entry, entry.refused_at)

    @asynccontextmanager
    async def served(self, token_file: Path | None = None, port: int = 0) -> AsyncIterator[str]:
        """Serve the web view as the operator does, at a free port if `port` is 0, and yield its address."""
        token = MetricsToken(token_file) if token_file else None
        site = Site(self.view.look, lambda: self.replica, self.clock, token).application
        async with serve(
            HOST, port, CollectorRegistry(), alive=bool, ready=bool, token=token, site=site
        ) as bound:
            yield f"http://{HOST}:{bound}/web/"
