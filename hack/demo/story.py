"""The story of the demo, with one function per chapter. The first claim that does not hold ends it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from demo.world import StepError, World, condition, expiry, message

# Seconds within which capacity is free again. A machine that is busy with other work gets several tries.
_PROMPT = 0.1
_TRIES = 5
_MILLI = 1000


def check(claim: str, holds: object) -> None:
    """Print a claim that holds.

    Raises:
        StepError: the claim does not hold.

    """
    if not holds:
        raise StepError(claim)
    print(f"  ok  {claim}")


async def a_reservation_holds_its_room(world: World, workers: list[str]) -> None:
    first, *others = workers
    reserved, large = world.cores(2), world.cores(3)
    await world.reserve("web-0", reserved, owner="reserved-pod", nodeName=first)
    status = await world.active("web-0")
    check(f"{reserved} cpu are reserved on {first} for pod reserved-pod", status["nodeName"] == first)
    await world.create_pod("filler-1", large)
    await world.create_pod("filler-2", large)
    nodes = {(await world.bound(name))[0] for name in ("filler-1", "filler-2")}
    check(f"pods of {large} cpu fill {' and '.join(others)}", nodes == set(others))
    await world.show()


async def an_ordinary_pod_waits(world: World, _workers: list[str]) -> None:
    needed, reserved = world.cores(3), world.cores(2)
    await world.create_pod("ordinary", needed)
    note = await world.refused("ordinary")
    print(f"      {note}")
    counted = f"0/{await world.node_count()} nodes are available"
    check("the event counts the nodes", note.startswith(counted))
    check("the event gives the numbers", f"cpu {needed} needed" in note and f"{reserved} reserved" in note)
    check("the event names the reservation", "demo/web-0" in note)
    check("pod ordinary stays Pending", not (await world.pod("ordinary"))["spec"].get("nodeName"))
    await world.show()


async def the_owner_takes_its_reservation(world: World, workers: list[str]) -> None:
    first = workers[0]
    await world.create_pod("reserved-pod", world.cores(2))
    node, _ = await world.bound("reserved-pod")
    check(f"reserved-pod lands on {first}", node == first)
    await world.until(
        "the reservation is gone", lambda: world.reservation("web-0"), lambda seen: seen is None
    )
    check("the reservation is gone", holds=True)
    small = world.cores(1.5)
    await world.create_pod("small", small)
    node, _ = await world.bound("small")
    check(f"a pod of {small} cpu then runs on {first}", node == first)
    await world.show()


async def a_reservation_expires(world: World, workers: list[str]) -> None:
    for name in ("reserved-pod", "small", "ordinary"):
        await world.delete_pod(name)
    for _ in range(_TRIES):
        await world.reserve("brief", world.cores(2), owner="nobody", ttlSeconds=10, nodeName=workers[0])
        ends = expiry(await world.active("brief"))
        await world.create_pod("patient", world.cores(3))
        await world.refused("patient")
        await world.show()
        _, seen = await world.bound("patient")
        late = seen - ends
        check(f"pod patient is bound {_MILLI * late:.0f} ms after the lock has expired", late >= 0)
        await world.until(
            "the expired reservation is gone", lambda: world.reservation("brief"), lambda r: r is None
        )
        await world.delete_pod("patient")
        if late <= _PROMPT:
            break
    check(f"that is within {_MILLI * _PROMPT:.0f} ms", late <= _PROMPT)


async def a_reservation_for_any_node(world: World, workers: list[str]) -> None:
    await world.reserve("anywhere", world.cores(3), owner="anybody")
    status = await world.active("anywhere")
    check(f"a lock for any node finds {workers[0]}", status["nodeName"] == workers[0])
    await world.show()


async def an_infeasible_reservation(world: World, workers: list[str]) -> None:
    await world.reserve("too-much", "64", owner="giant")
    seen = await world.until(
        "the infeasible lock is explained",
        lambda: world.reservation("too-much"),
        lambda r: r and message(r, "Active"),
    )
    text = message(seen or {}, "Active")
    print(f"      {text}")
    check("an infeasible lock is not Active", not condition(seen or {}, "Active"))
    check(
        "its condition gives the numbers of every worker",
        text.startswith(f"0/{await world.node_count()} nodes are available")
        and text.count("cpu 64 needed") == len(workers),
    )


async def two_managers_race(world: World, workers: list[str]) -> None:
    names = ["manager-a", "manager-b"]
    last = world.cores(0.5)  # the first worker has 0.9 left
    await asyncio.gather(*(world.reserve(n, last, owner=n, nodeName=workers[0]) for n in names))
    seen = await answers(world, names)
    await world.show()
    outcome = sorted(condition(each, "Active") for each in seen)
    check("exactly one of two managers gets the last capacity", outcome == [False, True])


async def two_managers_race_for_a_device(world: World, workers: list[str]) -> None:
    names, second = ["trainer-a", "trainer-b"], workers[1]
    world.publish_gpu(second)
    try:
        small = world.cores(0.1)
        await asyncio.gather(*(world.reserve(n, small, owner=n, gpu=True) for n in names))
        seen = await answers(world, names)
        loser, winner = sorted(seen, key=lambda each: condition(each, "Active"))
        outcome = [condition(each, "Active") for each in (loser, winner)]
        check("exactly one of two managers gets the last GPU", outcome == [False, True])
        owner, (device,) = winner["metadata"]["name"], winner["status"]["devices"]
        held = f"device {device['device']} of {device['pool']}"
        check(f"{owner} holds {held}", winner["status"]["nodeName"] == device["pool"] == second)
        print(f"      {message(loser, 'Active')}")
        check("the other gets the reason", "cannot allocate all claims" in message(loser, "Active"))
        await world.create_pod("stranger", small, gpu=True)
        note = await world.refused("stranger", "cannot allocate all claims")  # not that its claim is to come
        print(f"      {note}")
        refused = "nodeName" not in (await world.pod("stranger"))["spec"]
        check("a pod of another owner gets no GPU", refused)
        await world.create_pod(owner, small, gpu=True)
        node, _ = await world.bound(owner)
        check(f"pod {owner} lands on {second}", node == second)
        check(f"its claim gets {held}", world.allocated(owner) == [device["device"]])
        await world.show()
    finally:
        world.withdraw_gpu()


async def answers(world: World, names: list[str]) -> list[dict[str, Any]]:
    """Wait until each of these reservations is decided, and return them."""

    async def decided() -> list[dict[str, Any]]:
        seen = [await world.reservation(name) or {} for name in names]
        return seen if all(message(each, "Active") for each in seen) else []

    return await world.until("both managers have an answer", decided)


CHAPTERS: tuple[tuple[str, Callable[[World, list[str]], Awaitable[None]]], ...] = (
    (
        "Reserved capacity of one node stays free while pods fill all other capacity",
        a_reservation_holds_its_room,
    ),
    ("A pod that needs the reserved capacity is refused, with the reason", an_ordinary_pod_waits),
    (
        "The owner lands on its reservation's node, the reservation is gone, and other pods get the rest",
        the_owner_takes_its_reservation,
    ),
    (
        "At the instant of expiry the capacity is free, and a waiting pod is bound",
        a_reservation_expires,
    ),
    ("A reservation for any node gets the node with capacity", a_reservation_for_any_node),
    ("A reservation that fits no node reports the reason", an_infeasible_reservation),
    (
        "Two managers reserve the last capacity at the same time: exactly one gets it, the other a reason",
        two_managers_race,
    ),
    (
        "Two managers reserve the last GPU at the same time: exactly one holds it, and its pod gets it",
        two_managers_race_for_a_device,
    ),
)
