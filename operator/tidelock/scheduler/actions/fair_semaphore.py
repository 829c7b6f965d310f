"""A semaphore for requests that is fair to tenants: a limited number is under way, and tenants take turns."""

import asyncio
from collections import Counter, deque
from contextlib import AbstractAsyncContextManager
from types import TracebackType

_NO_TENANT = ""


class FairSemaphore(AbstractAsyncContextManager[None]):
    """A semaphore for which tenants wait in queues of their own, which are served in turn.

    A tenant may have several queues, such as one for each of its objects. The queues share the turns of the
    tenant, so an object that needs hundreds of requests does not delay the others of its tenant. As a context
    manager the semaphore is held for no particular tenant, which is one queue among the others.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        """Set the limits: of all holders, and of those of one tenant. No tenant has the first limit alone."""
        self._free = most
        self._most_of_one = most_of_one
        self._held: Counter[str] = Counter()
        self._queues: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}

    def of(self, tenant: str, queue: str = "") -> AbstractAsyncContextManager[None]:
        """Hold a turn of a tenant while the context lasts, after a wait in this queue of the tenant."""
        return _Turn(self, tenant, queue)

    async def __aenter__(self) -> None:
        await self.acquire(_NO_TENANT)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(_NO_TENANT)

    async def acquire(self, tenant: str, queue: str = "") -> None:
        """Wait for a turn of a tenant."""
        if self._free and not self._queues and (not tenant or self._held[tenant] < self._most_of_one):
            self._free -= 1
            self._held[tenant] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, {}).setdefault(queue, deque()).append(turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(tenant)  # it was given and cancelled in the same moment
            raise

    def release(self, tenant: str) -> None:
        """End a turn of a tenant."""
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._hand_out()

    def _hand_out(self) -> None:
        """Grant free turns to the tenants that have had none for longest."""
        while self._free and (tenant := self._next()) is not None:
            queues = self._queues.pop(tenant)
            name = next(iter(queues))
            queue = queues.pop(name)
            turn = queue.popleft()
            if queue:
                queues[name] = queue  # behind the tenant's other queues
            if queues:
                self._queues[tenant] = queues  # behind the other tenants
            if not turn.done():
                self._free -= 1
                self._held[tenant] += 1
                turn.set_result(None)

    def _next(self) -> str | None:
        """Return the first waiting tenant that may hold another turn."""
        return next(
            (each for each in self._queues if each == _NO_TENANT or self._held[each] < self._most_of_one),
            None,
        )


class _Turn(AbstractAsyncContextManager[None]):
    """A turn of a tenant, held while the context lasts."""

    __slots__ = ("_queue", "_semaphore", "_tenant")

    def __init__(self, semaphore: FairSemaphore, tenant: str, queue: str) -> None:
        self._semaphore = semaphore
        self._tenant = tenant
        self._queue = queue

    async def __aenter__(self) -> None:
        await self._semaphore.acquire(self._tenant, self._queue)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._semaphore.release(self._tenant)
