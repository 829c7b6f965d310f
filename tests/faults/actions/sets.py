"""Groups and schedules of a run, and their reservations and pods."""

from contextlib import suppress
from typing import Any

from faults.actions.nodes import NODE_LABEL
from faults.actions.pods import create_pod_of, end_pod_named
from faults.actions.reservations import ends
from faults.draws import NUMBERS
from faults.fault_run import FaultRun, UnfitError
from faults.history import Json
from tidelock.kube.client import RESERVATIONGROUPS, RESERVATIONS, RESERVATIONSCHEDULES
from tidelock.kube.errors import AlreadyExists, NotFound


async def create_group(run: FaultRun, number: int, members: list[Json], **wanted: Any) -> None:
    """Create a group for the pods that have its name as their label."""
    name = f"gang-{number}"
    owners = [{"selector": {"matchLabels": {"app": name}}}]
    kinds = [
        {
            "name": each["name"],
            "count": each["count"],
            "resources": {"cpu": each["cpu"]},
            "owners": owners,
        }
        for each in members
    ]
    spec = {
        "members": kinds,
        "retention": wanted["retention"],
        "priority": wanted["priority"],
        "pendingDeadlineSeconds": wanted["deadline"],
        **({"minMembers": wanted["least"]} if wanted["least"] else {}),
        **({"topology": {"mode": "Spread", "key": NODE_LABEL}} if wanted["spread"] else {}),
        **ends(run, wanted),
    }
    await run.create(RESERVATIONGROUPS, name, spec)


async def delete_group(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(RESERVATIONGROUPS.item(f"gang-{number}", run.world))


async def delete_member(run: FaultRun, number: int, which: int) -> None:
    """Delete one of the reservations of a group by hand."""
    await _delete_made(run, f"gang-{number}", which)


async def _delete_made(run: FaultRun, maker: str, which: int) -> None:
    listed = (await run.stored(RESERVATIONS.collection(run.world)))["items"]
    made = [each for each in listed if each["metadata"]["name"].startswith(f"{maker}-")]
    if not made:
        raise UnfitError(f"{maker} has no locks")
    await delete_unwanted(run, made[which % len(made)]["metadata"])


async def delete_unwanted(run: FaultRun, meta: Json) -> None:
    """Delete a reservation that is known by its metadata."""
    run.deleted.add(meta["uid"])
    await run.site.admin.delete(RESERVATIONS.item(meta["name"], run.world), uid=meta["uid"])


async def create_gang(run: FaultRun, number: int, count: int, cpu: str) -> None:
    """Create the pods for a group's reservations, as far as they do not exist yet."""
    for which in range(count):
        with suppress(AlreadyExists):
            await create_pod_of(run, _of_gang(number, which), cpu, {"app": f"gang-{number}"}, {})


async def end_gang_pod(run: FaultRun, number: int, which: int) -> None:
    await end_pod_named(run, _of_gang(number, which))


async def create_schedule(run: FaultRun, number: int, spec: Json) -> None:
    await run.create(RESERVATIONSCHEDULES, f"daily-{number}", spec)


async def edit_schedule(run: FaultRun, number: int, spec: Json) -> None:
    path = RESERVATIONSCHEDULES.item(f"daily-{number}", run.world)
    await run.site.admin.patch(path, {"spec": spec})


async def delete_schedule(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(RESERVATIONSCHEDULES.item(f"daily-{number}", run.world))


async def delete_window(run: FaultRun, number: int, which: int) -> None:
    """Delete one of the reservations of a schedule by hand."""
    await _delete_made(run, f"daily-{number}", which)


async def end_schedules(run: FaultRun) -> None:
    """Delete all schedules, which would otherwise continue for ever."""
    for number in range(NUMBERS):
        with suppress(NotFound):
            await delete_schedule(run, number)


def _of_gang(number: int, which: int) -> str:
    return f"gang-{number}-pod-{which}"
