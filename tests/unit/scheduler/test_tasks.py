import asyncio

import pytest

from tidelock.scheduler.tasks import Tasks


async def _sleep_for_ever() -> None:
    await asyncio.Event().wait()


async def _crash(message: str) -> None:
    raise RuntimeError(message)


async def test_a_task_that_ends_is_forgotten() -> None:
    tasks = Tasks()
    tasks.spawn(asyncio.sleep(0))

    assert len(tasks) == 1
    await tasks.drain(1)
    assert len(tasks) == 0


async def test_the_first_crash_is_raised() -> None:
    tasks = Tasks()
    tasks.spawn(_crash("first"))
    tasks.spawn(_crash("second"))

    with pytest.raises(RuntimeError, match="first"):
        await tasks.crash()


async def test_nothing_is_raised_while_all_goes_well() -> None:
    tasks = Tasks()
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
    tasks = Tasks()
    tasks.spawn(_sleep_for_ever())

    await tasks.drain(0.001)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert len(tasks) == 0


async def test_draining_nothing_returns_at_once() -> None:
    await Tasks().drain(60)
