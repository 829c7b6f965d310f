"""Reservations of a run, with their answers, leases, commits and approvals."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from faults.devices import reservation_spec, resource_of
from faults.fault_run import FaultRun, UnfitError
from faults.history import Json
from faults.reading import answers_of
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import ApiError
from tidelock.model.instants import format_instant


async def create_reservation(run: FaultRun, number: int, owner: int | str, node: str, **wanted: Any) -> None:
    term = (
        {"pod": {"name": f"web-{owner}"}} if owner != "web" else {"selector": {"matchLabels": {"app": owner}}}
    )
    spec = {
        **reservation_spec(run.world, wanted["cpu"], wanted.get("gpu", "")),
        "owners": [term],
        "retention": wanted["retention"],
        "priority": wanted["priority"],
        "pendingDeadlineSeconds": wanted["deadline"],
        **({"nodeName": run.name_of(node)} if node else {}),
        **ends(run, wanted),
        **({"startAt": instant_in(run, wanted["starts_in"])} if "starts_in" in wanted else {}),
        **wanted.get("also", {}),
        **({"answer": "Immediate"} if "answer" in wanted else {}),
    }
    await _create_reservation(run, number, spec, **wanted.get("answer", {}))


async def _create_reservation(run: FaultRun, number: int, spec: Json, **answer: Any) -> None:
    """Create a reservation, with an answer if it asks for one."""
    if "answer" not in spec:
        await run.create(RESERVATIONS, f"lock-{number}", spec)
    else:
        await run.creations.create(run.reservation_body(f"lock-{number}", spec), **answer)


async def copy_answer(run: FaultRun, number: int, other: int, how: str) -> None:
    """Bring the answer of a reservation to another one, by an update or in its creation.

    With `replay` the reservation is deleted before, and the other one has its name.
    """
    stored = await run.stored(run.reservation_path(number))
    answers = answers_of(stored)
    if not answers:
        raise UnfitError(f"lock-{number} has no answer")
    if how == "update":
        body = {"metadata": {"annotations": answers}}
        await run.site.admin.patch(run.reservation_path(other), body)
        return
    if how == "replay":
        await delete_reservation(run, number)
        other = number
    body = run.reservation_body(f"lock-{other}", stored["spec"])
    body["metadata"]["annotations"] = answers
    await run.creations.create(body)


def ends(run: FaultRun, wanted: Mapping[str, Any]) -> Json:
    if "ttl" in wanted:
        return {"ttlSeconds": wanted["ttl"]}
    return {"expireAt": instant_in(run, wanted["expires_in"])}


def instant_in(run: FaultRun, seconds: float) -> str:
    return format_instant(int(run.clock.now() + seconds))


async def edit_reservation(run: FaultRun, number: int, spec: Mapping[str, Any]) -> None:
    await run.site.admin.patch(run.reservation_path(number), {"spec": dict(spec)})


async def edit_devices(run: FaultRun, number: int, gpu: str | None) -> None:
    """Change a reservation's amount of the extended resource, or remove it."""
    await edit_reservation(run, number, {"resources": {resource_of(run.world): gpu}})


async def touch_reservation(run: FaultRun, number: int) -> None:
    """Write an irrelevant annotation, so that the next writer has an outdated version."""
    stamp = str(asyncio.get_running_loop().time())
    await run.site.admin.patch(
        run.reservation_path(number), {"metadata": {"annotations": {"touched": stamp}}}
    )


async def delete_reservation(run: FaultRun, number: int) -> Json:
    path = run.reservation_path(number)
    stored = await run.stored(path)
    run.deleted.add(stored["metadata"]["uid"])
    await run.site.admin.delete(path, uid=stored["metadata"]["uid"])
    return stored


async def replace_reservation(run: FaultRun, number: int) -> None:
    """Delete a reservation and create it again, as GitOps tools sometimes do."""
    stored = await delete_reservation(run, number)
    await _create_reservation(run, number, stored["spec"])


async def hold_lease(run: FaultRun, number: int, every: float, times: int) -> None:
    """Begin to renew a reservation's lease regularly, for a number of times or until the faults stop."""
    stored = await run.stored(run.reservation_path(number))
    if "lease" not in stored["spec"]:
        raise UnfitError(f"lock-{number} has no lease")
    await _renew(run, number, stored["metadata"]["uid"])
    holder = asyncio.create_task(_keep_renewing(run, number, stored["metadata"]["uid"], every, times))
    run.holders.add(holder)
    holder.add_done_callback(run.holders.discard)


async def _keep_renewing(run: FaultRun, number: int, uid: str, every: float, times: int) -> None:
    with suppress(ApiError):  # the reservation is over, or gone
        for _ in range(times):
            await asyncio.sleep(every)
            await _renew(run, number, uid)


async def _renew(run: FaultRun, number: int, uid: str) -> None:
    """Renew a lease with the clock of its holder, which is wrong by years."""
    mark = format_instant(round(asyncio.get_running_loop().time(), 3))
    body = {"metadata": {"uid": uid}, "spec": {"lease": {"renewTime": mark}}}
    await run.site.admin.patch(run.reservation_path(number), body)


async def commit_reservation(run: FaultRun, number: int, *, stale: bool) -> None:
    """Commit a reservation with the token of its status, or with an older one."""
    stored = await run.stored(run.reservation_path(number))
    told = stored.get("status", {}).get("commit", {})
    if "token" not in told:
        raise UnfitError(f"lock-{number} has no token")
    giver, _, _ = told["token"].rpartition(".")
    token = f"{giver}.{told['holds'] - stale}"
    body = {"metadata": {"uid": stored["metadata"]["uid"]}, "spec": {"commit": {"token": token}}}
    await run.site.admin.patch(run.reservation_path(number), body)


async def approve_moves(run: FaultRun, number: int, *, stale: bool) -> None:
    """Approve the plan that a reservation's status shows, or an outdated one."""
    stored = await run.stored(run.reservation_path(number))
    plan = stored.get("status", {}).get("plan")
    if plan is None or "mayMove" not in stored["spec"]:
        raise UnfitError(f"lock-{number} has no plan")
    await _answer_plan(run, stored, "outdated" if stale else plan["token"])


async def withdraw_approval(run: FaultRun, number: int) -> None:
    """Withdraw an approval."""
    stored = await run.stored(run.reservation_path(number))
    if "approve" not in stored["spec"].get("mayMove", {}):
        raise UnfitError(f"lock-{number} has no approval")
    await _answer_plan(run, stored, None)


async def _answer_plan(run: FaultRun, stored: Json, token: str | None) -> None:
    meta = stored["metadata"]
    body = {"metadata": {"uid": meta["uid"]}, "spec": {"mayMove": {"approve": token}}}
    await run.site.admin.patch(RESERVATIONS.item(meta["name"], run.world), body)
