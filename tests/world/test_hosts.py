"""The clocks, the signals and the death of a process."""

import asyncio
import datetime as dt
import gc
import os
import random
import secrets
import signal
import time
import uuid
import warnings
from collections.abc import Iterator

import pytest

from world import World
from world.host import EPOCH


@pytest.fixture
def world() -> Iterator[World]:
    yield World(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()  # no task of a dead process wakes up then


def test_each_host_has_clocks_of_its_own(world: World) -> None:
    async def read() -> tuple[float, float, float]:
        return time.time(), time.monotonic(), asyncio.get_running_loop().time()

    async def main() -> list[tuple[float, float, float]]:
        hosts = world.host("one", skew=5.0), world.host("two", skew=-3.0)
        await asyncio.sleep(100)
        return [await host.spawn(read()) for host in hosts]

    one, two = world.run(main())
    assert one[0] == pytest.approx(EPOCH + 105, abs=0.01)
    assert two[0] == pytest.approx(EPOCH + 97, abs=0.01)
    assert abs(one[1] - two[1]) > 1  # they have run for different times
    assert one[1] == pytest.approx(one[2], abs=0.01)


def test_a_step_of_the_wall_clock_leaves_durations_alone(world: World) -> None:
    async def work() -> tuple[float, float]:
        wall, monotonic = time.time(), time.monotonic()
        await asyncio.sleep(10)
        return time.time() - wall, time.monotonic() - monotonic

    async def main() -> tuple[float, float]:
        host = world.host("one")
        task = host.spawn(work())
        await asyncio.sleep(5)
        host.step_clock(-60)
        return await task

    wall, monotonic = world.run(main())
    assert wall == pytest.approx(-50, abs=0.01)
    assert monotonic == pytest.approx(10, abs=0.01)


def test_a_clock_that_gains_ends_its_waits_early(world: World) -> None:
    async def main() -> float:
        task = world.host("one", drift=0.1).spawn(asyncio.sleep(110))
        await task
        return world.loop.now

    assert world.run(main()) == pytest.approx(100, abs=0.01)


def test_a_stall_makes_all_steps_late(world: World) -> None:
    async def main() -> float:
        host = world.host("one")
        task = host.spawn(asyncio.sleep(1))
        await asyncio.sleep(0.5)
        host.stall(10)
        await task
        return world.loop.now

    assert world.run(main()) == pytest.approx(10.5, abs=0.01)


def test_a_killed_process_takes_no_further_step(world: World) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            while True:  # noqa: ASYNC110 -- time is the subject
                await asyncio.sleep(1)
        finally:
            seen.append(f"cleanup at {world.loop.over}")
            await asyncio.sleep(1)
            seen.append("more cleanup")

    async def main() -> int | None:
        host = world.host("one")
        ended = host.launch(work())
        await asyncio.sleep(10)
        host.kill()
        status = await ended
        await asyncio.sleep(100)
        assert not seen
        return status

    assert world.run(main()) is None
    assert seen == ["cleanup at True"]  # of the end of the world, after which nothing has an effect


def test_a_program_that_ends_takes_its_background_tasks_with_it(world: World) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(1)

    async def program() -> None:
        asyncio.get_running_loop().create_task(tick())
        await asyncio.sleep(10.5)

    async def main() -> int | None:
        status = await world.host("one").launch(program())
        await asyncio.sleep(100)
        return status

    assert world.run(main()) == 0
    assert ticks == 11


def test_a_program_that_fails_has_the_exit_status_1(world: World) -> None:
    async def program() -> None:
        raise ValueError("wrong")

    async def main() -> list[int | None]:
        return [
            await world.host("one").launch(program()),
            await world.host("two").launch(program(), expected=(ValueError,)),
        ]

    assert world.run(main()) == [1, 1]
    assert [error.partition(":")[2] for error in world.unhandled()] == [
        " one has failed: ValueError('wrong')"
    ]


def test_a_signal_calls_its_handler_or_kills(world: World) -> None:
    async def program() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()

    async def main() -> list[int | None]:
        hosts = world.host("one"), world.host("two")
        ended = [hosts[0].launch(program()), hosts[1].launch(asyncio.sleep(100))]
        await asyncio.sleep(1)
        for host in hosts:
            host.signal(signal.SIGTERM)
        return await asyncio.gather(*ended)

    assert world.run(main()) == [0, None]


def test_chance_comes_from_the_seed() -> None:
    def drawn(seed: int) -> tuple[object, ...]:
        async def main() -> tuple[object, ...]:
            return uuid.uuid4(), secrets.token_hex(), os.urandom(4), random.random()  # noqa: S311 -- a test

        return World(seed).run(main())

    state = random.getstate()
    assert drawn(1) == drawn(1) != drawn(2)
    assert random.getstate() == state
    assert abs(time.time() - dt.datetime.now(dt.UTC).timestamp()) < 60  # the real one again


def test_a_thread_that_the_world_does_not_drive_is_refused() -> None:
    async def main() -> None:
        import threading  # noqa: PLC0415 -- used here alone

        threading.Thread(target=print).start()

    with pytest.raises(AssertionError, match="does not drive"):
        World(1).run(main())
