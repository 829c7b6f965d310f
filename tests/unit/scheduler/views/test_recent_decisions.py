"""The recent decisions that the web view and the CLI show."""

from itertools import islice

from builders import NOW, node
from tidelock.ledger.messages import no_capacity_text
from tidelock.model.meta import Key
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from tidelock.scheduler.views.recent_decisions import MOST, Decision, RecentDecisions
from unit.scheduler.machinery import Shell

POD, LOCK = Key("shop", "web-0"), Key("shop", "lock")


def test_the_newest_decision_comes_first_and_the_oldest_is_dropped() -> None:
    recent = RecentDecisions()
    for number in range(MOST + 5):
        recent._note(Decision(NOW + number, "Pod", Key("shop", f"web-{number}"), "Scheduled", "node-a"))

    assert len(list(recent)) == MOST
    assert [each.at for each in islice(recent, 2)] == [NOW + MOST + 4, NOW + MOST + 3]


def test_with_a_size_of_zero_no_decision_is_kept() -> None:
    recent = RecentDecisions(0)
    recent._note(Decision(NOW, "Pod", POD, "Scheduled", "node-a"))
    assert not list(recent)


def test_of_repeated_decisions_on_one_object_the_newest_is_kept() -> None:
    recent = RecentDecisions()
    recent._note(Decision(NOW, "Pod", POD, "Unschedulable", why="3 nodes are full"))
    recent._note(Decision(NOW + 1, "Pod", LOCK, "Scheduled", "node-a"))
    recent._note(Decision(NOW + 2, "Pod", POD, "Unschedulable", why="2 nodes are full"))
    recent._note(Decision(NOW + 3, "Pod", POD, "Scheduled", "node-b"))

    assert [(each.at, each.verdict) for each in recent] == [
        (NOW + 3, "Scheduled"),
        (NOW + 2, "Unschedulable"),
        (NOW + 1, "Scheduled"),
    ]


def test_a_pod_and_a_reservation_of_one_name_are_different() -> None:
    recent = RecentDecisions()
    recent._note(Decision(NOW, "Pod", POD, "Error"))
    recent._note(Decision(NOW, "Reservation", POD, "Error"))
    assert len(list(recent)) == 2


def test_a_long_reason_is_cut() -> None:
    recent = RecentDecisions()
    recent._note(Decision(NOW, "Pod", POD, "Error", why="x" * 5000))
    (decision,) = recent
    assert (len(decision.why), decision.why[-2:]) == (1024, "x…")


async def test_decisions_on_pods_and_reservations_are_noted() -> None:
    shell = Shell(node("node-a", cpu="2"))
    shell.store_reservation("lock", owner="web-1", ttlSeconds=60)
    shell.step()
    await shell.publish()
    shell.store_pod("web-0", requests={"cpu": "1"})
    shell.binder.bind(shell.place(), 0.0)
    shell.store_pod("web-9", requests={"cpu": "1"})
    shell.binder.report(shell.refuse())
    await shell.settle()
    told = [(each.kind, each.key.name, each.verdict, each.node) for each in shell.recent]

    assert told == [
        ("Pod", "web-9", "Unschedulable", ""),
        ("Pod", "web-0", "Scheduled", "node-a"),
        ("Reservation", "lock", "Active", "node-a"),
    ]
    newest = next(iter(shell.recent))
    assert newest.why.startswith(f"0/1 nodes are available: 1 {insufficient_beside(CPU)}")
    assert newest.at == shell.clock.now()


async def test_a_refused_reservation_is_noted_and_its_end_too() -> None:
    shell = Shell(node("node-a", cpu="1"))
    shell.store_reservation(owner="nobody", resources={"cpu": "2"}, pendingDeadlineSeconds=30)
    shell.step()
    shell.flush()
    (refused,) = shell.recent
    assert (refused.kind, refused.key, refused.verdict, refused.at) == ("Reservation", LOCK, "Pending", NOW)
    assert refused.why.startswith("InsufficientCapacity: 0/1 nodes are available")

    shell.clock.advance(30)
    shell.step()
    await shell.publish()
    newest, *_ = shell.recent
    assert (newest.verdict, newest.node, newest.at) == ("Rejected", "", NOW + 30)
    assert newest.why.startswith(f"DeadlineExceeded: {no_capacity_text(30)}")


async def test_a_claim_is_noted_with_its_pod_and_its_end_with_the_reservation() -> None:
    shell = Shell(node("node-a"))
    shell.store_reservation(owner="web-0")
    shell.step()
    await shell.publish()
    shell.store_pod("web-0")
    shell.binder.bind(shell.place(), 0.0)
    await shell.publish()
    await shell.publish()

    assert [(each.kind, each.verdict) for each in shell.recent] == [
        ("Reservation", "Consumed"),
        ("Pod", "Scheduled"),
        ("Reservation", "Active"),
    ]
