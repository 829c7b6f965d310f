"""The steps of a plan, and the actions by their names."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from faults.actions.disturbances import await_minute, crash, jump, pass_time, storm
from faults.actions.nodes import cordon, delete_node, put_node, replace_node, resize_node
from faults.actions.pods import (
    bind_by_another,
    create_borrower,
    create_passing,
    create_pod,
    end_borrower,
    end_pod,
    replace_pod,
    stranger,
)
from faults.actions.policies import (
    create_level,
    create_quota,
    create_quote,
    delete_level,
    delete_quota,
    delete_quote,
    edit_level,
    edit_quota,
)
from faults.actions.reservations import (
    approve_moves,
    commit_reservation,
    copy_answer,
    create_reservation,
    delete_reservation,
    edit_devices,
    edit_reservation,
    hold_lease,
    replace_reservation,
    touch_reservation,
    withdraw_approval,
)
from faults.actions.sets import (
    create_gang,
    create_group,
    create_schedule,
    delete_group,
    delete_member,
    delete_schedule,
    delete_window,
    edit_schedule,
    end_gang_pod,
)
from faults.actions.stateful_set import (
    create_budget,
    create_part,
    delete_budget,
    edit_budget,
    end_part,
    tell_part,
)
from faults.draws import NUMBERS
from faults.fault_run import Action, FaultRun, UnfitError
from tidelock.kube.errors import AlreadyExists, ApiError, NotFound

# Seconds of the loop.
_LONGEST_WAIT = 20.0
_LOOK = 0.1
_RANKS = 9  # number of the quota that allows the drawn priorities, which no drawn quota has


async def execute(run: FaultRun) -> None:
    """Execute all planned steps. A step that the API server refuses has no effect."""
    await create_quota(run, _RANKS, {"maxPriority": 9, "preemptionPolicy": "PreemptLowerPriority"})
    if run.plan.devices:
        await run.devices.create_class()
    for name, cpu in run.plan.sizes.items():
        await put_node(run, name, cpu)
    actions = dict(ACTIONS) | dict(run.outages.actions if run.outages is not None else {})
    for step in run.plan.steps:
        await (_until_idle(run) if step.pause is None else asyncio.sleep(step.pause))
        run.note(f"{step.action} {dict(step.arguments)}")
        await _do(run, actions[step.action], step.arguments)
    if run.outages is not None:
        await run.outages.mend()
    await run.creations.done()
    for holder in run.holders:
        holder.cancel()
    for number in range(NUMBERS):  # otherwise an eviction might wait for ever
        with suppress(NotFound):
            await delete_budget(run, number)


async def _do(run: FaultRun, action: Action, arguments: Mapping[str, Any]) -> None:
    """Apply an action to the first object, from its number on, for which it is possible."""
    for shift in range(NUMBERS):
        number = {"number": (arguments["number"] + shift) % NUMBERS} if "number" in arguments else {}
        try:
            await action(run, **{**arguments, **number})
        except (NotFound, AlreadyExists, UnfitError) as error:
            run.note(f"  not of {number}: {error}")
        except ApiError as error:
            run.note(f"  refused: {error}")
            return
        else:
            return


async def _until_idle(run: FaultRun) -> None:
    """Wait until the operator reports that it has nothing to do, but not for long, as it may be dead."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_WAIT):
            while run.instance is None or run.instance.unrest(run.clock.now()):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)


ACTIONS: Mapping[str, Action] = {
    "lock": create_reservation,
    "edit devices": edit_devices,
    "edit lock": edit_reservation,
    "touch lock": touch_reservation,
    "delete lock": delete_reservation,
    "replace lock": replace_reservation,
    "hold lease": hold_lease,
    "commit lock": commit_reservation,
    "copy answer": copy_answer,
    "group": create_group,
    "delete group": delete_group,
    "delete member": delete_member,
    "gang": create_gang,
    "schedule": create_schedule,
    "edit schedule": edit_schedule,
    "delete schedule": delete_schedule,
    "delete window": delete_window,
    "time passes": pass_time,
    "a minute begins": await_minute,
    "borrower": create_borrower,
    "passing pod": create_passing,
    "end borrower": end_borrower,
    "water level": create_level,
    "edit water level": edit_level,
    "delete water level": delete_level,
    "quote": create_quote,
    "delete quote": delete_quote,
    "quota": create_quota,
    "edit quota": edit_quota,
    "delete quota": delete_quota,
    "part": create_part,
    "tell part": tell_part,
    "end part": end_part,
    "approve": approve_moves,
    "withdraw": withdraw_approval,
    "budget": create_budget,
    "edit budget": edit_budget,
    "delete budget": delete_budget,
    "end gang pod": end_gang_pod,
    "pod": create_pod,
    "end pod": end_pod,
    "replace pod": replace_pod,
    "resize node": resize_node,
    "cordon": cordon,
    "delete node": delete_node,
    "replace node": replace_node,
    "stranger": stranger,
    "bind by another": bind_by_another,
    "clock jumps": jump,
    "storm": storm,
    "crash": crash,
}
"""Actions on objects, clocks and the operator, by the names of steps."""
