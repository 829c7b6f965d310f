"""An event loop in a thread of its own, for work that a long decision must not delay."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")

# Seconds for the tasks of the thread to end.
_LAST_TURNS = 1.0


class SecondLoop(Protocol):
    """An event loop beside that of the process."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run it while the context lasts. At the end its cancelled tasks get a second to end."""

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine in it."""


class LoopThread(SecondLoop):
    """An event loop in a thread, which has the given name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the thread while the context lasts."""
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            await asyncio.wrap_future(self.submit(_end_tasks()))
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(thread.join)
            self._loop.close()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


async def _end_tasks() -> None:
    """Let the cancelled tasks of the thread end, such as the wait for the Lease."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=_LAST_TURNS)
