"""The start and the end of all parts, while this process leads."""

import asyncio
import logging
from collections.abc import Callable

from tidelock.assembly import Assembly
from tidelock.handlers import supervision
from tidelock.running import background, until

logger = logging.getLogger(__name__)

# Seconds that writes under way get at the end, as the next leader waits for them. Most requests take a
# hundredth of that.
_LAST_WRITES = 0.5
# Seconds after which a process that must end has ended, whatever its tasks and threads do: after a fault or
# the loss of the Lease, and after a signal.
_LAST_MOMENT = 1.5
_LAST_MOMENT_ASKED = 20.0


async def lead(
    assembly: Assembly, stop: asyncio.Event, ending: asyncio.Event, end_within: Callable[[float], None]
) -> None:
    """Decide and write until `stop` is set or a signal comes, then give the Lease up.

    The parts end in the opposite order of that in which they begin: first the decisions, then the writes
    under way, their events, and the Lease. Kopf, which may take seconds to end, is last: by then another
    process leads, and this one can't write any more.

    Args:
        assembly: the parts.
        stop: set to end, also by a signal.
        ending: is set when the end begins.
        end_within: ends the process within so many seconds, by force if necessary.

    Raises:
        LeaseLostError: another process leads now, or might.
        ListenError: the address for other binders can't be listened at.

    """
    leadership, writers, scheduler = assembly.context.leadership, assembly.context.writers, assembly.scheduler
    assembly.context.core.decider.ledger.lead(leadership.epoch)
    async with (
        supervision.running((assembly.kopf,), scheduler.loop.under_way, stop) as kopf_task,
        leadership.term(),
        scheduler.extenders,
        writers.recorder,
        writers.tasks.drained(_LAST_WRITES),
        background(leadership.keep(), *assembly.endless()) as crashed,
    ):
        ends = (crashed, kopf_task)
        await until(stop, asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED))
        ending.set()
        end_within(_LAST_MOMENT_ASKED if stop.is_set() else _LAST_MOMENT)
        logger.info("stopping")
        for end in ends:
            if end.done():
                end.result()
