"""The parts that all writers to the API server share."""

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
    """The client of writes, their events, metrics, clock, tasks, views and isolation of faults."""

    client: KubeClient
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Clock
    tasks: Tasks
    recent: RecentDecisions
    isolation: Isolation
