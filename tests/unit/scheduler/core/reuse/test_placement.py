"""A reservation for an owner that runs is placed around it."""

import pytest

from builders import NOW, Json, node, pod
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.scheduler.core import reservation_cycle, reservation_scheduler
from unit.scheduler.machinery import Core
from unit.scheduler.reuse import TWO, entry_of, occupied, reservation


def test_a_reservation_for_a_running_owner_needs_no_additional_capacity() -> None:
    core = Core(node("node-a", cpu="2"), node("node-b", cpu="4"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core)
    assert (entry.phase, entry.node, core.reserved("node-a")) == (Phase.ACTIVE, "node-a", 0)
    core.step()
    assert occupied(core)[0] == "True"


def test_a_running_owner_does_not_count_as_gone_by_the_start_of_a_window() -> None:
    core = Core(node("node-a", cpu="2"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core, startAt=format_instant(NOW + 3600))
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


def test_reservations_that_are_compared_with_many_pods_are_placed_over_several_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: 16 reservations with 64 expressions took 9.5 s in one step.

    They were compared with 10,000 pods, which were owners of each.
    """
    monkeypatch.setattr(reservation_scheduler, "COMPARED_A_STEP", 3)
    core = Core(node("node-a", cpu="9"))
    core.add(*(pod(f"other-{number}", node_name="node-a") for number in range(2)))
    selected = [{"selector": {"matchLabels": {"app": "web"}}}]
    for number in range(4):
        core.reservation(f"lock-{number}", reuse="Always", owners=selected)
    placed = []
    while core.ledger.waiting_reservations.waiting:
        core.step()
        placed.append(sum(entry.phase is Phase.ACTIVE for entry in core.ledger.entries.values()))
    assert placed == [2, 4]


def test_of_many_nodes_with_owners_only_the_first_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_cycle, "_MOST_HOMES", 1)
    core = Core(node("node-a", cpu="2", cordoned=True), node("node-b", cpu="2"), node("node-c", cpu="2"))
    for name in ("a", "b"):
        core.add(pod(f"web-{name}", requests=TWO, node_name=f"node-{name}", labels={"app": "web"}))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    assert entry.node == "node-c"


def test_a_reservation_grows_around_its_owner() -> None:
    core = Core(node("node-a", cpu="4"))
    reservation(core)
    core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "3"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)
    reservation(core, resources={"cpu": "5"}, generation=3, version=3)
    assert (entry_of(core).reserved["cpu"], core.reserved()) == (3000, 1000)


def test_a_reservation_is_retried_when_another_one_leaves_the_use_of_its_owner_to_it(core: Core) -> None:
    """The owner used another reservation, which held nothing beside it and was then deleted.

    Regression: a second reservation on the same node needed as much capacity again until then, and none
    afterwards. No capacity had come free, so it was not retried, and it was rejected at its deadline.
    """
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", nodeName="node-a", pendingDeadlineSeconds=600)
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, core.used(), core.reserved()) == (Phase.ACTIVE, 4000, 0)


def test_a_reservation_smaller_than_the_use_of_its_owner_holds_nothing_beside_it(core: Core) -> None:
    bound = core.run(pod("web-0", requests=TWO))
    reservation(core, resources={"cpu": "1"}, generation=2, version=2)
    assert (entry_of(core).reserved["cpu"], core.used(), core.reserved()) == (1000, 4000, 0)
    core.event_handlers.pods.remove(bound)
    assert (core.used(), core.reserved()) == (2000, 1000)


@pytest.mark.parametrize(("pinned", "phase"), [({"nodeName": "node-a"}, Phase.LOST), ({}, Phase.ACTIVE)])
def test_a_reservation_is_lost_or_placed_again_when_its_node_is_removed_with_its_owner(
    pinned: Json, phase: Phase
) -> None:
    core = Core(node("node-a", cpu="4"))
    entry = reservation(core, **pinned)
    core.run(pod("web-0", requests=TWO))
    gone = core.cache.columns.nodes[0]
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.event_handlers.nodes.remove(gone)
    core.step()
    assert (entry.phase, entry.occupants, core.reserved("node-b")) == (phase, {}, 0 if pinned else 2000)
    if not pinned:
        assert occupied(core)[0] == "False"
        core.add(pod("web-0", requests=TWO, uid="another"))
        assert core.place().node_name == "node-b"


def test_a_reservation_leaves_a_cordoned_node_and_its_owner_stays() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core)
    core.run(pod("web-0", requests=TWO))
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="2", cordoned=True))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.clock.advance(300)
    core.step()
    assert (entry.node, core.used("node-a"), core.reserved("node-b")) == ("node-b", 2000, 2000)
    core.step()
    assert occupied(core)[0] == "False"


def test_a_reservation_leaves_a_cordoned_node_for_the_node_of_another_owner() -> None:
    core = Core(node("node-a", cpu="2"))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="2", cordoned=True))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    core.add(pod("web-0", requests=TWO, node_name="node-b", labels={"app": "web"}))
    core.clock.advance(300)
    core.step()
    assert (entry.node, core.used("node-b"), core.reserved("node-b")) == ("node-b", 2000, 0)


def test_a_reservation_fits_around_its_owner_when_another_one_that_counted_the_owner_ends(core: Core) -> None:
    """Regression: the owner used all of the other reservation, so the end of that freed no capacity."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second")
    assert second.phase is Phase.PENDING
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    core.step()
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_fits_around_its_owner_when_another_one_leaves_it_more_of_that_owner(
    core: Core,
) -> None:
    """As above, but the other reservation is made smaller."""
    core.run(pod("web-0", requests=TWO))
    second = reservation(core, "second", resources={"cpu": "1"})
    assert second.phase is Phase.PENDING
    reservation(core, resources={"cpu": "1"}, generation=2, version=9)
    assert (second.phase, second.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_fits_around_a_pod_that_becomes_its_owner(core: Core) -> None:
    """Regression: a new label of a pod frees nothing, so the reservation was not tried again."""
    core.event_handlers.reservations.remove(entry_of(core).reservation)
    stranger = pod("stranger", requests=TWO, node_name="node-a")
    core.add(stranger)
    entry = reservation(core, "second", owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    assert entry.phase is Phase.PENDING
    core.event_handlers.pods.upsert(
        stranger, pod("stranger", requests=TWO, node_name="node-a", labels={"app": "web"}, version=9)
    )
    core.step()
    assert (entry.phase, entry.node, core.reserved()) == (Phase.ACTIVE, "node-a", 0)


def test_a_reservation_that_gets_other_owners_needs_capacity_of_its_own() -> None:
    """Regression: a reservation that counted the use of its owner was edited before it was stored as active.

    The use of the former owner then counted twice, and another reservation of lower priority lost its
    capacity.
    """
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", requests=TWO, node_name="node-a"))
    entry = reservation(core, "edited", owners=[{"pod": {"name": "web-0"}}], priority=1)
    other = core.reservation("other", resources=TWO, owners=[{"pod": {"name": "db-0"}}])
    core.step()
    assert (entry.phase, other.phase, core.reserved()) == (Phase.ACTIVE, Phase.ACTIVE, 2000)

    core.reservation(
        "edited",
        reuse="Always",
        resources=TWO,
        owners=[{"pod": {"name": "web-1"}}],
        priority=1,
        generation=2,
        version=2,
    )
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.WAITING)
    assert (other.phase, core.reserved()) == (Phase.ACTIVE, 2000)


def test_a_pod_that_stops_being_an_owner_takes_capacity_from_its_own_reservation_only() -> None:
    """Regression: a pod lost the label by which it was inside a reservation.

    It took the capacity along, and another reservation of lower priority was violated.
    """
    core = Core(node("node-a", cpu="4"))
    entry = reservation(core, owners=[{"selector": {"matchLabels": {"app": "web"}}}], priority=1)
    inside = pod("web-0", requests=TWO, labels={"app": "web"}, node_name="node-a")
    core.add(inside)
    other = core.reservation("other", resources=TWO, owners=[{"pod": {"name": "db-0"}}])
    core.step()
    assert (entry.phase, other.phase, core.reserved()) == (Phase.ACTIVE, Phase.ACTIVE, 2000)

    core.event_handlers.pods.upsert(inside, pod("web-0", requests=TWO, node_name="node-a", version=9))
    assert (entry.reason, other.reason) == (reasons.VIOLATED, reasons.ADMITTED)
    assert (other.phase, core.reserved()) == (Phase.ACTIVE, 2000)
