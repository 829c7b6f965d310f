"""What a pod that requires its reservation is told while it waits."""

from builders import node, pod
from tidelock.ledger.owners.awaited import MISSING, awaited_text, repeats
from unit.scheduler.gang import Gang, worker
from unit.scheduler.machinery import Core


def text(core: Core, name: str = "web-0") -> str:
    return awaited_text(core.ledger.ownership, pod(name))


def test_some_of_many_reservations_are_named() -> None:
    core = Core(node("node-a", cpu="1"))
    for number in range(5):
        core.reservation(f"lock-{number}", resources={"cpu": "2"})
    core.step()
    waits = "which is Pending: InsufficientCapacity"
    assert text(core) == (
        f"waiting for reservation shop/lock-0, {waits}; or shop/lock-1, {waits}; "
        f"or shop/lock-2, {waits}; or 2 more"
    )


def test_of_a_window_it_is_told_when_it_begins() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation(startAt="2027-01-15T09:00:00Z")
    core.step()
    assert text(core) == (
        "waiting for reservation shop/lock, which is Planned: Planned, and begins at 2027-01-15T09:00:00Z"
    )


def test_a_reservation_for_reuse_may_be_in_use() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation(reuse="Always", owner="web-0")
    core.step()
    core.run(pod("web-0"))
    assert text(core) == "waiting for reservation shop/lock, which is Active and in use by another pod"


def test_a_member_of_a_group_is_pending_until_the_group_is_given() -> None:
    core = Core(node("node-a", cpu="2"))
    gang = Gang(core)
    gang.come()
    core.step()
    waiting = awaited_text(core.ledger.ownership, worker())
    assert waiting.startswith("waiting for reservation shop/train-0, which is Pending: GroupIncomplete; or ")


def test_a_reservation_that_was_taken_is_none_that_ended_too_early() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation()
    core.run(pod("web-0"))
    assert text(core) == MISSING


def test_the_last_end_is_remembered_and_forgotten_when_the_name_comes_again() -> None:
    core = Core(node("node-a", cpu="4"))
    for name in ("first", "second"):
        core.event_handlers.reservations.remove(core.reservation(name).reservation)
    assert text(core) == f"{MISSING}: shop/second was deleted"
    core.reservation("second", uid="another", owner="db-0")
    assert text(core) == f"{MISSING}: shop/first was deleted"


def test_no_more_than_so_many_ends_are_remembered() -> None:
    core = Core(node("node-a", cpu="1"))
    for number in range(1025):
        core.event_handlers.reservations.remove(
            core.reservation(f"lock-{number}", owner=f"web-{number}").reservation
        )
    assert text(core, "web-0") == MISSING
    assert text(core, "web-1") == f"{MISSING}: shop/lock-1 was deleted"


def test_an_earlier_text_that_says_more_stays() -> None:
    assert repeats(MISSING, MISSING)
    assert repeats(MISSING, f"{MISSING}: shop/lock was deleted")
    assert not repeats(MISSING, "")
    assert not repeats(f"{MISSING}: shop/lock was deleted", MISSING)
