"""Backfill: capacity that is kept for a reservation after a long wait, and the placement of others."""

from math import inf
from typing import Any

import pytest

from builders import NOW, node, pod
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import BORROWS, START_SECONDS, Pod, assigned_to
from tidelock.scheduler.core.backfill import BACKFILL_SECONDS, PATIENCE
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import beside_text
from unit.scheduler.machinery import Core

LONG = 60
"""Seconds after which capacity is kept for a reservation."""


@pytest.fixture
def core() -> Core:
    """Build two nodes of 4 CPU: pods use 3 of the first and 2 of the second."""
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    fill(core, "a", "node-a", "3")
    fill(core, "b", "node-b", "2")
    return core


def fill(core: Core, name: str, node_name: str, cpu: str, **fields: Any) -> Pod:
    """Deliver a bound pod by the watch."""
    placed = pod(name, requests={"cpu": cpu}, node_name=node_name, bound_at=core.clock.now(), **fields)
    core.add(placed)
    return placed


def leave(core: Core, gone: Pod) -> None:
    """Remove a pod."""
    core.event_handlers.pods.remove(gone)


def reservation(
    core: Core, name: str = "large", cpu: str = "4", *, step: bool = True, **fields: Any
) -> ReservationInfo:
    """Create a reservation that waits for an hour at most, and decide on it."""
    spec = {"resources": {"cpu": cpu}, "pendingDeadlineSeconds": 3600, "owner": f"of-{name}"}
    entry = core.reservation(name, created=core.clock.now(), **spec | fields)
    if step:
        core.step()
    return entry


def wait(core: Core, seconds: float = LONG) -> None:
    """Let time pass, with a step whenever one is due."""
    end = core.clock.now() + seconds
    while (due := core.decider.next_due()) is not None and due <= end:
        core.clock.time = max(due, core.clock.time)
        core.step()
    core.clock.time = end


def test_capacity_that_comes_free_is_kept_for_a_reservation_after_a_long_wait(core: Core) -> None:
    large = reservation(core)
    wait(core)
    assert large.earmark == "node-b"  # the node with the smallest shortfall

    small = reservation(core, "small", "2")

    assert small.phase is Phase.PENDING
    assert f"node-b: {shortage_text('cpu', '2', '-2')}, {beside_text('shop/large')}" in small.message
    assert [change.event for change in core.effects.transitions if change.meta.name == "large"][
        -1
    ] is Event.EARMARK
    assert render_reservation(large, core.clock.now())["queue"]["earmark"] == "node-b"


def test_a_new_earmark_is_written_to_the_status(core: Core) -> None:
    large = reservation(core)
    wait(core, LONG - BACKFILL_SECONDS)
    core.effects.take()
    wait(core, 2 * BACKFILL_SECONDS)

    assert large.earmark
    assert large.key in core.effects.statuses


def test_before_the_end_of_the_long_wait_a_smaller_reservation_gets_the_capacity(core: Core) -> None:
    reservation(core)
    wait(core, LONG - BACKFILL_SECONDS)

    assert reservation(core, "small", "2").phase is Phase.ACTIVE


def test_others_are_placed_on_nodes_without_the_earmark(core: Core) -> None:
    reservation(core)
    wait(core)

    assert reservation(core, "small", "1").node == "node-a"


def schedule_small_pods(core: Core, seconds: int) -> None:
    """Add a pod of 1 CPU every 5 seconds, and remove each 45 seconds after it was placed."""
    ends: dict[str, float] = {}
    bound: dict[str, Pod] = {}
    for second in range(0, seconds, 5):
        core.clock.time = NOW + second
        for uid in [uid for uid, end in ends.items() if end <= core.clock.now()]:
            leave(core, bound.pop(uid))
            del ends[uid]
        core.add(pod(f"pod-{second}", requests={"cpu": "1"}))
        while isinstance(outcome := core.step(), AssumedPod):
            core.decider.bound(outcome, core.clock.now())
            there = assigned_to(outcome.pod, outcome.node_name)
            core.event_handlers.pods.upsert(outcome.pod, there)
            bound[there.uid], ends[there.uid] = there, core.clock.now() + 45


@pytest.mark.parametrize("after", [LONG, inf])
def test_a_stream_of_small_pods_does_not_starve_a_large_reservation(after: float) -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4"), earmark_after=after)
    schedule_small_pods(core, 60)
    large = reservation(core, cpu="3")
    assert large.phase is Phase.PENDING
    schedule_small_pods(core, 600)

    assert (large.activated_at is not None) == (after == LONG)


def test_pods_of_equal_priority_yield_to_an_earmark_except_those_of_daemonsets(core: Core) -> None:
    reservation(core)
    wait(core)
    core.add(pod("equal", requests={"cpu": "2"}))
    assert core.refuse().waiting.pod.meta.name == "equal"

    core.add(pod("agent", requests={"cpu": "2"}, controller="apps/v1/DaemonSet/agent"))
    assert core.place().node_name == "node-b"


def test_a_pod_of_higher_priority_uses_the_earmarked_capacity(core: Core) -> None:
    reservation(core)
    wait(core)
    core.add(pod("urgent", requests={"cpu": "2"}, priority=10))

    assert core.place().node_name == "node-b"


def test_an_owner_uses_its_own_reservation_on_an_earmarked_node(core: Core) -> None:
    reservation(core, "own", "2", owner="web-0")
    large = reservation(core, nodeName="node-b")
    wait(core)
    core.add(pod("web-0", requests={"cpu": "2"}))

    assert large.earmark == "node-b"
    assert core.place().node_name == "node-b"


@pytest.mark.parametrize("reuse", ["Never", "Always"])
def test_an_owner_uses_its_own_reservation_on_an_earmarked_node_although_a_pod_borrows_from_it(
    core: Core, reuse: str
) -> None:
    own = reservation(core, "own", "2", owner="web-0", borrowable=True, reuse=reuse)
    borrower = fill(core, "borrower", "node-b", "1500m", annotations={BORROWS: "true"})
    core.step()
    large = reservation(core, nodeName="node-b")
    wait(core)
    core.add(pod("web-0", requests={"cpu": "2"}))
    core.refuse()
    (attempt,) = core.take_preemptions()

    assert own.held == {"cpu": 500}
    assert large.earmark == "node-b"
    assert [victim.meta.name for victim in attempt.victims] == ["borrower"]
    leave(core, borrower)
    core.clock.advance(10)
    assert core.place().node_name == "node-b"


def test_a_pod_that_is_gone_in_time_may_use_earmarked_capacity() -> None:
    core = Core(node("node-a", cpu="4"))
    started = {"startTime": format_instant(NOW)}
    fill(
        core,
        "ends",
        "node-a",
        "2",
        activeDeadlineSeconds=600,
        terminationGracePeriodSeconds=0,
        status=started,
    )
    reservation(core)
    wait(core)

    late = int(600 - LONG - START_SECONDS)
    core.add(
        pod("late", requests={"cpu": "1"}, activeDeadlineSeconds=late + 2, terminationGracePeriodSeconds=0)
    )
    assert core.refuse().waiting.pod.meta.name == "late"
    core.add(
        pod("in-time", requests={"cpu": "1"}, activeDeadlineSeconds=late - 1, terminationGracePeriodSeconds=0)
    )
    assert core.place().pod.meta.name == "in-time"


def test_a_node_with_a_known_end_is_preferred_to_the_one_with_the_smallest_shortfall(core: Core) -> None:
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="4"))
    reservation(core, "holder", "4", ttlSeconds=900)
    large = reservation(core)
    wait(core)

    assert large.earmark == "node-c"
    assert render_reservation(large, core.clock.now())["queue"]["estimatedStart"] == "2027-01-15T08:15:00Z"


def test_an_end_after_the_deadline_of_the_reservation_does_not_count(core: Core) -> None:
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="4"))
    reservation(core, "holder", "4", ttlSeconds=900)
    large = reservation(core, pendingDeadlineSeconds=600)
    wait(core)

    assert large.earmark == "node-b"


def test_a_node_on_which_the_reservation_does_not_fit_is_not_earmarked(core: Core) -> None:
    large = reservation(core, nodeName="node-a")
    nowhere = reservation(core, "huge", "8")
    wait(core)
    wait(core, BACKFILL_SECONDS)

    assert (large.earmark, nowhere.earmark) == ("node-a", "")


def test_others_are_tried_again_when_the_reservation_with_the_earmark_is_placed(core: Core) -> None:
    large = reservation(core)
    wait(core)
    small = reservation(core, "small", "2")
    for placed in list(core.cache.pods_on("node-a")):
        leave(core, placed.pod)
    core.step()
    core.step()

    assert (large.node, large.earmark) == ("node-a", "")
    assert small.node == "node-b"


@pytest.mark.parametrize("how", ["deleted", "given up"])
def test_others_are_tried_again_when_the_reservation_with_the_earmark_no_longer_waits(
    core: Core, how: str
) -> None:
    large = reservation(core, pendingDeadlineSeconds=90)
    wait(core)
    small = reservation(core, "small", "2")
    core.add(pod("web-0", requests={"cpu": "2"}))
    core.refuse()
    if how == "deleted":
        core.event_handlers.reservations.remove(large.reservation)
    else:
        wait(core, 30)
    core.step()
    core.step()

    assert small.node == "node-b"
    assert core.decider.cache.nominator.earmark is None


def test_an_earmark_only_passes_to_a_reservation_of_higher_priority_that_has_waited_as_long(
    core: Core,
) -> None:
    first = reservation(core)
    wait(core, 10)
    second, higher = reservation(core, "second"), reservation(core, "third", priority=5)
    wait(core)
    wait(core, BACKFILL_SECONDS)

    assert (first.earmark, second.earmark, higher.earmark) == ("", "", "node-b")


def test_a_reservation_that_fits_no_node_gets_no_earmark_and_is_tried_again_in_the_next_turn(
    core: Core,
) -> None:
    large = reservation(core)
    wait(core)
    huge = reservation(core, "huge", "8", priority=5)
    wait(core)
    wait(core, BACKFILL_SECONDS)
    assert (large.earmark, huge.earmark) == ("node-b", "")
    assert [change.event for change in core.effects.transitions].count(Event.EARMARK) == 1

    core.event_handlers.nodes.upsert(None, node("node-c", cpu="8"))
    fill(core, "c", "node-c", "8")
    core.event_handlers.reservations.remove(large.reservation)
    wait(core, 2 * BACKFILL_SECONDS)
    assert huge.earmark == "node-c"


def test_equal_reservations_that_fit_no_node_cost_those_behind_them_one_try(core: Core) -> None:
    """Regression: each of 10,000 was tried alone, twice a second, beside a search among all that wait."""
    for number in range(20):
        reservation(core, f"huge-{number}", "8", step=False)
    large = reservation(core)
    wait(core, LONG + BACKFILL_SECONDS)

    assert large.earmark == "node-b"


def test_a_reservation_that_fits_no_node_is_tried_again_though_no_other_waits(core: Core) -> None:
    huge = reservation(core, "huge", "8")
    wait(core)
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="8"))
    fill(core, "c", "node-c", "8")
    wait(core, 2 * BACKFILL_SECONDS)

    assert huge.earmark == "node-c"


def test_after_an_earmark_the_next_one_goes_to_the_highest_priority_that_fits_by_now(core: Core) -> None:
    large = reservation(core)
    wait(core)
    huge, last = reservation(core, "huge", "8", priority=5), reservation(core, "last")
    wait(core)
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="8"))
    fill(core, "c", "node-c", "8")
    core.event_handlers.reservations.remove(large.reservation)
    wait(core, BACKFILL_SECONDS)

    assert (huge.earmark, last.earmark) == ("node-c", "")


def test_if_no_capacity_comes_free_for_five_minutes_another_node_is_earmarked(core: Core) -> None:
    assert PATIENCE == 300
    large = reservation(core)
    wait(core)
    wait(core, PATIENCE - BACKFILL_SECONDS)
    assert large.earmark == "node-b"
    wait(core, 2 * BACKFILL_SECONDS)
    assert large.earmark == "node-a"
    wait(core, PATIENCE + 2 * BACKFILL_SECONDS)
    assert large.earmark == "node-b"


def test_an_earmark_stays_on_its_node_while_more_capacity_comes_free(core: Core) -> None:
    fill(core, "more", "node-b", "2")
    one = fill(core, "one", "node-a", "500m")
    large = reservation(core)
    wait(core)
    wait(core, PATIENCE - 2 * BACKFILL_SECONDS)
    leave(core, one)
    wait(core, PATIENCE - 2 * BACKFILL_SECONDS)
    assert large.earmark == "node-a"
    wait(core, 4 * BACKFILL_SECONDS)
    assert large.earmark == "node-b"


def test_another_process_keeps_the_earmark_on_its_node(core: Core) -> None:
    fill(core, "more", "node-b", "1")
    large = reservation(core)
    wait(core)
    stored = render_reservation(large, core.clock.now())
    assert large.earmark == "node-a"

    successor = Core(node("node-a", cpu="4"), node("node-b", cpu="4"))
    successor.clock.time = core.clock.time
    fill(successor, "a", "node-a", "3")
    fill(successor, "b", "node-b", "2")
    adopted = reservation(successor, status=stored)
    wait(successor, 1)

    assert adopted.earmark == "node-a"
    assert successor.cache.nominator.nodes == {"node-a"}


def test_a_stored_earmark_of_a_second_reservation_is_withdrawn(core: Core) -> None:
    large = reservation(core)
    wait(core)
    stored = render_reservation(large, core.clock.now())

    successor = Core(node("node-a", cpu="4"))
    successor.clock.time = core.clock.time
    fill(successor, "a", "node-a", "3")
    first = reservation(successor, "first", priority=1, step=False, status=stored)
    second = reservation(successor, "second", status=stored)
    wait(successor, 1)

    assert (first.earmark, second.earmark) == ("node-a", "")


def test_a_reservation_over_quota_gets_no_earmark(core: Core) -> None:
    entry = reservation(core)
    core.ledger.admission.refuse(entry, reasons.QUOTA_EXCEEDED, "no more", core.clock.now())
    wait(core)

    assert entry.earmark == ""


def test_a_nominated_reservation_needs_no_earmark(core: Core) -> None:
    large = reservation(core)
    wait(core)
    core.cache.nominator.nominate(pod("lock", uid=large.uid, requests={"cpu": "4"}), "node-a")
    core.step()

    assert large.earmark == ""
    assert core.cache.nominator.earmark is None
