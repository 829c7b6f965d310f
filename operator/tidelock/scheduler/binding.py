"""Pods' side of the API: writes bindings, and tells pods and people why there is none."""

import logging
from collections.abc import Callable

from tidelock.clock import Clock
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.events import EventRecorder, ObjectReference
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod, decode_pod
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Consultation, Decider, Unschedulable
from tidelock.scheduler.extenders import Extenders
from tidelock.scheduler.queue import Waiting
from tidelock.scheduler.tasks import Tasks
from tidelock.telemetry import Telemetry

logger = logging.getLogger(__name__)


class Binder:
    """Carries out decisions about pods, each in a task of its own."""

    def __init__(
        self,
        client: KubeClient,
        decider: Decider,
        recorder: EventRecorder,
        telemetry: Telemetry,
        clock: Clock,
        tasks: Tasks,
        extenders: Extenders,
    ) -> None:
        self._client = client
        self._decider = decider
        self._recorder = recorder
        self._telemetry = telemetry
        self._clock = clock
        self._tasks = tasks
        self._extenders = extenders

    def consult(self, consultation: Consultation, answered: Callable[[], None]) -> None:
        """Ask the extenders about a pod in the background; calls `answered` once the decider has advice."""
        self._tasks.spawn(self._consult(consultation, answered))

    def bind(self, assumed: Assumed, started: float) -> None:
        """Bind a pod in the background; `started` is the monotonic time at which its attempt began."""
        self._tasks.spawn(self._bind(assumed, started))

    def report(self, outcome: Unschedulable) -> None:
        """Tell a pod that it fits nowhere; the same message is told once."""
        waiting, message = outcome.waiting, outcome.refusal.message
        self._recorder.record(
            pod_reference(waiting.pod), "Warning", "FailedScheduling", "Scheduling", message
        )
        nominated = outcome.refusal.nominated_node_name
        if nominated == waiting.pod.status.nominated_node_name:
            nominated = None  # as it is written already
        if waiting.message != message or nominated is not None:
            waiting.message = message
            reason = "SchedulerError" if outcome.refusal.error else "Unschedulable"
            self._tasks.spawn(self._write_condition(waiting, reason, message, nominated))

    async def _consult(self, consultation: Consultation, answered: Callable[[], None]) -> None:
        advice = await self._extenders.advise(consultation.waiting.pod, consultation.nodes)
        self._decider.advised(consultation, advice)
        answered()

    async def _bind(self, assumed: Assumed, started: float) -> None:
        waiting = self._decider.queue.get(assumed.pod.uid)
        error = await self._write_binding(assumed)
        profile = assumed.profile.scheduler_name
        result = "scheduled" if error is None else "error"
        self._telemetry.schedule_attempts.labels(result, profile).inc()
        elapsed = self._clock.monotonic() - started
        self._telemetry.scheduling_attempt_duration.labels(result, profile).observe(elapsed)
        now = self._clock.now()
        if error is not None:
            logger.warning("binding failed", extra={"pod": str(assumed.pod.key), "error": str(error)})
            self._telemetry.api_errors.labels("binding", type(error).__name__).inc()
            self._decider.binding_failed(assumed, now)
            return
        self._decider.bound(assumed, now)
        note = f"Successfully assigned {assumed.pod.key} to {assumed.node_name}"
        self._recorder.record(pod_reference(assumed.pod), "Normal", "Scheduled", "Binding", note)
        if waiting is not None:
            self._telemetry.pod_scheduling_attempts.observe(waiting.attempts)
            self._telemetry.pod_scheduling_sli_duration.labels(str(waiting.attempts)).observe(
                now - waiting.added_at
            )

    async def _write_binding(self, assumed: Assumed) -> ApiError | None:
        """Have the binding made by an extender or post it; gives the error if the pod is not bound."""
        pod = assumed.pod
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.meta.name, "namespace": pod.meta.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": assumed.node_name},
        }
        try:
            async with self._tasks.turn:
                if not await self._extenders.bind(pod, assumed.node_name):
                    await self._client.create(PODS.item(pod.meta.name, pod.meta.namespace, "binding"), body)
        except ApiError as error:
            if error.outcome_unknown and await self._bound_after_all(assumed):
                return None
            return error
        return None

    async def _bound_after_all(self, assumed: Assumed) -> bool:
        """Look whether a binding whose answer was lost has been made; until then the room stays taken."""
        pod = assumed.pod
        pause = self._tasks.retry_pauses()
        while True:
            try:
                stored = decode_pod(await self._client.get(PODS.item(pod.meta.name, pod.meta.namespace)))
            except NotFound:
                return False
            except ApiError as error:
                await pause(error)
            else:
                return stored.uid == pod.uid and stored.node_name == assumed.node_name

    async def _write_condition(
        self, waiting: Waiting, reason: str, message: str, nominated: str | None
    ) -> None:
        """Write why a pod is not scheduled, and the node that is being made ready for it, or none."""
        pod = waiting.pod
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": format_instant(int(self._clock.now())),
        }
        status: dict[str, object] = {"conditions": [condition]}
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            async with self._tasks.turn:
                await self._client.patch(
                    PODS.item(pod.meta.name, pod.meta.namespace, "status"), body, kind="strategic"
                )
        except ApiError as error:
            waiting.message = ""  # the next attempt writes it again; a pod that is gone has none
            logger.info("no condition written", extra={"pod": str(pod.key), "error": str(error)})


def pod_reference(pod: Pod) -> ObjectReference:
    """Name a pod in an event."""
    return ObjectReference("v1", "Pod", pod.meta.name, pod.meta.namespace, pod.uid)
