"""Virtual time, and the order of callbacks."""

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from world import BudgetExceededError, DeadlockError, Host, World, death_at
from world.loop import Budget


def run(work: Callable[[], Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    """Run a coroutine as the program of a host, and return its result."""
    world = World(seed)

    async def main() -> Any:
        return await world.host("one").spawn(work())

    return world.run(main())


def test_an_hour_passes_at_once() -> None:
    async def wait() -> float:
        start = asyncio.get_running_loop().time()
        await asyncio.sleep(3000)
        return asyncio.get_running_loop().time() - start

    began = time.monotonic()
    assert run(wait) == pytest.approx(3000, abs=0.01)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("seed", range(20))
def test_callbacks_run_in_the_order_of_their_registration(seed: int) -> None:
    """asyncio promises this order, so no seed changes it."""
    order: list[int] = []

    async def register() -> None:
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_soon(order.append, number)
        await asyncio.sleep(1)

    run(register, seed)
    assert order == list(range(20))


@pytest.mark.parametrize("seed", range(20))
def test_timers_run_in_the_order_of_their_times(seed: int) -> None:
    order: list[int] = []

    async def register() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time() + 1
        for number in reversed(range(20)):
            loop.call_at(start + number * 1e-6, order.append, number)  # many of them within one step
        await asyncio.sleep(2)

    run(register, seed)
    assert order == list(range(20))


def test_the_order_of_equal_timers_is_drawn() -> None:
    def order(seed: int) -> tuple[int, ...]:
        seen: list[int] = []

        async def register() -> None:
            loop = asyncio.get_running_loop()
            instant = loop.time() + 1
            for number in range(4):
                loop.call_at(instant, seen.append, number)
            await asyncio.sleep(2)

        run(register, seed)
        return tuple(seen)

    orders = {order(seed) for seed in range(40)}
    assert len(orders) > 10
    assert order(3) == order(3)


def test_the_order_of_hosts_at_one_instant_is_drawn() -> None:
    def first(seed: int) -> str:
        world, seen = World(seed), []

        async def work(name: str) -> None:
            seen.append(name)
            await asyncio.sleep(0)

        async def main() -> None:
            await asyncio.gather(*(world.host(name).spawn(work(name)) for name in ("one", "two")))

        world.run(main())
        return seen[0]

    assert {first(seed) for seed in range(20)} == {"one", "two"}


def test_the_order_of_a_set_of_tasks_is_drawn() -> None:
    def order(seed: int) -> tuple[str, ...]:
        async def work() -> tuple[str, ...]:
            tasks = {asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(4)}
            names = tuple(task.get_name() for task in tasks)
            await asyncio.wait(tasks)
            return names

        names: tuple[str, ...] = run(work, seed)
        return names

    assert len({order(seed) for seed in range(40)}) > 10
    assert order(3) == order(3)


def test_a_function_of_a_thread_runs_later_and_in_its_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def work() -> tuple[str, float]:
        loop = asyncio.get_running_loop()
        variable.set("known")
        start = loop.time()
        value = await asyncio.to_thread(variable.get)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return value, loop.time() - start

    value, passed = run(work)
    assert value == "known"
    assert passed > 0


def test_a_thread_that_sleeps_does_not_hold_up_the_loop() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        sleeper = asyncio.create_task(asyncio.to_thread(time.sleep, 5))
        await asyncio.sleep(0.1)
        passed = loop.time() - start
        await sleeper
        return passed

    assert run(work) < 1


def test_threads_do_not_wait_for_each_other() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 5) for _ in range(3)))
        return loop.time() - start

    assert run(work) == pytest.approx(5, abs=0.1)


def test_a_step_that_blocks_makes_timers_late() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        due, ran = loop.time() + 1, loop.create_future()
        loop.call_at(due, lambda: ran.set_result(loop.time()))
        await asyncio.sleep(0)
        time.sleep(3)  # noqa: ASYNC251 -- this is the block
        return float(await ran) - due

    assert run(work) == pytest.approx(2, abs=0.01)


def test_a_loop_that_waits_for_an_instant_without_an_await_ends() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + 0.01
        while clock() < end:
            pass

    run(work)


def test_a_livelock_ends_with_its_last_steps() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 -- time is the subject
            await asyncio.sleep(0)

    world = World(1, budget=Budget(steps=1000))

    async def main() -> None:
        await world.host("one").spawn(spin())

    with pytest.raises(BudgetExceededError, match=r"(?s)more than 1000 steps.*one/main.*spin"):
        world.run(main())


def test_a_wait_for_too_long_ends_with_its_tasks() -> None:
    async def main() -> None:
        await asyncio.sleep(1e6)

    with pytest.raises(BudgetExceededError, match=r"(?s)more than 60 virtual seconds.*main"):
        World(1, budget=Budget(seconds=60)).run(main())


def test_a_deadlock_ends_with_its_tasks() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"(?s)no timer is set.*waits_for_ever"):
        World(1).run(waits_for_ever())


def test_a_fault_before_a_step_may_end_the_process() -> None:
    world, steps = World(1), 0

    async def work() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0.1)

    async def main() -> Host:
        host = world.host("one")
        ended = host.launch(work())
        world.loop.before_step.append(death_at(host, 7))
        assert await ended is None
        return host

    assert not world.run(main()).alive
    assert 0 < steps < 7
