"""An isolation for tests, which lists each fault."""

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn, Self

from tidelock.isolation import Isolation
from tidelock.kube.client import ApiResource
from tidelock.kube.events import EventType, ObjectReference
from tidelock.model.meta import ObjectMeta


class Isolating(Isolation):
    """An isolation that lists the faults as `step object: error`. Most tests expect an empty list.

    A `pause` replaces the pauses that it would return. An `expected` fault is not listed.
    """

    def __init__(self, expected: Callable[[BaseException], bool] = lambda _error: False) -> None:
        self._expected = expected
        super().__init__(lambda *_: None, lambda *_: None, time.monotonic)
        self.faults: list[str] = []
        self.pause: float | None = None
        self._first: BaseException | None = None
        self._failed = asyncio.Event()

    def to(
        self,
        count: Callable[[str, str], None],
        record: Callable[[ObjectReference, EventType, str, str, str], None],
        monotonic: Callable[[], float],
    ) -> Self:
        """Count and report the faults as well, as in a process."""
        super().__init__(count, record, monotonic)
        return self

    def failed(self, step: str, about: ApiResource | str, meta: ObjectMeta, error: BaseException) -> float:
        self._take(f"{step} {meta.key}: {error}", error)
        pause = super().failed(step, about, meta, error)
        return pause if self.pause is None else self.pause

    def part_failed(self, step: str, error: BaseException) -> float:
        self._take(f"{step}: {error}", error)
        return super().part_failed(step, error)

    def _take(self, told: str, error: BaseException) -> None:
        if self._expected(error):
            return
        self.faults.append(told)
        self._first = self._first or error
        self._failed.set()

    async def crash(self) -> NoReturn:
        """Wait for ever, or raise the first fault."""
        await self._failed.wait()
        assert self._first is not None
        raise self._first
