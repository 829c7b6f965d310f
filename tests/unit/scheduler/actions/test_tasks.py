import asyncio
from random import Random

from builders import NOW
from isolating import Isolating
from tidelock.kube.client import RESERVATIONS
from tidelock.model.meta import ObjectMeta
from tidelock.scheduler.actions.tasks import Activity, FaultSubject, Tasks, until_woken
from unit.scheduler.machinery import FakeClock, turns

ABOUT = FaultSubject("status", RESERVATIONS, ObjectMeta("lock", "shop"))


def make_tasks() -> Tasks:
    return Tasks(Random(1), Isolating(), Activity())  # noqa: S311 -- for jitter


async def _sleep_for_ever() -> None:
    await asyncio.Event().wait()


async def _crash(message: str) -> None:
    raise RuntimeError(message)


async def test_a_wait_until_an_instant_that_has_passed_ends_at_once() -> None:
    waiting = asyncio.create_task(until_woken(asyncio.Event(), NOW - 1, FakeClock()))
    await turns()
    assert waiting.done()


async def test_a_task_that_ends_is_forgotten() -> None:
    tasks = make_tasks()
    tasks.spawn(asyncio.sleep(0), ABOUT)

    assert len(tasks) == 1
    await tasks.drain(1)
    assert len(tasks) == 0


async def test_a_fault_affects_only_its_object_which_is_retried_later() -> None:
    """Regression: the fault ended the process, and the next process met the same object."""
    isolation = Isolating()
    tasks = Tasks(Random(1), isolation, Activity())  # noqa: S311 -- for jitter
    again = asyncio.Event()
    isolation.pause = 0.001

    tasks.spawn(_crash("first"), ABOUT, again.set)
    tasks.spawn(_crash("second"), ABOUT)
    await tasks.drain(1)

    assert isolation.faults == ["status shop/lock: first", "status shop/lock: second"]
    async with asyncio.timeout(60):
        await again.wait()


async def test_a_retry_may_fail_again() -> None:
    isolation = Isolating()
    tasks = Tasks(Random(1), isolation, Activity())  # noqa: S311 -- for jitter
    isolation.pause = 0.001
    tried = asyncio.Event()

    def again() -> None:
        tried.set()
        raise RuntimeError("again")

    tasks.spawn(_crash("first"), ABOUT, again)
    async with asyncio.timeout(60):
        await tried.wait()
    assert isolation.faults == ["status shop/lock: first", "status shop/lock: again"]


async def test_drain_cancels_the_remaining_tasks() -> None:
    tasks = make_tasks()
    tasks.spawn(_sleep_for_ever(), ABOUT)

    await tasks.drain(0.001)

    assert len(tasks) == 0


async def test_draining_nothing_returns_at_once() -> None:
    await make_tasks().drain(60)


async def test_tasks_are_busy_for_a_moment_longer_than_they_run() -> None:
    tasks = make_tasks()
    assert not tasks.activity.busy()

    tasks.spawn(asyncio.sleep(0), ABOUT)
    assert tasks.activity.busy()
    await tasks.drain(1)
    assert len(tasks) == 0
    assert tasks.activity.busy()  # the next task of a series is likely to come

    async with asyncio.timeout(60):
        while tasks.activity.busy():  # noqa: ASYNC110 -- the condition is the passage of time
            await asyncio.sleep(0.01)


async def test_no_task_starts_after_the_end_of_the_context() -> None:
    tasks, done = make_tasks(), list[str]()

    async def work(name: str) -> None:
        done.append(name)

    async with tasks.drained(60):
        tasks.spawn(work("under way"), ABOUT)
    tasks.spawn(work("late"), ABOUT)

    assert len(tasks) == 0
    assert not tasks.activity.busy()
    assert done == ["under way"]
