"""Gauges that are read off the ledger, the columns and the queue at every scrape."""

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelock.cluster.columns import Columns
from tidelock.ledger.ledger import Ledger
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueueName

_MILLI = 1000


class Gauges(Collector):
    """The state of the scheduler as metrics."""

    def __init__(self, ledger: Ledger, columns: Columns, queue: SchedulingQueue) -> None:
        self._ledger = ledger
        self._columns = columns
        self._queue = queue

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering needs no state."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the state."""
        phases = Tally(entry.phase for entry in self._ledger.entries.values())
        reservations = GaugeMetricFamily("tidelock_reservations", "Reservations by phase.", labels=("phase",))
        for phase in Phase:
            reservations.add_metric((phase.value,), phases[phase])
        yield reservations
        yield self._waiting()
        pending = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue.", labels=("queue",))
        for queue, count in self._queue.counts().items():
            if queue is not QueueName.IN_FLIGHT:
                pending.add_metric((queue.value,), count)
        yield pending
        unschedulable = GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Pods that wait, by each plugin that refused or gates them.",
            labels=("plugin", "profile"),
        )
        for labels, count in self._queue.refused_by().items():
            unschedulable.add_metric(labels, count)
        yield unschedulable
        awaiting = GaugeMetricFamily(
            "tidelock_pods_awaiting_reservation",
            "Pods that are gated until one of their reservations is Active, by namespace.",
            labels=("namespace",),
        )
        kept = self._queue.kept_by(ReservationPlugin.name, QueueName.GATED)
        gated = Tally(waiting.pod.meta.namespace for waiting in kept)
        for namespace, count in sorted(gated.items()):
            awaiting.add_metric((namespace,), count)
        yield awaiting
        yield from self._amounts()

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(
            "tidelock_reservations_waiting",
            "Reservations that are Pending, by namespace and the reason that their status gives.",
            labels=("namespace", "reason"),
        )
        pending = (entry for entry in self._ledger.entries.values() if entry.phase is Phase.PENDING)
        for labels, count in sorted(Tally((entry.key.namespace, entry.reason) for entry in pending).items()):
            family.add_metric(labels, count)
        return family

    def _amounts(self) -> Iterator[Metric]:
        columns, count = self._columns, len(self._columns)
        for name, text, amounts in (
            ("allocatable", "Allocatable of all nodes", columns.allocatable),
            ("requested", "Requests of all bound and assumed pods", columns.requested),
            ("locked", "Capacity held by Reservations", columns.reserved),
        ):
            family = GaugeMetricFamily(
                f"tidelock_{name}", f"{text}, in cores, bytes or pieces.", labels=("resource",)
            )
            totals = amounts[:count].sum(axis=0)
            for resource, column in columns.column_of.items():
                total = totals[column]
                family.add_metric((resource,), total / _MILLI if resource == CPU else float(total))
            yield family
