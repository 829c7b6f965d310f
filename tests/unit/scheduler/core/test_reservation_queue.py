"""The order in which reservations are tried."""

from collections import defaultdict

import pytest

from builders import NOW, node, pod, reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.crds import RESERVATION
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import assigned_to
from tidelock.scheduler.core.reservation_queue import ReservationQueue
from unit.scheduler.machinery import Core


class Namespaces:
    """The share of each namespace, and a queue of reservations that each add a share of one."""

    def __init__(self) -> None:
        self.shares: defaultdict[str, float] = defaultdict(float)
        self.line = ReservationQueue(self.shares.__getitem__)

    def pop(self, *, given: bool = True) -> str:
        """Pop the next reservation, and place or refuse it."""
        entry = self.line.pop()
        if given:
            entry.phase = Phase.ACTIVE
            entry.reserved = entry.reservation.requests
            self.shares[entry.key.namespace] += 1
        return str(entry.key)

    def names(self, *, given: bool = True) -> list[str]:
        return [self.pop(given=given) for _ in range(len(self.line))]


@pytest.fixture
def of() -> Namespaces:
    return Namespaces()


def waiting(name: str, namespace: str, *, created: float = 0, priority: int = 0) -> ReservationInfo:
    made = reservation(name, namespace=namespace, created=NOW + created, priority=priority)
    return ReservationInfo(made, NOW, ceiling=9)


def test_the_oldest_reservation_of_a_namespace_comes_first_no_matter_when_it_was_added(
    of: Namespaces,
) -> None:
    of.line.add([waiting("b", "shop", created=1)])
    of.line.add([waiting("c", "shop"), waiting("a", "shop", created=2)])
    assert of.names() == ["shop/c", "shop/b", "shop/a"]


def test_namespaces_with_equal_shares_take_turns_no_matter_how_old_their_reservations_are(
    of: Namespaces,
) -> None:
    of.line.add(waiting(f"flood-{n}", "noisy") for n in range(3))
    of.line.add(waiting(f"web-{n}", "shop", created=100 + n) for n in range(2))
    assert of.names() == ["noisy/flood-0", "shop/web-0", "noisy/flood-1", "shop/web-1", "noisy/flood-2"]


def test_a_namespace_with_a_smaller_share_comes_first_until_the_shares_are_equal(of: Namespaces) -> None:
    of.shares["noisy"] = 2.0
    of.line.add(waiting(f"flood-{n}", "noisy") for n in range(2))
    of.line.add(waiting(f"web-{n}", "shop", created=100 + n) for n in range(4))
    assert [name.partition("/")[0] for name in of.names()] == [
        "shop",
        "shop",
        "noisy",
        "shop",
        "noisy",
        "shop",
    ]


def test_a_share_that_grows_in_the_meantime_counts(of: Namespaces) -> None:
    of.line.add([waiting("a", "noisy"), waiting("b", "noisy"), waiting("web", "shop", created=1)])
    of.shares["noisy"] = 1.0
    assert of.pop() == "shop/web"


def test_a_share_that_shrinks_counts_when_the_namespace_adds_another_reservation(of: Namespaces) -> None:
    of.shares["noisy"], of.shares["shop"] = 2.0, 1.0
    of.line.add([waiting("a", "noisy"), waiting("web", "shop", created=1)])
    of.shares["noisy"] = 0.0
    of.line.add([waiting("b", "noisy", created=1)])
    assert of.names() == ["noisy/a", "noisy/b", "shop/web"]


def test_a_late_namespace_does_not_wait_for_a_flood_that_does_not_fit(of: Namespaces) -> None:
    of.shares["shop"] = 1.0
    of.line.add(waiting(f"flood-{n}", "noisy") for n in range(1000))
    for _ in range(500):
        of.pop(given=False)
    of.line.add(waiting(f"web-{n}", "shop", created=100 + n) for n in range(3))
    order = [of.pop(given=False).partition("/")[0] for _ in range(15)]
    assert order.count("shop") == 3


def test_a_refused_namespace_is_not_delayed_by_a_flood_that_fits(of: Namespaces) -> None:
    """Check that each other namespace has one reservation tried before the refused one goes on."""
    of.shares["shop"] = 1.0
    of.line.add(waiting(f"large-{n}", "poor") for n in range(4))
    of.line.add(waiting(f"small-{n}", "poor", created=1 + n) for n in range(2))
    of.line.add(waiting(f"web-{n}", "shop") for n in range(100))
    for _ in range(4):
        assert of.pop(given=False).startswith("poor/large")
    assert [of.pop() for _ in range(3)] == ["shop/web-0", "poor/small-0", "poor/small-1"]


def test_priority_takes_precedence_over_shares(of: Namespaces) -> None:
    of.line.add([waiting("high-0", "noisy", priority=1), waiting("high-1", "noisy", priority=1)])
    of.line.add([waiting("web-0", "shop")])
    assert of.names() == ["noisy/high-0", "noisy/high-1", "shop/web-0"]


def test_a_cleared_queue_starts_again(of: Namespaces) -> None:
    of.line.add([waiting("a", "noisy"), waiting("b", "noisy")])
    of.line.clear()
    assert len(of.line) == 0
    of.line.add([waiting("a", "noisy", created=1), waiting("a", "shop")])
    assert of.names() == ["shop/a", "noisy/a"]


def test_a_reservation_moves_to_its_new_position_when_its_priority_changes(of: Namespaces) -> None:
    entries = [waiting(name, "shop", priority=priority) for name, priority in (("a", 9), ("b", 5), ("c", 1))]
    of.line.add(entries)
    entries[0].ceiling = 3
    assert len(of.line) == 3
    assert of.names() == ["shop/b", "shop/a", "shop/c"]


def test_a_position_assumes_that_the_reservations_before_it_are_placed() -> None:
    """Regression: the third in the queue was served second, as the first did not fit.

    The description of the position did not say so.
    """
    core = Core(node("node-a", cpu="4"))
    core.add(assigned_to(pod("resident", requests={"cpu": "4"}), "node-a"))
    wait = 3600
    core.reservation("large", namespace="noisy", resources={"cpu": "4"}, pendingDeadlineSeconds=wait)
    core.reservation("small", namespace="noisy", created=NOW + 1, pendingDeadlineSeconds=wait)
    core.reservation("web", namespace="shop", created=NOW + 2, pendingDeadlineSeconds=wait)
    core.step()
    assert [each.key.name for each in core.ledger.queue_positions.in_order()] == ["large", "web", "small"]

    core.event_handlers.pods.remove(pod("resident", requests={"cpu": "4"}))
    core.add(assigned_to(pod("next", requests={"cpu": "2"}), "node-a"))
    core.effects.transitions.clear()
    core.step()
    given = [change.meta.name for change in core.effects.transitions if change.phase is Phase.ACTIVE]
    assert given == ["small", "web"]
    assert "assumes that each reservation before it is granted" in str(RESERVATION.definition())
