"""An event loop whose time runs fast, so that nobody waits for the product's own pauses and time-outs."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SPEED = 10.0
"""Seconds of the loop in one of the machine. The machine looks so many times slower to what runs in it."""


class _Selector(selectors.DefaultSelector):
    """Waits as long as the loop means it, in the machine's seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout if timeout is None else timeout / SPEED)


class HastyLoop(asyncio.SelectorEventLoop):
    """The event loop."""

    def __init__(self) -> None:
        super().__init__(_Selector())

    def time(self) -> float:
        return super().time() * SPEED


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in a loop of its own."""
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        return runner.run(work)


class JumpingClock:
    """The operator's clock: it goes with the loop, and jumps when it is told to.

    Attributes:
        peaks: what it showed at its latest before each jump, with the loop's time.

    """

    def __init__(self, start: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset = start - self._loop.time()
        self.peaks: list[tuple[float, float]] = []

    def now(self) -> float:
        return round(self._loop.time() + self._offset, 3)

    def monotonic(self) -> float:
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        """Go forward, or back."""
        self.peaks.append((self._loop.time(), self.now()))
        self._offset += seconds
