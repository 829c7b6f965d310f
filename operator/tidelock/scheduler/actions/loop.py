"""The decision loop: the one place where pods and reservations are decided, one after the other."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

from tidelock.kube.client import PODS
from tidelock.model.instants import earliest
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.running import keeping_nearly_all
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.evictions import Evictor
from tidelock.scheduler.actions.extender_calls import ExtenderCaller
from tidelock.scheduler.actions.gates import GateReporter
from tidelock.scheduler.actions.pod_group_writer import PodGroupWriter
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.core.outcomes import ExtenderCall, Outcome
from tidelock.scheduler.informers.event_handlers import EventHandlers

logger = logging.getLogger(__name__)

# Seconds of decisions between two turns of the event loop: watches and answers wait no longer than that.
_SLICE = 0.005
# Seconds from the first decision until `under_way`.
_HEAD_START = 0.05
# Longest sleep: a system clock that was set forward is noticed within it.
_LONGEST_SLEEP = 1.0


class DecisionLoop:
    """Drives the decider and hands its outcomes on.

    Args:
        decider: makes the decisions.
        event_handlers: process the changes that they are about.
        context: metrics, clock and isolation.
        wakeup: wakes the loop once it is set, because something has changed.
        extender_caller, binder, evictor, status_writer, gates, pod_groups: carry the decisions out.
        on_answers: called with the creations of reservations that a step has changed.

    Attributes:
        started: set when decisions begin.
        under_way: set shortly after that. Imports that no decision needs wait for it, as they would keep the
            first bindings from the interpreter.

    """

    def __init__(
        self,
        decider: Decider,
        event_handlers: EventHandlers,
        context: WriterContext,
        wakeup: asyncio.Event,
        *,
        extender_caller: ExtenderCaller,
        binder: Binder,
        evictor: Evictor,
        status_writer: StatusWriter,
        gates: GateReporter,
        pod_groups: PodGroupWriter,
        on_answers: Callable[[Iterable[Key]], None],
    ) -> None:
        self._decider = decider
        self._event_handlers = event_handlers
        self._extender_caller = extender_caller
        self._binder = binder
        self._evictor = evictor
        self._status_writer = status_writer
        self._gates = gates
        self._pod_groups = pod_groups
        self._on_answers = on_answers
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._isolation = context.isolation
        self._called: tuple[str, float] | None = None  # which pod extenders are asked about, and since when
        self._wakeup = wakeup
        self.started = asyncio.Event()
        self.under_way = asyncio.Event()
        self.last_turn = self._clock.monotonic()

    async def run(self) -> NoReturn:
        """Decide for ever, from the moment at which all objects are known."""
        event_handlers = self._event_handlers
        self.last_turn = self._clock.monotonic()
        with keeping_nearly_all():
            while not event_handlers.ready:
                await self._sleep()
        self.started.set()
        asyncio.get_running_loop().call_later(_HEAD_START, self.under_way.set)
        known = {"nodes": len(self._decider.columns), "reservations": len(self._decider.ledger.entries)}
        logger.info("ready, decisions begin", extra=known)
        while True:
            event_handlers.catch_up()
            self._work()
            unwritten = self._status_writer.flush()
            due = earliest(self._decider.next_due(), event_handlers.next_due)
            if unwritten or (due is not None and due <= self._clock.now()):
                await asyncio.sleep(0)
            else:
                await self._sleep(due)

    def _work(self) -> None:
        """Decide until nothing is due, or for the length of a slice, and hand each step on."""
        self.last_turn = start = started = self._clock.monotonic()
        for step in due_steps(self._decider, self._clock.now):
            if step.outcome is not None:
                with self._isolation.attempt("decision", PODS, _pod_of(step.outcome).meta):
                    self._hand_on(step.outcome, started)
            self._evictor.begin(step.preemptions, step.migrations)
            self._on_answers(step.effects.answers)
            self._pod_groups.record(step.pod_groups)
            self._status_writer.record(step.effects)
            self._gates.note(step.effects.namespaces)
            for claim in step.effects.claims:
                self._binder.look_up(claim, partial(self._event_handlers.answered, claim))
            started = self._clock.monotonic()
            if started - start > _SLICE:
                return

    def _hand_on(self, outcome: Outcome, started: float) -> None:
        if isinstance(outcome, ExtenderCall):
            uid = outcome.waiting.pod.uid
            if self._called is None or self._called[0] != uid:
                self._called = (uid, started)
            self._extender_caller.call(outcome, self._wakeup.set)
            return
        if self._called is not None:
            uid, since = self._called
            self._called = None
            started = since if _pod_of(outcome).uid == uid else started
        elapsed = self._clock.monotonic() - started
        self._telemetry.scheduling_algorithm_duration.observe(elapsed)
        if isinstance(outcome, AssumedPod):
            self._binder.bind(outcome, started)
            return
        result = "error" if outcome.diagnosis.error else "unschedulable"
        profile = outcome.waiting.profile.scheduler_name
        self._telemetry.schedule_attempts.labels(result, profile).inc()
        self._telemetry.scheduling_attempt_duration.labels(result, profile).observe(elapsed)
        self._binder.report(outcome)

    async def _sleep(self, due: float | None = None) -> None:
        """Sleep until something happens or is due."""
        left = _LONGEST_SLEEP if due is None else due - self._clock.now()
        handle = asyncio.get_running_loop().call_later(max(min(left, _LONGEST_SLEEP), 0.0), self._wakeup.set)
        try:
            await self._wakeup.wait()
        finally:
            handle.cancel()
        self._wakeup.clear()  # or the next wait would return without letting anything else run
        self.last_turn = self._clock.monotonic()


def _pod_of(outcome: Outcome) -> Pod:
    return outcome.pod if isinstance(outcome, AssumedPod) else outcome.waiting.pod
