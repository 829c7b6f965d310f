"""Carries out the results of PostFilter: nominations and preempted reservations at once.

Evictions are left to a driver. The capacity that they will free is kept for the pod from this decision on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidelock.cluster.cache import Cache
from tidelock.framework.api import Code, PostFilter, PostFilterResult, Status, Victims
from tidelock.framework.profile import Profile
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.pipeline import Evaluation


@dataclass(frozen=True, slots=True)
class PreemptionAttempt:
    """An attempt to free capacity for a pod, or for a reservation by its reserve pod.

    Attributes:
        pod: the pod, or the reserve pod.
        kind: the kind of object that preempts.
        scheduler_name: the profile.
        node_name: the node, or empty if no victims help.
        victims: the pods to evict, without those that are being deleted.
        cleared: pods of lower priority that have lost their nomination.
        chosen: number of all victims, including reservations.
        borrowers: whether the victims give borrowed capacity back to its owner.

    """

    pod: Pod
    kind: str
    scheduler_name: str
    node_name: str = ""
    victims: tuple[Pod, ...] = ()
    cleared: tuple[Pod, ...] = ()
    chosen: int = 0
    borrowers: bool = False


class Preemptor:
    """Carries out the results of PostFilter plugins, except for evictions."""

    def __init__(self, cache: Cache, ledger: Ledger) -> None:
        self._cache = cache
        self._ledger = ledger
        self._attempts: list[PreemptionAttempt] = []

    def take(self) -> list[PreemptionAttempt]:
        """Return the attempts since the last call."""
        attempts, self._attempts = self._attempts, []
        return attempts

    def run_post_filters(self, evaluation: Evaluation) -> PostFilterResult:
        """Run PostFilter plugins until one can help, or finds that none can. Otherwise return all reasons."""
        plugins, snapshot, timer = evaluation.profile.post_filter, evaluation.snapshot, evaluation.timer
        timer.enter("PostFilter")
        result = _UNTRIED
        if plugins and len(snapshot):
            result = _first_to_help(plugins, evaluation)
        timer.leave(result.status.code)
        return result

    def preempt(
        self,
        profile: Profile,
        pod: Pod,
        diagnosis: Diagnosis,
        result: PostFilterResult,
        now: float,
        *,
        kind: str,
    ) -> Diagnosis:
        """Free capacity if PostFilter found victims, and add its reasons to the diagnosis."""
        self.conclude(profile, pod, result, now, kind=kind)
        return explained(diagnosis, result)

    def conclude(
        self, profile: Profile, pod: Pod, result: PostFilterResult, now: float, *, kind: str = "pod"
    ) -> None:
        """Nominate a pod and carry out the result, or note that the attempt was in vain."""
        if result.status.ok and result.nominated_node_name and result.victims is not None:
            attempt = self._preempt(
                PreemptionAttempt(pod, kind, profile.scheduler_name, result.nominated_node_name),
                result.victims,
                now,
            )
        else:
            attempt = PreemptionAttempt(pod, kind, profile.scheduler_name)
        self._attempts.append(attempt)
        nominator, name = self._cache.nominator, result.nominated_node_name
        nominator.nominate(pod, nominator.node_of(pod.uid) if name is None else name)

    def _preempt(self, attempt: PreemptionAttempt, victims: Victims, now: float) -> PreemptionAttempt:
        """Preempt reservations and nominations, and note the pods to evict."""
        pod, evicting = attempt.pod, self._cache.evicting
        reservations = dict.fromkeys((*victims.reservations, *self._left_by(victims, attempt)))
        for entry in reservations:
            self._ledger.placement.preempt(entry, f"{attempt.kind} {pod.key}", now)
        going = (placed.pod for placed in victims.pods)
        evicted = tuple(each for each in going if _evictable(each, victims) and each.uid not in evicting)
        evicting.update(each.uid for each in evicted)
        return replace(
            attempt,
            victims=evicted,
            cleared=self._clear_lower_nominations(attempt, victims),
            chosen=len(victims.pods) + len(reservations) if evicted or reservations else 0,
            borrowers=victims.borrowers,
        )

    def _left_by(self, victims: Victims, attempt: PreemptionAttempt) -> list[ReservationInfo]:
        """Return the reservations that victims use, which would hold the freed amounts again."""
        if victims.borrowers:
            return []
        own = self._ledger.ownership.of(attempt.pod)
        leaving = {placed.pod.uid for placed in victims.pods}
        return [
            entry
            for entry in self._ledger.holdings.sharing.occupied_on(attempt.node_name)
            if not leaving.isdisjoint(entry.occupants)
            and entry not in own
            and not entry.lends_to(attempt.pod)
        ]

    def _clear_lower_nominations(self, attempt: PreemptionAttempt, victims: Victims) -> tuple[Pod, ...]:
        """Remove nominations of pods with lower priority, unless the pod reclaims its own capacity.

        Those that followed the pod's own nomination already yield to it. Their removal would cause retries of
        both, without end.
        """
        nominator, pod = self._cache.nominator, attempt.pod
        if victims.borrowers or nominator.node_of(pod.uid) == attempt.node_name:
            return ()
        return tuple(nominator.clear_below(pod.spec.priority, attempt.node_name))


def explained(diagnosis: Diagnosis, result: PostFilterResult) -> Diagnosis:
    """Return the diagnosis with the reasons of PostFilter."""
    message = " ".join(filter(None, (diagnosis.message, *result.status.reasons, result.message)))
    return replace(diagnosis, message=message, again=result.unfinished)


def _evictable(pod: Pod, victims: Victims) -> bool:
    """Return whether a victim must be evicted. One that is being deleted must if it borrows and may stay."""
    return not pod.leaving or (victims.borrowers and not pod.finished)


_UNTRIED = PostFilterResult(Status(Code.UNSCHEDULABLE), "")


def _first_to_help(plugins: Sequence[PostFilter], evaluation: Evaluation) -> PostFilterResult:
    reasons: list[str] = []
    messages: list[str] = []
    nominated_node_name: str | None = None
    obstacles: frozenset[str] = frozenset()
    unfinished = False
    timer = evaluation.timer
    for plugin in plugins:
        timer.ask(plugin)
        result = plugin.post_filter(evaluation.state, evaluation.pod, evaluation.snapshot, evaluation.result)
        timer.code = result.status.code
        if result.status.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
            return result
        reasons.extend(result.status.reasons)
        messages.append(result.message)
        obstacles |= result.obstacles
        unfinished |= result.unfinished
        if result.nominated_node_name is not None:
            nominated_node_name = result.nominated_node_name
    status = Status(Code.UNSCHEDULABLE, tuple(reasons))
    return PostFilterResult(
        status,
        nominated_node_name,
        obstacles=obstacles,
        unfinished=unfinished,
        message=" ".join(filter(None, messages)),
    )
