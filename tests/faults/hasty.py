"""An event loop with time that runs fast while all tasks wait, so that the product's pauses are short."""

import asyncio
import selectors
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# Speed of waiting, in seconds of the loop per second of the machine. Computing runs at normal speed. So does
# waiting for a server that owes an answer, as its slowness would otherwise cause time-outs outside the plan.
_LISTENING = 5.0
_QUIET = 50.0
# Seconds of the machine without events after which no more effects are expected.
_LULL = 0.02
# Seconds of the machine that the last connections have to end, and turns of the loop after that.
_PARTING = 5.0
_TURNS = 5


class _Selector(selectors.DefaultSelector):
    """Waits for the loop's timeouts in the loop's time.

    Attributes:
        skipped: seconds of the loop beyond those of the machine.
        awaited: number of answers that a server owes.

    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        self.awaited = 0
        self._heard = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begin = time.monotonic()
        lull = begin - self._heard >= _LULL
        speed = 1.0 if self.awaited else _QUIET if lull else _LISTENING
        wait = None if timeout is None else timeout / speed
        if not self.awaited and not lull and (wait is None or wait > _LULL):
            wait, timeout = _LULL, _LULL * speed  # and then look again, as asyncio permits
        events = super().select(wait)
        now = time.monotonic()
        if events:
            self._heard = now
        passed = now - begin
        ought = passed * speed if timeout is None else min(passed * speed, timeout) if events else timeout
        self.skipped += max(ought - passed, 0.0)
        return events


class HastyLoop(asyncio.SelectorEventLoop):
    """An event loop with fast time."""

    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return super().time() + self.selector.skipped

    async def close_connections(self) -> None:
        """Wait until all connections are gone: the end of a TLS connection waits for the server.

        The loop has one of its own, by which threads wake it.
        """
        end = time.monotonic() + _PARTING
        with awaiting_answer():
            while len(self.selector.get_map()) > 1 and time.monotonic() < end:  # noqa: ASYNC110 -- no event is set
                await asyncio.sleep(_LULL)
        for _ in range(_TURNS):
            await asyncio.sleep(0)


@contextmanager
def awaiting_answer() -> Iterator[None]:
    """Run time at normal speed while a server owes an answer, if the loop is a HastyLoop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, HastyLoop):
        yield
        return
    loop.selector.awaited += 1
    try:
        yield
    finally:
        loop.selector.awaited -= 1


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to the end in a loop of its own."""

    async def to_the_end() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HastyLoop)
        try:
            return await work
        finally:
            await loop.close_connections()

    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        return runner.run(to_the_end())


class JumpingClock:
    """The operator's clock, which advances with the loop and jumps on request.

    Attributes:
        peaks: its highest reading before each jump, with the loop's time.

    """

    def __init__(self, start: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset = start - self._loop.time()
        self.peaks: list[tuple[float, float]] = []

    def now(self) -> float:
        return round(self._loop.time() + self._offset, 3)

    def monotonic(self) -> float:
        return self._loop.time()

    @property
    def behind(self) -> float:
        """Seconds by which it is behind its highest reading, after it was set back."""
        return max([self.now(), *(shown for _, shown in self.peaks)]) - self.now()

    def jump(self, seconds: float) -> None:
        """Move the clock forward, or back."""
        self.peaks.append((self._loop.time(), self.now()))
        self._offset += seconds
