"""The scheduling cycle: finds a node for a pod, or for a lock in the place of its pod, and reserves it.

Nothing here waits or does I/O, so a cycle is one step of the serial decision loop: what it reserves is
counted before the next one looks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Rows
from tidelock.cluster.index.labels import Label
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    Code,
    Counts,
    Filter,
    FilterResult,
    Mask,
    PostFilterResult,
    Scores,
    Victims,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import DecisionTime
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.framework.extension_point_timer import ExtensionPointTimer, MetricsRecorder
from tidelock.framework.own_reservations import OwnReservations, without_own_reservations
from tidelock.framework.profile import Profile
from tidelock.framework.waiting_pods import WaitingPod, WaitingPods
from tidelock.framework.whatif import (
    WhatIf,
    capacities,
    filter_with_nominated_pods,
    fitting_in_the_end,
    nominated_above,
)
from tidelock.ledger import reasons
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.matching import owns
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import Attempt, OnFailure, log_failure
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, ReservePod, pinned_to
from tidelock.model.quantities import PODS
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.scheduler.core.active_plugins import ActiveFilters
from tidelock.scheduler.core.diagnosis import (
    Diagnosis,
    count_reasons,
    diagnose,
    diagnose_plugin_rejection,
)
from tidelock.scheduler.core.equivalence_cache import EquivalenceCache, EquivalenceClass
from tidelock.scheduler.core.preemption import Preemptor, run_post_filters

_CAPACITY_PLUGINS = frozenset({NodeResourcesFit.name, ReservationPlugin.name})


@dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod that has been reserved on a node and is to be bound there."""

    pod: Pod
    node_name: str
    profile: Profile
    state: CycleState


@dataclass(frozen=True, slots=True)
class PreemptionCandidates:
    """No node fits, but evictions would help on some: extenders are to be asked about the victims first."""

    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What there is for a lock: the best node, or why there is none, and for how many nodes which reason."""

    snapshot: Snapshot
    filter_result: FilterResult
    node: Node | None = None
    diagnosis: Diagnosis | None = None
    reason: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Unfit:
    """A refusal and what it follows from."""

    diagnosis: Diagnosis
    snapshot: Snapshot
    filter_result: FilterResult


_Filtered = tuple[Snapshot, EquivalenceClass, FilterResult]
"""What passes the filters, in a snapshot."""


class SchedulingCycle:
    """Decides one pod or lock at a time over the cache and the ledger."""

    def __init__(
        self,
        cache: Cache,
        ledger: Ledger,
        waiting_pods: WaitingPods,
        recorder: MetricsRecorder | None = None,
        on_failure: OnFailure = log_failure,
    ) -> None:
        """Take what is decided over.

        Args:
            cache: the pods and nodes.
            ledger: the reservations.
            waiting_pods: pods that wait for their permits.
            recorder: hears of the decisions about pods.
            on_failure: takes the exceptions of plugins that must not keep others from being asked.

        """
        self._cache = cache
        self._ledger = ledger
        self._waiting_pods = waiting_pods
        self._recorder = recorder
        self._on_failure = on_failure
        self.preempting = Preemptor(cache, ledger)
        self._shared = EquivalenceCache(cache.columns)

    def forget(self) -> None:
        """Drop the verdicts that equal pods share."""
        self._shared = EquivalenceCache(self._cache.columns)

    def feasible(self, profile: Profile, pod: Pod, now: float) -> tuple[Node, ...]:
        """Give the nodes that pass the filters now, for others to be asked about."""
        state = _state_at(now)
        with without_own_reservations(self._ledger, pod, state), _timer(state, profile, self._recorder):
            found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            return ()
        snapshot, _, filter_result = found
        return tuple(snapshot.nodes[int(row)] for row in np.flatnonzero(filter_result.fits))

    def schedule(
        self,
        profile: Profile,
        pod: Pod,
        now: float,
        advice: ExtenderAdviceData | None = None,
        *,
        ask_about_victims: bool = False,
    ) -> AssumedPod | Diagnosis | PreemptionCandidates:
        """Find a node for a pod, reserve it there and count it as bound; it may have to wait for a permit.

        With the extenders' advice, the profile has their plugin. Where they are to be asked about victims,
        nobody is chosen yet.

        Raises:
            PluginError: a plugin failed; nothing is reserved.

        """
        state = _state_at(now)
        if advice is not None:
            state.write(advice)
        with (
            without_own_reservations(self._ledger, pod, state),
            _timer(state, profile, self._recorder) as timer,
        ):
            found = self._find(profile, pod, state)
            if isinstance(found, _Unfit):
                found = self._between(profile, pod, state, found, now, pod.gone_by(now)) or found
            if isinstance(found, _Unfit):
                result = self._seek(profile, pod, state, found)
                candidates = result.candidates() if ask_about_victims and result.candidates else {}
                if any(victims.pods for victims in candidates.values()):
                    return PreemptionCandidates(candidates)
                return _hoping(self._preempt(profile, pod, found, result, now, kind="pod"), result)
            assumed = AssumedPod(pod, found.name, profile, state)
            diagnosis: Diagnosis | None = None
            reserved = False
            try:
                diagnosis = self._reserve(assumed, timer, now) or self._permit(assumed, timer)
                reserved = diagnosis is None
            finally:
                if not reserved:
                    self.undo(assumed, now)
            return diagnosis or assumed

    def undo(self, assumed: AssumedPod, now: float) -> None:
        """Take a reservation of room back after its binding failed; the pod's nomination is used up."""
        if self._cache.forget(assumed.pod.uid):
            self._cache.nominator.nominate(assumed.pod, "")
        self._unreserve(assumed, now)

    def place_reservation(self, profile: Profile, entry: ReservationInfo, now: float) -> Diagnosis | None:
        """Find room for a lock that waits, and hold it; or note why there is none."""
        pod = _reserve_pod(entry)
        state = _state_at(now)
        state.write(OwnReservations((entry,)))
        with without_own_reservations(self._ledger, pod, state), _timer(state, profile):
            filtered = self._filter(profile, pod, state, sound_only=entry.moving)
            if isinstance(filtered, _Unfit):
                found: Node | _Unfit = filtered
            else:
                found = self._home(entry, pod, state, filtered) or self._choose(pod, state, *filtered)
            if isinstance(found, _Unfit):
                found = self._between(profile, pod, state, found, *entry.stay_from(now)) or found
            if isinstance(found, _Unfit):
                diagnosis = found.diagnosis
                if _may_preempt(entry, pod):
                    result = self._seek(profile, pod, state, found)
                    diagnosis = self._preempt(profile, pod, found, result, now, kind="reservation")
                elif entry.plan is None or not entry.plan.under_way:
                    self._cache.nominator.remove(pod.uid)
                self.refuse_reservation(entry, diagnosis, now)
                return diagnosis
        self._ledger.admit(entry, found, now)
        return None

    def find_room(
        self,
        profile: Profile,
        entry: ReservationInfo,
        now: float,
        among: Mask | None = None,
        narrow: Callable[[Mask], Mask] | None = None,
    ) -> Node | Diagnosis:
        """Find room for a lock that waits for its first, on these nodes or on any, and leave it at that.

        `narrow` leaves of the nodes that fit, if any does, those among which one is chosen.
        """
        pod, state = _reserve_pod(entry), _state_at(now)
        state.write(OwnReservations((entry,)))
        with _timer(state, profile):
            filtered = self._filter(profile, pod, state, among=among)
            if isinstance(filtered, _Unfit):
                return filtered.diagnosis
            snapshot, shared, filter_result = filtered
            if narrow is not None and filter_result.fits.any():
                filter_result = replace(filter_result, fits=narrow(filter_result.fits))
            found = self._choose(pod, state, snapshot, shared, filter_result)
        return found.diagnosis if isinstance(found, _Unfit) else found

    def capacities(self, profile: Profile, entry: ReservationInfo, now: float) -> Counts:
        """Tell for each node how many locks like one that waits for its first room it could take at most."""
        pod, state = _reserve_pod(entry), _state_at(now)
        state.write(OwnReservations((entry,)))
        with _timer(state, profile):
            found = self._filter(profile, pod, state)
            snapshot, filter_result = (
                (found.snapshot, found.filter_result) if isinstance(found, _Unfit) else found[::2]
            )
            counts = capacities(filter_result.filters, state, pod, snapshot)
            return np.where(fitting_in_the_end(filter_result, state, pod, snapshot), counts, 0)

    def would_fit(self, profile: Profile, entry: ReservationInfo, now: float) -> Mask:
        """Tell which nodes a lock that waits would fit if they were empty, of those that lack room for it."""
        pod, state = _reserve_pod(entry), _state_at(now)
        state.write(OwnReservations((entry,)))
        with _timer(state, profile):
            found = self._filter(profile, pod, state)
            if isinstance(found, _Unfit):
                return found.filter_result.fits
            snapshot, _, filter_result = found
            fits = np.zeros(len(snapshot), np.bool_)
            rows = _short_of_room(filter_result, snapshot).nonzero()[0]
            whatif = WhatIf(filter_result.filters, state, pod, snapshot, rows)
            whatif.empty()
            fits[rows[whatif.judge().fits]] = True
        return fits

    def label(self, key: str) -> Label:
        """Give a label of the nodes by its key."""
        return self._cache.columns.labels.of(key)

    def rows(self, names: Iterable[str]) -> Rows:
        """Give the rows of nodes by their names, of those that there are."""
        row_of = self._cache.columns.row_of
        return np.array([row_of[name] for name in names if name in row_of], np.intp)

    def survey(self, profile: Profile, pod: Pod, state: CycleState) -> Evaluation:
        """Find the best node for a lock by its stand-in, and do nothing about it."""
        found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            reason = self._reason(pod, found.diagnosis)
            return Evaluation(found.snapshot, found.filter_result, diagnosis=found.diagnosis, reason=reason)
        snapshot, shared, filter_result = found
        chosen = self._choose(pod, state, snapshot, shared, filter_result)
        if isinstance(chosen, Node):
            return Evaluation(snapshot, filter_result, chosen)
        counts = count_reasons(filter_result, state, pod, snapshot)
        reason = self._reason(pod, chosen.diagnosis)
        return Evaluation(snapshot, filter_result, None, chosen.diagnosis, reason, counts)

    def judge(self, profile: Profile, pod: Pod, state: CycleState) -> tuple[Snapshot, FilterResult]:
        """Tell which nodes a pod fits now, and leave it at that."""
        with without_own_reservations(self._ledger, pod, state):
            found = self._filter(profile, pod, state)
        return (found.snapshot, found.filter_result) if isinstance(found, _Unfit) else (found[0], found[2])

    def prefer(
        self, profile: Profile, pod: Pod, state: CycleState, snapshot: Snapshot, filter_result: FilterResult
    ) -> Node | None:
        """Give the best of the nodes that fit."""
        chosen = self._choose(pod, state, snapshot, self._shared.of(profile, pod), filter_result)
        return chosen if isinstance(chosen, Node) else None

    def refuse_reservation(self, entry: ReservationInfo, diagnosis: Diagnosis, now: float) -> None:
        """Note why a lock has no room."""
        self._ledger.refuse(entry, self.reason(entry, diagnosis), diagnosis.message, now, diagnosis.plugins)

    def reason(self, entry: ReservationInfo, diagnosis: Diagnosis) -> str:
        """Name the cause for which a lock that waits has no room, for programs."""
        return self._reason(_reserve_pod(entry), diagnosis)

    def _home(self, entry: ReservationInfo, pod: Pod, state: CycleState, filtered: _Filtered) -> Node | None:
        """Find the node of owners of a lock for reuse, if it fits there beside what they use of its room."""
        if not entry.sticky or entry.ahead or entry.reservation.spec is None:
            return None
        snapshot, _, filter_result = filtered
        kept = nominated_above(self._cache.nominator, state, pod, snapshot)
        spec, namespace = entry.reservation.spec, entry.key.namespace
        placed = [each for each in self._cache.pods_in(namespace) if owns(spec, each.pod)]
        # Of one that is being bound the room is to be another lock's again if that fails.
        names = {each.node_name for each in placed} - {each.node_name for each in placed if each.assumed}
        for name in sorted(names, key=lambda name: (name != entry.node, name)):
            row = snapshot.row(name)
            credit = self._ledger.holdings.credit(entry, name, entry.reservation.requests)
            if row is None or not credit or row in kept:
                continue
            if entry.moving and not snapshot.nodes[row].sound:
                continue
            whatif = WhatIf(filter_result.filters, state, pod, snapshot, np.array([row]))
            whatif.release(0, credit)
            whatif.remove(0, (each for each in placed if each.node_name == name))
            if whatif.judge().fits.all():
                return snapshot.nodes[row]
        return None

    def _between(
        self, profile: Profile, pod: Pod, state: CycleState, unfit: _Unfit, begin: float, end: float
    ) -> Node | None:
        """Find a node with room from one instant until before another, where none has it for ever."""
        timeline, snapshot, now = (
            self._ledger.holdings.timeline,
            unfit.snapshot,
            state.expect(DecisionTime).now,
        )
        if not timeline or (begin <= now and end == inf):
            return None
        short = _short_of_room(unfit.filter_result, snapshot)
        rows, relief = timeline.relief(begin, end, now)
        rows, relief = rows[short[rows]], relief[short[rows]]
        if not len(rows):
            return None
        whatif = WhatIf(unfit.filter_result.filters, state, pod, snapshot, rows)
        whatif.relieve(relief)
        fits = np.zeros(len(snapshot), np.bool_)
        fits[rows[whatif.judge().fits]] = True
        fits[list(nominated_above(self._cache.nominator, state, pod, snapshot))] = False
        return self.prefer(profile, pod, state, snapshot, replace(unfit.filter_result, fits=fits))

    def _find(self, profile: Profile, pod: Pod, state: CycleState) -> Node | _Unfit:
        """Find the best node."""
        found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            return found
        return self._choose(pod, state, *found)

    def _choose(
        self,
        pod: Pod,
        state: CycleState,
        snapshot: Snapshot,
        shared: EquivalenceClass,
        filter_result: FilterResult,
    ) -> Node | _Unfit:
        """Choose among the nodes that fit."""
        everywhere = np.count_nonzero(filter_result.fits) == len(snapshot)  # the common case: nothing to pick
        rows = snapshot.indexes if everywhere else filter_result.fits.nonzero()[0]
        if not len(rows):
            return _Unfit(diagnose(filter_result, state, pod, snapshot), snapshot, filter_result)
        nominated = self._cache.nominator.node_of(pod.uid)
        if nominated and (row := snapshot.row(nominated)) is not None and filter_result.fits[row]:
            return snapshot.nodes[row]
        if len(rows) == 1:  # nothing to compare, so nobody is asked, as in kube-scheduler
            return snapshot.nodes[int(rows[0])]
        scores = _run_scores(state, pod, snapshot, shared, rows)
        return snapshot.nodes[_best(scores, rows, snapshot)]

    def _filter(
        self,
        profile: Profile,
        pod: Pod,
        state: CycleState,
        *,
        sound_only: bool = False,
        among: Mask | None = None,
    ) -> _Filtered | _Unfit:
        """Run PreFilter and Filter over a snapshot of now, `among` some nodes or all.

        `sound_only` leaves out nodes from which a lock would have to move again.
        """
        snapshot = self._cache.snapshot()
        shared = self._shared.of(profile, pod)
        skipped: list[str] = []
        silent: list[str] = []
        sharing: list[str] = []
        barred: list[tuple[Filter, Mask]] = []
        timer = state.expect(ExtensionPointTimer)
        timer.enter("PreFilter")
        for plugin in shared.plan.pre_filter:
            timer.ask(plugin)
            status = plugin.pre_filter(state, pod, snapshot)
            code = timer.code = status.code
            if code is Code.SKIP:
                (silent if status.cacheable else skipped).append(plugin.name)
            elif code is Code.SUCCESS:
                if status.cacheable:
                    sharing.append(plugin.name)
                allowed = plugin.allowed(state, pod, snapshot)
                if allowed is not None and isinstance(plugin, Filter):
                    barred.append((plugin, ~allowed))
            elif code is Code.ERROR:
                raise timer.fail(plugin, status.reasons)
            else:
                timer.leave(code)
                text = f"0/{len(snapshot)} nodes are available: {'; '.join(status.reasons)}."
                nowhere = FilterResult(np.zeros(len(snapshot), np.bool_), (), ())
                return _Unfit(Diagnosis(text, frozenset({plugin.name})), snapshot, nowhere)
        if silent:
            shared.plan = shared.plan.without(filters=tuple(silent))
        timer.enter("Filter")
        filters = shared.plan.filters(tuple(skipped), tuple(sharing))
        eligible = _sound(snapshot) if sound_only else among
        filter_result = _run_filters(filters, state, pod, snapshot, shared, timer, eligible, barred)
        filter_result = filter_with_nominated_pods(filter_result, self._cache.nominator, state, pod, snapshot)
        timer.leave(Code.SUCCESS)
        return snapshot, shared, filter_result

    def _reserve(self, assumed: AssumedPod, timer: ExtensionPointTimer, now: float) -> Diagnosis | None:
        timer.enter("Reserve")
        self._cache.assume(assumed.pod, assumed.node_name, now)
        for plugin in assumed.profile.reserve:
            timer.ask(plugin)
            status = plugin.reserve(assumed.state, assumed.pod, assumed.node_name, now)
            timer.code = status.code
            if not status.ok:
                diagnosis = diagnose_plugin_rejection("Reserve", plugin.name, status)
                timer.leave(status.code)
                return diagnosis
        return None

    def _permit(self, assumed: AssumedPod, timer: ExtensionPointTimer) -> Diagnosis | None:
        timer.enter("Permit")
        waits: dict[str, float] = {}
        for plugin in assumed.profile.permit:
            timer.ask(plugin)
            status, seconds = plugin.permit(assumed.state, assumed.pod, assumed.node_name)
            timer.code = status.code
            if status.code is Code.WAIT:
                waits[plugin.name] = seconds
            elif not status.ok:
                diagnosis = diagnose_plugin_rejection("Permit", plugin.name, status)
                timer.leave(status.code)
                return diagnosis
        timer.leave(Code.WAIT if waits else Code.SUCCESS)
        if waits:
            self._waiting_pods.add(WaitingPod(assumed.pod, assumed.node_name, waits))
        return None

    def _seek(self, profile: Profile, pod: Pod, state: CycleState, unfit: _Unfit) -> PostFilterResult:
        """Look where room could be made."""
        timer = state.expect(ExtensionPointTimer)
        timer.enter("PostFilter")
        result = run_post_filters(profile, state, pod, unfit.snapshot, unfit.filter_result)
        timer.leave(result.status.code)
        return result

    def _preempt(
        self, profile: Profile, pod: Pod, unfit: _Unfit, result: PostFilterResult, now: float, *, kind: str
    ) -> Diagnosis:
        """Make room where it was found that it could be, and say in the refusal what came of it."""
        self.preempting.conclude(profile, pod, result, now, kind=kind)
        message = " ".join((unfit.diagnosis.message, *result.status.reasons))
        return replace(unfit.diagnosis, message=message, again=result.unfinished)

    def _unreserve(self, assumed: AssumedPod, now: float) -> None:
        with ExtensionPointTimer(assumed.profile.scheduler_name, self._recorder) as timer:
            timer.enter("Unreserve")
            for plugin in reversed(assumed.profile.reserve):
                timer.ask(plugin)
                with Attempt(partial(self._on_failure, "unreserve", "Pod", assumed.pod.meta)):
                    plugin.unreserve(assumed.state, assumed.pod, assumed.node_name, now)

    def _reason(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """Name the cause for which a lock has no room, for programs."""
        columns = self._cache.columns
        row = columns.row_of.get(pod.spec.node_name)
        if pod.spec.node_name and row is None:
            return reasons.NODE_NOT_FOUND
        if diagnosis.plugins & _CAPACITY_PLUGINS:
            return reasons.INSUFFICIENT_CAPACITY
        if row is not None and NodeUnschedulable.name in diagnosis.plugins:
            return reasons.NODE_CORDONED
        if row is not None and TaintToleration.name in diagnosis.plugins and not columns.nodes[row].ready:
            return reasons.NODE_NOT_READY
        return reasons.NO_MATCHING_NODE


def _state_at(now: float) -> CycleState:
    """Begin the state of a decision."""
    state = CycleState()
    state.write(DecisionTime(now))
    return state


def _timer(
    state: CycleState, profile: Profile, recorder: MetricsRecorder | None = None
) -> ExtensionPointTimer:
    """Begin a decision, and note it in its state."""
    timer = ExtensionPointTimer(profile.scheduler_name, recorder)
    state.write(timer)
    return timer


def _hoping(diagnosis: Diagnosis, result: PostFilterResult) -> Diagnosis:
    """Have a pod that evictions don't help because of locks wait for these to go, too.

    What else hinders evictions does not wake pods in kube-scheduler either.
    """
    return replace(diagnosis, plugins=diagnosis.plugins | (result.obstacles & {ReservationPlugin.name}))


def _reserve_pod(entry: ReservationInfo) -> ReservePod:
    """Give the pod as which a waiting lock is placed; one that only grows stays where it is."""
    pod = entry.reservation.pod
    if pod is None:
        raise ValueError(f"{entry.key} waits for room, but its spec cannot be read")
    return pinned_to(pod, entry.node) if entry.growing and not entry.moving else pod


def _may_preempt(entry: ReservationInfo, pod: Pod) -> bool:
    """Whether a lock may have others evicted: as its spec says, while it waits for its first room."""
    spec = entry.reservation.spec
    waits = entry.phase is Phase.PENDING and not entry.ahead
    waits = waits and spec is not None and spec.pending_deadline_seconds > 0
    return waits and pod.spec.may_preempt


def _short_of_room(filter_result: FilterResult, snapshot: Snapshot) -> Mask:
    """Tell which nodes are ruled out as they have too little left of something."""
    short = np.zeros(len(snapshot), np.bool_)
    for plugin, mask in filter_result.ruled_out:
        if plugin.name in _CAPACITY_PLUGINS:
            short |= mask
    return short


def _sound(snapshot: Snapshot) -> Mask:
    return np.fromiter((node.sound for node in snapshot.nodes), np.bool_, len(snapshot))


def _run_filters(
    filters: ActiveFilters,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    shared: EquivalenceClass,
    timer: ExtensionPointTimer,
    eligible: Mask | None,
    barred: list[tuple[Filter, Mask]],
) -> FilterResult:
    """Run filters until no node is left: first those whose verdict equal pods share.

    Nodes that are barred by a plugin's PreFilter count as ruled out by it before any filter.
    """
    left = eligible
    ruled_out: list[tuple[Filter, Mask]] = []
    for plugin, mask in barred:
        ruled_out.append((plugin, _among(left, mask)))
        left = _among(left, ~mask)
    rejecters = shared.rejecters(filters.sharing, state, pod, snapshot, timer)
    mask = rejecters < 0
    if np.count_nonzero(mask) < len(mask):
        ruled_out += [
            (plugin, _among(left, rejecters == index)) for index, plugin in enumerate(filters.sharing)
        ]
    fits = _among(left, mask)
    for plugin in filters.others:
        if not fits.any():
            break
        timer.ask(plugin)
        mask = plugin.filter(state, pod, snapshot)
        ruled_out.append((plugin, fits & ~mask))
        fits = fits & mask
    return FilterResult(fits, tuple(ruled_out), filters.judging)


def _among(left: Mask | None, mask: Mask) -> Mask:
    """Narrow a mask down to the nodes that are left; None are all."""
    return mask if left is None else left & mask


def _run_scores(
    state: CycleState, pod: Pod, snapshot: Snapshot, shared: EquivalenceClass, rows: Rows
) -> Scores:
    """Sum the weighted scores of the nodes that fit."""
    timer = state.expect(ExtensionPointTimer)
    timer.enter("PreScore")
    skipped: list[str] = []
    silent: list[str] = []
    for looking in shared.plan.pre_score:
        timer.ask(looking)
        status = looking.pre_score(state, pod, snapshot, rows)
        code = timer.code = status.code
        if code is Code.SKIP:
            (silent if status.cacheable else skipped).append(looking.name)
        elif code is not Code.SUCCESS:
            raise timer.fail(looking, status.reasons)
    if silent:
        shared.plan = shared.plan.without(scorers=tuple(silent))
    timer.enter("Score")
    scorers = shared.plan.scorers(tuple(skipped))
    total = shared.total(scorers.summed, state, pod, snapshot, timer)
    total = total if rows is snapshot.indexes else total[rows]
    for plugin, weight in scorers.others:
        if plugin.per_node:
            scores = shared.total(((plugin, 1),), state, pod, snapshot, timer)
            scores = scores if rows is snapshot.indexes else scores[rows]
        else:
            timer.ask(plugin)
            scores = plugin.score(state, pod, snapshot, rows)
        total = total + weight * plugin.normalize(state, pod, scores)
    timer.leave(Code.SUCCESS)
    return total


def _best(scores: Scores, rows: Rows, snapshot: Snapshot) -> int:
    """Row of the highest score; among equals, of the node with the fewest pods, then whose name sorts first.

    kube-scheduler draws among equals, which spreads pods too; this way the same is decided again.
    """
    ties = (scores == scores[scores.argmax()]).nonzero()[0]
    ties = ties if rows is snapshot.indexes else rows[ties]
    pods = snapshot.requested[ties, snapshot.column(PODS)]
    return int(ties[(pods * len(snapshot) + snapshot.traits.name_rank[ties]).argmin()])
