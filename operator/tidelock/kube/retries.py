"""Steps that failed and are repeated after a pause."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)


class Retries(Generic[_K]):
    """The timers of steps that will be repeated, at most one for each step."""

    def __init__(self) -> None:
        self._timers: dict[_K, asyncio.TimerHandle] = {}

    def schedule(self, step: _K, pause: float, function: Callable[[], None]) -> None:
        """Repeat a step after some seconds, unless that is cancelled before."""
        self.cancel(step)
        self._timers[step] = asyncio.get_running_loop().call_later(pause, function)

    def cancel(self, step: _K) -> None:
        """Do not repeat a step. It is safe to call this for a step that succeeded or runs now."""
        if (timer := self._timers.pop(step, None)) is not None:
            timer.cancel()

    def close(self) -> None:
        """Repeat no step any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
