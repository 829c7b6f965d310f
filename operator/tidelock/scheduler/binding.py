"""The binding cycle: what is done with a pod once it is reserved, and how pods are told why they are not.

In order, as in kube-scheduler 1.36 (schedule_one.go): wait for the permit, PreBind, Bind, PostBind. Whatever
fails gives the room back, and the pod returns to the queue.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelock.clock import Clock
from tidelock.framework.api import SKIP, SUCCESS, Code, PostBind, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.waiting import WaitingPod
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.kube.events import EventRecorder, ObjectReference
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.extender import ExtenderAdvice
from tidelock.scheduler.cycle import Assumed, PluginError, Refusal, turned_down
from tidelock.scheduler.decider import Consultation, Decider, Unschedulable
from tidelock.scheduler.extenders import Extenders
from tidelock.scheduler.queue import Waiting
from tidelock.scheduler.tasks import Tasks
from tidelock.telemetry import Telemetry, code_label

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

    def look_up(self, pod: Pod, answered: Callable[[Pod | None], None]) -> None:
        """Ask the API server for a pod in the background; calls `answered` with it, or with None."""
        self._tasks.spawn(self._look_up(pod, answered))

    def report(self, outcome: Unschedulable) -> None:
        """Tell a pod that it fits nowhere, or what went wrong; the same message is told once."""
        waiting, message = outcome.waiting, outcome.refusal.message
        self._recorder.record(
            pod_reference(waiting.pod), "Warning", "FailedScheduling", "Scheduling", message
        )
        nominated: str | None = self._decider.cache.nominator.node_of(waiting.pod.uid)
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

    async def _look_up(self, pod: Pod, answered: Callable[[Pod | None], None]) -> None:
        answered(await self._stored(pod))

    async def _bind(self, assumed: Assumed, started: float) -> None:
        waiting = self._decider.queue.get(assumed.pod.uid)
        try:
            refusal = await self._wait_on_permit(assumed)
            if refusal is not None:
                self._decider.rejected(assumed, refusal, self._clock.now())
                self._end(assumed, "unschedulable", started)
                self._report(waiting, refusal)
                return
            await self._timed("PreBind", assumed, self._pre_bind(assumed))
            await self._timed("Bind", assumed, self._bind_by_plugin(assumed))
        except PluginError as error:
            logger.warning("binding failed", extra={"pod": str(assumed.pod.key), "error": str(error)})
            self._decider.binding_failed(assumed, self._clock.now())
            self._end(assumed, "error", started)
            self._report(waiting, Refusal(str(error), frozenset(), error=True))
            return
        now = self._clock.now()
        self._decider.bound(assumed, now)
        self._end(assumed, "scheduled", started)
        note = f"Successfully assigned {assumed.pod.key} to {assumed.node_name}"
        self._recorder.record(pod_reference(assumed.pod), "Normal", "Scheduled", "Binding", note)
        if waiting is not None:
            self._telemetry.pod_scheduling_attempts.observe(waiting.attempts)
            self._telemetry.pod_scheduling_sli_duration.labels(str(waiting.attempts)).observe(
                now - waiting.added_at
            )
        for plugin in assumed.profile.post_bind:
            self._post_bind(plugin, assumed)

    # The steps.

    async def _wait_on_permit(self, assumed: Assumed) -> Refusal | None:
        """Wait until all plugins that asked for it allow the pod; gives the refusal if one does not."""
        waiting = self._decider.waiting_pods.get(assumed.pod.uid)
        if waiting is None:
            return None
        started = self._clock.monotonic()
        try:
            await _decided(waiting)
        finally:
            self._decider.waiting_pods.remove(assumed.pod.uid)
        rejected = waiting.rejected_by is not None
        code = Code.UNSCHEDULABLE if rejected else Code.SUCCESS
        self._telemetry.permit_wait_duration.labels(code_label(code)).observe(
            self._clock.monotonic() - started
        )
        if rejected:
            status = Status(Code.UNSCHEDULABLE, (waiting.reason,))
            return turned_down("Permit", waiting.rejected_by or "", status)
        self._decider.queue.done(assumed.pod.uid)
        return None

    async def _pre_bind(self, assumed: Assumed) -> None:
        pod, profile = assumed.pod, assumed.profile
        for plugin in profile.pre_bind:
            await self._run("PreBind", plugin.name, plugin.pre_bind(assumed.state, pod, assumed.node_name))

    async def _bind_by_plugin(self, assumed: Assumed) -> None:
        """Have an extender, or the first Bind plugin that does not leave it to the next, bind the pod."""
        binders = [(plugin.name, plugin.bind) for plugin in assumed.profile.bind]
        for name, work in [(ExtenderAdvice.name, self._bind_by_extender), *binders]:
            try:
                status = work(assumed.state, assumed.pod, assumed.node_name)
                if await self._run("Bind", name, status) is not Code.SKIP:
                    return
            except PluginError as error:
                if _outcome_unknown(error) and await self._bound_after_all(assumed):
                    return
                raise
        raise PluginError("no Bind plugin has bound the pod")

    async def _bind_by_extender(self, _: CycleState, pod: Pod, node_name: str) -> Status:
        async with self._tasks.turn:
            return SUCCESS if await self._extenders.bind(pod, node_name) else SKIP

    async def _bound_after_all(self, assumed: Assumed) -> bool:
        """Look whether a binding whose answer was lost has been made; until then the room stays taken."""
        stored = await self._stored(assumed.pod)
        return stored is not None and stored.node_name == assumed.node_name

    async def _stored(self, pod: Pod) -> Pod | None:
        """Read a pod until the API server answers; None if it is gone, whoever has its name now."""
        pause = self._tasks.retry_pauses()
        while True:
            try:
                async with self._tasks.turn:
                    raw = await self._client.get(PODS.item(pod.meta.name, pod.meta.namespace))
            except NotFound:
                return None
            except ApiError as error:
                await pause(error)
            else:
                stored = decode_pod(raw)
                return stored if stored.uid == pod.uid else None

    async def _run(self, point: str, plugin: str, work: Awaitable[Status]) -> Code:
        """Run a plugin.

        Raises:
            PluginError: it refused, or it failed; at this point both are errors of the pod.

        """
        started = self._clock.monotonic()
        code = Code.ERROR
        try:
            status = await work
            code = status.code
        except ApiError as error:
            self._telemetry.api_errors.labels(point, type(error).__name__).inc()
            raise PluginError(f'running {point} plugin "{plugin}": {error}') from error
        except Exception as error:
            logger.exception("a plugin failed", extra={"plugin": plugin})
            text = f'running {point} plugin "{plugin}": {type(error).__name__}: {error}'
            raise PluginError(text) from error
        finally:
            self._telemetry.ran(plugin, point, code, self._clock.monotonic() - started)
        if not status.ok:
            raise PluginError(f'running {point} plugin "{plugin}": {", ".join(status.reasons)}')
        return status.code

    async def _timed(self, point: str, assumed: Assumed, work: Awaitable[None]) -> None:
        """Run an extension point and measure it."""
        started = self._clock.monotonic()
        code = Code.ERROR
        try:
            await work
            code = Code.SUCCESS
        finally:
            elapsed = self._clock.monotonic() - started
            self._telemetry.passed(point, code, assumed.profile.scheduler_name, elapsed)

    def _post_bind(self, plugin: PostBind, assumed: Assumed) -> None:
        try:
            plugin.post_bind(assumed.state, assumed.pod, assumed.node_name)
        except Exception:
            logger.exception("PostBind failed", extra={"plugin": plugin.name, "pod": str(assumed.pod.key)})

    # What is told.

    def _end(self, assumed: Assumed, result: str, started: float) -> None:
        profile = assumed.profile.scheduler_name
        self._telemetry.schedule_attempts.labels(result, profile).inc()
        elapsed = self._clock.monotonic() - started
        self._telemetry.scheduling_attempt_duration.labels(result, profile).observe(elapsed)

    def _report(self, waiting: Waiting | None, refusal: Refusal) -> None:
        if waiting is not None and self._decider.queue.get(waiting.pod.uid) is waiting:  # or it is gone
            self.report(Unschedulable(waiting, refusal))

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


def _outcome_unknown(error: PluginError) -> bool:
    cause = error.__cause__
    return isinstance(cause, ApiError) and cause.outcome_unknown


async def _decided(waiting: WaitingPod) -> None:
    """Wait until a pod is allowed or rejected; a plugin whose time is over rejects it."""
    loop = asyncio.get_running_loop()
    decided = asyncio.Event()
    waiting.when_decided(decided.set)
    timers = [loop.call_later(seconds, waiting.time_out, plugin) for plugin, seconds in waiting.waits.items()]
    try:
        await decided.wait()
    finally:
        for timer in timers:
            timer.cancel()


def pod_reference(pod: Pod) -> ObjectReference:
    """Name a pod in an event."""
    return ObjectReference("v1", "Pod", pod.meta.name, pod.meta.namespace, pod.uid)
