"""Decides one pod after the other, and interrupts a decision while extenders are asked."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tidelock.framework.api import Handle
from tidelock.framework.config_file import Extender
from tidelock.framework.extender import ExtenderAdviceData, has_advice, has_say_in_preemption
from tidelock.framework.profile import Profile
from tidelock.framework.waiting_pods import WaitingPods
from tidelock.ledger.recovery import Recovery
from tidelock.model.failures import Attempt, OnFailure
from tidelock.model.meta import ObjectMeta
from tidelock.model.nodes import Node
from tidelock.plugins.extender import ExtenderAdvice
from tidelock.scheduler.core.cycle import AssumedPod, PreemptionCandidates, SchedulingCycle
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.outcomes import ExtenderCall, Outcome, Unschedulable, failure
from tidelock.scheduler.core.pod_group_scheduler import PodGroupScheduler
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.core.queued_pod import QueuedPodInfo


class PodScheduler:
    """Runs the scheduling cycle of pods from the queue.

    Attributes:
        extender_call: the pod about which extenders are being asked, if there is one.
        groups: decides pods of PodGroups together, or None if no profile has that.

    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cycle: SchedulingCycle,
        recovery: Recovery,
        waiting_pods: WaitingPods,
        profiles: Mapping[str, Profile],
        extenders: tuple[Extender, ...],
        handle: Handle,
        on_plugin_failure: OnFailure,
        groups: PodGroupScheduler | None = None,
    ) -> None:
        self._queue = queue
        self._cycle = cycle
        self._recovery = recovery
        self._waiting_pods = waiting_pods
        self._extenders = extenders
        self._advised_profiles = _with_advice(profiles, handle) if extenders else {}
        self._on_plugin_failure = on_plugin_failure
        self.extender_call: ExtenderCall | None = None
        self._advice: ExtenderAdviceData | None = None
        self.groups = groups
        self._decided: deque[Outcome] = deque()  # together with an earlier outcome

    @property
    def answered(self) -> bool:
        """Return whether extenders have answered and the pod is still undecided."""
        return self._advice is not None

    def next_due(self) -> float | None:
        """Return the instant at which a pod can be decided without any event: 0 is at once, None never."""
        if self.answered or self._decided:
            return 0.0
        return self._queue.next_due() if self.extender_call is None else None

    def schedule_one(self, now: float) -> Outcome | None:
        """Decide the next pod, or None if there is no pod or extenders have not answered.

        The pods of a group are decided in one step. The next steps only return their outcomes.
        """
        if self._decided:
            return self._decided.popleft()
        if self.groups is not None:
            self.groups.end_nominations()
        if self.extender_call is not None:
            outcome = self._conclude(self.extender_call, now)
        elif (waiting := self._queue.pop(now)) is None:
            return None
        elif self.groups is not None and (together := self.groups.place_together(waiting, now)):
            self._decided.extend(together)
            return self._decided.popleft()
        else:
            outcome = self._schedule(waiting, now)
        if self.groups is not None and outcome is not None:
            self.groups.note_alone(outcome)
        return outcome

    def advised(self, call: ExtenderCall, advice: ExtenderAdviceData) -> None:
        """Take the extenders' answer. An answer about a pod that is gone has no effect."""
        if call is self.extender_call:
            self._advice = advice

    def _conclude(self, call: ExtenderCall, now: float) -> Outcome | None:
        """Decide a pod about which extenders were asked. None without an answer, or if the pod is gone."""
        waiting, advice = call.waiting, self._advice
        gone = self._queue.get(waiting.pod.uid) is not waiting
        if advice is None and not gone:
            return None
        self.extender_call = self._advice = None
        if advice is None or gone:
            return None
        if call.victims is not None:
            if call.advice is None:
                return self._schedule(waiting, now, advice)
            before = call.advice
            advice = replace(before, victims=advice.victims, error=advice.error)
        elif advice.error:
            self._queue.back_off(waiting.pod.uid, now)
            return Unschedulable(
                waiting, Diagnosis(advice.error, frozenset({ExtenderAdvice.name}), error=True)
            )
        return self._decide(waiting, self._advised_profiles[waiting.profile.scheduler_name], now, advice)

    def _schedule(
        self, waiting: QueuedPodInfo, now: float, advice: ExtenderAdviceData | None = None
    ) -> Outcome:
        """Decide a pod, or have extenders be asked. The advice, if any, is about victims only."""
        if self._extenders and any(has_advice(extender, waiting.pod) for extender in self._extenders):
            nodes: tuple[Node, ...] = ()
            with self._attempt(waiting) as attempt:
                nodes = self._cycle.feasible(waiting.profile, waiting.pod, now)
            if attempt.error is not None:
                return self._retry_later(waiting, attempt.error, now)
            if nodes:
                self.extender_call = ExtenderCall(waiting, nodes)
                return self.extender_call
        return self._decide(waiting, waiting.profile, now, advice)

    def _decide(
        self, waiting: QueuedPodInfo, profile: Profile, now: float, advice: ExtenderAdviceData | None = None
    ) -> Outcome:
        uid = waiting.pod.uid
        ask = (advice is None or advice.victims is None) and any(
            has_say_in_preemption(extender, waiting.pod) for extender in self._extenders
        )
        self._recovery.checkpoint()
        with self._attempt(waiting) as attempt:
            outcome = self._cycle.schedule(profile, waiting.pod, now, advice, ask_about_victims=ask)
        if attempt.error is not None:
            return self._retry_later(waiting, attempt.error, now)
        if isinstance(outcome, AssumedPod):
            if self._waiting_pods.get(uid) is None:
                self._queue.done(uid)  # a later failure is no rejection
            return outcome
        if isinstance(outcome, PreemptionCandidates):
            self.extender_call = ExtenderCall(waiting, (), outcome.victims, advice)
            return self.extender_call
        if outcome.again:
            self._queue.back_off(uid, now)
            return Unschedulable(waiting, outcome)
        # Without nodes no plugin has rejected one. Each filter then waits for its own events.
        plugins = outcome.plugins | outcome.pending or {plugin.name for plugin in waiting.profile.filter}
        self._queue.add_unschedulable(uid, now, plugins - outcome.pending, outcome.pending)
        return Unschedulable(waiting, outcome)

    def _retry_later(self, waiting: QueuedPodInfo, error: Exception, now: float) -> Outcome:
        """Retry a pod after its backoff, because its decision failed."""
        self._recovery.recover(now)
        self._queue.back_off(waiting.pod.uid, now)
        return Unschedulable(waiting, failure(error))

    def _attempt(self, waiting: QueuedPodInfo) -> Attempt:
        """Return a context for a decision about a pod, in which plugins may fail."""
        meta: ObjectMeta = waiting.pod.meta
        return Attempt(partial(self._on_plugin_failure, "decision", "Pod", meta))


def _with_advice(profiles: Mapping[str, Profile], handle: Handle) -> dict[str, Profile]:
    """Return profiles in which the extenders' advice comes after all plugins."""
    plugin = ExtenderAdvice(handle, {})
    return {
        name: replace(profile, filter=(*profile.filter, plugin), score=(*profile.score, (plugin, 1)))
        for name, profile in profiles.items()
    }
