"""A clock that is set back by an hour. Waits of seconds stay waits of seconds, and last no hour longer."""

import pytest

from builders import NOW, node, pod
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.output.status import render_reservation
from tidelock.model.pods import assigned_to
from tidelock.scheduler.core.backfill import BACKFILL_SECONDS, PATIENCE
from tidelock.scheduler.core.pod_queue import FLUSH_AFTER
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.defrag.controller import PLAN_SECONDS as LOOK_FOR_MOVES
from unit.scheduler.machinery import Core
from unit.scheduler.moves import ask, fragmented, web

HOUR = 3600.0
WAIT = 6 * 3600


def full(cpu: str = "2", *names: str) -> Core:
    """Build nodes full of pods, with no capacity for the reservations of these tests."""
    names = names or ("node-a",)
    core = Core(*(node(name, cpu=cpu) for name in names))
    for name in names:
        core.add(assigned_to(pod(f"on-{name}", requests={"cpu": cpu}), name))
    return core


def go_on(core: Core, seconds: float) -> None:
    """Let time pass with a step every second, as the loop sleeps no longer."""
    for _ in range(int(seconds)):
        core.clock.advance(1)
        core.step()


def test_steady_time_goes_on_when_the_clock_is_set_back() -> None:
    steady = SteadyClock()
    assert [steady.at(now) for now in (100.0, 101.0, 50.0, 51.5)] == [100.0, 101.0, 101.0, 102.5]
    assert steady.instant(110.0) == 59.0
    assert steady.at(60.0) == 111.0


def test_capacity_is_kept_for_a_reservation_that_has_waited_for_a_minute() -> None:
    """Regression: the reservation had to wait for the hour too."""
    core = full("4")
    entry = core.reservation(created=NOW, resources={"cpu": "2"}, pendingDeadlineSeconds=WAIT)
    core.step()
    go_on(core, 30)
    core.clock.jump(-HOUR)
    go_on(core, 25)
    assert entry.earmark == ""
    go_on(core, 5 + BACKFILL_SECONDS)
    assert entry.earmark == "node-a"


def test_an_earmark_in_vain_passes_to_another_node() -> None:
    """Regression: no other node was considered for an hour."""
    core = full("4", "node-a", "node-b")
    entry = core.reservation(created=NOW, resources={"cpu": "2"}, pendingDeadlineSeconds=WAIT)
    core.step()
    go_on(core, 61 + BACKFILL_SECONDS)
    assert entry.earmark == "node-a"
    core.clock.jump(-HOUR)
    go_on(core, PATIENCE + BACKFILL_SECONDS)
    assert entry.earmark == "node-b"


def test_the_search_for_a_migration_plan_goes_on() -> None:
    core = fragmented()
    core.add(web("b-2", "node-b", "2"), web("a-2", "node-a", "2"))
    entry = ask(core)
    assert entry.plan is None
    core.clock.jump(-HOUR)
    for name in ("a-2", "b-2"):
        core.event_handlers.pods.remove(web(name, "node-a"))
    go_on(core, LOOK_FOR_MOVES + 2)
    assert entry.plan is not None


def test_a_waiting_reservation_gets_new_numbers_and_positions() -> None:
    """Regression: its message stayed the same for an hour."""
    core = full("4")
    entry = core.reservation(created=NOW, resources={"cpu": "2"}, pendingDeadlineSeconds=WAIT)
    core.step()
    go_on(core, 15)
    assert "0 free" in entry.message
    core.clock.jump(-HOUR)
    core.reservation("second", created=NOW, resources={"cpu": "3"}, pendingDeadlineSeconds=WAIT)
    core.event_handlers.pods.remove(pod("on-node-a"))
    core.add(assigned_to(pod("next", requests={"cpu": "3"}), "node-a"))
    go_on(core, 12)

    assert "1 free" in entry.message
    assert render_reservation(entry, core.clock.now())["queue"]["place"] == "1/2"


@pytest.mark.parametrize("error", [False, True])
def test_a_pod_backs_off_for_seconds(*, error: bool) -> None:
    """Regression: a refused pod was only retried when no other was ready, and a failed one after the hour."""
    core = Core(node("node-a", cpu="1"))
    core.add(pod("web-0", requests={"cpu": "2"}))
    waiting = core.refuse().waiting
    core.clock.advance(FLUSH_AFTER)
    popped = core.queue.pop(core.clock.now())
    assert popped is waiting
    if error:
        core.queue.back_off(waiting.pod.uid, core.clock.now())
    else:
        core.queue.add_unschedulable(waiting.pod.uid, core.clock.now(), {"NodeResourcesFit"})
    core.clock.jump(-HOUR)
    assert core.queue.pop(core.clock.now()) is None
    core.clock.advance(10 if error else FLUSH_AFTER)
    due = core.queue.next_due()
    assert due is not None
    assert due <= core.clock.now()
    assert core.queue.pop(core.clock.now()) is waiting
    assert waiting.queue is QueueName.IN_FLIGHT
    assert core.queue.waited(waiting, core.clock.now()) == FLUSH_AFTER + (10 if error else FLUSH_AFTER)


def test_a_reservation_leaves_a_cordoned_node_after_five_minutes() -> None:
    """Regression: it stayed for the hour too."""
    core = Core(node("node-a"), node("node-b"))
    entry = core.reservation(ttlSeconds=WAIT)
    core.step()
    at_first = entry.node
    core.event_handlers.nodes.upsert(None, node(at_first, cordoned=True, version=2))
    go_on(core, 10)
    core.clock.jump(-HOUR)
    go_on(core, 280)
    assert entry.node == at_first
    go_on(core, 15)
    assert entry.node not in ("", at_first)
