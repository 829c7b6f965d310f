"""The page of a reservation: its state with the reason, its life, its conditions, the decisions about it."""

from collections.abc import Generator, Iterator

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import stored_instant
from tidelock.model.meta import Key
from tidelock.model.outlook import outlook
from tidelock.model.printable import printable
from tidelock.model.reservation import Reservation
from tidelock.model.reservation_schedule import SCHEDULE_KIND
from tidelock.scheduler.views.recent_decisions import Decision
from tidelock.web.query import ViewQuery
from tidelock.web.rows import DecisionRow, ReservationRow, Row, decision_rows, reservation_row, stored_form
from tidelock.web.sources import Sources


class LifeRow(Row, frozen=True):
    """An event of the life, before now or after, in seconds since the epoch."""

    at: float
    event: str


class ConditionRow(Row, frozen=True):
    """A condition of the status, and since when it has its status, in seconds since the epoch."""

    type: str
    status: str
    reason: str
    message: str
    since: float | None


class ReservationPage(Row, frozen=True, tag_field="view", tag="reservation"):
    """The content of the page.

    `reservation` is None if there is no such object, or none any more. The decisions are then the last ones
    about it. `facts` are names and values. `group` and `schedule` name the owners of the object.
    """

    name: str
    reservation: ReservationRow | None = None
    group: str = ""
    schedule: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    life: tuple[LifeRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    decisions: tuple[DecisionRow, ...] = ()


def reservation_page(
    sources: Sources, query: ViewQuery, now: float
) -> Generator[None, None, ReservationPage]:
    """Compute the page, in one slice."""
    yield from ()
    key = Key(query.namespace, query.name)
    entry = sources.ledger.entries.get(key)
    pods = _pods(entry) if entry is not None else set()
    decisions = tuple(decision_rows(sources.recent, lambda each: _is_about(each, key, pods)))
    if entry is None:
        return ReservationPage(str(key), decisions=decisions)
    stored = stored_form(entry, now)
    membership, controller = stored.membership, stored.meta.controller
    scheduled = controller is not None and controller.kind == SCHEDULE_KIND
    return ReservationPage(
        name=str(key),
        reservation=reservation_row(entry, now),
        group=membership.name if membership is not None else "",
        schedule=controller.name if controller is not None and scheduled else "",
        facts=tuple((name, printable(value)) for name, value in _facts(entry, stored) if value),
        life=tuple(sorted(_life(entry, stored), key=lambda each: each.at)),
        conditions=tuple(_conditions(stored)),
        decisions=decisions,
    )


def _pods(entry: ReservationInfo) -> set[Key]:
    """Return the pods that have the reservation, or that its spec names as owners."""
    spec = entry.reservation.spec
    names = {owner.pod.name for owner in spec.owners if owner.pod is not None} if spec is not None else set()
    if entry.bound_pod is not None:
        names.add(entry.bound_pod.name)
    return {Key(entry.key.namespace, name) for name in names}


def _is_about(decision: Decision, key: Key, pods: set[Key]) -> bool:
    return decision.key == key if decision.kind == "Reservation" else decision.key in pods


def _facts(entry: ReservationInfo, stored: Reservation) -> Iterator[tuple[str, str]]:
    """Yield names and values of everything that the row does not show. A value can be empty."""
    status, spec = stored.status, stored.spec
    queue = status.get("queue") or {}
    yield "Place in the queue", queue.get("place", "")
    yield "Capacity kept on", queue.get("earmark", "")
    yield "Used by owners", _listed(status.get("used"))
    yield "Lent to other pods", _listed(status.get("lent"))
    bound = entry.bound_pod
    yield "Pod", f"{entry.key.namespace}/{bound.name}" if bound is not None else ""
    if spec is not None:
        yield "Priority", str(entry.priority)
        yield "Set of alternatives", spec.any_of or ""
        yield "Reuse", spec.reuse or ""
        yield "Borrowable", "by other pods" if spec.borrowable else ""
        yield "After its end", "kept" if spec.retention == "Retain" else "deleted"
    yield "Asked for by", stored.asked_by


def _listed(stored: dict[str, str] | None) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in (stored or {}).items())


def _life(entry: ReservationInfo, stored: Reservation) -> Iterator[LifeRow]:
    """Yield the known events of the past, and those to come."""
    status = stored.status
    lease, commit = status.get("lease") or {}, status.get("commit") or {}
    past = {
        "created": stored.meta.created or None,
        "active": entry.activated_at,
        "committed": stored_instant(commit.get("committedAt")),
        "lease renewed": stored_instant(lease.get("renewedAt")),
        "lease lapsed": stored_instant(lease.get("renewBy")) if "lostAt" in lease else None,
        "waits": entry.pending_since if entry.phase is Phase.PENDING else None,
        f"ended: {entry.phase.value}": entry.finished_at,
        "earliest possible start": stored_instant((status.get("queue") or {}).get("estimatedStart")),
    }
    for event, at in past.items():
        if at is not None:
            yield LifeRow(at, event)
    for coming in outlook(stored, entry.move_at).upcoming:
        yield LifeRow(coming.at, coming.event.value)


def _conditions(stored: Reservation) -> Iterator[ConditionRow]:
    for each in stored.status["conditions"]:
        yield ConditionRow(
            each["type"],
            each["status"],
            each["reason"],
            printable(each["message"]),
            stored_instant(each["lastTransitionTime"]),
        )
