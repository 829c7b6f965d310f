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
    Mask,
    PostFilterResult,
    Scores,
    Verdict,
    Victims,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.decision_time import Moment
from tidelock.framework.extender import Advice
from tidelock.framework.extension_point_timer import Course, Recorder
from tidelock.framework.own_reservations import OwnLocks, apart_from_own
from tidelock.framework.profile import Profile
from tidelock.framework.waiting_pods import WaitingPod, WaitingPods
from tidelock.framework.whatif import WhatIf, capacities, fitting_in_the_end, rivals_of, yielding
from tidelock.ledger import reasons
from tidelock.ledger.ledger import Book
from tidelock.ledger.owners.matching import owns
from tidelock.ledger.reservation_info import Entry
from tidelock.model.api.reservation import Phase
from tidelock.model.failures import Attempt, OnFailure, log_failure
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, ReservePod, pinned_to
from tidelock.model.quantities import PODS
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.reservation.plugin import Reservation
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.scheduler.core.active_plugins import Filters
from tidelock.scheduler.core.diagnosis import Refusal, explain, tallied, turned_down
from tidelock.scheduler.core.equivalence_cache import SharedVerdicts, Verdicts
from tidelock.scheduler.core.preemption import Preempting, seek

_CAPACITY_PLUGINS = frozenset({NodeResourcesFit.name, Reservation.name})


@dataclass(frozen=True, slots=True)
class Assumed:
    """A pod that has been reserved on a node and is to be bound there."""

    pod: Pod
    node_name: str
    profile: Profile
    state: CycleState


@dataclass(frozen=True, slots=True)
class Candidates:
    """No node fits, but evictions would help on some: extenders are to be asked about the victims first."""

    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is for a lock: the best node, or why there is none, and for how many nodes which reason."""

    snapshot: Snapshot
    verdict: Verdict
    node: Node | None = None
    refusal: Refusal | None = None
    reason: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Unfit:
    """A refusal and what it follows from."""

    refusal: Refusal
    snapshot: Snapshot
    verdict: Verdict


_Filtered = tuple[Snapshot, Verdicts, Verdict]
"""What passes the filters, in a snapshot."""


class Cycle:
    """Decides one pod or lock at a time over the cache and the ledger."""

    def __init__(
        self,
        cache: Cache,
        book: Book,
        waiting_pods: WaitingPods,
        recorder: Recorder | None = None,
        on_failure: OnFailure = log_failure,
    ) -> None:
        """Take what is decided over.

        Args:
            cache: the pods and nodes.
            book: the ledger.
            waiting_pods: pods that wait for their permits.
            recorder: hears of the decisions about pods.
            on_failure: takes the exceptions of plugins that must not keep others from being asked.

        """
        self._cache = cache
        self._book = book
        self._waiting_pods = waiting_pods
        self._recorder = recorder
        self._on_failure = on_failure
        self.preempting = Preempting(cache, book)
        self._shared = SharedVerdicts(cache.columns)

    def feasible(self, profile: Profile, pod: Pod, now: float) -> tuple[Node, ...]:
        """Give the nodes that pass the filters now, for others to be asked about."""
        state = _state_at(now)
        with apart_from_own(self._book, pod, state), _course(state, profile, self._recorder):
            found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            return ()
        snapshot, _, verdict = found
        return tuple(snapshot.nodes[int(row)] for row in np.flatnonzero(verdict.fits))

    def schedule(
        self,
        profile: Profile,
        pod: Pod,
        now: float,
        advice: Advice | None = None,
        *,
        ask_about_victims: bool = False,
    ) -> Assumed | Refusal | Candidates:
        """Find a node for a pod, reserve it there and count it as bound; it may have to wait for a permit.

        With the extenders' advice, the profile has their plugin. Where they are to be asked about victims,
        nobody is chosen yet.

        Raises:
            PluginError: a plugin failed; nothing is reserved.

        """
        state = _state_at(now)
        if advice is not None:
            state.write(advice)
        with apart_from_own(self._book, pod, state), _course(state, profile, self._recorder) as course:
            found = self._find(profile, pod, state)
            if isinstance(found, _Unfit):
                found = self._between(profile, pod, state, found, now, pod.gone_by(now)) or found
            if isinstance(found, _Unfit):
                result = self._seek(profile, pod, state, found)
                candidates = result.candidates() if ask_about_victims and result.candidates else {}
                if any(victims.pods for victims in candidates.values()):
                    return Candidates(candidates)
                return _hoping(self._preempt(profile, pod, found, result, now, kind="pod"), result)
            assumed = Assumed(pod, found.name, profile, state)
            refusal: Refusal | None = None
            reserved = False
            try:
                refusal = self._reserve(assumed, course, now) or self._permit(assumed, course)
                reserved = refusal is None
            finally:
                if not reserved:
                    self.undo(assumed, now)
            return refusal or assumed

    def undo(self, assumed: Assumed, now: float) -> None:
        """Take a reservation of room back after its binding failed; the pod's nomination is used up."""
        if self._cache.forget(assumed.pod.uid):
            self._cache.nominator.nominate(assumed.pod, "")
        self._unreserve(assumed, now)

    def place_lock(self, profile: Profile, entry: Entry, now: float) -> Refusal | None:
        """Find room for a lock that waits, and hold it; or note why there is none."""
        pod = _stand_in(entry)
        state = _state_at(now)
        state.write(OwnLocks((entry,)))
        with apart_from_own(self._book, pod, state), _course(state, profile):
            filtered = self._filter(profile, pod, state, sound_only=entry.moving)
            if isinstance(filtered, _Unfit):
                found: Node | _Unfit = filtered
            else:
                found = self._home(entry, pod, state, filtered) or self._choose(pod, state, *filtered)
            if isinstance(found, _Unfit):
                found = self._between(profile, pod, state, found, *entry.stay_from(now)) or found
            if isinstance(found, _Unfit):
                refusal = found.refusal
                if _may_preempt(entry, pod):
                    result = self._seek(profile, pod, state, found)
                    refusal = self._preempt(profile, pod, found, result, now, kind="reservation")
                elif entry.plan is None or not entry.plan.under_way:
                    self._cache.nominator.remove(pod.uid)
                self.refuse_lock(entry, refusal, now)
                return refusal
        self._book.admit(entry, found, now)
        return None

    def find_room(
        self,
        profile: Profile,
        entry: Entry,
        now: float,
        among: Mask | None = None,
        narrow: Callable[[Mask], Mask] | None = None,
    ) -> Node | Refusal:
        """Find room for a lock that waits for its first, on these nodes or on any, and leave it at that.

        `narrow` leaves of the nodes that fit, if any does, those among which one is chosen.
        """
        pod, state = _stand_in(entry), _state_at(now)
        state.write(OwnLocks((entry,)))
        with _course(state, profile):
            filtered = self._filter(profile, pod, state, among=among)
            if isinstance(filtered, _Unfit):
                return filtered.refusal
            snapshot, shared, verdict = filtered
            if narrow is not None and verdict.fits.any():
                verdict = replace(verdict, fits=narrow(verdict.fits))
            found = self._choose(pod, state, snapshot, shared, verdict)
        return found.refusal if isinstance(found, _Unfit) else found

    def capacities(self, profile: Profile, entry: Entry, now: float) -> Counts:
        """Tell for each node how many locks like one that waits for its first room it could take at most."""
        pod, state = _stand_in(entry), _state_at(now)
        state.write(OwnLocks((entry,)))
        with _course(state, profile):
            found = self._filter(profile, pod, state)
            snapshot, verdict = (found.snapshot, found.verdict) if isinstance(found, _Unfit) else found[::2]
            counts = capacities(verdict.filters, state, pod, snapshot)
            return np.where(fitting_in_the_end(verdict, state, pod, snapshot), counts, 0)

    def would_fit(self, profile: Profile, entry: Entry, now: float) -> Mask:
        """Tell which nodes a lock that waits would fit if they were empty, of those that lack room for it."""
        pod, state = _stand_in(entry), _state_at(now)
        state.write(OwnLocks((entry,)))
        with _course(state, profile):
            found = self._filter(profile, pod, state)
            if isinstance(found, _Unfit):
                return found.verdict.fits
            snapshot, _, verdict = found
            fits = np.zeros(len(snapshot), np.bool_)
            rows = _short_of_room(verdict, snapshot).nonzero()[0]
            whatif = WhatIf(verdict.filters, state, pod, snapshot, rows)
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

    def survey(self, profile: Profile, pod: Pod, state: CycleState) -> Survey:
        """Find the best node for a lock by its stand-in, and do nothing about it."""
        found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            reason = self._reason(pod, found.refusal)
            return Survey(found.snapshot, found.verdict, refusal=found.refusal, reason=reason)
        snapshot, shared, verdict = found
        chosen = self._choose(pod, state, snapshot, shared, verdict)
        if isinstance(chosen, Node):
            return Survey(snapshot, verdict, chosen)
        counts = tallied(verdict, state, pod, snapshot)
        reason = self._reason(pod, chosen.refusal)
        return Survey(snapshot, verdict, None, chosen.refusal, reason, counts)

    def judge(self, profile: Profile, pod: Pod, state: CycleState) -> tuple[Snapshot, Verdict]:
        """Tell which nodes a pod fits now, and leave it at that."""
        with apart_from_own(self._book, pod, state):
            found = self._filter(profile, pod, state)
        return (found.snapshot, found.verdict) if isinstance(found, _Unfit) else (found[0], found[2])

    def prefer(
        self, profile: Profile, pod: Pod, state: CycleState, snapshot: Snapshot, verdict: Verdict
    ) -> Node | None:
        """Give the best of the nodes that fit."""
        chosen = self._choose(pod, state, snapshot, self._shared.of(profile, pod), verdict)
        return chosen if isinstance(chosen, Node) else None

    def refuse_lock(self, entry: Entry, refusal: Refusal, now: float) -> None:
        """Note why a lock has no room."""
        self._book.refuse(entry, self.reason(entry, refusal), refusal.message, now, refusal.plugins)

    def reason(self, entry: Entry, refusal: Refusal) -> str:
        """Name the cause for which a lock that waits has no room, for programs."""
        return self._reason(_stand_in(entry), refusal)

    def _home(self, entry: Entry, pod: Pod, state: CycleState, filtered: _Filtered) -> Node | None:
        """Find the node of owners of a lock for reuse, if it fits there beside what they use of its room."""
        if not entry.sticky or entry.ahead or entry.reservation.spec is None:
            return None
        snapshot, _, verdict = filtered
        kept = rivals_of(self._cache.nominator, state, pod, snapshot)
        spec, namespace = entry.reservation.spec, entry.key.namespace
        placed = [each for each in self._cache.pods_in(namespace) if owns(spec, each.pod)]
        # Of one that is being bound the room is to be another lock's again if that fails.
        names = {each.node_name for each in placed} - {each.node_name for each in placed if each.assumed}
        for name in sorted(names, key=lambda name: (name != entry.node, name)):
            row = snapshot.row(name)
            credit = self._book.rooms.credit(entry, name, entry.reservation.requests)
            if row is None or not credit or row in kept:
                continue
            if entry.moving and not snapshot.nodes[row].sound:
                continue
            whatif = WhatIf(verdict.filters, state, pod, snapshot, np.array([row]))
            whatif.release(0, credit)
            whatif.remove(0, (each for each in placed if each.node_name == name))
            if whatif.judge().fits.all():
                return snapshot.nodes[row]
        return None

    def _between(
        self, profile: Profile, pod: Pod, state: CycleState, unfit: _Unfit, begin: float, end: float
    ) -> Node | None:
        """Find a node with room from one instant until before another, where none has it for ever."""
        timeline, snapshot, now = self._book.rooms.timeline, unfit.snapshot, state.expect(Moment).now
        if not timeline or (begin <= now and end == inf):
            return None
        short = _short_of_room(unfit.verdict, snapshot)
        rows, relief = timeline.relief(begin, end, now)
        rows, relief = rows[short[rows]], relief[short[rows]]
        if not len(rows):
            return None
        whatif = WhatIf(unfit.verdict.filters, state, pod, snapshot, rows)
        whatif.relieve(relief)
        fits = np.zeros(len(snapshot), np.bool_)
        fits[rows[whatif.judge().fits]] = True
        fits[list(rivals_of(self._cache.nominator, state, pod, snapshot))] = False
        return self.prefer(profile, pod, state, snapshot, replace(unfit.verdict, fits=fits))

    def _find(self, profile: Profile, pod: Pod, state: CycleState) -> Node | _Unfit:
        """Find the best node."""
        found = self._filter(profile, pod, state)
        if isinstance(found, _Unfit):
            return found
        return self._choose(pod, state, *found)

    def _choose(
        self, pod: Pod, state: CycleState, snapshot: Snapshot, shared: Verdicts, verdict: Verdict
    ) -> Node | _Unfit:
        """Choose among the nodes that fit."""
        everywhere = np.count_nonzero(verdict.fits) == len(snapshot)  # the common case: nothing to pick
        rows = snapshot.indexes if everywhere else verdict.fits.nonzero()[0]
        if not len(rows):
            return _Unfit(explain(verdict, state, pod, snapshot), snapshot, verdict)
        nominated = self._cache.nominator.node_of(pod.uid)
        if nominated and (row := snapshot.row(nominated)) is not None and verdict.fits[row]:
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
        course = state.expect(Course)
        course.enter("PreFilter")
        for plugin in shared.plan.pre_filter:
            course.ask(plugin)
            status = plugin.pre_filter(state, pod, snapshot)
            code = course.code = status.code
            if code is Code.SKIP:
                (silent if status.alike else skipped).append(plugin.name)
            elif code is Code.SUCCESS:
                if status.alike:
                    sharing.append(plugin.name)
                allowed = plugin.allowed(state, pod, snapshot)
                if allowed is not None and isinstance(plugin, Filter):
                    barred.append((plugin, ~allowed))
            elif code is Code.ERROR:
                raise course.fail(plugin, status.reasons)
            else:
                course.leave(code)
                text = f"0/{len(snapshot)} nodes are available: {'; '.join(status.reasons)}."
                nowhere = Verdict(np.zeros(len(snapshot), np.bool_), (), ())
                return _Unfit(Refusal(text, frozenset({plugin.name})), snapshot, nowhere)
        if silent:
            shared.plan = shared.plan.without(filters=tuple(silent))
        course.enter("Filter")
        filters = shared.plan.filters(tuple(skipped), tuple(sharing))
        eligible = _sound(snapshot) if sound_only else among
        verdict = _run_filters(filters, state, pod, snapshot, shared, course, eligible, barred)
        verdict = yielding(verdict, self._cache.nominator, state, pod, snapshot)
        course.leave(Code.SUCCESS)
        return snapshot, shared, verdict

    def _reserve(self, assumed: Assumed, course: Course, now: float) -> Refusal | None:
        course.enter("Reserve")
        self._cache.assume(assumed.pod, assumed.node_name, now)
        for plugin in assumed.profile.reserve:
            course.ask(plugin)
            status = plugin.reserve(assumed.state, assumed.pod, assumed.node_name, now)
            course.code = status.code
            if not status.ok:
                refusal = turned_down("Reserve", plugin.name, status)
                course.leave(status.code)
                return refusal
        return None

    def _permit(self, assumed: Assumed, course: Course) -> Refusal | None:
        course.enter("Permit")
        waits: dict[str, float] = {}
        for plugin in assumed.profile.permit:
            course.ask(plugin)
            status, seconds = plugin.permit(assumed.state, assumed.pod, assumed.node_name)
            course.code = status.code
            if status.code is Code.WAIT:
                waits[plugin.name] = seconds
            elif not status.ok:
                refusal = turned_down("Permit", plugin.name, status)
                course.leave(status.code)
                return refusal
        course.leave(Code.WAIT if waits else Code.SUCCESS)
        if waits:
            self._waiting_pods.add(WaitingPod(assumed.pod, assumed.node_name, waits))
        return None

    def _seek(self, profile: Profile, pod: Pod, state: CycleState, unfit: _Unfit) -> PostFilterResult:
        """Look where room could be made."""
        course = state.expect(Course)
        course.enter("PostFilter")
        result = seek(profile, state, pod, unfit.snapshot, unfit.verdict)
        course.leave(result.status.code)
        return result

    def _preempt(
        self, profile: Profile, pod: Pod, unfit: _Unfit, result: PostFilterResult, now: float, *, kind: str
    ) -> Refusal:
        """Make room where it was found that it could be, and say in the refusal what came of it."""
        self.preempting.conclude(profile, pod, result, now, kind=kind)
        message = " ".join((unfit.refusal.message, *result.status.reasons))
        return replace(unfit.refusal, message=message, again=result.unfinished)

    def _unreserve(self, assumed: Assumed, now: float) -> None:
        with Course(assumed.profile.scheduler_name, self._recorder) as course:
            course.enter("Unreserve")
            for plugin in reversed(assumed.profile.reserve):
                course.ask(plugin)
                with Attempt(partial(self._on_failure, "unreserve", "Pod", assumed.pod.meta)):
                    plugin.unreserve(assumed.state, assumed.pod, assumed.node_name, now)

    def _reason(self, pod: Pod, refusal: Refusal) -> str:
        """Name the cause for which a lock has no room, for programs."""
        columns = self._cache.columns
        row = columns.row_of.get(pod.spec.node_name)
        if pod.spec.node_name and row is None:
            return reasons.NODE_NOT_FOUND
        if refusal.plugins & _CAPACITY_PLUGINS:
            return reasons.INSUFFICIENT_CAPACITY
        if row is not None and NodeUnschedulable.name in refusal.plugins:
            return reasons.NODE_CORDONED
        if row is not None and TaintToleration.name in refusal.plugins and not columns.nodes[row].ready:
            return reasons.NODE_NOT_READY
        return reasons.NO_MATCHING_NODE


def _state_at(now: float) -> CycleState:
    """Begin the state of a decision."""
    state = CycleState()
    state.write(Moment(now))
    return state


def _course(state: CycleState, profile: Profile, recorder: Recorder | None = None) -> Course:
    """Begin a decision, and note it in its state."""
    course = Course(profile.scheduler_name, recorder)
    state.write(course)
    return course


def _hoping(refusal: Refusal, result: PostFilterResult) -> Refusal:
    """Have a pod that evictions don't help because of locks wait for these to go, too.

    What else hinders evictions does not wake pods in kube-scheduler either.
    """
    return replace(refusal, plugins=refusal.plugins | (result.obstacles & {Reservation.name}))


def _stand_in(entry: Entry) -> ReservePod:
    """Give the pod as which a waiting lock is placed; one that only grows stays where it is."""
    pod = entry.reservation.pod
    if pod is None:
        raise ValueError(f"{entry.key} waits for room, but its spec cannot be read")
    return pinned_to(pod, entry.node) if entry.growing and not entry.moving else pod


def _may_preempt(entry: Entry, pod: Pod) -> bool:
    """Whether a lock may have others evicted: as its spec says, while it waits for its first room."""
    spec = entry.reservation.spec
    waits = entry.phase is Phase.PENDING and not entry.ahead
    waits = waits and spec is not None and spec.pending_deadline_seconds > 0
    return waits and pod.spec.may_preempt


def _short_of_room(verdict: Verdict, snapshot: Snapshot) -> Mask:
    """Tell which nodes are ruled out as they have too little left of something."""
    short = np.zeros(len(snapshot), np.bool_)
    for plugin, mask in verdict.ruled_out:
        if plugin.name in _CAPACITY_PLUGINS:
            short |= mask
    return short


def _sound(snapshot: Snapshot) -> Mask:
    return np.fromiter((node.sound for node in snapshot.nodes), np.bool_, len(snapshot))


def _run_filters(
    filters: Filters,
    state: CycleState,
    pod: Pod,
    snapshot: Snapshot,
    shared: Verdicts,
    course: Course,
    eligible: Mask | None,
    barred: list[tuple[Filter, Mask]],
) -> Verdict:
    """Run filters until no node is left: first those whose verdict equal pods share.

    Nodes that are barred by a plugin's PreFilter count as ruled out by it before any filter.
    """
    left = eligible
    ruled_out: list[tuple[Filter, Mask]] = []
    for plugin, mask in barred:
        ruled_out.append((plugin, _among(left, mask)))
        left = _among(left, ~mask)
    rejecters = shared.rejecters(filters.sharing, state, pod, snapshot, course)
    mask = rejecters < 0
    if np.count_nonzero(mask) < len(mask):
        ruled_out += [
            (plugin, _among(left, rejecters == index)) for index, plugin in enumerate(filters.sharing)
        ]
    fits = _among(left, mask)
    for plugin in filters.others:
        if not fits.any():
            break
        course.ask(plugin)
        mask = plugin.filter(state, pod, snapshot)
        ruled_out.append((plugin, fits & ~mask))
        fits = fits & mask
    return Verdict(fits, tuple(ruled_out), filters.judging)


def _among(left: Mask | None, mask: Mask) -> Mask:
    """Narrow a mask down to the nodes that are left; None are all."""
    return mask if left is None else left & mask


def _run_scores(state: CycleState, pod: Pod, snapshot: Snapshot, shared: Verdicts, rows: Rows) -> Scores:
    """Sum the weighted scores of the nodes that fit."""
    course = state.expect(Course)
    course.enter("PreScore")
    skipped: list[str] = []
    silent: list[str] = []
    for looking in shared.plan.pre_score:
        course.ask(looking)
        status = looking.pre_score(state, pod, snapshot, rows)
        code = course.code = status.code
        if code is Code.SKIP:
            (silent if status.alike else skipped).append(looking.name)
        elif code is not Code.SUCCESS:
            raise course.fail(looking, status.reasons)
    if silent:
        shared.plan = shared.plan.without(scorers=tuple(silent))
    course.enter("Score")
    scorers = shared.plan.scorers(tuple(skipped))
    total = shared.total(scorers.summed, state, pod, snapshot, course)
    total = total if rows is snapshot.indexes else total[rows]
    for plugin, weight in scorers.others:
        if plugin.per_node:
            scores = shared.total(((plugin, 1),), state, pod, snapshot, course)
            scores = scores if rows is snapshot.indexes else scores[rows]
        else:
            course.ask(plugin)
            scores = plugin.score(state, pod, snapshot, rows)
        total = total + weight * plugin.normalize(state, pod, scores)
    course.leave(Code.SUCCESS)
    return total


def _best(scores: Scores, rows: Rows, snapshot: Snapshot) -> int:
    """Row of the highest score; among equals, of the node with the fewest pods, then whose name sorts first.

    kube-scheduler draws among equals, which spreads pods too; this way the same is decided again.
    """
    ties = (scores == scores[scores.argmax()]).nonzero()[0]
    ties = ties if rows is snapshot.indexes else rows[ties]
    pods = snapshot.requested[ties, snapshot.column(PODS)]
    return int(ties[(pods * len(snapshot) + snapshot.traits.name_rank[ties]).argmin()])
