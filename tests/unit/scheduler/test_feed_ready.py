"""Nothing is judged by half a cluster."""

from itertools import permutations

import pytest

from builders import NOW, node, pod
from tidelock.model.api.reservation import Phase
from unit.scheduler.machinery import HELD, Core

SINKS = ("nodes", "pods", "reservations")


@pytest.mark.parametrize("order", tuple(permutations(SINKS)), ids=" ".join)
def test_the_feed_is_ready_after_the_last_of_three_lists(order: tuple[str, ...]) -> None:
    core = Core(listed=False)
    synced = {
        "nodes": core.feed.nodes.synced,
        "pods": core.feed.pods.synced,
        "reservations": core.feed.reservations.synced,
    }
    for name in order:
        assert not core.feed.ready
        synced[name]()

    assert core.feed.ready
    assert core.wakes == 1


def test_a_relist_later_on_changes_nothing() -> None:
    core = Core()
    core.feed.pods.synced()

    assert core.feed.ready
    assert core.wakes == 1


def test_a_lock_does_not_lose_a_node_that_is_not_listed_yet() -> None:
    core = Core(listed=False)
    entry = core.lock(status=HELD, nodeName="node-a")
    core.feed.reservations.synced()
    core.feed.pods.synced()
    assert entry.phase is Phase.ACTIVE
    core.feed.nodes.upsert(None, node("node-a"))
    core.feed.nodes.synced()

    assert (entry.phase, core.locked()) == (Phase.ACTIVE, 1000)


def test_a_lock_whose_node_is_in_no_list_is_lost() -> None:
    core = Core(node("node-b"), listed=False)
    entry = core.lock(status=HELD, nodeName="node-a")
    assert core.book.rooms.nodes_with_locks() == ["node-a"]
    core.list_all()

    assert entry.phase is Phase.LOST


def test_a_lock_whose_owner_was_bound_in_the_meantime_ends() -> None:
    core = Core(node("node-a"), listed=False)
    core.add(pod(node_name="node-a"))
    entry = core.lock(status=HELD)
    core.list_all()
    assert (entry.phase, core.locked()) == (Phase.BOUND, 0)

    core.answer()
    assert entry.phase is Phase.CONSUMED


def test_locks_that_no_longer_fit_are_found_when_all_is_known() -> None:
    core = Core(node("node-a", cpu="1"), listed=False)
    entry = core.lock(status=HELD)
    core.add(pod("intruder", node_name="node-a"))
    assert entry.phase is Phase.ACTIVE
    core.list_all()

    assert (entry.phase, entry.reason) == (Phase.PENDING, "Overcommitted")


def test_what_has_ended_stays_as_it_was() -> None:
    core = Core(node("node-a"), listed=False)
    core.add(pod(node_name="node-a"))
    entry = core.lock(status=HELD | {"phase": "Expired"}, retention="Retain")
    unreadable = core.lock("unreadable", resources={"cpu": "much"})
    core.list_all()

    assert (entry.phase, unreadable.phase) == (Phase.EXPIRED, Phase.REJECTED)
    assert entry.finished_at == NOW
