"""Metrics. Names, labels and buckets of `scheduler_*` are those of kube-scheduler 1.36.

Counters and histograms are written where things happen. `tidelock.scheduler.views.gauges` reads the
scheduler's state at the scrape.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate, repeat
from operator import mul
from random import Random

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tidelock import __version__
from tidelock.framework.api import Code
from tidelock.framework.extension_point_timer import MetricsRecorder
from tidelock.ledger.effects import Transition
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.audit import Record
from tidelock.model import reasons

# This saves a series for each counter, which kube-scheduler does not have.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SAMPLE = 0.1
_VIOLATIONS = {Event.VIOLATE: "Keep", Event.DISPLACE: "Move"}
_CALLERS = ("admission", "extender", "other")  # the paths by which refused callers are counted
_ENDS_OF_TIME = (Event.EXPIRE, Event.FORFEIT, Event.ABORT)
_RELEASES = (*_ENDS_OF_TIME, Event.CLAIM, Event.LOSE_NODE, Event.DISPLACE)


def _exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds computed as in kube-scheduler, as they are labels with every digit."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


def code_label(code: Code) -> str:
    """Return an outcome as kube-scheduler's metrics name it."""
    return code.name.title().replace("_", "")


_CODES = {code: code_label(code) for code in Code}


class Durations(Collector):
    """A histogram for several observations in every decision, at a tenth of the usual cost."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> None:
        self._name, self._text, self._labels, self._buckets = name, text, labels, buckets
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count a duration."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._buckets) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._buckets, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[Metric]:
        """Return the sums of the counts."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        bounds = [*map(floatToGoString, self._buckets), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(map(float, counts)), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family


class Telemetry(MetricsRecorder):
    """All metrics of a process, in a separate registry."""

    def __init__(self, clock: Callable[[], float], rng: Random) -> None:
        """Take a clock of monotonic seconds, and a random generator for sampling."""
        self.clock = clock
        self._rng = rng
        self.registry = CollectorRegistry()
        self._add_attempt_metrics()
        self._add_plugin_and_queue_metrics()
        self._add_device_metrics()
        self._add_reservation_metrics()
        self._add_binder_metrics()
        self._add_estimator_metrics()
        self._add_operator_metrics()
        self._begin_at_nought()
        ProcessCollector(registry=self.registry)

    def _add_attempt_metrics(self) -> None:
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ("result", "profile"),
            registry=self.registry,
        )
        self.scheduling_attempt_duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds of a scheduling attempt: the decision, and the binding if there is one.",
            ("result", "profile"),
            buckets=_exponential(0.001, 2, 15),
            registry=self.registry,
        )
        self.pod_scheduling_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was scheduled.",
            buckets=_exponential(1, 2, 5),
            registry=self.registry,
        )
        self.pod_scheduling_sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from entering the queue to being bound.",
            ("attempts",),
            buckets=_exponential(0.01, 2, 20),
            registry=self.registry,
        )
        self.scheduling_algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Seconds of a decision alone.",
            buckets=_exponential(0.001, 2, 15),
            registry=self.registry,
        )
        self.permit_wait_duration = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Seconds that pods waited for their permit, by result.",
            ("result",),
            buckets=_exponential(0.001, 2, 15),
            registry=self.registry,
        )

    def _add_plugin_and_queue_metrics(self) -> None:
        self._extension_points = Durations(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds of an extension point.",
            ("extension_point", "status", "profile"),
            _exponential(0.0001, 2, 12),
        )
        self._plugins = Durations(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds of a plugin at an extension point, in a tenth of the decisions.",
            ("plugin", "extension_point", "status"),
            _exponential(0.00001, 1.5, 20),
        )
        self.registry.register(self._extension_points)
        self.registry.register(self._plugins)
        self.queue_incoming_pods = Counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by queue and event.",
            ("queue", "event"),
            registry=self.registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts_total",
            "Attempts to free capacity by evictions, successful or not.",
            registry=self.registry,
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=_exponential(1, 2, 7),
            registry=self.registry,
        )

    def _add_device_metrics(self) -> None:
        self.claim_creates = Counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Attempts to create ResourceClaims for extended resources, by outcome and kind of the owner.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
            registry=self.registry,
        )
        self.device_allocations = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocated devices with binding conditions, by driver and outcome of the wait for them.",
            ("profile", "driver", "status"),
            registry=self.registry,
        )
        self.device_wait_duration = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Seconds of a wait for binding conditions, once for each device of the pod.",
            ("profile", "driver", "status"),
            buckets=_exponential(0.1, 2, 14),
            registry=self.registry,
        )

    def _add_reservation_metrics(self) -> None:
        self.transitions = Counter(
            "tidelock_reservation_transitions_total",
            "Transitions of Reservations, by event and the phase it led to.",
            ("event", "phase"),
            registry=self.registry,
        )
        self.reservations = Counter(
            "tidelock_locks_total", "Reservations given capacity.", registry=self.registry
        )
        self.releases = Counter(
            "tidelock_releases_total", "Reservations released, by cause.", ("cause",), registry=self.registry
        )
        self.lives = Counter(
            "tidelock_reservations_ended_total",
            "Ended Reservations, by namespace and last phase, or Deleted if deleted before their end.",
            ("namespace", "outcome"),
            registry=self.registry,
        )
        self.idle = Counter(
            "tidelock_reservation_idle_seconds_total",
            "Seconds for which ended Reservations held capacity without an owner, by namespace and "
            "whether an owner came.",
            ("namespace", "used"),
            registry=self.registry,
        )
        self.occupied = Counter(
            "tidelock_reservation_occupied_seconds_total",
            "Seconds for which owners ran in ended Reservations for reuse, by namespace.",
            ("namespace",),
            registry=self.registry,
        )
        self.violations = Counter(
            "tidelock_reservation_violations_total",
            "Pods and claims that took reserved capacity, by the reaction of the Reservation: Keep or Move.",
            ("policy",),
            registry=self.registry,
        )
        self.activation = Histogram(
            "tidelock_reservation_activation_seconds",
            "Seconds from first seeing a Reservation, or losing its capacity, to its stored Active=True, "
            "by whether it had to wait for capacity.",
            ("waited",),
            buckets=_exponential(0.001, 2, 17),
            registry=self.registry,
        )
        self.expiry_lag = Histogram(
            "tidelock_expiry_lag_seconds",
            "Seconds from the expiry, or the loss of the lease, to the release of the Reservation.",
            buckets=_exponential(0.0005, 2, 14),
            registry=self.registry,
        )

    def _add_binder_metrics(self) -> None:
        self._webhook_mismatches = Gauge(
            "tidelock_webhook_mismatch",
            "1 while the webhooks of an option exist and are not served (unserved), or are served and do not "
            "exist (missing). NaN if not known.",
            ("option", "mismatch"),
            registry=self.registry,
        )
        self.reviews = Counter(
            "tidelock_admission_reviews_total",
            "Reviewed bindings, and allocations of devices, by other programs, by verdict.",
            ("verdict",),
            registry=self.registry,
        )
        self.review_duration = Histogram(
            "tidelock_admission_review_seconds",
            "Seconds from a review's arrival to its verdict.",
            buckets=_exponential(0.0001, 2, 14),
            registry=self.registry,
        )
        self.answers = Counter(
            "tidelock_answers_total",
            "Creations of reservations with spec.answer, by result.",
            ("result",),
            registry=self.registry,
        )
        self.answer_duration = Histogram(
            "tidelock_answer_seconds",
            "Seconds from the review of a creation to its answer.",
            buckets=_exponential(0.0001, 2, 14),
            registry=self.registry,
        )
        self.extender_duration = Histogram(
            "tidelock_extender_request_seconds",
            "Seconds to answer a scheduler that uses Tidelock as its extender, by verb.",
            ("verb",),
            buckets=_exponential(0.0001, 2, 14),
            registry=self.registry,
        )
        self.refused_callers = Counter(
            "tidelock_refused_callers_total",
            "Requests to the webhook and the extender refused with 404 for lack of credentials, by path.",
            ("path",),
            registry=self.registry,
        )

    def _add_estimator_metrics(self) -> None:
        self.estimates = Counter(
            "tidelock_estimates_total",
            "Requests of Karmada to estimate capacity, by method and gRPC status.",
            ("method", "status"),
            registry=self.registry,
        )
        self.estimate_duration = Histogram(
            "tidelock_estimate_seconds",
            "Seconds from the arrival of such a request to its answer, by method.",
            ("method",),
            buckets=_exponential(0.0001, 2, 14),
            registry=self.registry,
        )

    def _add_operator_metrics(self) -> None:
        self.api_errors = Counter(
            "tidelock_api_write_errors_total",
            "Writes that were refused, left unanswered or not stored as sent, by kind of write and reason.",
            ("write", "reason"),
            registry=self.registry,
        )
        self.clock_skew = Gauge(
            "tidelock_clock_skew_seconds",
            "The API server's clock minus this process' clock, or 0 within its resolution of a second.",
            registry=self.registry,
        )
        self.other_leaders = Gauge(
            "tidelock_other_leaders",
            "Other operators that lead, by a Lease of the same name in another namespace. NaN if not known.",
            registry=self.registry,
        )
        self.event_loop_lag = Histogram(
            "tidelock_event_loop_lag_seconds",
            "Time by which a timer of the event loop was late, measured once a second.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
            registry=self.registry,
        )
        build = Gauge(
            "tidelock_build_info",
            "Always 1, with the version as a label.",
            ("version",),
            registry=self.registry,
        )
        build.labels(__version__).set(1)
        self.ready = Gauge(
            "tidelock_ready", "1 when all watched resources have been listed.", registry=self.registry
        )
        self.kopf_up = Gauge(
            "tidelock_kopf_up",
            "1 while Kopf handles a kind, 0 before that and after a failure.",
            ("resource",),
            registry=self.registry,
        )
        self.object_errors = Counter(
            "tidelock_object_errors_total",
            "Faults of the operator, each of which costs one step of an object or of a part.",
            ("step", "resource"),
            registry=self.registry,
        )
        self.kopf_failures = Counter(
            "tidelock_kopf_failures_total",
            "Failures of Kopf, each followed by a restart, by kind and reason.",
            ("resource", "reason"),
            registry=self.registry,
        )
        self.tasks = Gauge(
            "tidelock_tasks", "Tasks of the event loop that have not ended.", registry=self.registry
        )

    def _begin_at_nought(self) -> None:
        """Show rare counters before their first event, because an increase needs two samples."""
        for policy in _VIOLATIONS.values():
            self.violations.labels(policy)
        for cause in _RELEASES:
            self.releases.labels(cause.value)
        for path in _CALLERS:
            self.refused_callers.labels(path)
        for waited in (False, True):
            self._activation(waited)

    def _activation(self, waited: bool) -> Histogram:
        return self.activation.labels(str(waited).lower())

    def activated(self, seconds: float, *, waited: bool) -> None:
        """Measure how long a reservation took to become active."""
        self._activation(waited).observe(seconds)

    def sample(self) -> bool:
        """Return whether to measure the plugins of a decision: at random, in a tenth of the decisions."""
        return self._rng.random() < _SAMPLE

    def passed(self, point: str, code: Code, profile: str, seconds: float) -> None:
        """Measure an extension point."""
        self._extension_points.observe((point, _CODES[code], profile), seconds)

    def ran(self, plugin: str, point: str, code: Code, seconds: float) -> None:
        """Measure a plugin of a sampled decision."""
        self._plugins.observe((plugin, point, _CODES[code]), seconds)

    def queued(self, queue: str, event: str) -> None:
        """Count a pod that enters a queue. A gated pod counts as unschedulable here."""
        self.queue_incoming_pods.labels("unschedulable" if queue == "gated" else queue, event).inc()

    def ended(self, life: Record) -> None:
        """Count a reservation that has ended, and its cost."""
        self.lives.labels(life.namespace, life.outcome).inc()
        for used in (False, True):  # both exist, so a sum of them does, too
            self.idle.labels(life.namespace, str(used).lower()).inc(life.idle if used is life.used else 0.0)
        self.occupied.labels(life.namespace).inc(life.occupied)

    def caller_refused(self, path: str) -> None:
        """Count a caller without valid credentials, by the first part of the requested path."""
        first = path.split("/", 2)[1] if path.startswith("/") else ""
        self.refused_callers.labels(first if first in _CALLERS else "other").inc()

    def webhook_mismatch(self, option: str, mismatch: str, value: float) -> None:
        """Set whether the webhooks of an option have a mismatch: 1 if so, 0 if not, NaN if not known."""
        self._webhook_mismatches.labels(option, mismatch).set(value)

    def object_failed(self, step: str, resource: str) -> None:
        """Count a fault of the operator that cost an object, or a part, a step."""
        self.object_errors.labels(step, resource).inc()

    def changed(self, change: Transition) -> None:
        """Count a transition of a reservation."""
        self.transitions.labels(change.event.value, change.phase.value).inc()
        if change.event is Event.ADMIT:
            self.reservations.inc()
        elif change.event in _RELEASES:
            self.releases.labels(change.event.value).inc()
        if change.reason == reasons.VIOLATED and change.event in _VIOLATIONS:
            self.violations.labels(_VIOLATIONS[change.event]).inc()
        if change.event in _ENDS_OF_TIME:
            self.expiry_lag.observe(max(change.at - change.due, 0.0))
