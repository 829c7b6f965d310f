"""Conditions of an operator at rest: memory equals the API, and no pod or reservation waits in vain."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from faults.history import BUDGETS, OF_DEVICES, Json
from faults.operator_instance import EARMARK_AFTER, SCHEDULER
from tidelock.framework.config import default_configuration
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.output.group_status import render_group
from tidelock.ledger.output.schedule_status import plan_windows, render_schedule
from tidelock.ledger.output.status import render_quota
from tidelock.ledger.owners import occupants
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.sets.groups import GroupKey
from tidelock.model.api.reservation import Phase
from tidelock.model.devices import DeviceId
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider, DeciderOptions
from tidelock.scheduler.defrag.controller import MigrationTask
from tidelock.scheduler.informers.informers import decoder_of
from tidelock.scheduler.scheduler_core import assemble_core
from unit.scheduler.machinery import FakeClock

_MOST_DECISIONS = 50
_GROUPS = "reservationgroups"
_QUOTAS = "reservationquotas"
_BUDGETS = "pod_disruption_budgets"
_SCHEDULES = "reservationschedules"


def check_memory(decider: Decider, stored: Mapping[tuple[str, str], Json], now: float) -> list[str]:
    """Check I4 and I5: another operator has the same state for the objects, and finds nothing to do."""
    rebuilt = _rebuild(stored, now)
    found = _differences("I4: memory and the API", _standing(decider), _standing(rebuilt))
    found += _differences("I4: plans of moves in memory and the API", _plans(decider), _plans(rebuilt))
    rebuilt.ledger.advance(now)  # it now knows which groups are complete
    for differences in (_group_differences, _quota_differences, _schedule_differences):
        found += differences(rebuilt, stored, now)
    migrations: list[MigrationTask] = []
    claims: list[Claim] = []
    for _ in range(_MOST_DECISIONS):
        step = rebuilt.step(now)
        outcome = step.outcome
        migrations += step.migrations
        claims += step.effects.claims
        if isinstance(outcome, AssumedPod):
            found.append(f"I5: pod {outcome.pod.key} waits, and fits on {outcome.node_name}")
        evicted = [str(pod.key) for attempt in step.preemptions for pod in attempt.victims]
        if evicted:
            found.append(f"I5: {evicted} are in the way of others, and were not evicted")
        if outcome is None and not _due(rebuilt, now):
            break
    moving = (rebuilt.moving.next_victim(task) for task in migrations)
    found += [f"I5: {pod.key} is to be moved, and was not evicted" for pod in moving if pod is not None]
    found += [f"I5: {claim.pod.key} has locks yet, and is bound" for claim in claims]
    return found or _differences(
        "I5: before and after another decision", _standing(decider), _standing(rebuilt)
    )


def _group_differences(decider: Decider, stored: Mapping[tuple[str, str], Json], now: float) -> list[str]:
    """Check I4: another operator would report the same of groups."""
    groups = [
        decode_group(json.dumps(each).encode()) for (kind, _), each in stored.items() if kind == _GROUPS
    ]
    found = []
    for group in groups:
        members = decider.ledger.groups.get(GroupKey(*group.key, group.meta.uid))
        wanted = render_group(group, members, now)
        found += _differences(f"I4: of {group.key}, what is told and what is so", group.status, wanted)
    return found


def _quota_differences(decider: Decider, stored: Mapping[tuple[str, str], Json], now: float) -> list[str]:
    """Check I4: another operator would report the same of quotas."""
    found = []
    quotas, raw = decider.ledger.quotas, (each for (kind, _), each in stored.items() if kind == _QUOTAS)
    for quota in (decode_reservation_quota(json.dumps(state).encode()) for state in raw):
        wanted = render_quota(quota, quotas.used(quota.meta.namespace), now)
        found += _differences(f"I4: of {quota.meta.key}, what is told and what is so", quota.status, wanted)
    return found


def _schedule_differences(decider: Decider, stored: Mapping[tuple[str, str], Json], now: float) -> list[str]:
    """Check I4 and I5: another operator would report the same of schedules, and change no windows."""
    found = []
    raw = (each for (kind, _), each in stored.items() if kind == _SCHEDULES)
    for schedule in (decode_schedule(json.dumps(state).encode()) for state in raw):
        windows = decider.ledger.schedules.windows(schedule.meta.uid)
        plan = plan_windows(schedule, windows, 0.0, now)
        wanted = render_schedule(schedule, windows, plan, now)
        found += _differences(f"I4: of {schedule.key}, what is told and what is so", schedule.status, wanted)
        missing = set(plan.wanted) - {entry.key.name for entry in windows}
        surplus = [entry.key.name for entry in plan.surplus]
        if missing or surplus:
            found.append(f"I5: {schedule.key} lacks {missing}, and has {surplus} too many")
    return found


def check_nothing_left(decider: Decider, stored: Mapping[tuple[str, str], Json]) -> list[str]:
    """Check that after the end of all reservations only tombstones are left, and no capacity is held."""
    left = [
        f"I5: {name} is {state['status'].get('phase')} after all ends"
        for (kind, name), state in stored.items()
        if kind in {"reservations", _GROUPS}
        and (state["spec"]["retention"] != "Retain" or state["status"].get("phase") not in _TOMBSTONES)
    ]
    left += [f"I5: {name} is there after its time" for kind, name in stored if kind == "reservationquotes"]
    ledger, columns = decider.ledger, decider.columns
    held = {name: columns.named(columns.reserved[row]) for name, row in columns.row_of.items()}
    remains = {
        "amounts": {name: amounts for name, amounts in held.items() if amounts},
        "waiting": ledger.waiting_reservations.waiting,
        "claims": ledger.claims.in_flight,
        "holders": ledger.holdings.nodes_with_reservations(),
        "devices": decider.objects.resource_claims.reserved,
        "devices in flight": dict(decider.objects.resource_claims.in_flight.items()),
    }
    return left + [f"I4: {what} left of no lock: {some}" for what, some in remains.items() if some]


_TOMBSTONES = {"Consumed", "Expired", "Lost", "Rejected"}


def _rebuild(stored: Mapping[tuple[str, str], Json], now: float) -> Decider:
    """Build another operator over the same objects."""
    options = DeciderOptions(earmark_after=EARMARK_AFTER)
    core = assemble_core(default_configuration(SCHEDULER, BUILTINS), FakeClock(now), options=options)
    event_handlers = core.event_handlers
    sinks: dict[str, tuple[Callable[[bytes], Any], Any]] = {
        "nodes": (decode_node, event_handlers.nodes),
        "pods": (decode_pod, event_handlers.pods),
        BUDGETS.plural: (decoder_of(_BUDGETS), event_handlers.others[_BUDGETS]),
        "reservationquotas": (decode_reservation_quota, event_handlers.others["reservation_quotas"]),
        "reservations": (decode_reservation, event_handlers.reservations),
        **{
            resource.plural: (decode, event_handlers.others[name])
            for name, (resource, decode) in OF_DEVICES.items()
        },
    }
    for (kind, _), state in stored.items():
        if kind in sinks:
            decode, sink = sinks[kind]
            sink.upsert(None, decode(json.dumps(state).encode()))
    core.all_listed()
    return core.decider


def _due(decider: Decider, now: float) -> bool:
    due = decider.next_due()
    return due is not None and due <= now


def _standing(decider: Decider) -> dict[str, Any]:
    columns = decider.columns
    reservations = {
        f"lock {key}": {
            "phase": entry.phase,
            "node": (entry.node, entry.node_uid),
            "room": dict(entry.reserved),
            "held": dict(entry.held),
            "devices": entry.devices,
            "used": dict(occupants.used(entry)),
            "lease": None if entry.phase in SETTLED else entry.lease,
            "hold": None if entry.phase in SETTLED else entry.hold,
            "ahead": entry.ahead,
            "given": entry.group_committed and entry.phase is Phase.ACTIVE,
            "activated": entry.activated_at,
            "expires": entry.expires_at,
        }
        for key, entry in decider.ledger.entries.items()
    }
    kinds = {"allocatable": columns.allocatable, "requested": columns.requested, "locked": columns.reserved}
    nodes = {
        f"node {name}": {kind: columns.named(amounts[row]) for kind, amounts in kinds.items()}
        for name, row in columns.row_of.items()
    }
    return reservations | nodes | _devices(decider)


def _devices(decider: Decider) -> dict[str, Any]:
    """Return how many claims use each device, and the reservations that hold it."""
    claims, slices = decider.objects.resource_claims, decider.objects.resource_slices.all()
    ids = [
        DeviceId(each.spec.driver, each.spec.pool.name, device.name)
        for each in slices
        for device in each.spec.devices
    ]
    return {
        f"device {each}": (claims.allocated.users(each), {*claims.reserved.holders(each)}) for each in ids
    }


def _plans(decider: Decider) -> dict[str, Any]:
    """Return the migration plans.

    Reservations are examined now and then, so another operator may find a plan at once.
    """
    entries = decider.ledger.entries.items()
    plans = {key: (entry.plan, entry.moved_pods) for key, entry in entries if entry.phase not in SETTLED}
    return {
        f"lock {key}": (plan and (plan.node, plan.token, plan.begun_at), moved)
        for key, (plan, moved) in plans.items()
    }


def _differences(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{what} differ over {key}: {one.get(key)} / {other.get(key)}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]
