import asyncio
from typing import NoReturn

import pytest

from tidelock.running import background, until


async def for_ever(ended: list[str] | None = None) -> NoReturn:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append("ended")
    raise AssertionError


async def fail() -> NoReturn:
    raise ValueError("wrong")


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
