import asyncio
import gc
from typing import NoReturn

import pytest

from tidelock import running
from tidelock.running import background, collect_seldom, keeping_nearly_all, until, watch_lag


async def for_ever(ended: list[str] | None = None) -> NoReturn:
    try:
        await asyncio.Event().wait()
    finally:
        if ended is not None:
            ended.append("ended")
    raise AssertionError


async def fail() -> NoReturn:
    raise ValueError("wrong")


def test_the_garbage_collector_scans_few_objects_at_a_time() -> None:
    """A million new objects were once scanned at once, which took 160 ms within an event or a decision."""
    before = gc.get_threshold()
    try:
        collect_seldom()
        youngest, young, old = gc.get_threshold()
    finally:
        gc.set_threshold(*before)
    assert youngest * young <= 250_000
    assert youngest * young * old >= 100_000_000


def test_objects_that_are_read_at_a_start_are_searched_neither_then_nor_later() -> None:
    """The searches took a tenth of a start beside 30,000 pods."""
    before, frozen, searches = gc.get_threshold(), gc.get_freeze_count(), list[str]()
    gc.callbacks.append(lambda phase, _info: searches.append(phase))
    try:
        with keeping_nearly_all():
            read = [[number] for number in range(200_000)]
        assert (gc.get_threshold(), searches) == (before, [])
        assert gc.get_freeze_count() - frozen >= len(read)
    finally:
        gc.callbacks.pop()
        gc.unfreeze()


async def test_work_that_finishes_before_the_flag_is_set_returns_true() -> None:
    assert await until(asyncio.Event(), asyncio.sleep(0, "done"))


async def test_work_is_cancelled_when_the_flag_is_set() -> None:
    stop, ended = asyncio.Event(), list[str]()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    assert not await until(stop, for_ever(ended))
    assert ended == ["ended"]


async def test_an_exception_of_the_work_is_raised() -> None:
    with pytest.raises(ValueError, match="wrong"):
        await until(asyncio.Event(), fail())


async def test_work_is_cancelled_with_the_waiting_task() -> None:
    ended: list[str] = []
    waiting = asyncio.create_task(until(asyncio.Event(), for_ever(ended)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["ended"]


async def test_endless_work_is_cancelled_at_the_end_of_its_context() -> None:
    ended: list[str] = []
    async with background(for_ever(ended), for_ever(ended)) as crashed:
        await asyncio.sleep(0)
        assert ended == []
    assert ended == ["ended", "ended"]
    assert crashed.cancelled()


async def test_the_first_crash_of_endless_work_is_raised() -> None:
    ended: list[str] = []
    async with background(for_ever(ended), fail(), fail()) as crashed:
        with pytest.raises(ValueError, match="wrong"):
            await crashed
        assert ended == []
    assert ended == ["ended"]


async def test_the_lag_of_the_event_loop_is_measured_and_a_standstill_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "_LAG_PERIOD", 0.0)
    caplog.set_level("INFO")
    readings, lags = iter([0.0, 0.25, 1.0, 3.5]), list[float]()
    with pytest.raises(RuntimeError):  # the clock has no further readings
        await watch_lag(lambda: next(readings), lags.append)

    assert lags == [0.25, 2.5]
    assert [(each.message, each.__dict__["seconds"]) for each in caplog.records] == [
        ("the event loop stood still", 2.5)
    ]
