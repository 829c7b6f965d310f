"""Schedules the pods of a PodGroup: as many as the group needs get nodes in one step, or none does.

A pod of a group that needs no other one is decided alone. That holds for the policy `basic`, and for each pod
once the group has the pods that it needs. Otherwise the first pod of the group in the queue brings the others
with it. Each is reserved beside those before it. If too few fit, all are undone in the same step. They then
wait for the events that may help any of them. If enough fit once pods of lower priority are evicted, these
are, and nominations keep the capacity until the group is placed.

Semantics of kube-scheduler 1.37 (schedule_one_podgroup.go, with its default algorithm).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tidelock.cluster.cache import Cache
from tidelock.cluster.pod_groups import PodGroups, group_of
from tidelock.framework.api import PostFilterResult, PreEnqueue
from tidelock.framework.config_file import Extender
from tidelock.framework.extender import has_advice
from tidelock.framework.profile import Profile
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.ledger import Ledger
from tidelock.model.failures import Attempt, OnFailure
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod
from tidelock.model.work_queue import WorkQueue
from tidelock.plugins.gang_scheduling import GangScheduling
from tidelock.scheduler.core.cycle import AssumedPod, RefusedPod, SchedulingCycle
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.outcomes import Outcome, Unschedulable, failure
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueuedPodInfo, QueueName


@dataclass(frozen=True, slots=True)
class PodGroupResult:
    """The result of an attempt to schedule a group, for its condition.

    Attributes:
        group: the group, as it was known then.
        scheduled: whether the group has the pods that it needs.
        reason: the condition's reason.
        message: why it lacks pods, or empty.

    """

    group: PodGroup
    scheduled: bool
    reason: str = "Scheduled"
    message: str = ""


@dataclass(slots=True)
class _Trial:
    """The pods of a group that are reserved, those that fit after evictions, and why others do not fit."""

    reserved: list[tuple[QueuedPodInfo, AssumedPod]] = field(default_factory=list)
    preempting: list[tuple[QueuedPodInfo, RefusedPod]] = field(default_factory=list)
    refused: list[tuple[QueuedPodInfo, Diagnosis]] = field(default_factory=list)

    @property
    def found(self) -> int:
        """The number of pods with a node."""
        return len(self.reserved) + len(self.preempting)


class PodGroupScheduler:
    """Decides pods of groups together, for the profiles that enable GangScheduling.

    Attributes:
        results: the newest result of each group that no driver has taken yet.

    """

    def __init__(
        self,
        gates: Mapping[str, PreEnqueue],
        groups: PodGroups,
        queue: SchedulingQueue,
        cycle: SchedulingCycle,
        cache: Cache,
        ledger: Ledger,
        waiting_pods: WaitingPods,
        extenders: Sequence[Extender],
        on_plugin_failure: OnFailure,
    ) -> None:
        """Take the parts of a decision. `gates` has GangScheduling by the names of its profiles."""
        self.results = WorkQueue[PodGroupResult](lambda result: result.group.key)
        self._gates = gates
        self._groups = groups
        self._queue = queue
        self._cycle = cycle
        self._cache = cache
        self._nominator = cache.nominator
        self._ledger = ledger
        self._waiting_pods = waiting_pods
        self._extenders = extenders
        self._on_plugin_failure = on_plugin_failure
        self._capacity_changes: tuple[WorkQueue[Any], ...] = (ledger.holdings.changes, cache.nominator.ended)
        self._nominated: dict[Key, PreEnqueue] = {}  # groups for which evictions free capacity

    def place_together(self, first: QueuedPodInfo, now: float) -> list[Outcome]:
        """Decide a pod in flight with its group. Return the outcomes, or nothing if it is decided alone."""
        gate = self._gates.get(first.profile.scheduler_name)
        if gate is None or group_of(first.pod) is None:
            return []
        status = gate.pre_enqueue(first.pod)  # the group may have changed since the pod entered the queue
        group = self._groups.of_pod(first.pod)
        if not status.ok or group is None:
            return [self._refuse(first, Diagnosis("; ".join(status.reasons), _OWN), _OWN, now)]
        placed = len(self._groups.placed(group.key))
        alone = group.min_count - placed <= 1
        if problem := self._problem(group, alone=alone):
            self._note(group, Diagnosis(problem, _OWN, error=True))
            return [self._refuse(first, Diagnosis(problem, _OWN, error=True), _OWN, now)]
        return [] if alone else self._place_gang(group, self._waiting(group, first), placed, now)

    def end_nominations(self) -> None:
        """Keep no capacity for groups that are not complete any more, so their pods are gated."""
        for key, gate in tuple(self._nominated.items()):
            pods = tuple(self._groups.pods(key).values())
            if not pods or not gate.pre_enqueue(pods[0]).ok:
                del self._nominated[key]
                for pod in pods:
                    if self._nominator.node_of(pod.uid):
                        self._nominator.nominate(pod, "")

    def note_alone(self, outcome: Outcome) -> None:
        """Note the outcome of a pod that was decided alone for the condition of its group."""
        if isinstance(outcome, AssumedPod):
            pod, profile, diagnosis = outcome.pod, outcome.profile, None
        elif isinstance(outcome, Unschedulable):
            pod, profile, diagnosis = outcome.waiting.pod, outcome.waiting.profile, outcome.diagnosis
        else:
            return
        gate = self._gates.get(profile.scheduler_name)
        group = self._groups.of_pod(pod) if gate is not None else None
        if gate is None or group is None:
            return
        self._note(group, diagnosis)
        if self._nominator.node_of(pod.uid):  # its evictions are under way
            self._nominated[group.key] = gate

    def _note(self, group: PodGroup, diagnosis: Diagnosis | None = None) -> None:
        """Note the result of a group: that it was scheduled, or why it was not."""
        result = PodGroupResult(group, scheduled=True)
        if diagnosis is not None:
            reason = "SchedulerError" if diagnosis.error else "Unschedulable"
            result = PodGroupResult(group, scheduled=False, reason=reason, message=diagnosis.message)
        self.results.add(result)

    def _problem(self, group: PodGroup, *, alone: bool) -> str:
        """Return why a group can't be scheduled whatever capacity is free, or an empty text."""
        name, priority = f'pod group "{group.key.name}"', group.spec.priority
        fields = tuple(self._groups.common_fields(group.key))
        for kind, values in (
            ("spec.schedulerName", {each.scheduler_name for each in fields}),
            ("preemption policy", {each.preemption_policy for each in fields}),
            ("priority, which is that of the group", {priority, *(each.priority for each in fields)}),
        ):
            if len(values) > 1:
                found = " and ".join(map(str, sorted(values)))
                return f"all pods of {name} must have the same {kind}: found {found}"
        if not alone and self._extenders:
            pods = self._groups.pods(group.key).values()
            if any(has_advice(extender, pod) for pod in pods for extender in self._extenders):
                return f"extenders can't be asked about the pods of {name} together"
        return ""

    def _waiting(self, group: PodGroup, first: QueuedPodInfo) -> list[QueuedPodInfo]:
        """Return the pods of a group that can be tried, in the order of trials. Gated ones are left out."""
        known = (self._queue.get(uid) for uid in self._groups.pods(group.key))
        elsewhere = (QueueName.GATED, QueueName.IN_FLIGHT)
        members = (
            each for each in known if each is not None and (each is first or each.queue not in elsewhere)
        )
        return sorted(
            members,
            key=lambda each: ((each is first) - each.attempts, each.since, each.pod.meta.name),
        )

    def _place_gang(
        self, group: PodGroup, members: Sequence[QueuedPodInfo], placed: int, now: float
    ) -> list[Outcome]:
        """Reserve nodes for as many pods as a group lacks, or for none of them.

        If too few fit, victims are searched for the others. The group then waits until these are gone.
        """
        needed, trial = group.min_count - placed, _Trial()
        nominations = {each.pod.uid: self._nominator.node_of(each.pod.uid) for each in members}
        before = self._announcements()
        # Without pods to spare, evictions are the only help for a pod that does not fit.
        for look_for_victims in (False, True) if len(members) > needed else (True,):
            trial = _Trial()
            self._ledger.recovery.checkpoint()
            with self._attempt("PodGroup", group.meta) as attempt:
                self._try(trial, members, needed, now, look_for_victims=look_for_victims)
            if attempt.error is None and len(trial.reserved) == needed:
                self._note(group)
                return self._conclude(trial, members, now)
            for _, assumed in reversed(trial.reserved):
                self._cycle.undo(assumed, now)
            for each in members:
                self._nominator.nominate(each.pod, nominations[each.pod.uid])
            self._withdraw_announcements(before)
            if attempt.error is not None:
                self._ledger.recovery.recover(now)
                return self._fail(group, members, attempt.error, now)
        self._nominate(group, trial, members, now, enough=trial.found == needed)
        return self._refuse_gang(group, trial, members, placed, now)

    def _try(
        self,
        trial: _Trial,
        members: Sequence[QueuedPodInfo],
        needed: int,
        now: float,
        *,
        look_for_victims: bool,
    ) -> None:
        """Reserve one pod after the other, until enough have a node or too few are left."""
        for number, waiting in enumerate(members):
            if not 0 < needed - trial.found <= len(members) - number:
                return
            self._take(waiting)
            result = self._cycle.reserve(waiting.profile, waiting.pod, now, look_for_victims=look_for_victims)
            if isinstance(result, AssumedPod):
                trial.reserved.append((waiting, result))
            elif result.victims is not None and self._will_fit(waiting.pod, result.victims):
                trial.preempting.append((waiting, result))
            else:
                trial.refused.append((waiting, result.diagnosis))

    def _will_fit(self, pod: Pod, victims: PostFilterResult) -> bool:
        """Return whether a pod fits once victims are gone, which then keeps their capacity for it."""
        node_name = victims.nominated_node_name
        if node_name is None:  # the evictions for an earlier nomination are under way
            return bool(self._nominator.node_of(pod.uid))
        if victims.status.ok and victims.victims is not None:
            self._nominator.nominate(pod, node_name)
        return victims.status.ok

    def _nominate(
        self, group: PodGroup, trial: _Trial, members: Sequence[QueuedPodInfo], now: float, *, enough: bool
    ) -> None:
        """Free capacity if enough pods fit then, and keep it for all of them. Otherwise keep none."""
        self._nominated.pop(group.key, None)
        if not enough:
            for each in members:
                self._nominator.nominate(each.pod, "")
            return
        self._nominated[group.key] = self._gates[members[0].profile.scheduler_name]
        for waiting, assumed in trial.reserved:
            self._nominator.nominate(waiting.pod, assumed.node_name)
        for waiting, refused in trial.preempting:
            self._cycle.preempt(refused, waiting.profile, waiting.pod, now)

    def _announcements(self) -> tuple[int, list[dict[Hashable, Any]]]:
        """Return the count of freed capacity, and the changes that the queue does not know yet."""
        return self._cache.columns.freed, [queue.copy() for queue in self._capacity_changes]

    def _withdraw_announcements(self, before: tuple[int, list[dict[Hashable, Any]]]) -> None:
        """Announce nothing of a trial that was undone, as no capacity has come free."""
        self._cache.columns.freed, earlier = before
        for queue, items in zip(self._capacity_changes, earlier, strict=True):
            queue.clear()
            queue.update(items)

    def _conclude(self, trial: _Trial, members: Sequence[QueuedPodInfo], now: float) -> list[Outcome]:
        """Ask for the permits of the reserved pods. All others of the group are decided alone, at once."""
        outcomes = [self._permit(waiting, assumed, now) for waiting, assumed in trial.reserved]
        for waiting, diagnosis in trial.refused:
            outcomes.append(self._refuse(waiting, diagnosis, _rejectors(waiting, diagnosis), now))
        reserved = {waiting.pod.uid for waiting, _ in trial.reserved}
        decided = reserved.union(waiting.pod.uid for waiting, _ in trial.refused)
        for waiting in members:
            uid = waiting.pod.uid
            if uid not in decided:
                self._queue.back_off(uid, now)  # the pod that was first in the queue is in flight
            if uid not in reserved:
                self._queue.activate(uid, now)
        return outcomes

    def _permit(self, waiting: QueuedPodInfo, assumed: AssumedPod, now: float) -> Outcome:
        uid = waiting.pod.uid
        with self._attempt("Pod", waiting.pod.meta) as attempt:
            diagnosis = self._cycle.permit(assumed, now)
            if diagnosis is not None:
                return self._refuse(waiting, diagnosis, _rejectors(waiting, diagnosis), now)
            if self._waiting_pods.get(uid) is None:
                self._queue.done(uid)  # a later failure is no rejection
            return assumed
        self._ledger.recovery.recover(now)
        self._queue.back_off(uid, now)
        return Unschedulable(waiting, failure(attempt.error))

    def _refuse(
        self, waiting: QueuedPodInfo, diagnosis: Diagnosis, plugins: frozenset[str], now: float
    ) -> Outcome:
        """Put a pod aside until an event may help it, by one of the plugins, or until its backoff ends."""
        self._take(waiting)
        if diagnosis.again:
            self._queue.back_off(waiting.pod.uid, now)
        else:
            self._queue.add_unschedulable(waiting.pod.uid, now, plugins)
        return Unschedulable(waiting, diagnosis)

    def _refuse_gang(
        self, group: PodGroup, trial: _Trial, members: Sequence[QueuedPodInfo], placed: int, now: float
    ) -> list[Outcome]:
        """Put all pods of a group aside. An event that may help any of them brings all of them back."""
        fit, refused = len(trial.reserved), {each.pod.uid: diagnosis for each, diagnosis in trial.refused}
        refused |= {each.pod.uid: pod.diagnosis for each, pod in trial.preempting}
        left = len(members) - fit - len(refused)
        text = unsatisfied_text(group.min_count, placed + fit, left)
        if trial.preempting and placed + trial.found == group.min_count:
            text = f"{text}; {len(trial.preempting)} pods fit once others are evicted"
        elif trial.refused:
            waiting, diagnosis = trial.refused[-1]
            text = f"{text}; pod {waiting.pod.meta.name} does not fit: {diagnosis.message}"
        waiting_for = [*trial.refused, *((each, pod.diagnosis) for each, pod in trial.preempting)]
        plugins = _OWN.union(*(_rejectors(*each) for each in waiting_for))
        again = any(diagnosis.again for _, diagnosis in waiting_for)
        of_group = Diagnosis(text, plugins, again=again)
        self._note(group, of_group)
        of_pod = replace(of_group, message=f"pod group is unschedulable, {text}")
        diagnoses = max(each.diagnoses for each in members)
        outcomes: list[Outcome] = []
        for each in members:
            each.diagnoses = diagnoses  # the backoff is the group's
            self._refuse(each, of_group, plugins, now)
            outcomes.append(Unschedulable(each, refused.get(each.pod.uid, of_pod)))
        self._groups.back_off(group.key, max(each.due for each in members))
        return outcomes

    def _fail(
        self, group: PodGroup, members: Sequence[QueuedPodInfo], error: Exception, now: float
    ) -> list[Outcome]:
        """Retry all pods of a group after their backoff, because a decision failed."""
        diagnosis = failure(error)
        self._note(group, diagnosis)
        for each in members:
            self._take(each)
            self._queue.back_off(each.pod.uid, now)
        return [Unschedulable(each, diagnosis) for each in members]

    def _take(self, waiting: QueuedPodInfo) -> None:
        """Take a pod out of the queue to try it, unless it is in flight already."""
        if waiting.queue is not QueueName.IN_FLIGHT:
            self._queue.take(waiting)

    def _attempt(self, kind: str, meta: ObjectMeta) -> Attempt:
        """Return a context for a decision about an object, in which plugins may fail."""
        return Attempt(partial(self._on_plugin_failure, "decision", kind, meta))


_OWN = frozenset({GangScheduling.name})


def _rejectors(waiting: QueuedPodInfo, diagnosis: Diagnosis) -> frozenset[str]:
    """Return the plugins that rejected a pod. Without nodes none has, and all filters count."""
    return diagnosis.plugins | diagnosis.pending or frozenset(each.name for each in waiting.profile.filter)


def gates_of(profiles: Mapping[str, Profile]) -> dict[str, PreEnqueue]:
    """Return GangScheduling by the names of the profiles that enable it."""
    return {
        name: gate
        for name, profile in profiles.items()
        for gate in profile.pre_enqueue
        if gate.name == GangScheduling.name
    }


def unsatisfied_text(min_count: int, scheduled: int, remaining: int) -> str:
    """Say that a group has too few pods with a node, in kube-scheduler's words."""
    return f"minCount ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
