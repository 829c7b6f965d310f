"""The message of a pod that waits for the reservation that it requires."""

from builders import node, pod
from tidelock.ledger.owners.awaited import NAMED_BY_NONE, awaited_reasons, awaited_text, repeats
from unit.scheduler.gang import Gang, worker
from unit.scheduler.machinery import Core


def text(core: Core, name: str = "web-0") -> str:
    return "; ".join(awaited_reasons(core.ledger.ownership, pod(name)))


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


def test_a_planned_reservation_is_shown_with_the_begin_of_its_window() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation(startAt="2027-01-15T09:00:00Z")
    core.step()
    assert text(core) == awaited_text("shop/lock", "Planned: Planned, and begins at 2027-01-15T09:00:00Z")


def test_a_reusable_reservation_is_shown_as_in_use() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation(reuse="Always", owner="web-0")
    core.step()
    core.run(pod("web-0"))
    assert text(core) == awaited_text("shop/lock", "Active and in use by another pod")


def test_a_member_of_a_group_is_shown_as_pending_until_the_group_has_capacity() -> None:
    core = Core(node("node-a", cpu="2"))
    gang = Gang(core)
    gang.come()
    core.step()
    first, *_ = awaited_reasons(core.ledger.ownership, worker())
    assert first == awaited_text("shop/train-0", "Pending: GroupIncomplete")


def test_a_consumed_reservation_is_not_shown_as_ended() -> None:
    core = Core(node("node-a", cpu="1"))
    core.reservation()
    core.run(pod("web-0"))
    assert text(core) == NAMED_BY_NONE


def test_the_last_end_is_shown_until_a_reservation_of_the_same_name_is_created() -> None:
    core = Core(node("node-a", cpu="4"))
    for name in ("first", "second"):
        core.event_handlers.reservations.remove(core.reservation(name).reservation)
    assert text(core) == f"{NAMED_BY_NONE}: shop/second was deleted"
    core.reservation("second", uid="another", owner="db-0")
    assert text(core) == f"{NAMED_BY_NONE}: shop/first was deleted"


def test_the_number_of_remembered_ends_is_limited() -> None:
    core = Core(node("node-a", cpu="1"))
    for number in range(1025):
        core.event_handlers.reservations.remove(
            core.reservation(f"lock-{number}", owner=f"web-{number}").reservation
        )
    assert text(core, "web-0") == NAMED_BY_NONE
    assert text(core, "web-1") == f"{NAMED_BY_NONE}: shop/lock-1 was deleted"


def test_an_earlier_text_that_says_more_stays() -> None:
    assert repeats(NAMED_BY_NONE, NAMED_BY_NONE)
    assert repeats(NAMED_BY_NONE, f"{NAMED_BY_NONE}: shop/lock was deleted")
    assert not repeats(NAMED_BY_NONE, "")
    assert not repeats(f"{NAMED_BY_NONE}: shop/lock was deleted", NAMED_BY_NONE)
