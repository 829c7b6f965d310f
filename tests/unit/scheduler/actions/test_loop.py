import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest

from builders import NOW, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.machinery import HELD, Shell, pod_path, turns


class Alarm:
    """The one timer of a sleeping loop. It fires when the test calls `ring`."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.ring: Callable[[], None] = lambda: None

    def call_later(self, delay: float, callback: Callable[[], None]) -> "Alarm":
        self.delays.append(round(delay, 3))
        self.ring = callback
        return self

    def cancel(self) -> None:
        self.ring = lambda: None


@pytest.fixture
async def alarm(monkeypatch: pytest.MonkeyPatch) -> Alarm:
    alarm = Alarm()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", alarm.call_later)
    return alarm


@asynccontextmanager
async def running(shell: Shell) -> AsyncIterator[Shell]:
    """Run the decision loop until it has nothing more to do, and go on running it within the context."""
    task = asyncio.create_task(shell.loop.run())
    await turns()
    try:
        yield shell
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await shell.settle()


async def test_no_decision_is_made_before_the_informers_are_synced(alarm: Alarm) -> None:
    shell = Shell(node("node-a"), listed=False)
    entry = shell.store_reservation()
    async with running(shell):
        assert not shell.loop.started.is_set()
        assert (entry.phase, shell.api.asked) == (Phase.PENDING, [])

        shell.list_all()
        await turns()

        assert shell.loop.started.is_set()
        assert shell.stored_status()["phase"] == "Active"
    assert set(alarm.delays) == {0.05, 1.0}  # until decisions are under way, and for sleeps


async def test_pods_that_were_bound_before_the_start_are_processed_beside_decisions(alarm: Alarm) -> None:
    shell = Shell(node("node-a", cpu="3"), listed=False)
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    shell.reservation(owners=owners, status=HELD)
    for number in range(9):
        labels = {"app": "web"} if number == 8 else {}
        shell.add(pod(f"pod-{number}", node_name="node-a", labels=labels, bound_at=NOW + number, requests={}))
    shell.clock.tick = 0.4
    shell.list_all()
    assert shell.event_handlers.next_due is not None
    async with running(shell):
        for _ in range(50):
            await turns()
            alarm.ring()
        assert shell.event_handlers.next_due is None
    assert [asked.path for asked in shell.api.asked if asked.method == "GET"] == [pod_path("pod-8")]


async def test_an_event_wakes_the_loop(alarm: Alarm) -> None:
    async with running(Shell(node("node-a"))) as shell:
        shell.store_pod()
        await turns()

        assert shell.api.objects[pod_path()]["spec"]["nodeName"] == "node-a"
        assert shell.metric("scheduler_scheduling_algorithm_duration_seconds_count") == 1


async def test_the_loop_sleeps_until_the_next_due_time(alarm: Alarm) -> None:
    shell = Shell(node("node-a"))
    entry = shell.store_reservation(ttlSeconds=60)
    shell.step()
    shell.clock.advance(59.6)
    async with running(shell):
        assert alarm.delays[-1] == 0.4
        shell.clock.advance(0.4)
        alarm.ring()
        await turns()

        assert entry.phase is Phase.EXPIRED


async def test_the_loop_does_not_sleep_while_statuses_are_unwritten(
    alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelock.scheduler.actions.status_writer._OBJECTS_A_FLUSH", 1)
    shell = Shell(node("node-a"))
    entries = [shell.store_reservation(f"lock-{number}", resources={"cpu": "1m"}) for number in range(3)]
    async with running(shell):
        asked = {
            each.path.rpartition("/reservations/")[2] for each in shell.api.asked if each.method == "PUT"
        }
        assert asked == {f"{entry.key.name}/status" for entry in entries}


async def test_the_longest_sleep_is_one_second(alarm: Alarm) -> None:
    """Check that a clock that is set forward is noticed within a second, even if no decision is due soon."""
    shell = Shell(node("node-a"))
    entry = shell.store_reservation(ttlSeconds=3600)
    async with running(shell):
        assert alarm.delays[-1] == 1.0
        shell.clock.advance(3600)
        alarm.ring()
        await turns()

        assert entry.phase is Phase.EXPIRED


async def test_an_idle_loop_still_runs_once_a_second(alarm: Alarm) -> None:
    async with running(Shell()) as shell:
        for second in range(1, 4):
            shell.clock.advance(1)
            alarm.ring()
            await turns()
            assert shell.loop.last_turn == second

    assert set(alarm.delays) == {0.05, 1.0}  # until decisions are under way, and for sleeps


async def test_other_tasks_run_under_load(alarm: Alarm) -> None:
    shell = Shell(node("node-a", cpu="64"))
    for index in range(20):
        shell.store_pod(f"web-{index}")
    shell.clock.tick = 0.001
    left: list[int] = []
    task = asyncio.create_task(shell.loop.run())
    while (active := shell.queue.counts()[QueueName.ACTIVE]) or not left:
        left.append(active)
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await shell.settle()

    decided = [before - after for before, after in pairwise([*left, 0])]
    assert sum(decided) == 20
    assert max(decided) <= 3


async def test_a_pod_that_fits_nowhere_is_reported_and_counted(alarm: Alarm) -> None:
    async with running(Shell()) as shell:
        shell.store_pod()
        await turns()

        assert shell.recorder.reasons == ["FailedScheduling"]
        assert (
            shell.metric(
                "scheduler_schedule_attempts_total", result="unschedulable", profile="tidelock-scheduler"
            )
            == 1
        )
        assert alarm.delays[-1] == 1.0
