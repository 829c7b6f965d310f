"""Before all lists are complete, no reservation is judged."""

from itertools import permutations

import pytest

from builders import NOW, node, pod
from tidelock.model.api.reservation import Phase
from unit.scheduler.machinery import HELD, Core

SINKS = ("nodes", "pods", "reservations")


@pytest.mark.parametrize("order", tuple(permutations(SINKS)), ids=" ".join)
def test_the_event_handlers_are_ready_after_the_last_of_three_lists(order: tuple[str, ...]) -> None:
    core = Core(listed=False)
    synced = {
        "nodes": core.event_handlers.nodes.synced,
        "pods": core.event_handlers.pods.synced,
        "reservations": core.event_handlers.reservations.synced,
    }
    for name in order:
        assert not core.event_handlers.ready
        synced[name]()

    assert core.event_handlers.ready
    assert core.wakes == 1


def test_a_relist_later_on_changes_nothing() -> None:
    core = Core()
    core.event_handlers.pods.synced()

    assert core.event_handlers.ready
    assert core.wakes == 1


def test_a_reservation_does_not_lose_a_node_that_is_not_listed_yet() -> None:
    core = Core(listed=False)
    entry = core.reservation(status=HELD, nodeName="node-a")
    core.event_handlers.reservations.synced()
    core.event_handlers.pods.synced()
    assert entry.phase is Phase.ACTIVE
    core.event_handlers.nodes.upsert(None, node("node-a"))
    core.event_handlers.nodes.synced()

    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 1000)


def test_a_reservation_on_a_node_that_is_in_no_list_is_lost() -> None:
    core = Core(node("node-b"), listed=False)
    entry = core.reservation(status=HELD, nodeName="node-a")
    assert core.ledger.holdings.nodes_with_reservations() == ["node-a"]
    core.list_all()

    assert entry.phase is Phase.LOST


def test_a_reservation_with_an_owner_that_was_bound_in_the_meantime_ends() -> None:
    core = Core(node("node-a", cpu="1"), listed=False)
    core.add(pod(node_name="node-a"))
    entry = core.reservation(status=HELD)
    core.list_all()
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 0)

    core.answer()
    assert entry.phase is Phase.CONSUMED


def test_reservations_that_no_longer_fit_are_found_when_all_lists_are_complete() -> None:
    core = Core(node("node-a", cpu="1"), listed=False)
    entry = core.reservation(status=HELD)
    core.add(pod("intruder", node_name="node-a"))
    assert entry.phase is Phase.ACTIVE
    core.list_all()

    assert (entry.phase, entry.reason) == (Phase.PENDING, "Overcommitted")


def test_a_reservation_that_has_ended_stays_unchanged() -> None:
    core = Core(node("node-a"), listed=False)
    core.add(pod(node_name="node-a"))
    entry = core.reservation(status=HELD | {"phase": "Expired"}, retention="Retain")
    unreadable = core.reservation("unreadable", resources={"cpu": "much"})
    core.list_all()

    assert (entry.phase, unreadable.phase) == (Phase.EXPIRED, Phase.REJECTED)
    assert entry.finished_at == NOW
