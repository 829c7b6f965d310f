"""Writes that go on in the background while decisions are made."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Any, NamedTuple

from tidelock.clock import Clock
from tidelock.framework.api import Api, PatchKind
from tidelock.isolation import Isolation
from tidelock.kube.backoff import Backoff, Backoffs
from tidelock.kube.client import ApiResource
from tidelock.kube.errors import ApiError
from tidelock.model.meta import ObjectMeta
from tidelock.scheduler.actions.fair_semaphore import FairSemaphore

# Requests under way at once: enough to keep an API server busy, few enough to be answered in time. Of one
# namespace's statuses, so few that an API server busy with them still answers others soon.
_TURNS = 32
_TURNS_A_NAMESPACE = 8
# Seconds between two tries of a request that fails.
_SHORTEST_RETRY = 0.1
_LONGEST_REFUSED = 60.0
LONGEST_RETRY = 5.0
"""Longest pause in seconds between two tries of a request that may succeed by itself later."""
# Seconds after the last task in which another is likely to come, as people send work in series.
_CALM = 0.1
# Longest sleep in seconds: a system clock that was set forward is noticed within it.
_LONGEST_SLEEP = 5.0


async def until_woken(wakeup: asyncio.Event, due: float | None, clock: Clock) -> None:
    """Sleep until an event is set, which is then cleared, or until an instant, but some seconds at most."""
    left = _LONGEST_SLEEP if due is None else due - clock.now()
    with suppress(TimeoutError):
        async with asyncio.timeout(max(min(left, _LONGEST_SLEEP), 0.0)):
            await wakeup.wait()
    wakeup.clear()


class FaultSubject(NamedTuple):
    """The step and the object for which a fault of a task is counted."""

    step: str
    resource: ApiResource
    meta: ObjectMeta


class Activity:
    """Whether urgent requests are under way, so that less urgent ones let them pass."""

    def __init__(self) -> None:
        self._at_work = 0
        self._calm_from = 0.0  # by the event loop's clock

    def busy(self) -> bool:
        """Return whether a task is at work, or was a moment ago. One that pauses after a failure is not."""
        return self._at_work > 0 or asyncio.get_running_loop().time() < self._calm_from

    def begin(self) -> None:
        """Note that a task goes to work."""
        self._at_work += 1

    def pause(self) -> None:
        """Note that a task rests for a while."""
        self._at_work -= 1

    def end(self) -> None:
        """Note that a task has ended."""
        self._at_work -= 1
        self.note_request()

    def note_request(self) -> None:
        """Note that a client waits, or waited a moment ago."""
        self._calm_from = asyncio.get_running_loop().time() + _CALM

    def rest(self) -> None:
        """Note that no more requests come."""
        self._calm_from = 0.0


class Tasks:
    """Background tasks: the process waits for their end, and a fault of one costs its object alone.

    Attributes:
        turn: held during a request, so that thousands of tasks line up here and not in the HTTP client, where
            waiting counts as part of a request's time-out, nor on hundreds of connections. Namespaces take
            turns in it with the kinds of writes that come by thousands.
        activity: whether a task is at work.

    """

    def __init__(self, rng: Random, isolation: Isolation, activity: Activity) -> None:
        """Prepare. Random pauses spread requests that are repeated."""
        self._isolation = isolation
        self.activity = activity
        self.turn = FairSemaphore(_TURNS, _TURNS_A_NAMESPACE)
        self._rng = rng
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    def spawn(
        self, work: Coroutine[Any, Any, None], about: FaultSubject, again: Callable[[], None] | None = None
    ) -> None:
        """Start a task, unless the end has come. After a fault of the task `again` is called later."""
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        self.activity.begin()
        task.add_done_callback(partial(self._ended, about, again))

    @asynccontextmanager
    async def drained(self, seconds: float) -> AsyncIterator[None]:
        """Let no more tasks begin from the end of the context on, and wait so long for those under way."""
        try:
            yield
        finally:
            self._closed = True
            await self.drain(seconds)
            self.activity.rest()

    async def drain(self, seconds: float) -> None:
        """Wait for the tasks under way, at most so long, then cancel the rest."""
        if self._running:
            _, left = await asyncio.wait(self._running, timeout=seconds)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    def retry_pauses(self) -> Callable[[ApiError], Awaitable[None]]:
        """Return a pause to await after each failure of a request, longer each time or as the server asks."""
        backoff = Backoff(_SHORTEST_RETRY, LONGEST_RETRY, self._rng)
        return lambda error: self.sleep(max(backoff.next(), error.retry_after or 0.0))

    async def sleep(self, seconds: float) -> None:
        """Pause the current task, which keeps nothing from being calm meanwhile."""
        self.activity.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.activity.begin()

    def call_later(self, seconds: float, function: Callable[..., None], *args: object) -> None:
        """Call a function after some seconds, for which no task is kept."""
        asyncio.get_running_loop().call_later(seconds, function, *args)

    def backoffs(self, longest: float = _LONGEST_REFUSED) -> Backoffs[Any]:
        """Return back-offs for the writes of many objects: one that is refused is repeated less and less."""
        return Backoffs(_SHORTEST_RETRY, longest, self._rng)

    def _ended(self, about: FaultSubject, again: Callable[[], None] | None, task: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        self._running.discard(task)
        self.activity.end()
        if task.cancelled() or (error := task.exception()) is None:
            return
        pause = self._isolation.failed(*about, error)
        if again is not None:
            loop.call_later(pause, self._again, about, again)

    def _again(self, about: FaultSubject, again: Callable[[], None]) -> None:
        with self._isolation.attempt(*about):
            if not self._closed:
                again()


class FairApi(Api):
    """The API of plugins: the requests of the client, each in its turn."""

    def __init__(self, api: Api, tasks: Tasks) -> None:
        self._api = api
        self._turn = tasks.turn

    async def get(self, path: str) -> bytes:
        """Read an object."""
        async with self._turn:
            return await self._api.get(path)

    async def create(self, path: str, body: object) -> bytes:
        """Create an object, or post to a subresource."""
        async with self._turn:
            return await self._api.create(path, body)

    async def replace(self, path: str, body: object) -> bytes:
        """Replace a stored object, or its subresource."""
        async with self._turn:
            return await self._api.replace(path, body)

    async def patch(self, path: str, body: object, *, kind: PatchKind = "merge") -> bytes:
        """Change an object."""
        async with self._turn:
            return await self._api.patch(path, body, kind=kind)

    async def delete(self, path: str, *, uid: str | None = None) -> bytes:
        """Delete an object, if it still has that uid."""
        async with self._turn:
            return await self._api.delete(path, uid=uid)
