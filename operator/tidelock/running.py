"""Helpers for a process: its forced end, its garbage collection, background coroutines."""

import asyncio
import faulthandler
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NoReturn

logger = logging.getLogger(__name__)

# Seconds between two measurements of the lag of the event loop, and the lag that is logged.
_LAG_PERIOD = 1.0
_STANDSTILL = 1.0


def end_within(seconds: float) -> None:
    """End the process within some seconds, whatever its tasks and threads do then.

    A thread that needs no Python ends it by force, so even a call that never returns can't prevent the end.
    It writes the stack of each thread to stderr, and the exit status is 1.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def collect_seldom() -> None:
    """Search for cyclic garbage less often than Python does.

    Decoded objects live long and have no cycles. At Python's pace the search would take a third of a start
    beside 10,000 reservations, and some hundred milliseconds at any moment beside 10,000 pods. New objects
    are searched 250,000 at a time, which takes 40 ms. A million took 160 ms within an event or a decision.
    """
    gc.set_threshold(50_000, 5, 400)


@contextmanager
def keeping_nearly_all() -> Iterator[None]:
    """Hardly search for cyclic garbage within a block, and never among the objects that it leaves.

    Nearly all objects that are made while a cluster is read stay for long. The searches took a tenth of a
    start beside 30,000 pods, and each later one would look at all of these objects again.
    """
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


async def watch_lag(monotonic: Callable[[], float], observe: Callable[[float], None]) -> NoReturn:
    """Measure for ever by how much a timer of the event loop is late, in seconds.

    A log with a long standstill explains answers that came late, and checks by time that failed.
    """
    while True:
        start = monotonic()
        await asyncio.sleep(_LAG_PERIOD)
        lag = max(monotonic() - start - _LAG_PERIOD, 0.0)
        observe(lag)
        if lag > _STANDSTILL:
            logger.info("the event loop stood still", extra={"seconds": round(lag, 1)})


async def until(stop: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Run the work unless `stop` is set first, and return whether it was done. Raises the work's errors."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        return False
    task.result()
    return True


@asynccontextmanager
async def background(*work: Coroutine[Any, Any, NoReturn]) -> AsyncIterator[asyncio.Future[NoReturn]]:
    """Run endless work while the context lasts, and yield a future that ends with the first error."""
    tasks = [asyncio.create_task(endless) for endless in work]
    crashed: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    def ended(task: asyncio.Task[NoReturn]) -> None:
        if not task.cancelled() and not crashed.done() and (error := task.exception()) is not None:
            crashed.set_exception(error)

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield crashed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        crashed.cancel()
