"""Events about reservations that wait, which kubectl describe shows."""

from builders import node
from tidelock.framework.rejections import shortage_text
from unit.scheduler.machinery import Shell, Told


async def waiting(shell: Shell, name: str = "lock", cpu: str = "9") -> list[Told]:
    """Store a reservation that finds no capacity, write its status, and return the events about it."""
    shell.store_reservation(name, resources={"cpu": cpu})
    shell.step()
    await shell.publish()
    return [told for told in shell.recorder if told.regarding.name == name]


async def test_a_reservation_that_waits_gets_an_event_with_the_numbers() -> None:
    shell = Shell(node("node-a", cpu="4"))
    (told,) = await waiting(shell)
    assert (told.type, told.reason, told.action) == ("Warning", "InsufficientCapacity", "Pending")
    assert shortage_text("cpu", "9", "4") in told.note
    assert (told.regarding.kind, told.regarding.uid) == ("Reservation", "uid-lock")


async def test_another_message_with_the_same_reason_is_no_event() -> None:
    shell = Shell(node("node-a", cpu="4"))
    await waiting(shell)
    shell.see_reservation()
    shell.event_handlers.nodes.upsert(None, node("node-b", cpu="5"))
    shell.step()
    await shell.publish()
    assert shell.recorder.reasons == ["InsufficientCapacity"]


async def test_a_namespace_with_many_waiting_reservations_gets_some_events_and_then_few() -> None:
    shell = Shell(node("node-a", cpu="4"))
    for number in range(40):
        await waiting(shell, f"lock-{number}")
    assert len(shell.recorder.told) == 25
    shell.clock.advance(10.0)
    for number in range(40, 50):
        await waiting(shell, f"lock-{number}")
    assert len(shell.recorder.told) == 27


async def test_a_granted_reservation_gets_no_such_event() -> None:
    shell = Shell(node("node-a", cpu="4"))
    assert await waiting(shell, cpu="1") == []


async def test_a_member_of_a_group_leaves_its_story_to_the_group() -> None:
    shell = Shell(node("node-a", cpu="4"))
    group = {"name": "train", "uid": "uid-train", "members": 1, "minMembers": 1}
    shell.store_reservation("member", resources={"cpu": "9"}, group=group)
    shell.step()
    await shell.publish()
    assert shell.stored_status("member")["phase"] == "Pending"
    assert shell.recorder.reasons == []
