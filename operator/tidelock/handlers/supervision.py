"""Kopf operators, one for each kind, which fail alone and start again with a back-off.

Kopf ends with the first error of a watch other than 410: a missing right, a kind that was deleted, an error
of the API server. It leaves the watches of its other kinds behind, and `kopf.run_tasks` then cancels every
task that is younger than Kopf, the scheduler's included. So each kind has an operator of its own. Its tasks
are ended here, and no others.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, NoReturn

from tidelock.handlers.lifecycle import set_on_signals
from tidelock.kube.backoff import Backoff
from tidelock.kube.client import ApiResource
from tidelock.kube.errors import ApiError, NotFound
from tidelock.pace import PACE, Pace
from tidelock.running import until
from tidelock.telemetry import Telemetry

if TYPE_CHECKING:  # Kopf is imported when it starts
    from kopf import OperatorRegistry
    from kopf._cogs.structs.references import Insights

logger = logging.getLogger(__name__)

# Seconds between two starts, at most.
_LONGEST_PAUSE = 30.0
_NOT_STARTED = "NotStarted"


class SupervisedOperator:
    """A Kopf operator of one kind, started again whenever it ends.

    Attributes:
        resource: the kind of its handlers.
        problem: why it does not work now, in a word; empty if it works.

    """

    def __init__(
        self,
        resource: ApiResource,
        registry: "Callable[[], OperatorRegistry]",
        identity: str,
        telemetry: Telemetry,
        rng: Random,
        pace: Pace = PACE,
    ) -> None:
        """Take the maker of the handlers, of this kind alone. It is called in a thread, and imports Kopf.

        The identity is the name of this process. Kopf has no peers here and does not use it, but would
        otherwise make one of the user's name, which a user without a line in /etc/passwd does not have.
        """
        self.resource = resource
        self._identity = identity
        self.problem = _NOT_STARTED
        self._make_registry = registry
        self._up = telemetry.kopf_up.labels(resource.plural)
        self._failures = telemetry.kopf_failures
        self._backoff = Backoff(pace.kopf_retry, _LONGEST_PAUSE, rng)
        self._pace = pace

    async def run(self, stop: asyncio.Event, ended: asyncio.Event) -> None:
        """Run Kopf again and again until `ended` is set. Signals set `stop`."""
        while not ended.is_set():
            try:
                error = await self._run_once(stop, ended)
            except Exception as failure:  # noqa: BLE001 -- a start that fails is a failure like any other
                error = failure
            if error is not None:
                self._failed(error)
                await until(ended, asyncio.sleep(self._backoff.next()))

    async def _run_once(self, stop: asyncio.Event, ended: asyncio.Event) -> BaseException | None:
        """Run Kopf until it fails, and return why, or until `ended` is set."""
        registry = await asyncio.to_thread(self._make_registry)
        # The registry has imported Kopf, in its thread.
        import kopf  # noqa: PLC0415
        from kopf._cogs.structs.references import Insights  # noqa: PLC0415
        from kopf._core.engines.peering import Identity  # noqa: PLC0415

        flag, insights = asyncio.Event(), Insights()
        tasks = {
            *await kopf.spawn_tasks(
                registry=registry,
                insights=insights,
                identity=Identity(self._identity),
                clusterwide=True,
                standalone=True,
                stop_flag=flag,
            ),
            asyncio.create_task(self._watch_over(insights)),
        }
        set_on_signals(stop)  # Kopf has put handlers of its own in their place
        await until(ended, asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))
        flag.set()  # ends the task that waits for it
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._up.set(0)
        if ended.is_set():
            return None
        return next(filter(None, errors), RuntimeError("Kopf has ended by itself"))

    async def _watch_over(self, insights: "Insights") -> NoReturn:
        """Note when Kopf works. Raises NotFound if it finds no such kind, as it would not look again."""
        await insights.ready_resources.wait()
        if not any(found.plural == self.resource.plural for found in insights.watched_resources):
            raise NotFound("the API server does not serve this kind", status=404)
        await asyncio.sleep(self._pace.kopf_working)
        self._up.set(1)
        if self.problem != _NOT_STARTED:
            logger.info("Kopf works again", extra={"resource": self.resource.plural})
        self.problem = ""
        await asyncio.sleep(self._pace.kopf_calm)
        self._backoff.reset()
        await asyncio.Event().wait()
        raise AssertionError

    def _failed(self, error: BaseException) -> None:
        """Count a failure, and log the first of those that are alike."""
        problem = type(error).__name__.removeprefix("API").removesuffix("Error")
        self._failures.labels(self.resource.plural, problem).inc()
        if problem != self.problem:
            text = str(error.args[0] if error.args else error)
            fields = {"resource": self.resource.plural, "error": f"{problem}: {text}"}
            logger.warning(
                "Kopf has failed and is started again",
                extra=fields,
                exc_info=error if _is_fault(error) else None,
            )
        self.problem = problem


@asynccontextmanager
async def running(
    operators: Collection[SupervisedOperator], started: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[asyncio.Task[None]]:
    """Run Kopf while the context lasts, once `started` is set. Yields its task, which never ends before.

    Reservations come first, so Kopf starts after the first decision. Signals set `stop`.
    """
    ended = asyncio.Event()

    async def run() -> None:
        if await until(ended, started.wait()):
            await asyncio.gather(*(operator.run(stop, ended) for operator in operators))

    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        ended.set()
        await asyncio.gather(task, return_exceptions=True)


def _is_fault(error: BaseException) -> bool:
    """Return whether an error is a fault of a program, which needs a traceback, and not of the API server."""
    import aiohttp  # noqa: PLC0415 -- Kopf has imported it

    expected = (ApiError, aiohttp.ClientError, OSError)
    return not isinstance(error, expected) and not type(error).__module__.startswith("kopf.")
