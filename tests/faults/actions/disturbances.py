"""Time that passes, clocks that jump, refusals and crashes."""

import asyncio

from faults.fault_run import FaultRun


async def pass_time(run: FaultRun, seconds: float) -> None:
    await asyncio.sleep(seconds)


async def await_minute(run: FaultRun, offset: float) -> None:
    """Wait until the start of the next minute by the operator's clock, plus an offset in seconds."""
    await asyncio.sleep(60 - run.clock.now() % 60 + offset)


async def jump(run: FaultRun, seconds: float) -> None:
    run.clock.jump(seconds)


async def storm(run: FaultRun, code: int, seconds: float) -> None:
    run.proxy.storm(code, seconds)


async def crash(run: FaultRun) -> None:
    run.proxy.crash.set()
