"""The binding cycle of a reserved pod, and the conditions and events of pods that are not scheduled.

In order, as in kube-scheduler 1.37 (schedule_one.go): PreBindPreFlight, wait for the permit, PreBind, Bind,
PostBind. A step that fails frees the capacity again, and the pod returns to the queue. A pod that has to wait
for a permit or for PreBind names its node in `status.nominatedNodeName` meanwhile, for autoscalers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from tidelock.framework.api import SKIP, SUCCESS, Code, PostBind, PreBind, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.extension_point_timer import ExtensionPointTimer, PluginError
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.framework.waiting_pods import WaitingPod
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import AdmissionUnavailable, ApiError, Forbidden, Invalid, NotFound
from tidelock.kube.events import EventRecorder, ObjectReference
from tidelock.ledger.owners.claim import Claim
from tidelock.model.conditions import Aspect, dated
from tidelock.model.pods import Pod, claims_annotation, decode_pod
from tidelock.plugins.default_preemption.plugin import DefaultPreemption
from tidelock.plugins.extender import ExtenderAdvice
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.tasks import FaultSubject
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.diagnosis import Diagnosis, diagnose_plugin_rejection
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.core.queued_pod import QueuedPodInfo
from tidelock.telemetry import code_label

logger = logging.getLogger(__name__)

# Seconds for which a request may be under way: the API server gives it up after 60 s.
_UNDER_WAY = 65.0
# Refusals without a judgement that a write has, about a minute of them. Without an end a policy that can't be
# evaluated would keep the reservation of each such pod.
_MOST_UNJUDGED = 20

_Bind = Callable[[CycleState, Pod, str], Awaitable[Status]]


class Binder:
    """Carries out decisions about pods, each in a task of its own."""

    def __init__(self, context: WriterContext, decider: Decider, extenders: Extenders) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._tasks = context.tasks
        self._isolation = context.isolation
        self._recent = context.recent
        self._decider = decider
        self._extenders = extenders
        self._reporting = WeakValueDictionary[str, asyncio.Lock]()  # by uid of pods with a condition to write
        self._unsettled: dict[str, AssumedPod] = {}  # by uid: those with an end unknown to the decider

    def bind(self, assumed: AssumedPod, started: float) -> None:
        """Bind a pod in the background. `started` is the monotonic time at which its attempt began."""
        about = FaultSubject("binding", PODS, assumed.pod.meta)
        self._tasks.spawn(self._bind_safely(assumed, started), about)
        self._recent.placed(assumed, self._clock.now())

    def look_up(self, claim: Claim, answered: Callable[[Pod | None], None]) -> None:
        """Ask the API server for a pod in the background. Call `answered` with it, or with None.

        If its binding does not name the reservations that it took, these are written to the pod before.
        """
        about = FaultSubject("look-up", PODS, claim.pod.meta)
        self._tasks.spawn(self._look_up(claim, answered), about, partial(self.look_up, claim, answered))

    def report(self, outcome: Unschedulable, *, announced: bool = False) -> None:
        """Write that a pod fits nowhere, or which step failed. The same message is written once.

        An announced pod names a node in its stored status, even if the watch does not show that yet.
        """
        self._recent.refused(outcome, self._clock.now())
        waiting, message = outcome.waiting, outcome.diagnosis.message
        report_failure(self._recorder, waiting.pod, message)
        nominated: str | None = self._decider.cache.nominator.node_of(waiting.pod.uid)
        if nominated == waiting.pod.status.nominated_node_name and not announced:
            nominated = None  # as it is written already
        if waiting.message != message or nominated is not None:
            waiting.message = message
            reason = "SchedulerError" if outcome.diagnosis.error else "Unschedulable"
            about = FaultSubject("condition", PODS, waiting.pod.meta)
            self._tasks.spawn(self._write_unschedulable(waiting, reason, message, nominated), about)

    async def write_condition(
        self,
        waiting: QueuedPodInfo,
        reason: str,
        message: str,
        nominated: str | None = None,
        version: int = 0,
    ) -> bool:
        """Write why a pod is not scheduled, and the node that is being made ready for it, or none.

        A version makes it a condition that the pod has that one. Return False if the write failed and may
        succeed later.
        """
        pod = waiting.pod
        condition = pod_condition(pod, Aspect("PodScheduled", "False", reason, message), self._clock.now())
        status: dict[str, object] = {"conditions": [condition]}
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        try:
            async with self._tasks.turn.of(pod.meta.namespace) if version else self._tasks.turn:
                await patch_status(self._client, pod, status, version)
        except ApiError as error:
            waiting.message = ""  # the next attempt writes it again; a pod that is gone has none
            logger.info("no condition written", extra={"pod": str(pod.key), "error": str(error)})
            return isinstance(error, NotFound)
        return True

    async def _look_up(self, claim: Claim, answered: Callable[[Pod | None], None]) -> None:
        uids = claim.uids if claim.unwritten else None
        answered(await (self._stored(claim.pod) if uids is None else self._annotated(claim.pod, uids)))

    async def _bind_safely(self, assumed: AssumedPod, started: float) -> None:
        """Bind a pod. After a fault its capacity is free again, unless the API server has it bound by now."""
        uid = assumed.pod.uid
        self._unsettled[uid] = assumed
        with self._isolation.attempt("binding", PODS, assumed.pod.meta) as attempt:
            await self._bind(assumed, started)
        while self._unsettled.get(uid) is assumed:
            with self._isolation.attempt("binding", PODS, assumed.pod.meta) as attempt:
                await self._settle(assumed)
            await asyncio.sleep(attempt.pause)

    async def _settle(self, assumed: AssumedPod) -> None:
        """Report to the decider whether a pod is bound, as the API server says."""
        stored = await self._stored(assumed.pod)
        if stored is not None and stored.node_name == assumed.node_name:
            self._decider.bound(assumed, self._clock.now())
        else:
            self._decider.binding_failed(assumed, self._clock.now())
        self._unsettled.pop(assumed.pod.uid, None)

    async def _bind(self, assumed: AssumedPod, started: float) -> None:
        waiting = self._decider.queue.get(assumed.pod.uid)
        begun, announced = self._clock.monotonic(), False
        try:
            plugins = self._pre_flight(assumed)
            if plugins or self._decider.waiting_pods.get(assumed.pod.uid) is not None:
                announced = True
                await self._announce(assumed)
            diagnosis = await self._wait_on_permit(assumed, begun)
            if diagnosis is not None:
                self._decider.rejected(assumed, diagnosis, self._clock.now())
                self._unsettled.pop(assumed.pod.uid, None)
                self._end(assumed, "unschedulable", started)
                self._report(waiting, diagnosis, announced=announced)
                return
            await self._timed("PreBind", assumed, self._pre_bind(plugins, assumed))
            await self._timed("Bind", assumed, self._bind_by_plugin(assumed))
            if (claims := assumed.state.read(ClaimedReservations)) is not None and claims.unwritten:
                await self._annotated(assumed.pod, claims.uids)
        except PluginError as error:
            logger.warning("binding failed", extra={"pod": str(assumed.pod.key), "error": str(error)})
            self._decider.waiting_pods.remove(assumed.pod.uid)
            self._decider.binding_failed(assumed, self._clock.now())
            self._unsettled.pop(assumed.pod.uid, None)
            self._end(assumed, "error", started)
            diagnosis = Diagnosis(str(error), frozenset(), error=True)
            self._report(waiting, diagnosis, announced=announced)
            return
        now = self._clock.now()
        self._decider.bound(assumed, now)
        self._unsettled.pop(assumed.pod.uid, None)
        self._end(assumed, "scheduled", started)
        note = f"Successfully assigned {assumed.pod.key} to {assumed.node_name}"
        self._recorder.record(
            pod_reference(assumed.pod),
            "Normal",
            "Scheduled",
            "Binding",
            note,
            controller=assumed.profile.scheduler_name,
        )
        if waiting is not None:
            self._telemetry.pod_scheduling_attempts.observe(waiting.attempts)
            waited = self._decider.queue.waited(waiting, now)
            self._telemetry.pod_scheduling_sli_duration.labels(str(waiting.attempts)).observe(waited)
        with ExtensionPointTimer(assumed.profile.scheduler_name, self._telemetry) as timer:
            timer.enter("PostBind")
            for plugin in assumed.profile.post_bind:
                timer.ask(plugin)
                self._post_bind(plugin, assumed)

    # The steps.

    def _pre_flight(self, assumed: AssumedPod) -> Sequence[PreBind]:
        """Return the PreBind plugins with something to do. Raises PluginError if one fails."""
        pod, profile, plugins = assumed.pod, assumed.profile, []
        try:
            with ExtensionPointTimer(profile.scheduler_name, self._telemetry) as timer:
                timer.enter("PreBindPreFlight")
                for plugin in profile.pre_bind:
                    timer.ask(plugin)
                    status = plugin.pre_bind_pre_flight(assumed.state, pod, assumed.node_name)
                    timer.code = status.code
                    if not status.ok:
                        raise timer.fail(plugin, status.reasons)
                    if status.code is Code.SUCCESS:
                        plugins.append(plugin)
                timer.leave(Code.SUCCESS if plugins else Code.SKIP)
        except PluginError as error:
            if error.__cause__ is not None:  # an exception, and no status
                self._isolation.failed("binding", PODS, pod.meta, error.__cause__)
            raise
        return plugins

    async def _announce(self, assumed: AssumedPod) -> None:
        """Name the node of a pod in its status (NominatedNodeNameForExpectation).

        The binding goes on if that fails, as the name is only a hint.
        """
        pod, node_name = assumed.pod, assumed.node_name
        if pod.status.nominated_node_name == node_name:
            return
        try:
            async with self._tasks.turn:
                await patch_status(self._client, pod, {"nominatedNodeName": node_name})
        except ApiError as error:
            logger.info("no node announced", extra={"pod": str(pod.key), "error": str(error)})

    async def _wait_on_permit(self, assumed: AssumedPod, begun: float) -> Diagnosis | None:
        """Wait until all plugins that asked for it allow the pod. Return the rejection if one does not.

        Their times run from the monotonic time at which the binding cycle began.
        """
        waiting = self._decider.waiting_pods.get(assumed.pod.uid)
        if waiting is None:
            return None
        started = self._clock.monotonic()
        try:
            await _decided(waiting, started - begun)
        finally:
            self._decider.waiting_pods.remove(assumed.pod.uid)
        rejected = waiting.rejected_by is not None
        code = Code.UNSCHEDULABLE if rejected else Code.SUCCESS
        self._telemetry.permit_wait_duration.labels(code_label(code)).observe(
            self._clock.monotonic() - started
        )
        if rejected:
            status = Status(Code.UNSCHEDULABLE, (waiting.reason,))
            return diagnose_plugin_rejection("Permit", waiting.rejected_by or "", status)
        self._decider.queue.done(assumed.pod.uid)
        return None

    async def _pre_bind(self, plugins: Sequence[PreBind], assumed: AssumedPod) -> None:
        """Run the plugins one after the other. A preemptor may cancel them, which is an error of the pod."""
        uid, cancellable = assumed.pod.uid, self._decider.waiting_pods.in_pre_bind
        for plugin in plugins:
            work = plugin.pre_bind(assumed.state, assumed.pod, assumed.node_name)
            task = asyncio.ensure_future(self._run("PreBind", plugin.name, work, assumed))
            cancellable[uid] = task.cancel
            try:
                await task
            except asyncio.CancelledError:
                if uid in cancellable:  # the process ends
                    raise
                reason = f"preempted by {DefaultPreemption.name}"
                raise PluginError.of("PreBind", plugin.name, reason) from None
            finally:
                cancellable.pop(uid, None)

    async def _bind_by_plugin(self, assumed: AssumedPod) -> None:
        """Bind the pod by an extender, or by the first Bind plugin that does not skip it."""
        binders: list[tuple[str, _Bind]] = [(plugin.name, plugin.bind) for plugin in assumed.profile.bind]
        if self._extenders.configured:
            binders.insert(0, (ExtenderAdvice.name, self._bind_by_extender))
        for name, work in binders:
            try:
                status = work(assumed.state, assumed.pod, assumed.node_name)
                if await self._run("Bind", name, status, assumed) is not Code.SKIP:
                    return
            except PluginError as error:
                if not (_outcome_unknown(error) and await self._bound_after_all(assumed, name, work)):
                    raise
                return
        raise PluginError("no Bind plugin has bound the pod")

    async def _bind_by_extender(self, _: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS if await self._extenders.bind(pod, node_name) else SKIP

    async def _bound_after_all(self, assumed: AssumedPod, name: str, work: _Bind) -> bool:
        """Return whether a binding was made that had no answer. Until then the capacity stays taken.

        The API server may make it after the pod was read. So the binding is sent again, as no pod is bound
        twice, until the pod shows a node, or no such request can be under way any more.
        """
        pause = self._tasks.retry_pauses()
        latest = self._clock.monotonic() + _UNDER_WAY
        while True:
            stored = await self._stored(assumed.pod)
            if stored is None or stored.leaving or stored.node_name:
                return stored is not None and stored.node_name == assumed.node_name
            if self._clock.monotonic() >= latest:
                return False
            try:
                again = work(assumed.state, assumed.pod, assumed.node_name)
                await self._run("Bind", name, again, assumed)
            except PluginError as error:
                if _outcome_unknown(error):
                    latest = self._clock.monotonic() + _UNDER_WAY
                cause = error.__cause__
                await pause(cause if isinstance(cause, ApiError) else ApiError(str(error)))
            else:
                return True

    async def _stored(self, pod: Pod) -> Pod | None:
        """Read a pod until the API server answers. Return None if it is gone, even if its name lives on."""
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

    async def _annotated(self, pod: Pod, claims: Sequence[str]) -> Pod | None:
        """Write which reservations a pod took that others have bound, unless it says so. Return it as stored.

        This never replaces the annotation of a former leader, nor the reverse: the version is a condition of
        the write.
        """
        pause = self._tasks.retry_pauses()
        path = PODS.item(pod.meta.name, pod.meta.namespace, "status")
        unjudged = 0
        while True:
            stored = await self._stored(pod)
            if (
                stored is None
                or not stored.node_name
                or stored.leaving
                or stored.claimed_reservations is not None
            ):
                return stored
            known = {"uid": stored.uid, "resourceVersion": stored.meta.resource_version}
            body = {"metadata": known | {"annotations": claims_annotation(claims)}}
            try:
                async with self._tasks.turn:
                    return decode_pod(await self._client.patch(path, body))
            except ApiError as error:
                unjudged += isinstance(error, AdmissionUnavailable)
                if isinstance(error, Forbidden | Invalid) or unjudged >= _MOST_UNJUDGED:
                    logger.warning("no claim written", extra={"pod": str(pod.key), "error": str(error)})
                    return stored
                await pause(error)

    async def _run(self, point: str, plugin: str, work: Awaitable[Status], assumed: AssumedPod) -> Code:
        """Run a plugin for a pod.

        Raises:
            PluginError: the plugin refused, or it failed; at this point both are errors of the pod.

        """
        started = self._clock.monotonic()
        code = Code.ERROR
        try:
            status = await work
            code = status.code
        except ApiError as error:
            self._telemetry.api_errors.labels(point, type(error).__name__).inc()
            raise PluginError.of(point, plugin, str(error)) from error
        except Exception as error:
            self._isolation.failed("binding", PODS, assumed.pod.meta, error)
            raise PluginError.of(point, plugin, f"{type(error).__name__}: {error}") from error
        finally:
            if assumed.state.expect(ExtensionPointTimer).sampled:
                self._telemetry.ran(plugin, point, code, self._clock.monotonic() - started)
        if not status.ok:
            raise PluginError.of(point, plugin, ", ".join(status.reasons))
        return status.code

    async def _timed(self, point: str, assumed: AssumedPod, work: Awaitable[None]) -> None:
        """Run an extension point and measure it."""
        started = self._clock.monotonic()
        code = Code.ERROR
        try:
            await work
            code = Code.SUCCESS
        finally:
            elapsed = self._clock.monotonic() - started
            self._telemetry.passed(point, code, assumed.profile.scheduler_name, elapsed)

    def _post_bind(self, plugin: PostBind, assumed: AssumedPod) -> None:
        with self._isolation.attempt("binding", PODS, assumed.pod.meta):
            plugin.post_bind(assumed.state, assumed.pod, assumed.node_name)

    # Reports.

    def _end(self, assumed: AssumedPod, result: str, started: float) -> None:
        profile = assumed.profile.scheduler_name
        self._telemetry.schedule_attempts.labels(result, profile).inc()
        elapsed = self._clock.monotonic() - started
        self._telemetry.scheduling_attempt_duration.labels(result, profile).observe(elapsed)

    def _report(self, waiting: QueuedPodInfo | None, diagnosis: Diagnosis, *, announced: bool) -> None:
        if waiting is not None and self._decider.queue.get(waiting.pod.uid) is waiting:  # or it is gone
            self.report(Unschedulable(waiting, diagnosis), announced=announced)

    async def _write_unschedulable(
        self, waiting: QueuedPodInfo, reason: str, message: str, nominated: str | None
    ) -> None:
        """Write a condition after those of earlier attempts, as the newest one must stay."""
        turn = self._reporting.setdefault(waiting.pod.uid, asyncio.Lock())
        async with turn:
            await self.write_condition(waiting, reason, message, nominated)


def _outcome_unknown(error: PluginError) -> bool:
    cause = error.__cause__
    return isinstance(cause, ApiError) and cause.outcome_unknown


async def _decided(waiting: WaitingPod, passed: float) -> None:
    """Wait until a pod is allowed or rejected. A plugin that takes too long rejects it.

    `passed` are the seconds of each plugin's time that are over.
    """
    loop = asyncio.get_running_loop()
    decided = asyncio.Event()
    waiting.when_decided(decided.set)
    timers = [
        loop.call_later(max(seconds - passed, 0.0), waiting.time_out, plugin)
        for plugin, seconds in waiting.waits.items()
    ]
    try:
        await decided.wait()
    finally:
        for timer in timers:
            timer.cancel()


async def patch_status(client: KubeClient, pod: Pod, status: Mapping[str, object], version: int = 0) -> bytes:
    """Patch the status of a pod that still has the uid, and the version if one is given. Return it as stored.

    Raises:
        ApiError: the write failed.

    """
    metadata = {"uid": pod.uid} | ({"resourceVersion": str(version)} if version else {})
    path = PODS.item(pod.meta.name, pod.meta.namespace, "status")
    return await client.patch(path, {"metadata": metadata, "status": status}, kind="strategic")


def pod_condition(pod: Pod, aspect: Aspect, now: float) -> dict[str, Any]:
    """Return a condition to write to a pod, with the time since which the pod has it with this status."""
    stored = {"conditions": msgspec.to_builtins(pod.status.conditions)}
    (condition,) = dated([aspect], stored, pod.meta.generation, now)
    return condition


def report_failure(recorder: EventRecorder, pod: Pod, message: str) -> None:
    """Announce that a pod was not scheduled, as its scheduler."""
    recorder.record(
        pod_reference(pod),
        "Warning",
        "FailedScheduling",
        "Scheduling",
        message,
        controller=pod.spec.scheduler_name,
    )


def pod_reference(pod: Pod) -> ObjectReference:
    """Return the reference to a pod in an event."""
    return ObjectReference("v1", "Pod", pod.meta.name, pod.meta.namespace, pod.uid)
