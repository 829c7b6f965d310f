"""What all have in common that carry decisions out at the API server."""

from dataclasses import dataclass

from tidelock.clock import Clock
from tidelock.isolation import Isolation
from tidelock.kube.client import KubeClient
from tidelock.kube.events import EventRecorder
from tidelock.scheduler.actions.tasks import Tasks
from tidelock.scheduler.views.recent_decisions import RecentDecisions
from tidelock.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a write needs: whom it goes to, who tells of it and measures it, and when it has its turn."""

    client: KubeClient
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Clock
    tasks: Tasks
    recent: RecentDecisions
    isolation: Isolation
