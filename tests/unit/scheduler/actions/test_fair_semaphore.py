"""Who sends the next request when many wait."""

import asyncio
from collections.abc import Iterable

import pytest

from tidelock.scheduler.actions.fair_semaphore import FairSemaphore
from unit.scheduler.machinery import turns as settle


class Queue:
    """Tasks that note when they have their turn, and end it when they are told to."""

    def __init__(self, most: int = 2, most_of_one: int = 1) -> None:
        self.turns = FairSemaphore(most, most_of_one)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def enter(self, *names: str) -> None:
        """Begin tasks; the first letter is the tenant, a dash is nobody, a second letter is the line."""
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


async def test_a_tenant_has_so_many_at_most_and_others_come_between() -> None:
    queue = Queue()
    await queue.enter("a1", "a2", "a3", "b1", "b2")
    assert queue.begun == ["a1", "b1"]
    await queue.end("a1", "b1", "a2")
    assert queue.begun == ["a1", "b1", "a2", "b2", "a3"]
    await queue.close()


async def test_a_newcomer_does_not_wait_for_a_line() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "a2", "a3", "a4")
    await queue.enter("b1")
    await queue.end("a1", "a2")
    assert queue.begun == ["a1", "a2", "b1"]
    await queue.close()


async def test_the_lines_of_a_tenant_are_served_in_turn() -> None:
    """A group of hundreds of members delayed every other object of its namespace until all were made."""
    queue = Queue(most=1)
    await queue.enter("ax1", "ax2", "ax3", "ax4", "ay1", "az1", "b1")
    await queue.end("ax1", "ax2", "b1", "ay1", "az1", "ax3")
    assert queue.begun == ["ax1", "ax2", "b1", "ay1", "az1", "ax3", "ax4"]
    await queue.close()


async def test_more_lines_are_no_more_turns() -> None:
    queue = Queue(most=3, most_of_one=2)
    await queue.enter("ax1", "ay1", "az1", "b1")
    assert queue.begun == ["ax1", "ay1", "b1"]
    await queue.close()


async def test_nobodys_are_one_line_with_the_whole_limit() -> None:
    queue = Queue(most=3)
    await queue.enter("-1", "-2", "-3", "-4", "a1")
    assert queue.begun == ["-1", "-2", "-3"]
    await queue.end("-1")
    await queue.end("-2")
    assert set(queue.begun[3:]) == {"-4", "a1"}
    await queue.close()


async def test_who_gives_up_waiting_takes_no_turn() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "b1", "c1")
    await queue.cancel("b1")
    await queue.end("a1")
    assert queue.begun == ["a1", "c1"]
    await queue.close()


async def test_a_turn_that_is_given_to_who_is_cancelled_goes_on() -> None:
    queue = Queue(most=1)
    await queue.enter("a1", "b1", "c1")
    queue._ends["a1"].set()
    await asyncio.sleep(0)  # now the turn is given, and not yet taken
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
