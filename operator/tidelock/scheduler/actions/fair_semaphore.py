"""Who may send the next request: so many are under way at once, and those who wait take turns."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType

_NOBODY = ""


class FairSemaphore:
    """A semaphore for which tenants wait in lines of their own, which are served in turn.

    A tenant may have several lines, such as one for each of its objects, which share its turns in turn: an
    object that needs hundreds of requests does not delay the others of its tenant. As a context manager the
    semaphore is held for no tenant in particular, which is one line among the others.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        """Let so many be held at once, and so many by one tenant; nobody's have the first limit alone."""
        self._free = most
        self._most_of_one = most_of_one
        self._held: Counter[str] = Counter()
        self._lines: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}

    def of(self, tenant: str, line: str = "") -> AbstractAsyncContextManager[None]:
        """Hold a turn of a tenant, after waiting in this line of it, for the length of the context."""
        return self._holding(tenant, line)

    async def __aenter__(self) -> None:
        await self._acquire(_NOBODY)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(_NOBODY)

    @asynccontextmanager
    async def _holding(self, tenant: str, line: str) -> AsyncIterator[None]:
        await self._acquire(tenant, line)
        try:
            yield
        finally:
            self._release(tenant)

    async def _acquire(self, tenant: str, line: str = "") -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, {}).setdefault(line, deque()).append(turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(tenant)  # it was given and cancelled in the same moment
            raise

    def _release(self, tenant: str) -> None:
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._hand_out()

    def _hand_out(self) -> None:
        """Give what is free to the tenants that have not had a turn for longest."""
        while self._free and (tenant := self._next()) is not None:
            lines = self._lines.pop(tenant)
            name = next(iter(lines))
            line = lines.pop(name)
            turn = line.popleft()
            if line:
                lines[name] = line  # behind the tenant's other lines
            if lines:
                self._lines[tenant] = lines  # behind the other tenants
            if not turn.done():
                self._free -= 1
                self._held[tenant] += 1
                turn.set_result(None)

    def _next(self) -> str | None:
        """Give the first tenant in line that may hold another turn."""
        return next(
            (each for each in self._lines if each == _NOBODY or self._held[each] < self._most_of_one), None
        )
