"""Bound owners as the watch reports them, while it lags behind the API server."""

import pytest

from builders import NOW, node, pod
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from unit.scheduler.machinery import Core

OWNERS = [{"pod": {"name": name}, "selector": {"matchLabels": {"app": "web"}}} for name in ("web-0", "web-1")]
BOUND = pod("web-0", node_name="node-a", labels={"app": "web"}, requests={"cpu": "2"})


def holding() -> tuple[Core, ReservationInfo]:
    """Reserve three of a node's four CPUs for either of two pods."""
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(owners=OWNERS, resources={"cpu": "3"})
    core.step()
    return core, entry


def test_a_pod_that_only_the_watch_still_shows_as_an_owner_is_looked_up_once() -> None:
    """Regression: it was looked up again after each answer, as fast as the API server replied."""
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", node_name="node-a", labels={"app": "web"}, version=1))
    entry = core.reservation(owners=OWNERS)
    core.answer(pod("web-0", node_name="node-a", labels={}, version=2))

    assert not core.effects.claims
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_a_pod_that_has_become_an_owner_since_the_answer_is_looked_up_again() -> None:
    core = Core(node("node-a", cpu="4"))
    unlabelled = pod("web-0", node_name="node-a", labels={}, version=2)
    owner = pod("web-0", node_name="node-a", labels={"app": "web"}, version=3)
    core.add(pod("web-0", node_name="node-a", labels={"app": "web"}, version=1))
    entry = core.reservation(owners=OWNERS)
    core.event_handlers.pods.upsert(unlabelled, owner)
    core.answer(unlabelled)
    core.answer(owner)

    assert entry.phase is Phase.CONSUMED


def test_another_bound_owner_is_looked_up_next() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", node_name="node-a", labels={"app": "web"}, version=1))
    core.add(pod("web-1", node_name="node-a", labels={"app": "web"}, version=1))
    entry = core.reservation(owners=OWNERS)
    core.answer(pod("web-0", node_name="node-a", labels={}, version=2))
    core.answer()

    assert (entry.phase, entry.bound_pod and entry.bound_pod.name) == (Phase.CONSUMED, "web-1")


def test_of_two_bound_owners_the_one_that_was_bound_first_takes_the_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", node_name="node-a", labels={"app": "web"}, bound_at=NOW - 10))
    core.add(pod("web-1", node_name="node-a", labels={"app": "web"}, bound_at=NOW - 20))
    entry = core.reservation(owners=OWNERS)
    core.answer()

    assert (entry.phase, entry.bound_pod and entry.bound_pod.name) == (Phase.CONSUMED, "web-1")


def test_a_reservation_has_its_capacity_back_at_once_if_its_owner_goes_before_the_answer() -> None:
    """Regression: the capacity of the owner was free for others until the API server answered."""
    core, entry = holding()
    core.add(BOUND)
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 2000)

    core.event_handlers.pods.remove(BOUND)

    assert (core.used(), core.reserved(), entry.phase) == (0, 3000, Phase.ACTIVE)
    core.answer(gone=True)
    assert (core.used(), core.reserved(), entry.phase) == (0, 3000, Phase.ACTIVE)


def test_no_pod_takes_capacity_that_is_reserved_beside_an_owner_before_the_answer() -> None:
    core = Core(node("node-a", cpu="2"))
    core.add(pod())
    assumed = core.place()
    entry = core.reservation()
    core.step()
    core.decider.bound(assumed, NOW)
    core.add(pod(node_name="node-a", version=2), pod("web-1"))
    core.refuse()
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 1000)

    core.answer(pod(node_name="node-a", deleted=True, version=3))
    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 1000)


def test_a_late_answer_takes_no_reservation_from_the_next_owner() -> None:
    core, entry = holding()
    core.add(BOUND)
    core.event_handlers.pods.remove(BOUND)
    core.add(pod("web-1", labels={"app": "web"}, requests={"cpu": "2"}))
    assumed = core.place()

    core.answer(gone=True)

    assert (entry.phase, entry.bound_pod and entry.bound_pod.name) == (Phase.BOUND, "web-1")
    core.decider.bound(assumed, core.clock.now())
    assert entry.phase is Phase.CONSUMED


@pytest.mark.parametrize("seen", [True, False])
def test_an_owner_takes_its_reservation_as_soon_as_it_is_seen_bound(seen: bool) -> None:
    """Regression: its capacity was free once it had gone, and the answer to its binding still to come.

    An owner that was never seen bound has taken nothing.
    """
    core, entry = holding()
    core.add(pod("web-0", labels={"app": "web"}, requests={"cpu": "3"}))
    assumed = core.place()
    owner = pod("web-0", node_name="node-a", labels={"app": "web"}, requests={"cpu": "3"}, version=2)
    if seen:
        core.add(owner)
    core.event_handlers.pods.remove(owner)
    core.add(pod("next", requests={"cpu": "3"}))
    assert core.place().pod.key.name == "next" if seen else core.refuse().waiting.pod.key.name == "next"

    core.decider.bound(assumed, core.clock.now())

    assert entry.phase is (Phase.CONSUMED if seen else Phase.ACTIVE)
    assert not core.effects.claims
