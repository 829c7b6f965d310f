import asyncio
from random import Random

import pytest

from tidelock.scheduler.tasks import Tasks


def make_tasks() -> Tasks:
    return Tasks(Random(1))  # noqa: S311 -- for jitter


async def _sleep_for_ever() -> None:
    await asyncio.Event().wait()


async def _crash(message: str) -> None:
    raise RuntimeError(message)


async def test_a_task_that_ends_is_forgotten() -> None:
    tasks = make_tasks()
    tasks.spawn(asyncio.sleep(0))

    assert len(tasks) == 1
    await tasks.drain(1)
    assert len(tasks) == 0


async def test_the_first_crash_is_raised() -> None:
    tasks = make_tasks()
    tasks.spawn(_crash("first"))
    tasks.spawn(_crash("second"))

    with pytest.raises(RuntimeError, match="first"):
        await tasks.crash()


async def test_nothing_is_raised_while_all_goes_well() -> None:
    tasks = make_tasks()
    tasks.spawn(asyncio.sleep(0))
    waiting = asyncio.create_task(tasks.crash())
    await tasks.drain(1)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])

    tasks.spawn(_crash("after whoever waited has left"))
    with pytest.raises(RuntimeError, match="has left"):
        await tasks.crash()


async def test_drain_cancels_what_is_left() -> None:
    tasks = make_tasks()
    tasks.spawn(_sleep_for_ever())

    await tasks.drain(0.001)

    assert len(tasks) == 0


async def test_draining_nothing_returns_at_once() -> None:
    await make_tasks().drain(60)


async def test_work_is_busy_for_a_moment_longer_than_it_takes() -> None:
    tasks = make_tasks()
    assert not tasks.busy

    tasks.spawn(asyncio.sleep(0))
    assert tasks.busy
    await tasks.drain(1)
    assert len(tasks) == 0
    assert tasks.busy  # the next task of a series is likely to come

    async with asyncio.timeout(60):
        while tasks.busy:  # noqa: ASYNC110 -- it is the time that passes
            await asyncio.sleep(0.01)


async def test_after_the_end_nothing_begins() -> None:
    tasks, done = make_tasks(), list[str]()

    async def work(name: str) -> None:
        done.append(name)

    async with tasks.drained(60):
        tasks.spawn(work("under way"))
    tasks.spawn(work("late"))

    assert len(tasks) == 0
    assert not tasks.busy
    assert done == ["under way"]
