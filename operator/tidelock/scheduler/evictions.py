"""Preemption's side of the API: evicts victims and takes outdone nominations away, off the decision loop.

As kube-scheduler 1.36 does (framework/preemption/executor.go): a victim is given the condition
DisruptionTarget and deleted, or, if it still waits for its permit, refused that instead. Who gives back
what it has borrowed is evicted through the Eviction API, or, where a budget forbids that, as any victim. Who
is moved for a lock is evicted through that API alone, one after the other, whenever budgets allow it.
"""

import logging

from tidelock.kube.client import PODS
from tidelock.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, TransientError
from tidelock.model.instants import format_instant
from tidelock.model.pods import PREEMPTED, Pod
from tidelock.scheduler.binding import pod_reference
from tidelock.scheduler.decider import Decider
from tidelock.scheduler.moving import Task
from tidelock.scheduler.preempting import Preemption
from tidelock.scheduler.tools import Tools

logger = logging.getLogger(__name__)

_TRIES = 5


class Evictor:
    """Carries out what preemption has decided, each eviction in a task of its own."""

    def __init__(self, tools: Tools, decider: Decider) -> None:
        self._client = tools.client
        self._recorder = tools.recorder
        self._telemetry = tools.telemetry
        self._clock = tools.clock
        self._tasks = tools.tasks
        self._decider = decider
        self._moving: set[Task] = set()

    def flush(self) -> None:
        """Begin to carry out all that was decided since the last call."""
        for attempt in self._decider.take_preemptions():
            self._telemetry.preemption_attempts.inc()
            if attempt.chosen:
                self._telemetry.preemption_victims.observe(attempt.chosen)
            for pod in attempt.outdone:
                self._tasks.spawn(self._take_nomination(pod))
            for victim in attempt.victims:
                self._tasks.spawn(self._evict(attempt, victim))
        for task in self._decider.take_moves():
            if task not in self._moving:
                self._moving.add(task)
                self._tasks.spawn(self._move_all(task))

    async def _evict(self, attempt: Preemption, victim: Pod) -> None:
        """Evict a victim, or have the pod that is to get its room choose again."""
        note = f"{_reason(attempt)} by {attempt.kind} {attempt.pod.uid} on node {attempt.node_name}"
        if self._decider.reject_waiting(victim.uid):
            self._decider.cache.evicting.discard(victim.uid)  # it may be placed again
            self._tell(attempt, victim, f"{note} (in kube-scheduler memory).")
            return
        pause = self._tasks.retry_pauses()
        for tries_left in reversed(range(_TRIES)):
            try:
                await (self._reclaim if attempt.borrowers else self._delete)(attempt, victim)
            except (NotFound, Conflict):
                return  # it is gone, or another has its name: the watch will tell
            except ApiError as error:
                if tries_left and isinstance(error, TransientError):
                    await pause(error)
                    continue
                self._telemetry.api_errors.labels("eviction", type(error).__name__).inc()
                logger.warning("an eviction failed", extra={"pod": str(victim.key), "error": str(error)})
                self._decider.eviction_failed(victim.uid, attempt.pod.uid, self._clock.now())
            else:
                self._tell(attempt, victim, note)
            return

    async def _move_all(self, task: Task) -> None:
        """Evict the pods of a plan, as long as it is under way."""
        moving, pause = self._decider.moving, self._tasks.retry_pauses()
        unanswered: set[str] = set()  # who may have been evicted by a try of which nobody heard
        try:
            while (victim := moving.next_victim(task)) is not None:
                try:
                    await self._ask_to_evict(victim)
                except (NotFound, Conflict, TooManyRequests) as error:
                    if victim.uid not in unanswered:
                        moving.spared(task, victim.uid)
                    # Until the watch tells that it is gone, or its budget has something left.
                    await pause(error)
                except TransientError as error:
                    unanswered.add(victim.uid)
                    await pause(error)
                except ApiError as error:
                    self._telemetry.api_errors.labels("move", type(error).__name__).inc()
                    logger.warning("a move failed", extra={"pod": str(victim.key), "error": str(error)})
                    moving.spared(task, victim.uid)
                    moving.failed(task, f"pod {victim.key} can't be evicted: {error}", self._clock.now())
                else:
                    moving.evicted(victim.uid)
                    note = f"Moved for reservation {task.lock}, to make room on node {victim.node_name}"
                    self._recorder.record(pod_reference(victim), "Normal", "Moved", "Moving", note)
                    pause = self._tasks.retry_pauses()
        finally:
            self._moving.discard(task)

    async def _reclaim(self, attempt: Preemption, victim: Pod) -> None:
        """Evict a borrower; the owner's right to its room stands above a budget."""
        try:
            await self._ask_to_evict(victim)
        except TooManyRequests:
            await self._delete(attempt, victim)

    async def _ask_to_evict(self, victim: Pod) -> None:
        """Evict a pod through the Eviction API, which heeds budgets."""
        name, namespace = victim.meta.name, victim.meta.namespace
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": victim.uid}},
        }
        async with self._tasks.turn:
            await self._client.create(PODS.item(name, namespace, "eviction"), eviction)

    async def _delete(self, attempt: Preemption, victim: Pod) -> None:
        """Mark a victim, and ask it to end."""
        kind, status, reason = PREEMPTED
        cause = (
            "an owner of the room that it borrows"
            if attempt.borrowers
            else f"a higher priority {attempt.kind}"
        )
        message = f"{attempt.scheduler_name}: preempting to accommodate {cause}"
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_instant(int(self._clock.now())),
        }
        name, namespace = victim.meta.name, victim.meta.namespace
        async with self._tasks.turn:
            await self._patch_status(victim, {"conditions": [condition]})
            await self._client.delete(PODS.item(name, namespace), uid=victim.uid)

    async def _take_nomination(self, pod: Pod) -> None:
        """Take a nomination away; if that fails, the pod's next attempt does it."""
        try:
            async with self._tasks.turn:
                await self._patch_status(pod, {"nominatedNodeName": None})
        except ApiError as error:
            logger.info("a nomination stays written", extra={"pod": str(pod.key), "error": str(error)})

    async def _patch_status(self, pod: Pod, status: dict[str, object]) -> None:
        path = PODS.item(pod.meta.name, pod.meta.namespace, "status")
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(path, body, kind="strategic")

    def _tell(self, attempt: Preemption, victim: Pod, note: str) -> None:
        action = "Reclaiming" if attempt.borrowers else "Preempting"
        self._recorder.record(pod_reference(victim), "Normal", _reason(attempt), action, note)


def _reason(attempt: Preemption) -> str:
    """Name why its victims have to go."""
    return "Reclaimed" if attempt.borrowers else "Preempted"
