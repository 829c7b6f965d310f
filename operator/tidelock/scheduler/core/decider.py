"""The serial order of decisions: what is due, then locks in line, then one pod, over one ledger.

Pure: time comes in as a parameter, and outcomes are returned for somebody else to write to the API server.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.objects import Objects
from tidelock.cluster.reserve_pods import counts_as
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.api import Api, Handle, Victims
from tidelock.framework.config import Configuration
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    RESERVATION_ACTIVE,
    RESERVATION_FREED,
    RESERVATION_LENT,
)
from tidelock.framework.extender import ExtenderAdviceData, has_advice, has_say_in_preemption
from tidelock.framework.extension_point_timer import MetricsRecorder, PluginError
from tidelock.framework.profile import Profile, build_profiles
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger import reasons
from tidelock.ledger.atomic import atomic
from tidelock.ledger.capacity.holdings import HoldingChange
from tidelock.ledger.effects import Effects
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.owners.matching import owner_names
from tidelock.ledger.queue.equivalence import scheduling_hash
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.model.failures import Attempt, OnFailure, log_failure, raise_failure
from tidelock.model.instants import earliest
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.quantities import NOTHING, covers, minus, plus
from tidelock.plugins.default_preemption import DefaultPreemption
from tidelock.plugins.extender import ExtenderAdvice
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.plugins.pod_topology_spread.plugin import PodTopologySpread
from tidelock.scheduler.core.backfill import Backfill
from tidelock.scheduler.core.bound_owners import look_for_owner
from tidelock.scheduler.core.cycle import AssumedPod, PreemptionCandidates, SchedulingCycle
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.dry_run import DryRun, DryRunResult
from tidelock.scheduler.core.gang import GangScheduler
from tidelock.scheduler.core.occupancy_observer import OccupancyObserver
from tidelock.scheduler.core.pipeline import FilterPipeline
from tidelock.scheduler.core.pod_queue import EnqueueHook, QueuedPodInfo, SchedulingQueue
from tidelock.scheduler.core.preemption import PreemptionAttempt, Preemptor
from tidelock.scheduler.core.reservation_cycle import ReservationCycle
from tidelock.scheduler.core.reservation_queue import ReservationQueue
from tidelock.scheduler.defrag.controller import DefragmentationController, MigrationTask
from tidelock.scheduler.defrag.planner import DefragmentationPlanner

# What these refuse to a lock of one namespace they may allow to one of another.
_NEIGHBOURLY = frozenset({InterPodAffinity.name, PodTopologySpread.name})

# Locks placed in one step, so that the event loop turns between the steps of a long line.
RESERVATIONS_A_STEP = 16
COMPARED_A_STEP = 2048  # pods with selectors of reservations for reuse: 10,000 take up to 60 ms
# Seconds after which a lock is tried again for which evictions were tried on some of the nodes alone.
_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """A pod that fits nowhere now, or an error for which that could not be told."""

    waiting: QueuedPodInfo
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True, eq=False)
class Consultation:
    """A pod that extenders are to be asked about, and the nodes that passed the filters.

    Until `advised` brings their answer, no other pod is decided; locks and what is due go on. The pod is then
    decided over what is true by that time, so the answer can narrow the choice and never widen it.
    """

    waiting: QueuedPodInfo
    nodes: tuple[Node, ...]
    victims: Mapping[str, Victims] | None = None
    """If it is the victims that they are to be asked about: who would have to go from which node."""
    advice: ExtenderAdviceData | None = None
    """What they have said of the pod before that."""


Outcome = AssumedPod | Unschedulable | Consultation
"""The result for one pod."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step, and the work that it leaves to a driver.

    Attributes:
        outcome: the decision about a pod, if one was made.
        effects: effects of all changes of reservations since the step before.
        preemptions: attempts to free capacity by evictions, to carry out.
        migrations: migration plans that are under way and were announced, to carry out.

    """

    outcome: Outcome | None
    effects: Effects
    preemptions: list[PreemptionAttempt]
    migrations: list[MigrationTask]


class Decider:
    """All state of the scheduler, and the next decision over it."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        epoch: int = 0,
        move_after: float = 300.0,
        earmark_after: float = 60.0,
        on_enqueue: EnqueueHook | None = None,
        api: Api | None = None,
        recorder: MetricsRecorder | None = None,
        on_failure: OnFailure = raise_failure,
    ) -> None:
        """Make everything.

        Args:
            configuration: profiles, their plugins and extenders.
            epoch: number of this leadership.
            move_after: seconds after which a lock for any node leaves a node that takes no pods.
            earmark_after: seconds after which room is kept for a lock that waits.
            on_enqueue: hears of the pods that queue.
            api: what plugins write to.
            recorder: hears how long decisions took.
            on_failure: takes the exceptions that cost a lock, a pod or a part; by default only those of
                plugins are taken, and all others get out.

        Raises:
            ConfigurationError: a profile can't be made as it is configured.

        """
        self._on_failure = on_failure
        self._on_plugin_failure = log_failure if on_failure is raise_failure else on_failure
        self._now = 0.0
        self._resting: dict[Key, None] = {}
        self._wakes: Timers[Key] = Timers()  # by the waitlist's steady time
        self._parts: dict[str, float] = {}  # those that failed, and until when: by the same time
        self.columns = Columns()
        self.cache = Cache(self.columns)
        self.objects = Objects()
        self.ledger = Ledger(
            self.columns,
            nominator=self.cache.nominator,
            reserve_pods=self.cache.reserve_pods,
            quotas=Quotas(self.objects.reservation_quotas, self.objects.resource_quotas),
            pods_on=self.cache.pods_on,
            epoch=epoch,
            move_after=move_after,
            on_failure=on_failure,
        )
        self.cache.follow(OccupancyObserver(self.ledger))
        self.waiting_pods = WaitingPods()
        self.measurements = Measurements()
        handle = Handle(self.ledger, self.cache, self.objects, api, self.waiting_pods, self.measurements)
        self.profiles = build_profiles(configuration.profiles, configuration.registry, handle)
        self.profile: Profile = next(iter(self.profiles.values()))
        self.queue = SchedulingQueue(
            self.profiles,
            on_enqueue,
            initial_backoff=configuration.initial_backoff,
            max_backoff=configuration.max_backoff,
            recorder=recorder,
            on_failure=self._on_plugin_failure,
        )
        self.pipeline = FilterPipeline(self.cache, self.ledger, recorder)
        self._preemptor = Preemptor(self.cache, self.ledger)
        self._cycle = SchedulingCycle(
            self.cache, self.pipeline, self._preemptor, self.waiting_pods, self._on_plugin_failure
        )
        self.reservation_cycle = ReservationCycle(self.cache, self.ledger, self.pipeline, self._preemptor)
        self._together = GangScheduler(self.ledger, self.reservation_cycle)
        self._pods_before_search = 0
        # Quotes and trials have pipelines of their own: their kinds of pods do not crowd out those that wait.
        self._quoting = DryRun(
            self.cache, self.ledger, FilterPipeline(self.cache, self.ledger), self._on_plugin_failure
        )
        trials = FilterPipeline(self.cache, self.ledger)
        self.moving = DefragmentationController(
            self.ledger, self.cache, DefragmentationPlanner(handle, self.profiles, trials)
        )
        self._backfill = Backfill(
            self.ledger,
            self.cache,
            ReservationCycle(self.cache, self.ledger, trials, self._preemptor),
            self.profile,
            earmark_after,
        )
        self._extenders = configuration.extenders
        self._advised_profiles = _with_advice(self.profiles, handle) if self._extenders else {}
        self._consultation: Consultation | None = None
        self._advice: ExtenderAdviceData | None = None
        self._line = ReservationQueue(self.ledger.shares.of)
        self._freed = -1
        self._refused: dict[object, Diagnosis] = {}

    def step(self, now: float) -> Step:
        """Do what is due, place a few reservations, and decide one pod."""
        outcome = self._next_outcome(now)
        return Step(outcome, self.ledger.effects.take(), self._preemptor.take(), self.moving.take())

    def _next_outcome(self, now: float) -> Outcome | None:
        self._now = now
        self.ledger.recovery.checkpoint()
        if not self.ledger.advance(now):
            return None  # decisions are made of locks none of which is over
        while self.ledger.opened:
            entry = self.ledger.opened.pop()
            with self._shielded(entry, now):
                look_for_owner(self.ledger, self.cache, entry, now)
        self._wake_rested(now)
        if self._lined_up or self._parts:
            self._step_of("line", self._place_some, now)
        if self._room_changed or self._parts:
            self._step_of("rooms", self._tell_of_room, now)
        if self._line:
            return None  # locks first: they were promised an answer at once
        if not self.moving.idle or self._parts:
            self._step_of("moves", self.moving.step, now)
        if not self._backfill.idle or self._parts:
            self._step_of("earmarks", self._backfill.step, now)
        if self._together.searching:
            self._step_of("search", self._search_on, now)
        if self._consultation is not None:
            return self._conclude(self._consultation, now)
        waiting = self.queue.pop(now)
        return None if waiting is None else self._schedule(waiting, now)

    def time(self) -> float:
        """Return the time of the last step, in seconds since the epoch."""
        return self._now

    def quote(self, pod: Pod, now: float) -> DryRunResult:
        """Tell what would become of a lock with this stand-in; nothing changes by it."""
        return self._quoting.answer(self.profile, pod, now)

    def forget(self) -> None:
        """Drop what is remembered of earlier answers; what it costs is time, and no answer changes by it."""
        self._refused.clear()
        self.pipeline.forget()
        self.ledger.waiting_reservations.forget()

    def next_due(self) -> float | None:
        """Instant at which there is something to do without any event; 0 for at once, None for never."""
        if (
            self._advice is not None
            or (self._lined_up and "line" not in self._parts)
            or (self._together.searching and "search" not in self._parts)
            or (self.ledger.holdings.shifts and "rooms" not in self._parts)
        ):
            return 0.0
        pods_due = self.queue.next_due() if self._consultation is None else None
        moves = None if "moves" in self._parts else self.moving.next_due()
        kept = None if "earmarks" in self._parts else self._backfill.next_due()
        rested = self._wakes.next()
        wakes = None if rested is None else self.ledger.waiting_reservations.steady.instant(rested)
        left_out = map(self.ledger.waiting_reservations.steady.instant, self._parts.values())
        return earliest(self.ledger.next_deadline(), moves, kept, pods_due, wakes, *left_out)

    def advised(self, consultation: Consultation, advice: ExtenderAdviceData) -> None:
        """Learn what the extenders say of a pod; nobody waits for it any more if the pod is gone."""
        if consultation is self._consultation:
            self._advice = advice

    @atomic
    def bound(self, assumed: AssumedPod, now: float) -> None:
        """Learn that a pod has been bound as decided."""
        self.queue.remove(assumed.pod.uid)
        gone = self.cache.get(assumed.pod.uid) is None
        self.ledger.claims.owner_bound(assumed.pod, assumed.node_name, now, gone=gone)

    @atomic
    def binding_failed(self, assumed: AssumedPod, now: float) -> None:
        """Learn that a pod could not be bound: its room is free, its locks are back, it tries again later."""
        self._undo(assumed, now)
        self.queue.back_off(assumed.pod.uid, now)
        self._tell_of_undoing(assumed, now)

    @atomic
    def rejected(self, assumed: AssumedPod, diagnosis: Diagnosis, now: float) -> None:
        """Learn that a pod was refused while it waited for a permit: events that may help will wake it."""
        self._undo(assumed, now)
        self.queue.park(assumed.pod.uid, now, diagnosis.plugins, diagnosis.pending)
        self._tell_of_undoing(assumed, now)

    def reject_waiting(self, uid: str) -> bool:
        """Refuse a victim that is reserved and waits for its permit; whether it did, so that it may live."""
        waiting = self.waiting_pods.get(uid)
        return waiting is not None and waiting.reject(DefaultPreemption.name, "preempted")

    def eviction_failed(self, uid: str, waiting_uid: str, now: float) -> None:
        """Learn that a victim could not be evicted: whoever waits for its room may choose again."""
        self.cache.evicting.discard(uid)
        self.columns.freed += 1
        self.queue.activate(waiting_uid, now)

    @property
    def _lined_up(self) -> bool:
        """Whether locks stand in line, or are to."""
        waiting = self.ledger.waiting_reservations
        return bool(self._line or waiting.untried or waiting.unanswered) or self._freed != self.columns.freed

    @property
    def _room_changed(self) -> bool:
        """Whether the queue is to be told of room."""
        return bool(self.ledger.holdings.shifts or self.cache.nominator.ended)

    def _place_some(self, now: float) -> None:
        """Place a few locks, as they stand in line; if that fails, all that wait are lined up anew."""
        try:
            self._line_up()
            enough = self._together.tries + RESERVATIONS_A_STEP
            compared = self.reservation_cycle.compared + COMPARED_A_STEP
            for _ in range(min(RESERVATIONS_A_STEP, len(self._line))):
                self._place(self._line.pop(), now)
                if self._together.tries >= enough or self.reservation_cycle.compared >= compared:
                    break
        except Exception:
            self._line.clear()
            self.ledger.waiting_reservations.retry(self.ledger.waiting_reservations.waiting.values())
            raise

    def _line_up(self) -> None:
        """Line up the locks that may fit: those that are new, and some of all that wait if room came free."""
        freed, waiting = self._freed != self.columns.freed, self.ledger.waiting_reservations
        if waiting.unanswered and not self._line:
            waiting.try_unanswered()
        if not (freed or waiting.untried):
            return
        if freed:
            self._freed = self.columns.freed
            self._refused.clear()
        entries = waiting.take(untried_only=not freed)
        first = self._together.first_of_each(entries)
        self._line.add(first)
        if len(first) < len(entries):
            lined_up = set(first)
            for entry in entries:
                if entry not in lined_up:  # tried with the first of its group
                    waiting.set_aside(entry)

    def _place(self, entry: ReservationInfo, now: float) -> None:
        if self.ledger.waiting_reservations.waiting.get(entry.key) is not entry:
            return
        if entry.key in self._resting:
            self.ledger.waiting_reservations.leave_out(entry)
            return
        with self._shielded(entry, now):
            self._try(entry, now)

    def _try(self, entry: ReservationInfo, now: float) -> None:
        if (group := self._together.awaited(entry)) is not None:
            self._place_together(self._together.place, group, now)
            return
        if not self.ledger.admission.within_quota(entry, now):
            self.moving.want(entry, now)
            return
        alike = scheduling_hash(entry)
        diagnosis = self._refused.get(alike)
        if diagnosis is None:
            diagnosis = self._place_anew(entry, now)
        else:
            self.reservation_cycle.refuse(entry, diagnosis, now)
        if diagnosis is not None:
            self.moving.want(entry, now)
            if diagnosis.again:
                self._rest(entry, _AGAIN)
        if diagnosis is None or diagnosis.error or alike is None:
            return
        if diagnosis.plugins.isdisjoint(_NEIGHBOURLY):
            self._refused[alike] = diagnosis

    def _place_anew(self, entry: ReservationInfo, now: float) -> Diagnosis | None:
        """Find room for a lock; if a plugin fails, that is why it has none."""
        self.ledger.recovery.checkpoint()
        with self._attempt("Reservation", entry.reservation.meta) as attempt:
            return self.reservation_cycle.place(self.profile, entry, now)
        self.ledger.recovery.recover(now)
        diagnosis = _failure(attempt.error)
        if (made := self.ledger.waiting_reservations.waiting.get(entry.key)) is not None:
            self.ledger.admission.refuse(made, reasons.PLUGIN_FAILED, diagnosis.message, now)
            self._rest(made, attempt.pause)
        return diagnosis

    def _search_on(self, now: float) -> None:
        """Try more domains for a group; by turns with pods, of which as many are decided as members tried."""
        due = self.queue.next_due()
        if self._pods_before_search > 0 and due is not None and due <= now:
            self._pods_before_search -= 1
        elif (group := self._together.next_searched()) is not None:
            before = self._together.tries
            with self._shielded(group.waiting[0], now):
                self._place_together(self._together.go_on, group, now)
            self._pods_before_search = self._together.tries - before

    def _place_together(
        self, step: Callable[[Profile, Group, float], None], group: Group, now: float
    ) -> None:
        """Find room for a group; if a plugin fails, that is why it has none."""
        self.ledger.recovery.checkpoint()
        meta = ObjectMeta(group.key.name, group.key.namespace, group.key.uid)
        with self._attempt("ReservationGroup", meta) as attempt:
            step(self.profile, group, now)
            return
        self.ledger.recovery.recover(now)
        for entry in group.waiting:
            self.ledger.admission.refuse(entry, reasons.PLUGIN_FAILED, _failure(attempt.error).message, now)
            self._rest(entry, attempt.pause)

    def _schedule(
        self, waiting: QueuedPodInfo, now: float, advice: ExtenderAdviceData | None = None
    ) -> Outcome:
        """Decide a pod, or have extenders be asked about it; the advice is about its victims alone."""
        if self._extenders and any(has_advice(extender, waiting.pod) for extender in self._extenders):
            nodes: tuple[Node, ...] = ()
            with self._attempt("Pod", waiting.pod.meta) as attempt:
                nodes = self._cycle.feasible(waiting.profile, waiting.pod, now)
            if attempt.error is not None:
                return self._give_up_for_now(waiting, attempt.error, now)
            if nodes:
                self._consultation = Consultation(waiting, nodes)
                return self._consultation
        return self._decide(waiting, waiting.profile, now, advice)

    def _decide(
        self, waiting: QueuedPodInfo, profile: Profile, now: float, advice: ExtenderAdviceData | None = None
    ) -> Outcome:
        uid = waiting.pod.uid
        ask = (advice is None or advice.victims is None) and any(
            has_say_in_preemption(extender, waiting.pod) for extender in self._extenders
        )
        self.ledger.recovery.checkpoint()
        with self._attempt("Pod", waiting.pod.meta) as attempt:
            outcome = self._cycle.schedule(profile, waiting.pod, now, advice, ask_about_victims=ask)
        if attempt.error is not None:
            return self._give_up_for_now(waiting, attempt.error, now)
        if isinstance(outcome, AssumedPod):
            if self.waiting_pods.get(uid) is None:
                self.queue.done(uid)  # what may still go wrong is no refusal
            if self._room_changed:
                self._step_of("rooms", partial(self._tell_of_room, claimed_by=outcome), now)
            return outcome
        if isinstance(outcome, PreemptionCandidates):
            self._consultation = Consultation(waiting, (), outcome.victims, advice)
            return self._consultation
        if outcome.again:
            self.queue.back_off(uid, now)
            return Unschedulable(waiting, outcome)
        # Without nodes nobody ruled one out: each filter then hopes for its own events.
        plugins = outcome.plugins | outcome.pending or {plugin.name for plugin in waiting.profile.filter}
        self.queue.park(uid, now, plugins - outcome.pending, outcome.pending)
        return Unschedulable(waiting, outcome)

    def _give_up_for_now(self, waiting: QueuedPodInfo, error: Exception, now: float) -> Outcome:
        """Have a pod whose decision failed be tried again after its backoff."""
        self.ledger.recovery.recover(now)
        self.queue.back_off(waiting.pod.uid, now)
        return Unschedulable(waiting, _failure(error))

    def _attempt(self, kind: str, meta: ObjectMeta) -> Attempt:
        """Return a context for a decision about an object, which plugins may fail to make."""
        return Attempt(partial(self._on_plugin_failure, "decision", kind, meta))

    @contextmanager
    def _shielded(self, entry: ReservationInfo, now: float) -> Iterator[None]:
        """Do a step about a lock; one for which that fails is made anew, and rests for a while."""
        with self.ledger.recovery.isolated("decision", "Reservation", entry.reservation.meta, now) as attempt:
            yield
        if (
            attempt.error is not None
            and (made := self.ledger.waiting_reservations.waiting.get(entry.key)) is not None
        ):
            self._rest(made, attempt.pause)
        self.ledger.recovery.note_fault(entry.key, attempt.error)

    def _rest(self, entry: ReservationInfo, pause: float) -> None:
        """Have a lock not be tried for some seconds."""
        if pause:
            self._resting[entry.key] = None
            self._wakes.set(entry.key, self.ledger.waiting_reservations.steady.last + pause)
            self.ledger.waiting_reservations.leave_out(entry)

    def _wake_rested(self, now: float) -> None:
        for key in self._wakes.pop_due(self.ledger.waiting_reservations.steady.at(now)):
            self._resting.pop(key, None)
            if (entry := self.ledger.waiting_reservations.waiting.get(key)) is not None:
                self.ledger.waiting_reservations.renew(entry)

    def _step_of(self, part: str, step: Callable[[float], None], now: float) -> None:
        """Have a part do its step; one that fails is left out for a while."""
        if part in self._parts:
            if self.ledger.waiting_reservations.steady.at(now) < self._parts[part]:
                return
            del self._parts[part]
        self.ledger.recovery.checkpoint()
        with Attempt(partial(self._on_failure, part, "", ObjectMeta(part))) as attempt:
            step(now)
        if attempt.error is not None:
            self.ledger.recovery.recover(now)
            self._parts[part] = self.ledger.waiting_reservations.steady.at(now) + attempt.pause

    def _conclude(self, consultation: Consultation, now: float) -> Outcome | None:
        """Decide a pod that extenders were asked about; None if they have not answered or it is gone."""
        waiting, advice = consultation.waiting, self._advice
        gone = self.queue.get(waiting.pod.uid) is not waiting
        if advice is None and not gone:
            return None
        self._consultation = self._advice = None
        if advice is None or gone:
            return None
        if consultation.victims is not None:
            if consultation.advice is None:
                return self._schedule(waiting, now, advice)
            before = consultation.advice
            advice = replace(before, victims=advice.victims, error=advice.error)
        elif advice.error:
            self.queue.back_off(waiting.pod.uid, now)
            return Unschedulable(
                waiting, Diagnosis(advice.error, frozenset({ExtenderAdvice.name}), error=True)
            )
        return self._decide(waiting, self._advised_profiles[waiting.profile.scheduler_name], now, advice)

    def _tell_of_room(self, now: float, claimed_by: AssumedPod | None = None) -> None:
        """Tell the queue of the room that locks and nominations have got, or given back to others."""
        shifts, self.ledger.holdings.shifts = self.ledger.holdings.shifts, []
        taken_over = NOTHING
        for shift in shifts:
            entry = shift.entry
            if shift.after and not covers(shift.before, shift.after):
                event = RESERVATION_LENT if entry.borrowable and entry.occupants else RESERVATION_ACTIVE
                only = owner_names(entry.key, entry.reservation.spec)
                self.queue.notify(event, None, entry, now, only=only)
            if claimed_by is not None and claimed_by.node_name == shift.node:
                given = minus(shift.before, shift.after)
                taken_over = plus(taken_over, given)  # a pod may have several locks there
                freed = not covers(claimed_by.pod.requests, taken_over)
            else:
                freed = not covers(shift.after, shift.before)
            if freed:
                self.queue.notify(RESERVATION_FREED, entry, entry, now)
            self._tell_of_neighbour(shift, now, claimed_by)
        ended, self.cache.nominator.ended = self.cache.nominator.ended, []
        for pod in ended:
            self.queue.notify(ASSIGNED_POD_DELETE, pod, None, now)

    def _tell_of_neighbour(self, shift: HoldingChange, now: float, claimed_by: AssumedPod | None) -> None:
        """Tell the queue, and locks that wait, of a reserve pod that has come or gone as a pod would."""
        pod = shift.entry.reservation.pod
        if pod is None or not pod.neighbourly or shift.entry.ahead:
            return
        if shift.after and not shift.before:
            self.queue.notify(ASSIGNED_POD_ADD, None, pod, now)
            if not self.ledger.waiting_reservations.refusers.isdisjoint(self.queue.hearers(ASSIGNED_POD_ADD)):
                self.columns.freed += 1  # going frees its room anyway
        elif shift.before and not shift.after:
            heir = claimed_by.pod if claimed_by is not None and claimed_by.node_name == shift.node else None
            if heir is None or counts_as(heir) != counts_as(pod):
                self.queue.notify(ASSIGNED_POD_DELETE, assigned_to(pod, shift.node), None, now)

    def _undo(self, assumed: AssumedPod, now: float) -> None:
        """Take a reservation of room back; the pod owns its locks yet if somebody else has bound it."""
        self._cycle.undo(assumed, now)
        self.ledger.placement.settle_unseen(assumed.node_name, now)
        placed = self.cache.get(assumed.pod.uid)
        if placed is not None:
            self.ledger.claims.claim_tentatively(placed.pod, placed.node_name, now)

    def _tell_of_undoing(self, assumed: AssumedPod, now: float) -> None:
        pod = assigned_to(assumed.pod, assumed.node_name)
        self.queue.notify(ASSIGNED_POD_DELETE, pod, None, now)


def _with_advice(profiles: Mapping[str, Profile], handle: Handle) -> dict[str, Profile]:
    """Make profiles in which the extenders have their say after all plugins."""
    plugin = ExtenderAdvice(handle, {})
    return {
        name: replace(profile, filter=(*profile.filter, plugin), score=(*profile.score, (plugin, 1)))
        for name, profile in profiles.items()
    }


def _failure(error: Exception | None) -> Diagnosis:
    """Say what went wrong; no plugin has refused anything."""
    text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
    return Diagnosis(text, frozenset(), error=True)
