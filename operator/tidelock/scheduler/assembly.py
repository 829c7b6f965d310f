"""How decisions are carried out: the one place that makes the parts around a core."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidelock.model.meta import Key
from tidelock.pace import Pace
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.device_reporter import DeviceReporter
from tidelock.scheduler.actions.evictions import Evictor
from tidelock.scheduler.actions.extender_calls import ExtenderCaller
from tidelock.scheduler.actions.extenders import Extenders
from tidelock.scheduler.actions.gates import GateReporter
from tidelock.scheduler.actions.loop import DecisionLoop
from tidelock.scheduler.actions.pod_group_writer import PodGroupWriter
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.actions.tasks import FairApi
from tidelock.scheduler.core.decider import DeciderOptions
from tidelock.scheduler.scheduler_core import SchedulerCore
from tidelock.settings import Settings


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Everything that carries the decisions of a core out.

    Attributes:
        extenders: the clients of extenders, to be opened around `loop`.
        binder: binds pods.
        gates: reports gates to pods.
        evictor: evicts pods.
        status_writer: writes the statuses of Reservations.
        pod_groups: writes the conditions of PodGroups.
        loop: drives all of them.

    """

    extenders: Extenders
    binder: Binder
    gates: GateReporter
    evictor: Evictor
    status_writer: StatusWriter
    pod_groups: PodGroupWriter
    loop: DecisionLoop


def live_options(context: WriterContext, settings: Settings, pace: Pace) -> DeciderOptions:
    """Return the options of a decider whose decisions are carried out."""
    return DeciderOptions(
        move_after=settings.move_after_seconds,
        earmark_after=settings.earmark_after_seconds,
        refusal_renewal=pace.refusal_renewal,
        plan_seconds=pace.migration_plan,
        on_enqueue=context.telemetry.queued,
        api=FairApi(context.client, context.tasks),
        recorder=context.telemetry,
        device_reports=DeviceReporter(context.recorder, context.telemetry),
        on_failure=context.isolation.failed,
    )


def assemble_scheduler(
    core: SchedulerCore,
    extenders: Extenders,
    context: WriterContext,
    wakeup: asyncio.Event,
    *,
    borrower_grace: int,
    gate_renewal: float,
    on_answers: Callable[[Iterable[Key]], None],
) -> Scheduler:
    """Make everything that carries the decisions of a core out.

    Args:
        core: made with `live_options`, and with `wakeup.set` to wake.
        extenders: the clients of extenders.
        context: the parts that all writers share.
        wakeup: set when something has changed.
        borrower_grace: longest grace period of a borrower that is evicted for an owner, in seconds.
        gate_renewal: seconds between two texts to a gated pod.
        on_answers: called with the answered creations of reservations that a step has changed.

    """
    decider = core.decider
    binder = Binder(context, decider, extenders)
    gates = GateReporter(context, decider, binder, gate_renewal)
    evictor = Evictor(context, decider, borrower_grace)
    status_writer = StatusWriter(context, decider.ledger, wakeup.set)
    pod_groups = PodGroupWriter(context, decider.objects.pod_groups)
    loop = DecisionLoop(
        decider,
        core.event_handlers,
        context,
        wakeup,
        extender_caller=ExtenderCaller(context, decider, extenders),
        binder=binder,
        evictor=evictor,
        status_writer=status_writer,
        gates=gates,
        pod_groups=pod_groups,
        on_answers=on_answers,
    )
    return Scheduler(extenders, binder, gates, evictor, status_writer, pod_groups, loop)
