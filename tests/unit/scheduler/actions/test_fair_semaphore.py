"""The order in which waiting requests are sent."""

import asyncio
from collections.abc import Iterable

import pytest

from tidelock.scheduler.actions.fair_semaphore import FairSemaphore
from unit.scheduler.machinery import turns as settle


class Queue:
    """Tasks that note when they have their turn, and end it when the test calls `end`."""

    def __init__(self, most: int = 2, most_of_one: int = 1) -> None:
        self.turns = FairSemaphore(most, most_of_one)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, *names: str) -> None:
        """Start tasks.

        In a name the first letter is the tenant, or a dash for none, and the second one the queue.
        """
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name))
        await settle()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await settle()

    async def close(self, names: Iterable[str] | None = None) -> None:
        for name in names or list(self._tasks):
            self._ends[name].set()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _work(self, name: str) -> None:
        line = name[1] if name[1].isalpha() else ""
        async with self.turns if name[0] == "-" else self.turns.of(name[0], line):
            self.begun.append(name)
            await self._ends[name].wait()


async def test_a_tenant_has_a_limited_number_of_turns_and_others_come_in_between() -> None:
    queue = Queue()
    await queue.enter("a1", "a2", "a3", "b1", "b2")
    assert queue.begun == ["a1", "b1"]
    await queue.end("a1", "b1", "a2")
    assert queue.begun == ["a1", "b1", "a2", "b2", "a3"]
    await queue.close()


async def test_a_new_tenant_does_not_wait_behind_the_queue_of_another() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "a2", "a3", "a4")
    await queue.enter("b1")
    await queue.end("a1", "a2")
    assert queue.begun == ["a1", "a2", "b1"]
    await queue.close()


async def test_the_queues_of_a_tenant_are_served_in_turn() -> None:
    """Regression: a group of hundreds of members delayed all other objects of its namespace."""
    queue = Queue(most=1)
    await queue.enter("ax1", "ax2", "ax3", "ax4", "ay1", "az1", "b1")
    await queue.end("ax1", "ax2", "b1", "ay1", "az1", "ax3")
    assert queue.begun == ["ax1", "ax2", "b1", "ay1", "az1", "ax3", "ax4"]
    await queue.close()


async def test_more_queues_of_a_tenant_do_not_mean_more_turns() -> None:
    queue = Queue(most=3, most_of_one=2)
    await queue.enter("ax1", "ay1", "az1", "b1")
    assert queue.begun == ["ax1", "ay1", "b1"]
    await queue.close()


async def test_requests_without_a_tenant_share_one_queue_with_the_whole_limit() -> None:
    queue = Queue(most=3)
    await queue.enter("-1", "-2", "-3", "-4", "a1")
    assert queue.begun == ["-1", "-2", "-3"]
    await queue.end("-1")
    await queue.end("-2")
    assert set(queue.begun[3:]) == {"-4", "a1"}
    await queue.close()


async def test_a_request_that_is_cancelled_while_it_waits_takes_no_turn() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "b1", "c1")
    await queue.cancel("b1")
    await queue.end("a1")
    assert queue.begun == ["a1", "c1"]
    await queue.close()


async def test_a_turn_of_a_cancelled_request_is_passed_on() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "b1", "c1")
    queue._ends["a1"].set()
    await asyncio.sleep(0)  # now the turn is granted, and the task has not run
    assert (queue.turns._held["b"], queue.begun) == (1, ["a1"])
    await queue.cancel("b1")
    assert queue.begun == ["a1", "c1"]
    await queue.close()
    assert queue.turns._free == 1
    assert not queue.turns._held


async def test_a_turn_ends_with_an_error() -> None:
    turns = FairSemaphore(1, 1)
    with pytest.raises(ValueError, match="wrong"):
        async with turns.of("a"):
            raise ValueError("wrong")
    async with asyncio.timeout(20), turns:
        pass
