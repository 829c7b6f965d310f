"""The scheduling cycle of a pod: a node is reserved for it, capacity is freed, or a diagnosis says why not.

Nothing here waits or does I/O, so a cycle is one step of the serial decision loop: reserved capacity counts
before the next decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.framework.api import Code, PostFilterResult, Victims
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.framework.extension_point_timer import ExtensionPointTimer
from tidelock.framework.profile import Profile
from tidelock.framework.waiting_pods import WaitingPod, WaitingPods
from tidelock.model.failures import Attempt, OnFailure, log_failure
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.reservation.plugin import ReservationPlugin
from tidelock.scheduler.core.diagnosis import Diagnosis, diagnose_plugin_rejection
from tidelock.scheduler.core.pipeline import Evaluation, FilterPipeline
from tidelock.scheduler.core.preemption import Preemptor, explained


@dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod that is reserved on a node and will be bound there."""

    pod: Pod
    node_name: str
    profile: Profile
    state: CycleState


@dataclass(frozen=True, slots=True)
class PreemptionCandidates:
    """No node fits, but evictions would help on some: extenders must be asked about the victims first."""

    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod of a gang that fits on no node, and the result of the search for victims, if there was one."""

    diagnosis: Diagnosis
    victims: PostFilterResult | None = None


class SchedulingCycle:
    """Decides one pod at a time over the pipeline's cache and ledger."""

    def __init__(
        self,
        cache: Cache,
        pipeline: FilterPipeline,
        preemptor: Preemptor,
        waiting_pods: WaitingPods,
        on_failure: OnFailure = log_failure,
    ) -> None:
        """Take the parts of a decision.

        Args:
            cache: counts assumed pods.
            pipeline: finds the node.
            preemptor: frees capacity if no node fits.
            waiting_pods: pods that wait for their permits.
            on_failure: handles exceptions of plugins that must not stop the others.

        """
        self._cache = cache
        self._pipeline = pipeline
        self._preemptor = preemptor
        self._waiting_pods = waiting_pods
        self._on_failure = on_failure

    def feasible(self, profile: Profile, pod: Pod, now: float) -> tuple[Node, ...]:
        """Return the nodes that pass the filters now, for extenders to be asked about."""
        with self._pipeline.evaluate(profile, pod, now, measured=True) as evaluation:
            fits = evaluation.filter().fits
            return tuple(evaluation.snapshot.nodes[int(row)] for row in np.flatnonzero(fits))

    def schedule(
        self,
        profile: Profile,
        pod: Pod,
        now: float,
        advice: ExtenderAdviceData | None = None,
        *,
        ask_about_victims: bool = False,
    ) -> AssumedPod | Diagnosis | PreemptionCandidates:
        """Find a node for a pod, reserve it there and count it as bound. It may have to wait for a permit.

        With the extenders' advice, the profile has their plugin. Where extenders must be asked about victims,
        no victim is chosen yet.

        Raises:
            PluginError: a plugin failed. Nothing is reserved.

        """
        with self._pipeline.evaluate(profile, pod, now, advice=advice, measured=True) as evaluation:
            node = evaluation.best() or evaluation.choose_between(now, pod.gone_by(now))
            if node is None:
                diagnosis = evaluation.diagnose()
                result = self._preemptor.run_post_filters(evaluation)
                candidates = result.candidates() if ask_about_victims and result.candidates else {}
                if any(victims.pods for victims in candidates.values()):
                    return PreemptionCandidates(candidates)
                diagnosis = self._preemptor.preempt(profile, pod, diagnosis, result, now, kind="pod")
                return _hoping(diagnosis, result)
            return self._assume(AssumedPod(pod, node.name, profile, evaluation.state), evaluation, now)

    def reserve(
        self, profile: Profile, pod: Pod, now: float, *, look_for_victims: bool = False
    ) -> AssumedPod | RefusedPod:
        """Find a node for a pod of a gang, reserve it there and count it as bound. It has no permit yet.

        Where no node fits, victims are chosen on request. Nothing is freed yet.

        Raises:
            PluginError: a plugin failed. Nothing is reserved.

        """
        with self._pipeline.evaluate(profile, pod, now, measured=True) as evaluation:
            node = evaluation.best() or evaluation.choose_between(now, pod.gone_by(now))
            if node is not None:
                assumed = AssumedPod(pod, node.name, profile, evaluation.state)
                result = self._assume(assumed, evaluation, now, ask_for_permit=False)
                return result if isinstance(result, AssumedPod) else RefusedPod(result)
            diagnosis = evaluation.diagnose()
            if not look_for_victims:
                return RefusedPod(diagnosis)
            victims = self._preemptor.run_post_filters(evaluation)
            return RefusedPod(_hoping(explained(diagnosis, victims), victims), victims)

    def preempt(self, waiting: RefusedPod, profile: Profile, pod: Pod, now: float) -> None:
        """Free the capacity that was found for a pod of a gang."""
        if waiting.victims is not None:
            self._preemptor.conclude(profile, pod, waiting.victims, now)

    def permit(self, assumed: AssumedPod, now: float) -> Diagnosis | None:
        """Ask for the permit of a reserved pod of a gang, which may have to wait for it.

        A pod without a permit is not reserved any more. Raises the errors of `schedule`.
        """
        diagnosis, permitted = None, False
        try:
            with ExtensionPointTimer(assumed.profile.scheduler_name, self._pipeline.recorder) as timer:
                diagnosis = self._permit(assumed, timer)
            permitted = diagnosis is None
        finally:
            if not permitted:
                self.undo(assumed, now)
        return diagnosis

    def undo(self, assumed: AssumedPod, now: float) -> None:
        """Undo the placement after the binding failed. The pod's nomination is used up."""
        if self._cache.forget(assumed.pod.uid):
            self._cache.nominator.nominate(assumed.pod, "")
        with ExtensionPointTimer(assumed.profile.scheduler_name, self._pipeline.recorder) as timer:
            timer.enter("Unreserve")
            for plugin in reversed(assumed.profile.reserve):
                timer.ask(plugin)
                with Attempt(partial(self._on_failure, "unreserve", "Pod", assumed.pod.meta)):
                    plugin.unreserve(assumed.state, assumed.pod, assumed.node_name, now)

    def _assume(
        self, assumed: AssumedPod, evaluation: Evaluation, now: float, *, ask_for_permit: bool = True
    ) -> AssumedPod | Diagnosis:
        """Reserve the node and ask for permits. If anything fails, nothing stays reserved."""
        diagnosis: Diagnosis | None = None
        reserved = False
        try:
            diagnosis = self._reserve(assumed, evaluation.timer, now)
            if diagnosis is None and ask_for_permit:
                diagnosis = self._permit(assumed, evaluation.timer)
            reserved = diagnosis is None
        finally:
            if not reserved:
                self.undo(assumed, now)
        assumed.state.drop_temporary()
        return diagnosis or assumed

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


def _hoping(diagnosis: Diagnosis, result: PostFilterResult) -> Diagnosis:
    """Let a pod that evictions don't help because of reservations wait for these to go, too.

    Other obstacles to evictions do not wake pods in kube-scheduler either.
    """
    return replace(diagnosis, plugins=diagnosis.plugins | (result.obstacles & {ReservationPlugin.name}))
