"""A fragmented cluster, for tests of reservations with `mayMove`."""

from collections.abc import Mapping
from typing import Any

from builders import Json, encode, node, pod
from tidelock.ledger.lifecycle.migration import MigrationPlan
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import Core

LOCK = Key("shop", "lock")


def web(name: str, node_name: str, cpu: str = "1", **fields: Any) -> Pod:
    """Build a pod of a ReplicaSet on a node."""
    return pod(
        name,
        **{
            "requests": {"cpu": cpu},
            "node_name": node_name,
            "controller": "apps/v1/ReplicaSet/web",
            "phase": "Running",
        }
        | fields,
    )


def fragmented(**labels: Mapping[str, str]) -> Core:
    """Build two nodes of 4 CPU, each with 2 CPU free beside two pods. A request of 3 CPU does not fit."""
    core = Core(*(node(name, cpu="4", labels=labels.get(name[-1])) for name in ("node-a", "node-b")))
    core.add(*(web(f"{place}-{number}", f"node-{place}") for place in "ab" for number in range(2)))
    return core


def ask(core: Core, *, may_move: Json | None = None, **fields: Any) -> ReservationInfo:
    """Create a reservation of 3 CPU that does not fit, and run the steps that look for a migration plan."""
    wanted: Json = {"resources": {"cpu": "3"}, "mayMove": may_move or {}, "pendingDeadlineSeconds": 600}
    entry = core.reservation(**wanted | fields)
    for _ in range(3):  # a step tries one reservation, and two in succession are some time apart
        core.step()
        core.clock.advance(1)
    return entry


def planned(entry: ReservationInfo) -> list[tuple[str, str]]:
    """Return the planned migrations: the name of each pod, and its target node."""
    return [] if entry.plan is None else [(move.key.name, move.to) for move in entry.plan.moves]


def plan_of(entry: ReservationInfo) -> MigrationPlan:
    assert entry.plan is not None, entry.move_problem
    return entry.plan


def store(core: Core, entry: ReservationInfo, **edit: Any) -> None:
    """Store the status of a reservation and an edit of its spec, and deliver both by the watch."""
    before = entry.reservation
    spec = before.spec.model_dump(mode="json", exclude_none=True, by_alias=True) if before.spec else {}
    meta = before.meta
    plain = {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": str(meta.version + 1),
            "generation": meta.generation + bool(edit),
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": spec | edit,
        "status": render_reservation(entry, core.clock.now()),
    }
    core.event_handlers.reservations.upsert(before, decode_reservation(encode(plain)))
    core.step()


def approve(core: Core, entry: ReservationInfo, token: str = "") -> None:
    """Store the plan of a reservation, and approve it."""
    store(core, entry)
    asked = {"approve": token or plan_of(entry).token}
    store(core, entry, mayMove=asked)
    store(core, entry)


def move_planned(core: Core, entry: ReservationInfo) -> tuple[str, str, str]:
    """Return status, reason and message of the condition MovePlanned."""
    conditions = {each["type"]: each for each in render_reservation(entry, core.clock.now())["conditions"]}
    found = conditions["MovePlanned"]
    return found["status"], found["reason"], found["message"]
