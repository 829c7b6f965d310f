"""Evicts the victims of preemption, and removes superseded nominations, off the decision loop.

As kube-scheduler 1.37 does (framework/preemption/executor.go), a victim gets the condition DisruptionTarget
and is deleted. A victim that still waits for its permit or for PreBind is rejected instead. A borrower is
evicted through the Eviction API, or, where a budget forbids that, as any other victim. The cluster's
administrator bounds its grace period. A pod that moves for a reservation is evicted through that API alone,
one pod after the other, whenever budgets allow it.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType

from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.kube.errors import (
    AdmissionUnavailable,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    TransientError,
)
from tidelock.kube.events import ObjectReference
from tidelock.model.conditions import Aspect
from tidelock.model.meta import ObjectMeta
from tidelock.model.pods import PREEMPTED_CONDITION, Pod, decode_pod
from tidelock.scheduler.actions.binding import patch_status, pod_condition, pod_reference
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import FaultSubject
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.preemption import PreemptionAttempt
from tidelock.scheduler.defrag.controller import MigrationTask

logger = logging.getLogger(__name__)

_TRIES = 5
# Seconds after which victims are chosen again when an eviction failed, as the cause may last.
_AGAIN = 5.0
_FAILURES: Mapping[str, str] = MappingProxyType({"eviction": "an eviction failed", "move": "a move failed"})


class Evictor:
    """Carries out the decisions of preemption, each eviction in a task of its own."""

    def __init__(self, context: WriterContext, decider: Decider, borrower_grace: int) -> None:
        """Prepare. `borrower_grace` is the longest grace period of a borrower, in seconds."""
        self._borrower_grace = borrower_grace
        self._client = context.client
        self._recorder = context.recorder
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._tasks = context.tasks
        self._decider = decider
        self._moving: set[MigrationTask] = set()

    def begin(self, preemptions: Iterable[PreemptionAttempt], migrations: Iterable[MigrationTask]) -> None:
        """Begin to carry out the evictions of a step. A migration under way is left alone."""
        for attempt in preemptions:
            self._telemetry.preemption_attempts.inc()
            if attempt.chosen:
                self._telemetry.preemption_victims.observe(attempt.chosen)
            for pod in attempt.cleared:
                self._tasks.spawn(self._take_nomination(pod), FaultSubject("eviction", PODS, pod.meta))
            for victim in attempt.victims:
                about = FaultSubject("eviction", PODS, victim.meta)
                self._tasks.spawn(self._evict(attempt, victim), about, partial(self._failed, attempt, victim))
        for task in migrations:
            if task not in self._moving:
                self._moving.add(task)
                about = FaultSubject(
                    "move", RESERVATIONS, ObjectMeta(task.reservation.name, task.reservation.namespace)
                )
                self._tasks.spawn(self._move_all(task), about)

    async def _evict(self, attempt: PreemptionAttempt, victim: Pod) -> None:
        """Evict a victim. If that fails, the pod or reservation that preempts it chooses again."""
        note = f"{_reason(attempt)} by {attempt.kind} {attempt.pod.uid} on node {attempt.node_name}"
        if self._decider.reject_waiting(victim.uid):
            self._decider.cache.evicting.discard(victim.uid)  # it may be placed again
            self._record_event(attempt, victim, f"{note} (in kube-scheduler memory).")
            return
        if victim.ends_at <= self._clock.now() + self._borrower_grace:
            return  # it leaves in time by itself
        pause = self._tasks.retry_pauses()
        for tries_left in reversed(range(_TRIES)):
            try:
                await (self._reclaim if attempt.borrowers else self._delete)(attempt, victim)
            except ApiError as error:
                # It is gone, another has its name, or others wrote to it: the watch brings each of these.
                gone = isinstance(error, NotFound | Conflict)
                if tries_left and (gone or isinstance(error, TransientError)):
                    await pause(error)
                    if gone and self._is_leaving(victim):
                        return
                    continue
                if not gone:
                    self._count_failure("eviction", victim, error)
                await asyncio.sleep(_AGAIN)
                self._failed(attempt, victim)
            else:
                self._record_event(attempt, victim, note)
            return

    def _count_failure(self, write: str, victim: Pod, error: ApiError) -> None:
        self._telemetry.api_errors.labels(write, type(error).__name__).inc()
        logger.warning(_FAILURES[write], extra={"pod": str(victim.key), "error": str(error)})

    def _failed(self, attempt: PreemptionAttempt, victim: Pod) -> None:
        """Schedule another choice of victims for the preemptor."""
        self._decider.eviction_failed(victim.uid, attempt.pod.uid, self._clock.now())

    def _is_leaving(self, victim: Pod) -> bool:
        """Return whether the watch has shown that a pod is gone, or leaving since it was chosen."""
        placed = self._decider.cache.get(victim.uid)
        return placed is None or (placed.pod.leaving and not victim.leaving)

    async def _move_all(self, task: MigrationTask) -> None:
        """Evict the pods of a migration plan, as long as it is under way."""
        moving, pause = self._decider.moving, self._tasks.retry_pauses()
        unanswered: set[str] = set()  # possibly evicted by a request without an answer
        try:
            while (victim := moving.next_victim(task)) is not None:
                try:
                    await self._ask_to_evict(victim)
                except (NotFound, Conflict, TooManyRequests, AdmissionUnavailable) as error:
                    if isinstance(error, AdmissionUnavailable):
                        self._count_failure("move", victim, error)
                    if victim.uid not in unanswered:
                        moving.spared(task, victim.uid)
                    # Until the watch shows that it is gone, or its budget or a policy allows it.
                    await pause(error)
                except TransientError as error:
                    self._count_failure("move", victim, error)
                    unanswered.add(victim.uid)
                    await pause(error)
                except ApiError as error:
                    self._count_failure("move", victim, error)
                    moving.spared(task, victim.uid)
                    moving.failed(task, f"pod {victim.key} can't be evicted: {error}", self._clock.now())
                else:
                    moving.evicted(victim.uid)
                    node = victim.node_name
                    note = f"Moved for reservation {task.reservation}, to free capacity on node {node}"
                    self._recorder.record(pod_reference(victim), "Normal", "Moved", "Moving", note)
                    pause = self._tasks.retry_pauses()
        finally:
            self._moving.discard(task)

    async def _reclaim(self, attempt: PreemptionAttempt, victim: Pod) -> None:
        """Evict a borrower. The owner's right to its capacity stands above a budget."""
        try:
            await self._ask_to_evict(victim, self._grace(victim))
        except TooManyRequests:
            await self._delete(attempt, victim, self._grace(victim))

    def _grace(self, borrower: Pod) -> int:
        """Return the grace period of a borrower in seconds: its own, up to the administrator's bound."""
        own = borrower.spec.termination_grace_period_seconds
        return max(min(own, self._borrower_grace), 1)  # 0 would not wait for its containers to end

    async def _ask_to_evict(self, victim: Pod, grace: int | None = None) -> None:
        """Evict a pod through the Eviction API, which respects budgets. None keeps the pod's grace period."""
        name, namespace = victim.meta.name, victim.meta.namespace
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": victim.uid}}
            | ({} if grace is None else {"gracePeriodSeconds": grace}),
        }
        async with self._tasks.turn:
            await self._client.create(PODS.item(name, namespace, "eviction"), eviction)

    async def _delete(self, attempt: PreemptionAttempt, victim: Pod, grace: int | None = None) -> None:
        """Mark a victim, and delete it in the version that has the mark.

        A deletion can't prove its leadership, so any later write to the victim makes it void.
        """
        kind, status, reason = PREEMPTED_CONDITION
        cause = (
            "an owner of the capacity that it borrows"
            if attempt.borrowers
            else f"a higher priority {attempt.kind}"
        )
        message = f"{attempt.scheduler_name}: preempting to accommodate {cause}"
        condition = pod_condition(victim, Aspect(kind, status, reason, message), self._clock.now())
        name, namespace = victim.meta.name, victim.meta.namespace
        async with self._tasks.turn:
            marked = decode_pod(await patch_status(self._client, victim, {"conditions": [condition]}))
            await self._client.delete(
                PODS.item(name, namespace),
                uid=victim.uid,
                resource_version=marked.meta.resource_version,
                grace_seconds=grace,
            )

    async def _take_nomination(self, pod: Pod) -> None:
        """Remove a nomination. If that fails, the pod's next attempt does it."""
        try:
            async with self._tasks.turn:
                await patch_status(self._client, pod, {"nominatedNodeName": None})
        except ApiError as error:
            logger.info("a nomination was not removed", extra={"pod": str(pod.key), "error": str(error)})

    def _record_event(self, attempt: PreemptionAttempt, victim: Pod, note: str) -> None:
        action = "Reclaiming" if attempt.borrowers else "Preempting"
        self._recorder.record(
            pod_reference(victim),
            "Normal",
            _reason(attempt),
            action,
            note,
            controller=attempt.scheduler_name,
            related=_preemptor(attempt),
        )


def _preemptor(attempt: PreemptionAttempt) -> ObjectReference:
    """Return the reference to the pod or the reservation for which an attempt is made."""
    meta = attempt.pod.meta
    if attempt.kind == "pod":
        return pod_reference(attempt.pod)
    return ObjectReference(RESERVATIONS.api_version, RESERVATIONS.kind, meta.name, meta.namespace, meta.uid)


def _reason(attempt: PreemptionAttempt) -> str:
    """Return the reason of the event of each victim."""
    return "Reclaimed" if attempt.borrowers else "Preempted"
