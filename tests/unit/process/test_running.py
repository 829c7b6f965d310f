import asyncio
import gc
from typing import NoReturn

import pytest

from tidelock.running import background, collect_seldom, until


async def for_ever(ended: list[str] | None = None) -> NoReturn:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append("ended")
    raise AssertionError


async def fail() -> NoReturn:
    raise ValueError("wrong")


def test_garbage_is_searched_for_among_few_objects_at_a_time() -> None:
    """A million new objects were searched at once, which took 160 ms within an event or a decision."""
    before = gc.get_threshold()
    try:
        collect_seldom()
        youngest, young, old = gc.get_threshold()
    finally:
        gc.set_threshold(*before)
    assert youngest * young <= 250_000
    assert youngest * young * old >= 100_000_000


async def test_work_is_done_before_the_flag_is_set() -> None:
    assert await until(asyncio.Event(), asyncio.sleep(0, "done"))


async def test_work_ends_with_the_flag() -> None:
    stop, ended = asyncio.Event(), list[str]()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    assert not await until(stop, for_ever(ended))
    assert ended == ["ended"]


async def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="wrong"):
        await until(asyncio.Event(), fail())


async def test_work_ends_with_whoever_waits_for_it() -> None:
    ended: list[str] = []
    waiting = asyncio.create_task(until(asyncio.Event(), for_ever(ended)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["ended"]


async def test_endless_work_ends_with_its_context() -> None:
    ended: list[str] = []
    async with background(for_ever(ended), for_ever(ended)) as crashed:
        await asyncio.sleep(0)
        assert ended == []
    assert ended == ["ended", "ended"]
    assert crashed.cancelled()


async def test_the_first_crash_of_endless_work_is_told() -> None:
    ended: list[str] = []
    async with background(for_ever(ended), fail(), fail()) as crashed:
        with pytest.raises(ValueError, match="wrong"):
            await crashed
        assert ended == []
    assert ended == ["ended"]
