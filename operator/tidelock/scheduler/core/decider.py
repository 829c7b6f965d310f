"""The serial order of decisions: due changes, then reservations in the queue, then one pod, over one ledger.

It does no I/O: time is a parameter, and a driver writes the results to the API server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.objects import Objects
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.api import Api, Handle
from tidelock.framework.config import Configuration
from tidelock.framework.device_reports import DeviceReports
from tidelock.framework.extension_point_timer import MetricsRecorder
from tidelock.framework.profile import Profile, build_profiles
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.atomic import atomic
from tidelock.ledger.effects import Effects
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL
from tidelock.model.failures import OnFailure, log_failure, raise_failure
from tidelock.model.instants import earliest
from tidelock.model.pods import Pod
from tidelock.plugins.default_preemption.plugin import DefaultPreemption
from tidelock.plugins.dynamic_resources.pod_claims import devices_asked
from tidelock.scheduler.core.backfill import Backfill
from tidelock.scheduler.core.capacity_events import CapacityEvents
from tidelock.scheduler.core.cycle import AssumedPod, SchedulingCycle
from tidelock.scheduler.core.device_owners import DeviceOwners
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.dry_run import DryRun, DryRunResult
from tidelock.scheduler.core.estimation import CapacityEstimator
from tidelock.scheduler.core.failed_parts import FailedParts
from tidelock.scheduler.core.occupancy_observer import OccupancyObserver
from tidelock.scheduler.core.outcomes import Outcome
from tidelock.scheduler.core.pipeline import FilterPipeline
from tidelock.scheduler.core.pod_group_scheduler import PodGroupResult, PodGroupScheduler, gates_of
from tidelock.scheduler.core.pod_queue import EnqueueHook, SchedulingQueue
from tidelock.scheduler.core.pod_scheduler import PodScheduler
from tidelock.scheduler.core.preemption import PreemptionAttempt, Preemptor
from tidelock.scheduler.core.queued_pods import QueuedPods
from tidelock.scheduler.core.reservation_cycle import ReservationCycle
from tidelock.scheduler.core.reservation_scheduler import ReservationScheduler
from tidelock.scheduler.core.taken_devices import TakenDevices
from tidelock.scheduler.defrag.controller import PLAN_SECONDS, DefragmentationController, MigrationTask
from tidelock.scheduler.defrag.planner import DefragmentationPlanner


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step, and the work that it leaves to a driver.

    Attributes:
        outcome: the decision about a pod, if one was made.
        effects: effects of all changes of reservations since the step before.
        preemptions: attempts to free capacity by evictions, to carry out.
        migrations: migration plans that are under way and were announced, to carry out.
        pod_groups: results of PodGroups, for their conditions.

    """

    outcome: Outcome | None
    effects: Effects
    preemptions: list[PreemptionAttempt]
    migrations: list[MigrationTask]
    pod_groups: Sequence[PodGroupResult] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeciderOptions:
    """Waits of a decider, and the parts of a process that it uses. By default it is alone.

    Attributes:
        move_after: seconds after which a reservation for any node leaves a node that takes no pods.
        earmark_after: seconds after which capacity is kept for a reservation that waits.
        refusal_renewal: seconds between two texts in the status of a reservation that waits.
        plan_seconds: seconds between two searches for a plan that moves pods for a reservation.
        on_enqueue: called for each pod that enters the queue.
        api: used by plugins for writes.
        recorder: takes the durations of extension points.
        device_reports: takes the reports of DynamicResources.
        on_failure: handles exceptions that cost a reservation, a pod or a part of a step. By default only
            exceptions of plugins are handled, and all others are raised.

    """

    move_after: float = 300.0
    earmark_after: float = 60.0
    refusal_renewal: float = REFUSAL_RENEWAL
    plan_seconds: float = PLAN_SECONDS
    on_enqueue: EnqueueHook | None = None
    api: Api | None = None
    recorder: MetricsRecorder | None = None
    device_reports: DeviceReports | None = None
    on_failure: OnFailure = raise_failure


_ALONE = DeciderOptions()


class Decider:
    """All state of the scheduler, and the next decision over it.

    Args:
        configuration: profiles, their plugins and extenders.
        options: its waits, and the parts of a process that it uses.

    Raises:
        ConfigurationError: a profile can't be made as it is configured.

    """

    def __init__(self, configuration: Configuration, options: DeciderOptions = _ALONE) -> None:
        on_failure, recorder = options.on_failure, options.recorder
        on_plugin_failure = log_failure if on_failure is raise_failure else on_failure
        self._now = 0.0
        self.columns = Columns()
        self.cache = Cache(self.columns)
        self.objects = Objects()
        self.objects.device_classes.on_backing(self.columns.back)
        queued = QueuedPods()
        owners = DeviceOwners(self.cache, queued, self.objects)
        self.ledger = _make_ledger(self.cache, self.objects, owners, options)
        self.waiting_pods = WaitingPods()
        self.measurements = Measurements()
        handle = Handle(
            self.ledger.plugin_view,
            self.cache,
            self.objects,
            options.api,
            self.waiting_pods,
            self.measurements,
            options.device_reports,
        )
        self.profiles = build_profiles(configuration.profiles, configuration.registry, handle)
        self.profile: Profile = next(iter(self.profiles.values()))
        self.queue = SchedulingQueue(
            self.profiles,
            options.on_enqueue,
            initial_backoff=configuration.initial_backoff,
            max_backoff=configuration.max_backoff,
            recorder=recorder,
            on_failure=on_plugin_failure,
            pod_groups=self.objects.pod_groups if gates_of(self.profiles) else None,
            queued=queued,
        )
        self.pipeline = FilterPipeline(self.cache, self.ledger, recorder)
        self._preemptor = Preemptor(self.cache, self.ledger)
        self._cycle = SchedulingCycle(
            self.cache, self.pipeline, self._preemptor, self.waiting_pods, on_plugin_failure
        )
        self.reservation_cycle = ReservationCycle(self.cache, self.ledger, self.pipeline, self._preemptor)
        self._parts = FailedParts(self.ledger, on_failure)
        self._capacity_events = CapacityEvents(self.ledger, self.cache, self.queue)
        self.taken_devices = TakenDevices(self.ledger, owners, self.objects)
        self._make_planners(handle, options, on_plugin_failure)
        self.reservation_scheduler = ReservationScheduler(
            self.ledger,
            self.cache,
            self.queue,
            self.reservation_cycle,
            self.moving,
            self.profile,
            on_plugin_failure,
        )
        self.pod_scheduler = self._make_pod_scheduler(configuration, handle, on_plugin_failure)

    def _make_pod_scheduler(
        self, configuration: Configuration, handle: Handle, on_plugin_failure: OnFailure
    ) -> PodScheduler:
        """Make the scheduler of pods, and that of PodGroups if a profile enables GangScheduling."""
        groups: PodGroupScheduler | None = None
        if gates := gates_of(self.profiles):
            self.cache.on_move(self.objects.pod_groups.count_move)
            groups = PodGroupScheduler(
                gates,
                self.objects.pod_groups,
                self.queue,
                self._cycle,
                self.cache,
                self.ledger,
                self.waiting_pods,
                configuration.extenders,
                on_plugin_failure,
            )
        return PodScheduler(
            self.queue,
            self._cycle,
            self.ledger.recovery,
            self.waiting_pods,
            self.profiles,
            configuration.extenders,
            handle,
            on_plugin_failure,
            groups,
        )

    def _make_planners(self, handle: Handle, options: DeciderOptions, on_plugin_failure: OnFailure) -> None:
        """Make everything that tries placements without making them.

        It has pipelines of its own, as its pods would crowd out the cached results of pods that wait.
        """
        asking = FilterPipeline(self.cache, self.ledger)
        self._dry_run = DryRun(self.cache, self.ledger, asking, on_plugin_failure)
        self.estimator = CapacityEstimator(self.cache, asking)
        trials = FilterPipeline(self.cache, self.ledger)
        self.moving = DefragmentationController(
            self.ledger,
            self.cache,
            DefragmentationPlanner(handle, self.profiles, trials),
            options.plan_seconds,
        )
        cycle = ReservationCycle(self.cache, self.ledger, trials, self._preemptor)
        self._backfill = Backfill(self.ledger, self.cache, cycle, self.profile, options.earmark_after)

    def step(self, now: float) -> Step:
        """Do everything that is due, place a few reservations, and decide one pod."""
        outcome = self._next_outcome(now)
        groups = self.pod_scheduler.groups.results.take() if self.pod_scheduler.groups is not None else ()
        return Step(outcome, self.ledger.effects.take(), self._preemptor.take(), self.moving.take(), groups)

    def _next_outcome(self, now: float) -> Outcome | None:
        self._now = now
        self.ledger.recovery.checkpoint()
        if not self.ledger.advance(now):
            return None  # no decision is made while reservations that have ended still hold capacity
        parts, reservations, events = self._parts, self.reservation_scheduler, self._capacity_events
        skipped = bool(parts)  # a part that was skipped may be tried again
        if self.taken_devices.unsettled or skipped:
            parts.run("devices", self.taken_devices.settle, now)
        reservations.look_for_owners(now)
        reservations.wake_rested(now)
        if reservations.pending or skipped:
            parts.run("line", reservations.place_some, now)
        if events.pending or skipped:
            parts.run("rooms", events.notify, now)
        if reservations.queued:
            return None  # reservations come first: they were promised an answer at once
        if not self.moving.idle or skipped:
            parts.run("moves", self.moving.step, now)
        if not self._backfill.idle or skipped:
            parts.run("earmarks", self._backfill.step, now)
        if reservations.searching:
            parts.run("search", reservations.continue_search, now)
        outcome = self.pod_scheduler.schedule_one(now)
        if isinstance(outcome, AssumedPod) and events.pending:
            parts.run("rooms", partial(events.notify, claimed_by=outcome), now)
        return outcome

    def time(self) -> float:
        """Return the time of the last step, in seconds since the epoch."""
        return self._now

    def quote(self, pod: Pod, now: float) -> DryRunResult:
        """Return the result that a reservation with this reserve pod would have. Nothing is changed."""
        return self._dry_run.answer(self.profile, pod, now)

    def forget(self) -> None:
        """Drop everything that is remembered of earlier results. No answer changes by that."""
        self.reservation_scheduler.forget()
        self.pipeline.forget()
        self.ledger.waiting_reservations.forget()

    def next_due(self) -> float | None:
        """Return the instant at which a step is due without any event: 0 for at once, None for never."""
        parts, reservations = self._parts, self.reservation_scheduler
        if (
            (reservations.pending and "line" not in parts)
            or (reservations.searching and "search" not in parts)
            or (self.ledger.holdings.changes and "rooms" not in parts)
        ):
            return 0.0
        return earliest(
            self.ledger.next_deadline(),
            None if "moves" in parts else self.moving.next_due(),
            None if "earmarks" in parts else self._backfill.next_due(),
            self.pod_scheduler.next_due(),
            reservations.next_wake(),
            self.taken_devices.next_due(),
            *parts.next_due(),
        )

    @property
    def schedules_groups(self) -> bool:
        """Whether PodGroups count for any profile."""
        return self.pod_scheduler.groups is not None

    @atomic
    def bound(self, assumed: AssumedPod, now: float) -> None:
        """Note that a pod was bound as decided."""
        self.queue.remove(assumed.pod.uid)
        gone = self.cache.get(assumed.pod.uid) is None
        self.ledger.claims.owner_bound(assumed.pod, assumed.node_name, now, gone=gone)

    @atomic
    def binding_failed(self, assumed: AssumedPod, now: float) -> None:
        """Note that a binding failed: the capacity is free, reservations are restored, the pod is retried."""
        self._undo(assumed, now)
        self.queue.back_off(assumed.pod.uid, now)
        self._capacity_events.notify_undone(assumed, now)

    @atomic
    def rejected(self, assumed: AssumedPod, diagnosis: Diagnosis, now: float) -> None:
        """Note that a pod was rejected while it waited for a permit. Events that may help will wake it."""
        self._undo(assumed, now)
        self.queue.add_unschedulable(assumed.pod.uid, now, diagnosis.plugins, diagnosis.pending)
        self._capacity_events.notify_undone(assumed, now)

    def reject_waiting(self, uid: str) -> bool:
        """Reject a victim in its binding cycle. Return whether it did, so no eviction is needed."""
        return self.waiting_pods.preempt(uid, DefaultPreemption.name)

    def eviction_failed(self, uid: str, waiting_uid: str, now: float) -> None:
        """Note that an eviction failed, so the preemptor may choose again."""
        self.cache.evicting.discard(uid)
        self.columns.freed += 1
        self.queue.activate(waiting_uid, now)

    def _undo(self, assumed: AssumedPod, now: float) -> None:
        """Undo a placement. The pod keeps its reservations if another binder has bound it."""
        self._cycle.undo(assumed, now)
        self.ledger.placement.settle_unseen(assumed.node_name, now)
        placed, waiting = self.cache.get(assumed.pod.uid), self.queue.get(assumed.pod.uid)
        if placed is not None:
            self.ledger.claims.claim_tentatively(placed.pod, placed.node_name, now)
        elif waiting is not None:  # the newest version may still name the node, as it was announced
            self.cache.nominator.nominate(waiting.pod, "")


def _make_ledger(cache: Cache, objects: Objects, owners: DeviceOwners, options: DeciderOptions) -> Ledger:
    """Make a ledger that follows the pods of the cache."""
    ledger = Ledger(
        cache.columns,
        nominator=cache.nominator,
        reserve_pods=cache.reserve_pods,
        reserved_devices=objects.resource_claims.reserved,
        quotas=Quotas(
            objects.reservation_quotas, objects.resource_quotas, lambda pod: devices_asked(pod, objects)
        ),
        pods_on=cache.pods_on,
        owner_with_devices=owners.waiting,
        move_after=options.move_after,
        refusal_renewal=options.refusal_renewal,
        on_failure=options.on_failure,
    )
    cache.add_observer(OccupancyObserver(ledger))
    return ledger
